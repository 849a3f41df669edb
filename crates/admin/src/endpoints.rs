//! Lists the endpoints of operators, and finds the one that a request names.

use http::StatusCode;
use http::request::Parts;

use super::clients::ClientSection;
use super::health::ReadyState;
use super::operator::Operator;
use super::page::{AdminPage, JSON, TEXT, is_reading, only_reading};
use super::snapshot::AdminSnapshot;
use super::task::AdminTask;
use super::{
    bans, cache, clear, configuration, dry_run, events, explain, health, history, keys, metrics,
    origins, rejected_clients, rules, status, top, ui, unban, usage, values,
};
use Endpoint::{Page, Parsed, Sample};
use sluicegate_process::GatewayProcess;

/// A request that may pass.
pub(super) struct AdminRequest<'r> {
    pub(super) head: &'r Parts,
    pub(super) body: &'r [u8],
    pub(super) operator: &'r Operator,
    pub(super) process: &'r GatewayProcess,
}

/// The way from a request to its page.
#[derive(Clone, Copy)]
enum Endpoint {
    /// The path is only read, and the page is ready at once.
    Page(fn(&GatewayProcess) -> AdminPage),
    /// The path is only read, and the page needs a look into the table of each limit.
    Sample(fn(&GatewayProcess) -> AdminPage),
    /// The endpoint reads the whole request; `None` where the path is another one.
    Parsed(fn(&AdminRequest<'_>) -> Option<AdminTask>),
}

/// The endpoints by their path, as the page for an unknown path lists them. Each request belongs to at most one.
#[rustfmt::skip]
const ENDPOINTS: &[(&str, Endpoint)] = &[
    ("/metrics", Sample(|process| metrics::page(AdminSnapshot::new(process)))),
    ("/healthz", Page(|_| AdminPage::new(StatusCode::OK, TEXT, &b"ok"[..]))),
    ("/readyz", Page(|process| health::ready(ReadyState::from_process(process)))),
    ("/status", Sample(status_page)),
    ("/origins", Page(origins::page)),
    ("/config", Page(configuration::page)),
    ("/routes", Page(configuration::routes)),
    ("/reload", Parsed(|request| configuration::task(request.head))),
    ("/reload?dry_run=true", Parsed(|request| dry_run::task(request.head))),
    ("/reloads", Page(history::reloads)),
    ("/history", Parsed(|request| history::task(request.head, request.process))),
    ("/ui/", Parsed(|request| ui::page(request.head).map(AdminTask::Show))),
    ("/events", Parsed(|request| events::task(request.head))),
    ("/rules", Parsed(|request| rules::task(request.head, request.body))),
    ("/explain?url=URL", Parsed(|request| explain::task(request.head, request.process))),
    ("/keys?value=VALUE", Parsed(|request| values::task(request.head))),
    ("/clients/rejected", Parsed(|request| rejected_clients::task(request.head, request.process))),
    ("/limits/NAME/top", Parsed(|request| top::task(request.head))),
    ("/limits/NAME/usage", Parsed(|request| usage::task(request.head))),
    ("/limits/NAME/bans", Parsed(|request| top::task(request.head))),
    ("/limits/NAME/bans/KEY", Parsed(|request| bans::task(request.head))),
    ("/limits/NAME/keys?value=VALUE", Parsed(|request| keys::task(request.head, request.body))),
    ("/bans?limit=NAME&since=20m&cidr=CIDR", Parsed(|request| unban::task(request.head))),
    ("/limits/NAME/clear", Parsed(|request| clear::task(request.head))),
    ("/cache/purge", Parsed(|request| cache::task(request.head))),
    ("/origins/NAME/servers/ADDRESS/drain", Parsed(origin_task)),
    ("/origins/NAME/servers/ADDRESS/undrain", Parsed(origin_task)),
];

/// Returns the task of the endpoint that a request names, or the page with all paths.
pub(super) fn find(request: &AdminRequest<'_>) -> AdminTask {
    let mut endpoints = ENDPOINTS.iter();
    let task = endpoints.find_map(|(path, endpoint)| endpoint.task(path, request));
    task.unwrap_or_else(|| AdminTask::Show(no_such_path()))
}

impl Endpoint {
    /// Returns the task of a request; `None` where its path is not this one.
    fn task(self, path: &str, request: &AdminRequest<'_>) -> Option<AdminTask> {
        match self {
            Self::Parsed(task) => task(request),
            _ if request.head.uri.path() != path => None,
            _ if !is_reading(&request.head.method) => Some(AdminTask::Show(only_reading())),
            Self::Page(make) => Some(AdminTask::Show(make(request.process))),
            Self::Sample(make) => Some(AdminTask::Sample(make)),
        }
    }
}

fn status_page(process: &GatewayProcess) -> AdminPage {
    let clients = ClientSection::largest(&process.shared.accounts);
    status::page(AdminSnapshot::new(process), clients)
}

fn origin_task(request: &AdminRequest<'_>) -> Option<AdminTask> {
    origins::task(request.head, request.operator, request.process)
}

fn no_such_path() -> AdminPage {
    let paths: Vec<&str> = ENDPOINTS.iter().map(|(path, _)| *path).collect();
    let body = serde_json::json!({ "error": "no such path", "paths": paths }).to_string();
    AdminPage::new(StatusCode::NOT_FOUND, JSON, body.into_bytes())
}
