//! Holds what a request brings to the choice of a server.

use sluicegate_limiter::Timestamp;

use super::client_counts::ClientTag;
use sluicegate_config::rules::OriginAddress;

/// The input of a pick. Owns all its values, so that a request can wait with it.
#[derive(Clone, Debug, Default)]
pub struct PickRequest {
    /// The time of the pick.
    pub now: Timestamp,
    /// Servers that failed the request already.
    pub failed: FailedServers,
    /// The result of [`ServerPool::client_tag`](super::ServerPool::client_tag) for the request.
    pub client: ClientTag,
    /// The result of [`ServerPool::spread`](super::ServerPool::spread) for the request.
    pub spread: Option<u64>,
    /// The tag that the client's sticky cookie has.
    pub sticky: Option<u64>,
}

/// Servers that failed one request: at most one for each of its attempts. Most requests have none, and pay for no room.
pub type FailedServers = Vec<OriginAddress>;
