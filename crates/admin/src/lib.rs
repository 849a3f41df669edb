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
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

use http::header::{AUTHORIZATION, RETRY_AFTER};
use http::request::Parts;
use http::{Method, Response, StatusCode};
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
mod duration;
mod endpoints;
mod events;
mod explain;
mod health;
mod history;
mod key_edit;
mod key_texts;
mod keys;
mod limit;
mod limit_view;
mod metrics;
mod operator;
mod origin_metrics;
mod origin_view;
mod origins;
mod page;
mod pending_writes;
mod problems;
mod query;
mod rejected_clients;
mod replication;
mod rule_view;
mod rules;
mod shared_keys;
mod snapshot;
mod status;
mod store;
mod task;
mod token;
mod top;
mod ui;
mod unban;
mod unblock;
mod usage;
mod values;

use endpoints::AdminRequest;
use page::{AdminPage, JSON, dressed, is_reading};
use sluicegate_config::rules::AdminRole;
use sluicegate_process::GatewayProcess;
use task::{AdminAction, AdminTask};
use token::{TokenAccess, change_refusal, no_token};

pub use events::{EventHub, EventStream};
pub use history::HistoryWatch;
#[cfg(feature = "otlp")]
pub use metrics::export_metrics;
pub use operator::{Operator, TokenHolder};
pub use unban::FleetUnbanService;

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
    action: Box<dyn AdminAction>,
    method: Method,
    operator: Operator,
}

/// The sender of an admin request, and its body.
#[derive(Clone, Debug, Default)]
pub struct RequestSource {
    /// The sender; the check of the token adds its holder.
    pub operator: Operator,
    /// The body.
    pub body: Vec<u8>,
}

impl TableWalk {
    /// Walks and returns the response.
    #[must_use]
    pub fn run(&self, process: &GatewayProcess) -> Response<Vec<u8>> {
        let page = self.action.page(&self.operator, process);
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
    let walk = |action| TableWalk {
        action,
        method: method.clone(),
        operator: operator.clone(),
    };
    match task {
        AdminTask::Show(page) => AdminResponse::Ready(dressed(page, method)),
        AdminTask::Sample(make) => AdminResponse::Sample(walk(Box::new(make))),
        AdminTask::Walk(action) if is_reading(method) => AdminResponse::Walk(walk(action)),
        AdminTask::Walk(action) => match change_refusal(process).filter(|_| action.needs_token()) {
            Some(page) => AdminResponse::Ready(dressed(page, method)),
            None => AdminResponse::Change(walk(action)),
        },
        AdminTask::Stream => AdminResponse::Stream(operator.token),
    }
}

fn page(request: &Parts, sender: &mut RequestSource, process: &GatewayProcess) -> AdminTask {
    let snapshot = process.shared.snapshot();
    let rules = &snapshot.compiled.rules.admin;
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
    endpoints::find(&AdminRequest {
        head: request,
        body: &sender.body,
        operator: &sender.operator,
        process,
    })
}

/// Returns whether a path needs no token.
fn is_open(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz") || ui::is_asset(path)
}

#[cfg(test)]
mod tests;
