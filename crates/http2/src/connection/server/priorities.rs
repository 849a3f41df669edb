//! Owns what clients say about the priorities of streams, RFC 9218.

use super::ServerConnection;
use crate::priority::StreamPriority;
use crate::stream_id::StreamId;

/// Priorities that come before their requests and are kept for them, RFC 9218 §7.1.
const EARLY_PRIORITIES: usize = 16;

impl ServerConnection {
    /// Takes over the priority of a stream, or keeps it for one that has not begun, RFC 9218 §7.1.
    pub(super) fn receive_priority(&mut self, stream: StreamId, value: &[u8]) {
        let priority = StreamPriority::SIGNALED.updated(value);
        if stream <= self.core.last_stream {
            return self.set_priority(stream, priority);
        }
        self.take_early_priority(stream);
        if self.early_priorities.len() >= EARLY_PRIORITIES {
            self.early_priorities.remove(0);
        }
        self.early_priorities.push((stream, priority));
    }

    /// Removes the priority that came before its stream.
    pub(super) fn take_early_priority(&mut self, stream: StreamId) -> Option<StreamPriority> {
        let mut early = self.early_priorities.iter();
        let place = early.position(|(other, _)| *other == stream)?;
        let (_, priority) = self.early_priorities.swap_remove(place);
        Some(priority)
    }

    fn set_priority(&mut self, stream: StreamId, priority: StreamPriority) {
        let Some(state) = self.core.streams.get_mut(stream) else {
            return;
        };
        state.priority = priority;
        let turn = state.turn;
        if self.core.schedule.is_waiting(stream) {
            self.core.schedule.wait(stream, priority, turn);
        }
    }
}
