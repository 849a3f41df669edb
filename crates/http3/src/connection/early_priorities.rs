//! Owns priorities that come before their requests.

use sluicegate_http2::StreamPriority;

use crate::stream_id::StreamId;

/// Priorities that come before their requests and are kept for them, RFC 9218 §7.2.
const EARLY_PRIORITIES: usize = 16;

/// Priorities of requests that have not begun.
#[derive(Debug, Default)]
pub(super) struct EarlyPriorities {
    kept: Vec<(StreamId, StreamPriority)>,
}

impl EarlyPriorities {
    /// Keeps the priority of a request, in place of the oldest one where there are many.
    pub(super) fn keep(&mut self, stream: StreamId, priority: StreamPriority) {
        self.take(stream);
        if self.kept.len() >= EARLY_PRIORITIES {
            self.kept.remove(0);
        }
        self.kept.push((stream, priority));
    }

    /// Takes the priority of a request that begins.
    pub(super) fn take(&mut self, stream: StreamId) -> Option<StreamPriority> {
        let place = self.kept.iter().position(|(other, _)| *other == stream)?;
        let (_, priority) = self.kept.remove(place);
        Some(priority)
    }
}
