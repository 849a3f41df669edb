//! Serves `/origins`, which shows every server, and POST of `/origins/NAME/servers/ADDRESS/drain`, which keeps new requests from one until
//! `/undrain`.
//!
//! A drain outlasts every health check: it ends with `undrain`, or when the server leaves its origin. It is not
//! written anywhere, so a new process begins without one.

use std::time::Duration;

use http::header::ALLOW;
use http::request::Parts;
use http::{Method, StatusCode};
use serde::Serialize;
use sluicegate_base::clock;
use sluicegate_decide::rfc3339;
use tracing::info;

use super::audit::{self, AuditEntry};
use super::operator::Operator;
use super::origin_view::{ConcurrencyView, OriginView, ServerView};
use super::page::{AdminPage, JSON};
use super::query::decoded;
use super::task::AdminTask;
use super::token::change_refusal;
use sluicegate_config::rules::{OriginAddress, Role};
use sluicegate_history::MarkKind;
use sluicegate_origin::LatestFailure;
use sluicegate_process::GatewayProcess;

/// The page of `/origins`.
pub(super) fn page(process: &GatewayProcess) -> AdminPage {
    let now = clock::now();
    let snapshot = process.shared.snapshot();
    let views = snapshot
        .pools
        .values()
        .map(|pool| OriginView::new(pool, now));
    AdminPage::json(&OriginsPage {
        origins: views.map(OriginSection::new).collect(),
    })
}

#[derive(Serialize)]
struct OriginsPage {
    origins: Vec<OriginSection>,
}

/// An origin as `/origins` and `/status` show it.
#[derive(Serialize)]
pub(super) struct OriginSection {
    name: String,
    servers: Vec<OriginServerSection>,
    retries: u64,
    retries_not_granted: u64,
    pending: u32,
    refused: u64,
    displaced: u64,
    unresolved: usize,
    last_error: Option<LastError>,
}

#[derive(Serialize)]
struct OriginServerSection {
    address: String,
    healthy: bool,
    state: &'static str,
    fault: bool,
    in_flight: u32,
    limit: Option<ServerLimitSection>,
    connections: Option<u32>,
    weight: u16,
    backup: bool,
    recent: RecentSection,
    silence: Option<SilenceSection>,
    last_failure: Option<LastFailure>,
    last_error: Option<LastError>,
}

/// The adaptive concurrency limit of a server.
#[derive(Serialize)]
struct ServerLimitSection {
    requests: u32,
    min: u32,
    waiting: u32,
    baseline_ms: Option<f64>,
}

/// The requests that a server has not answered.
#[derive(Serialize)]
struct SilenceSection {
    since: String,
    unanswered: u64,
}

/// The attempts by which a server is failing or not.
#[derive(Serialize)]
struct RecentSection {
    attempts: u64,
    failed: u64,
}

#[derive(Serialize)]
struct LastFailure {
    at: String,
    outcome: &'static str,
}

/// The latest failure with its cause, as the access log writes it.
#[derive(Serialize)]
struct LastError {
    at: String,
    failure: &'static str,
    reason: String,
}

impl LastError {
    fn new(latest: &LatestFailure) -> Self {
        Self {
            at: rfc3339::format(latest.at),
            failure: latest.kind.as_str(),
            reason: latest.reason.clone(),
        }
    }
}

impl OriginSection {
    pub(super) fn new(view: OriginView) -> Self {
        Self {
            name: view.name.to_string(),
            servers: view.servers.iter().map(OriginServerSection::new).collect(),
            retries: view.retries,
            retries_not_granted: view.retries_not_granted,
            pending: view.pending,
            refused: view.refused,
            displaced: view.displaced,
            unresolved: view.unresolved,
            last_error: view.last_error.as_ref().map(LastError::new),
        }
    }
}

impl ServerLimitSection {
    fn new(view: ConcurrencyView) -> Self {
        let millis = |latency: Duration| latency.as_micros() as f64 / 1000.0;
        Self {
            requests: view.most,
            min: view.least,
            waiting: view.waiting,
            baseline_ms: view.baseline.map(millis),
        }
    }
}

impl OriginServerSection {
    fn new(view: &ServerView) -> Self {
        Self {
            address: view.address.to_string(),
            healthy: view.state.is_asked(),
            state: view.state.as_str(),
            fault: view.state.is_fault(),
            in_flight: view.in_flight,
            limit: view.limit.map(ServerLimitSection::new),
            connections: view.connections,
            weight: view.weight.0.get(),
            backup: view.role == Role::Backup,
            recent: RecentSection {
                attempts: view.recent.ended,
                failed: view.recent.failed,
            },
            silence: view.silence.map(|silence| SilenceSection {
                since: rfc3339::format(silence.since),
                unanswered: silence.unanswered,
            }),
            last_failure: view.last_failure.map(|(outcome, at)| LastFailure {
                at: rfc3339::format(at),
                outcome: outcome.as_str(),
            }),
            last_error: view.last_error.as_ref().map(LastError::new),
        }
    }
}

/// The operator's command for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerCommand {
    /// Keeps new requests from the server.
    Drain,
    /// Sends requests to the server again.
    Undrain,
}

/// A command and its server.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AddressedCommand {
    origin: String,
    server: OriginAddress,
    order: ServerCommand,
}

/// The path does not name a server by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BadAddress;

/// Runs the command that a request names; `None` where its path is another one.
pub(super) fn task(
    request: &Parts,
    operator: &Operator,
    process: &GatewayProcess,
) -> Option<AdminTask> {
    Some(AdminTask::Show(
        match AddressedCommand::from_path(request.uri.path())? {
            Ok(_) if request.method != Method::POST => only_orders(),
            Ok(instruction) => {
                change_refusal(process).unwrap_or_else(|| instruction.page(operator, process))
            }
            Err(misasked) => misasked.page(),
        },
    ))
}

impl AddressedCommand {
    /// Parses the command of a path; `None` when it is another path.
    fn from_path(path: &str) -> Option<Result<Self, BadAddress>> {
        let (origin, rest) = path.strip_prefix("/origins/")?.split_once("/servers/")?;
        // The path of a socket has slashes of its own.
        let (server, order) = rest.rsplit_once('/')?;
        let order = match order {
            "drain" => ServerCommand::Drain,
            "undrain" => ServerCommand::Undrain,
            _ => return None,
        };
        if origin.is_empty() || origin.contains('/') {
            return None;
        }
        // Brackets of IPv6 may come encoded, since RFC 3986 §3.3 has no place for them in a path, and so may the path of a socket.
        let server = decoded(server).and_then(|server| server.parse().ok());
        let server = server.ok_or(BadAddress);
        Some(server.map(|server| Self {
            origin: origin.to_owned(),
            server,
            order,
        }))
    }

    /// Runs the command and returns whether it changed something, with the server's state after it. `None` where there is no such server.
    fn run(&self, process: &GatewayProcess) -> Option<(bool, ServerView)> {
        let origin = &self.origin;
        let snapshot = process.shared.snapshot();
        let servers = snapshot.pools.get(origin.as_str())?.servers();
        let server = servers.iter().find(|each| each.address == self.server)?;
        let now = clock::now();
        let (changed, done) = match self.order {
            ServerCommand::Drain => (server.server_state.drain(), "drains"),
            ServerCommand::Undrain => (server.server_state.undrain(now), "is asked again"),
        };
        if changed {
            info!(
                "origin {origin}: by the operator's word server {} {done}",
                server.address
            );
        }
        Some((changed, ServerView::new(server, now)))
    }

    /// Runs the command and returns the page with the server's state after it.
    fn page(&self, operator: &Operator, process: &GatewayProcess) -> AdminPage {
        let Some((is_changed, server)) = self.run(process) else {
            let error =
                &br#"{"error":"no such origin, or no such server of it; /origins names them"}"#[..];
            return AdminPage::new(StatusCode::NOT_FOUND, JSON, error);
        };
        let (action, verb, kind) = match self.order {
            ServerCommand::Drain => ("drain", "drained", MarkKind::ServerDrain),
            ServerCommand::Undrain => ("undrain", "ended the drain of", MarkKind::ServerUndrain),
        };
        let mut entry = AuditEntry {
            action,
            target: format!("origin {}", self.origin),
            change: format!("{verb} server {}", self.server),
            ..AuditEntry::default()
        };
        if is_changed {
            audit::note_and_mark(process, operator, kind, &self.origin, &entry);
        } else {
            entry.change += ", which changed nothing";
            audit::note(process, operator, &entry);
        }
        AdminPage::json(&CommandPage {
            origin: &self.origin,
            server: OriginServerSection::new(&server),
        })
    }
}

#[derive(Serialize)]
struct CommandPage<'a> {
    origin: &'a str,
    #[serde(flatten)]
    server: OriginServerSection,
}

impl BadAddress {
    fn page(self) -> AdminPage {
        let error = &br#"{"error":"a server is named by its address, as /origins shows it"}"#[..];
        AdminPage::new(StatusCode::BAD_REQUEST, JSON, error)
    }
}

/// Returns the page for a command that is read instead of posted.
fn only_orders() -> AdminPage {
    let error = &br#"{"error":"a server is drained by POST; /origins shows how it stands"}"#[..];
    AdminPage::new(StatusCode::METHOD_NOT_ALLOWED, JSON, error).with(ALLOW, "POST")
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use serde_json::{Value, json};
    use sluicegate_limiter::Timestamp;

    use super::*;
    use sluicegate_config::rules::Weight;
    use sluicegate_origin::request_failure::FailureKind;
    use sluicegate_origin::{AttemptCounts, AttemptOutcome, ServerStatus};

    /// One origin with a server in use and one that fails its checks.
    pub(crate) fn seen() -> Vec<OriginView> {
        let failed = Timestamp::from_secs(1_795_245_038);
        let server = |port, state, last_failure| ServerView {
            address: SocketAddr::from(([127, 0, 0, 1], port)).into(),
            state,
            weight: Weight::default(),
            role: Role::Primary,
            in_flight: 3,
            limit: (port == 3000).then_some(ConcurrencyView {
                most: 17,
                least: 8,
                waiting: 4,
                baseline: Some(Duration::from_micros(12_500)),
            }),
            connections: (port == 3000).then_some(2),
            outcomes: [0, 90, 0, 0, 5, 0, 0, 0, 0],
            recent: AttemptCounts {
                ended: 9,
                failed: 1,
            },
            ejections: 2,
            health_changes: 1,
            silence: None,
            last_failure,
            failures: FailureKind::ALL.map(|kind| u64::from(kind == FailureKind::Tls)),
            last_error: last_failure.is_some().then(|| LatestFailure {
                at: failed,
                kind: FailureKind::TtfbTimeout,
                reason: "no response head within 30s".to_owned(),
            }),
        };
        vec![OriginView {
            name: Arc::from("app"),
            servers: vec![
                server(3000, ServerStatus::Up, None),
                server(
                    3001,
                    ServerStatus::Down,
                    Some((AttemptOutcome::Timeout, failed)),
                ),
            ],
            retries: 7,
            retries_not_granted: 1,
            pending: 4,
            refused: 6,
            displaced: 2,
            unresolved: 1,
            failures: FailureKind::ALL.map(|kind| u64::from(kind == FailureKind::NoServer)),
            last_error: None,
        }]
    }

    /// The JSON of that origin.
    pub(crate) fn told() -> Value {
        json!([{
            "name": "app",
            "servers": [
                {
                    "address": "127.0.0.1:3000", "healthy": true, "state": "up", "fault": false, "in_flight": 3,
                    "limit": { "requests": 17, "min": 8, "waiting": 4, "baseline_ms": 12.5 },
                    "connections": 2, "weight": 1,
                    "backup": false, "recent": { "attempts": 9, "failed": 1 }, "silence": null, "last_failure": null, "last_error": null,
                },
                {
                    "address": "127.0.0.1:3001", "healthy": false, "state": "down", "fault": true, "in_flight": 3,
                    "limit": null,
                    "connections": null, "weight": 1,
                    "backup": false, "recent": { "attempts": 9, "failed": 1 }, "silence": null,
                    "last_failure": { "at": "2026-11-21T07:10:38.000Z", "outcome": "timeout" },
                    "last_error": {
                        "at": "2026-11-21T07:10:38.000Z", "failure": "ttfb-timeout",
                        "reason": "no response head within 30s",
                    },
                },
            ],
            "retries": 7, "retries_not_granted": 1, "pending": 4, "refused": 6, "displaced": 2, "unresolved": 1, "last_error": null,
        }])
    }

    /// Goal: a slip drains nobody. Method: paths around the right one.
    #[test]
    fn an_order_names_an_origin_and_a_server() {
        let instruction = |server: &str, order| AddressedCommand {
            origin: "app".to_owned(),
            server: server.parse().expect("an address"),
            order,
        };
        for (path, right) in [
            (
                "/origins/app/servers/127.0.0.1:80/drain",
                instruction("127.0.0.1:80", ServerCommand::Drain),
            ),
            (
                "/origins/app/servers/[::1]:80/undrain",
                instruction("[::1]:80", ServerCommand::Undrain),
            ),
            (
                "/origins/app/servers/%5B::1%5d:80/drain",
                instruction("[::1]:80", ServerCommand::Drain),
            ),
            (
                "/origins/app/servers/unix:/run/app.sock/drain",
                instruction("unix:/run/app.sock", ServerCommand::Drain),
            ),
            (
                "/origins/app/servers/unix:%2frun%2Fa%20b.sock/undrain",
                instruction("unix:/run/a b.sock", ServerCommand::Undrain),
            ),
        ] {
            assert_eq!(AddressedCommand::from_path(path), Some(Ok(right)), "{path}");
        }
        for path in [
            "127.0.0.1",
            "app.test:80",
            "",
            "unix:app.sock",
            "unix:/a%ff",
            "unix:/a%2",
            "127.0.0.1:80/kill",
        ] {
            let path = format!("/origins/app/servers/{path}/drain");
            assert_eq!(
                AddressedCommand::from_path(&path),
                Some(Err(BadAddress)),
                "{path}"
            );
        }
        for path in [
            "/origins/app",
            "/origins//servers/127.0.0.1:80/drain",
            "/origins/a/servers/unix:/run/app.sock",
            "/origins/a/b/servers/127.0.0.1:80/drain",
            "/origins/app/servers/127.0.0.1:80/kill",
            "/origins/app/servers/127.0.0.1:80",
        ] {
            assert_eq!(AddressedCommand::from_path(path), None, "{path}");
        }
    }
}
