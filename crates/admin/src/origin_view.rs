//! Samples an origin and its servers for the admin pages.

use std::time::Duration;

use sluicegate_limiter::Timestamp;

use sluicegate_config::rules::{Name, OriginAddress, Role, Weight};
use sluicegate_origin::request_failure::FailureKind;
use sluicegate_origin::{
    AttemptCounts, AttemptOutcome, LatestFailure, OriginServer, ServerPool, ServerSilence,
    ServerStatus,
};

/// An origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OriginView {
    /// Its name.
    pub name: Name,
    /// Its servers.
    pub servers: Vec<ServerView>,
    /// Retries of requests.
    pub retries: u64,
    /// Retries that the budget did not allow.
    pub retries_not_granted: u64,
    /// Requests that wait for a server with room.
    pub pending: u32,
    /// Requests that the queue rejected.
    pub refused: u64,
    /// Requests that waited in the queue and gave way to others.
    pub displaced: u64,
    /// Names that did not resolve when they were last looked up.
    pub unresolved: usize,
    /// Failures that no server is to blame for, by [`FailureKind::ALL`].
    pub failures: [u64; FailureKind::ALL.len()],
    /// The latest of these failures.
    pub last_error: Option<LatestFailure>,
}

/// A server of an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerView {
    /// Its address.
    pub address: OriginAddress,
    /// Its state.
    pub state: ServerStatus,
    /// Its weight in the balance.
    pub weight: Weight,
    /// Its role: primary or backup.
    pub role: Role,
    /// Attempts that are under way.
    pub in_flight: u32,
    /// The adaptive concurrency limit; `None` where its origin has none.
    pub limit: Option<ConcurrencyView>,
    /// Connections that are open for requests; `None` where they have no bound.
    pub connections: Option<u32>,
    /// Attempts so far, in the order of [`AttemptOutcome::ALL`].
    pub outcomes: [u64; AttemptOutcome::ALL.len()],
    /// The attempts of the latest ten seconds in which one ended.
    pub recent: AttemptCounts,
    /// The number of its ejections.
    pub ejections: u64,
    /// The number of changes by health checks.
    pub health_changes: u64,
    /// The time in which it has answered nobody, where that is a failure.
    pub silence: Option<ServerSilence>,
    /// Its latest failure.
    pub last_failure: Option<(AttemptOutcome, Timestamp)>,
    /// Failures by [`FailureKind::ALL`].
    pub failures: [u64; FailureKind::ALL.len()],
    /// The latest failure without a response, with its cause.
    pub last_error: Option<LatestFailure>,
}

/// The adaptive concurrency limit of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConcurrencyView {
    /// The limit in force.
    pub most: u32,
    /// The least that it can become, `min`.
    pub least: u32,
    /// Requests that wait for the head of their response.
    pub waiting: u32,
    /// The latency of the server without a queue; `None` before the first window.
    pub baseline: Option<Duration>,
}

impl OriginView {
    /// Samples `pool` at `now`.
    pub(super) fn new(pool: &ServerPool, now: Timestamp) -> Self {
        let queue = pool.queue.as_ref();
        let servers = pool.servers();
        Self {
            name: pool.name.clone(),
            servers: servers
                .iter()
                .map(|server| ServerView::new(server, now))
                .collect(),
            retries: pool.budget.retries(),
            retries_not_granted: pool.budget.exhausted(),
            pending: queue.map_or(0, |queue| queue.waiting()),
            refused: queue.map_or(0, |queue| queue.refused()),
            displaced: queue.map_or(0, |queue| queue.displaced()),
            unresolved: pool.unresolved(),
            failures: pool.failures.totals(),
            last_error: pool.failures.latest(),
        }
    }
}

impl ServerView {
    /// Samples `server` at `now`.
    pub(super) fn new(server: &OriginServer, now: Timestamp) -> Self {
        let server_state = &server.server_state;
        Self {
            address: server.address.clone(),
            state: server.state(now),
            weight: server.weight,
            role: server.role,
            in_flight: server_state.in_flight(),
            limit: server.concurrency_limit().map(|most| ConcurrencyView {
                most,
                least: server.least_limit().unwrap_or(0),
                waiting: server.waiting().unwrap_or(0),
                baseline: server.baseline(),
            }),
            connections: server.open_connections(),
            outcomes: AttemptOutcome::ALL.map(|outcome| server_state.count(outcome)),
            recent: server_state.recent_attempts(),
            ejections: server_state.ejections(),
            health_changes: server_state.health_changes(),
            silence: server_state.silence(now),
            last_failure: server_state.last_failure(),
            failures: server_state.failure_log.totals(),
            last_error: server_state.failure_log.latest(),
        }
    }
}
