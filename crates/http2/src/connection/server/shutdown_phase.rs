//! Owns the progress of a connection towards its end.

use crate::stream_id::StreamId;

/// The progress towards the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShutdownPhase {
    /// The client may open streams.
    Open,
    /// It was asked to open no more.
    Announced,
    /// Streams behind this one are ignored.
    Draining(StreamId),
    /// All is over but the output.
    Closed,
}

impl ShutdownPhase {
    /// Returns whether a new stream is ignored.
    pub(super) fn ignores(self, stream: StreamId) -> bool {
        matches!(self, Self::Draining(last) if stream > last)
    }
}
