//! Holds the sampled state of an origin and its servers for the admin pages.

use std::net::SocketAddr;

use sluicegate_limiter::Timestamp;

use crate::config::rules::{Name, Role, Weight};
use crate::origin::{AttemptOutcome, FailureKind, LatestFailure, ServerStatus};

/// An origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginView {
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
    /// Names that did not resolve when they were last looked up.
    pub unresolved: usize,
    /// Failures that no server is to blame for, by [`FailureKind::ALL`].
    pub failures: [u64; FailureKind::ALL.len()],
    /// The latest of these failures.
    pub last_error: Option<LatestFailure>,
}

/// A server of an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerView {
    /// Its address.
    pub address: SocketAddr,
    /// Its state, which decides whether it gets requests.
    pub state: ServerStatus,
    /// Its weight in the balance.
    pub weight: Weight,
    /// Its role: primary or backup.
    pub role: Role,
    /// Attempts that are under way.
    pub in_flight: u32,
    /// Connections that are open for requests; `None` where they have no bound.
    pub connections: Option<u32>,
    /// Attempts so far, in the order of [`AttemptOutcome::ALL`].
    pub outcomes: [u64; AttemptOutcome::ALL.len()],
    /// The number of its ejections.
    pub ejections: u64,
    /// The number of changes by health checks.
    pub health_changes: u64,
    /// Its latest failure.
    pub last_failure: Option<(AttemptOutcome, Timestamp)>,
    /// Failures by [`FailureKind::ALL`].
    pub failures: [u64; FailureKind::ALL.len()],
    /// The latest failure without a response, with its cause.
    pub last_error: Option<LatestFailure>,
}
