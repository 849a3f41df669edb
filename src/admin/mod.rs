//! Serves the operator: `/metrics`, `/healthz`, `/readyz`, `/status`, and what is below `/limits` and `/origins`, on a listener of
//! their own.
//!
//! [`answer`] knows no sockets: a request's head and the running gateway in, a whole response out, or a [`TableWalk`] that makes one
//! where that takes longer than other requests should wait, or the order to open a stream of events. `/status` and `/metrics` are
//! functions of plain values, an `AdminSnapshot`; each other endpoint reads or changes the one part of the process that it is about.
//!
//! The probes and the files of the page are open to every peer of the listener; all other paths need the token where one is configured, and
//! check it first, so that a client without it does not even learn which paths exist. All of them only read, but for lifting a ban,
//! changes of a key, temporary rules, a purge of the cache, the drain of a server, and a reload, for which a token needs the role `act`.
//! Requests without the token are protected from web sites by `browser`.

use std::borrow::Cow;
use std::sync::Arc;

use http::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use serde::Serialize;
use sluicegate_base::bounds::ADMIN_BODY;

mod acme;
mod advice;
mod audit;
mod ban_selection;
mod bans;
mod browser;
mod cache;
mod certificates;
mod clear;
mod client_rules;
mod clients;
mod configuration;
mod connections;
mod crawler_look_ups;
mod dry_run;
mod events;
mod explain;
mod health;
mod history;
mod key_edit;
mod key_texts;
mod keys;
mod limit_view;
mod metrics;
mod operator;
mod origin_metrics;
mod origin_view;
mod origins;
mod pending_writes;
mod problems;
mod query;
mod rejected_clients;
mod replication;
mod rule_view;
mod rules;
mod snapshot;
mod status;
mod store;
mod token;
mod top;
mod ui;
mod unban;
mod unblock;
mod usage;
mod values;

use crate::admission::ActiveLimit;
use crate::cache::purge::PurgeScope;
use crate::config::rules::{AdminRole, AdminTokens};
use crate::process::GatewayProcess;
use ban_selection::UnbanOrder;
use bans::BanLift;
use clear::ClearOrder;
use clients::ClientSection;
use health::ReadyState;
use keys::KeyRequest;
use rules::RuleChange;
use snapshot::AdminSnapshot;
use token::TokenAccess;
use top::TopQuery;
use usage::UsageQuery;
use values::ValuesQuery;

pub use events::{EventHub, EventStream};
pub use history::HistoryWatch;
#[cfg(feature = "otlp")]
pub use metrics::export_metrics;
pub use operator::{Operator, TokenHolder};
pub use unban::FleetUnbanService;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// Other sites may not embed answers, and so not measure them either.
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The response to a request, or the work that makes it.
#[derive(Debug)]
pub enum AdminResponse {
    /// The response is complete.
    Ready(Response<Vec<u8>>),
    /// The response needs a walk through a table, or waits for one, of up to some seconds.
    Walk(TableWalk),
    /// The response is that of a change, which waits for the changes before it and for no reader.
    Change(TableWalk),
    /// The response needs a look into the table of each limit, of some milliseconds a limit, and waits for others of its kind.
    Sample(TableWalk),
    /// The response is a stream of events, which an [`EventHub`] opens for the holder of this token.
    Stream(Option<TokenHolder>),
}

/// A response that is still to be made, on a thread that no other response waits for.
#[derive(Debug)]
pub struct TableWalk {
    errand: AdminAction,
    method: Method,
    operator: Operator,
}

#[derive(Debug)]
enum AdminAction {
    Sample(fn(&GatewayProcess) -> AdminPage),
    Look(TopQuery),
    Usage(UsageQuery),
    Lift(BanLift),
    Unban(UnbanOrder),
    Clear(ClearOrder),
    Purge(PurgeScope),
    Key(KeyRequest),
    Values(ValuesQuery),
    Reload,
    DryRun,
    Rule(RuleChange),
}

/// The sender of an admin request, and its body.
#[derive(Clone, Debug, Default)]
pub struct RequestSource {
    /// The sender; the check of the token adds its holder.
    pub operator: Operator,
    /// The body.
    pub body: Vec<u8>,
}

impl AdminAction {
    /// Returns whether the action is refused as a change where no token is configured.
    fn needs_token(&self) -> bool {
        !matches!(self, Self::Reload | Self::DryRun)
    }
}

impl TableWalk {
    /// Walks and returns the response.
    #[must_use]
    pub fn run(&self, process: &GatewayProcess) -> Response<Vec<u8>> {
        let operator = &self.operator;
        let page = match &self.errand {
            AdminAction::Sample(make) => make(process),
            AdminAction::Look(question) => question.page(process),
            AdminAction::Usage(question) => question.page(process),
            AdminAction::Lift(pardon) => pardon.page(operator, process),
            AdminAction::Unban(order) => order.page(operator, process),
            AdminAction::Clear(order) => order.page(operator, process),
            AdminAction::Purge(purge) => cache::page(purge, operator, process),
            AdminAction::Key(request) => request.page(operator, process),
            AdminAction::Values(query) => query.page(process),
            AdminAction::Reload => configuration::reload(operator, process),
            AdminAction::DryRun => dry_run::page(process),
            AdminAction::Rule(change) => change.page(operator, process),
        };
        dressed(page, &self.method)
    }

    /// Returns the response while another walk, or another change, is under way.
    #[must_use]
    pub fn put_off(&self) -> Response<Vec<u8>> {
        let error = match is_reading(&self.method) {
            true => &br#"{"error":"another walk through a table is under way; ask again"}"#[..],
            false => br#"{"error":"another change is under way; send this one again"}"#,
        };
        let page =
            AdminPage::new(StatusCode::SERVICE_UNAVAILABLE, JSON, error).with(RETRY_AFTER, "1");
        dressed(page, &self.method)
    }
}

/// Answers `request`. The body of a response is empty for HEAD, while `Content-Length` tells what GET would get.
#[must_use]
pub fn answer(
    request: &Parts,
    mut sender: RequestSource,
    process: &GatewayProcess,
) -> AdminResponse {
    let method = &request.method;
    let task = page(request, &mut sender, process);
    let operator = sender.operator;
    let walk = |errand| TableWalk {
        errand,
        method: method.clone(),
        operator: operator.clone(),
    };
    match task {
        AdminTask::Show(page) => AdminResponse::Ready(dressed(page, method)),
        AdminTask::Sample(make) => AdminResponse::Sample(walk(AdminAction::Sample(make))),
        AdminTask::Walk(errand) if is_reading(method) => AdminResponse::Walk(walk(errand)),
        AdminTask::Walk(errand) => match change_refusal(process).filter(|_| errand.needs_token()) {
            Some(page) => AdminResponse::Ready(dressed(page, method)),
            None => AdminResponse::Change(walk(errand)),
        },
        AdminTask::Stream => AdminResponse::Stream(operator.token),
    }
}

fn dressed(page: AdminPage, method: &Method) -> Response<Vec<u8>> {
    let length = page.body.len();
    let mut response = Response::new(if method == Method::HEAD {
        Vec::new()
    } else {
        page.body.into_owned()
    });
    *response.status_mut() = page.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(page.content_type));
    // RFC 9110 §8.6: that of a 304 would be the length of what it stands for.
    if page.status != StatusCode::NOT_MODIFIED {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    for (name, value) in page.fields {
        headers.insert(name, value);
    }
    response
}

/// The status, type and body of a response, before the common fields are added.
struct AdminPage {
    status: StatusCode,
    content_type: &'static str,
    body: Cow<'static, [u8]>,
    fields: Vec<(HeaderName, HeaderValue)>,
}

impl AdminPage {
    fn new(
        status: StatusCode,
        content_type: &'static str,
        body: impl Into<Cow<'static, [u8]>>,
    ) -> Self {
        Self {
            status,
            content_type,
            body: body.into(),
            fields: Vec::new(),
        }
    }

    fn json(value: &impl Serialize) -> Self {
        Self::written(serde_json::to_vec_pretty(value))
    }

    /// Returns the page of a value on one line: a line for each number of an array would be most of the answer.
    fn json_line(value: &impl Serialize) -> Self {
        Self::written(serde_json::to_vec(value))
    }

    fn written(json: serde_json::Result<Vec<u8>>) -> Self {
        match json {
            Ok(mut body) => {
                body.push(b'\n');
                Self::new(StatusCode::OK, JSON, body)
            }
            Err(error) => {
                tracing::error!("admin: an answer cannot be written: {error}");
                let error = "the answer cannot be written";
                Self::error(StatusCode::INTERNAL_SERVER_ERROR, error)
            }
        }
    }

    fn error(status: StatusCode, error: &str) -> Self {
        let body = serde_json::json!({ "error": error }).to_string();
        Self::new(status, JSON, body.into_bytes())
    }

    fn with(self, name: HeaderName, value: &'static str) -> Self {
        self.with_value(name, HeaderValue::from_static(value))
    }

    /// Adds a field, in place of a common one of this name.
    fn with_value(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.fields.push((name, value));
        self
    }
}

/// The page that is ready, the function or the action that makes one, or the order to stream.
enum AdminTask {
    Show(AdminPage),
    Sample(fn(&GatewayProcess) -> AdminPage),
    Walk(AdminAction),
    Stream,
}

fn page(request: &Parts, sender: &mut RequestSource, process: &GatewayProcess) -> AdminTask {
    let snapshot = process.shared.snapshot();
    let rules = &snapshot.rules.admin;
    let path = request.uri.path();
    match token::check(
        rules.token_file.as_ref(),
        request.headers.get_all(AUTHORIZATION),
    ) {
        TokenAccess::Granted(holder) => {
            let may_change = holder.role == AdminRole::Act;
            sender.operator.token = Some(holder);
            if !may_change && !is_reading(&request.method) {
                return AdminTask::Show(audit::refuse(process, &sender.operator, request));
            }
        }
        TokenAccess::Denied if !is_open(path) => return AdminTask::Show(no_token()),
        TokenAccess::Denied | TokenAccess::Open => {
            if let Some(page) = browser::rejection(request, &rules.hosts) {
                return AdminTask::Show(page);
            }
        }
    }
    if sender.body.len() > ADMIN_BODY {
        let error = format!("the body has more than {ADMIN_BODY} bytes, the most that is read");
        return AdminTask::Show(AdminPage::error(StatusCode::PAYLOAD_TOO_LARGE, &error));
    }
    let make: fn(&GatewayProcess) -> AdminPage = match path {
        "/metrics" => |process| metrics::page(AdminSnapshot::of(process)),
        "/healthz" => |_| AdminPage::new(StatusCode::OK, TEXT, &b"ok"[..]),
        "/readyz" => |process| health::ready(ReadyState::of(process)),
        "/status" => |process| {
            let clients = ClientSection::largest(&process.shared.accounts);
            status::page(AdminSnapshot::of(process), clients)
        },
        "/origins" => origins::page,
        "/config" => configuration::page,
        "/routes" => configuration::routes,
        _ => return walk(request, sender, process),
    };
    if !is_reading(&request.method) {
        return AdminTask::Show(only_reading());
    }
    match path {
        // Both look into the table of each limit.
        "/metrics" | "/status" => AdminTask::Sample(make),
        _ => AdminTask::Show(make(process)),
    }
}

/// Returns whether a path needs no token.
fn is_open(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz") || ui::is_asset(path)
}

fn no_token() -> AdminPage {
    let error = &br#"{"error":"this path needs a token of [admin] token_file"}"#[..];
    let page = AdminPage::new(StatusCode::UNAUTHORIZED, JSON, error);
    page.with(WWW_AUTHENTICATE, "Bearer realm=\"sluicegate\"")
}

/// Finds the endpoint among the others that the path names.
fn walk(request: &Parts, sender: &RequestSource, process: &GatewayProcess) -> AdminTask {
    keys::task(request, &sender.body)
        .or_else(|| ui::page(request).map(AdminTask::Show))
        .or_else(|| events::task(request))
        .or_else(|| explain::task(request, process))
        .or_else(|| values::task(request))
        .or_else(|| rejected_clients::task(request, process))
        .or_else(|| dry_run::task(request))
        .or_else(|| configuration::task(request))
        .or_else(|| history::task(request, process))
        .or_else(|| origins::task(request, &sender.operator, process))
        .or_else(|| bans::task(request))
        .or_else(|| unban::task(request))
        .or_else(|| clear::task(request))
        .or_else(|| rules::task(request, &sender.body))
        .or_else(|| cache::task(request))
        .or_else(|| top::task(request))
        .or_else(|| usage::task(request))
        .unwrap_or_else(|| AdminTask::Show(no_such_path()))
}

fn no_such_path() -> AdminPage {
    let paths = concat!(
        r#"{"error":"no such path","paths":["/metrics","/healthz","/readyz","/status","/origins","/config","/routes","/reload","#,
        r#""/reload?dry_run=true","/reloads","/history","/ui/","/events","/rules","/explain?url=URL","/keys?value=VALUE","#,
        r#""/clients/rejected","#,
        r#""/limits/NAME/top","/limits/NAME/usage","/limits/NAME/bans","/limits/NAME/bans/KEY","#,
        r#""/limits/NAME/keys?value=VALUE","/bans?limit=NAME&since=20m&cidr=CIDR","/limits/NAME/clear","#,
        r#""/cache/purge","/origins/NAME/servers/ADDRESS/drain","/origins/NAME/servers/ADDRESS/undrain"]}"#
    );
    AdminPage::new(StatusCode::NOT_FOUND, JSON, paths.as_bytes())
}

/// Returns the tokens of `[admin] token_file`; `None` where none is configured.
fn token_of(process: &GatewayProcess) -> Option<AdminTokens> {
    process.shared.snapshot().rules.admin.token_file.clone()
}

/// Returns the page that refuses a change where no token is configured: no peer can prove there that it may make one.
fn change_refusal(process: &GatewayProcess) -> Option<AdminPage> {
    let error = "a change needs a token; set [admin] token_file";
    let is_open = token_of(process).is_none();
    is_open.then(|| AdminPage::error(StatusCode::FORBIDDEN, error))
}

/// Returns a handle of the limit of this name alone: a walk through its table may outlast a reload and must keep no snapshot alive.
fn limit_named(process: &GatewayProcess, name: &str) -> Option<Arc<ActiveLimit>> {
    process.shared.snapshot().limits.get(name).map(Arc::clone)
}

fn is_reading(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

fn only_reading() -> AdminPage {
    // RFC 9110 §15.5.6: a 405 says what is allowed.
    let error = &br#"{"error":"this path can only be read: GET or HEAD"}"#[..];
    AdminPage::new(StatusCode::METHOD_NOT_ALLOWED, JSON, error).with(ALLOW, "GET, HEAD")
}

#[cfg(test)]
mod tests;
