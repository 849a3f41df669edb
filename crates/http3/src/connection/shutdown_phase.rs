//! Owns the progress of a connection towards its end.

use crate::stream_id::StreamId;

/// The progress of a connection towards its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShutdownPhase {
    /// The client may begin requests.
    Open,
    /// It was asked to begin no more.
    Announced,
    /// Requests from this one on are rejected.
    Draining(StreamId),
    /// All is over.
    Closed,
}

impl ShutdownPhase {
    /// Returns whether a new request is rejected.
    pub(super) fn rejects(self, stream: StreamId) -> bool {
        matches!(self, Self::Draining(first) if stream >= first)
    }
}
