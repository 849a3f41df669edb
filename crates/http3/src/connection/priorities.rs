//! Owns what clients and origins say about the priorities of requests, RFC 9218.

use sluicegate_http2::StreamPriority;

use super::ServerConnection;
use super::action::StreamAction;
use crate::stream_id::{StreamId, StreamKind};
use crate::violation::RuleViolation;

impl ServerConnection {
    /// Changes the priority of a request, as where the answer of an origin has a field `priority`, RFC 9218 §8.
    pub fn set_priority(&mut self, stream: StreamId, priority: StreamPriority) {
        if let Some(state) = self.requests.get_mut(&stream)
            && state.priority != priority
        {
            state.priority = priority;
            let action = StreamAction::Prioritize { stream, priority };
            self.actions.push_back(action);
        }
    }

    /// Returns the priority of a request.
    #[must_use]
    pub fn priority(&self, stream: StreamId) -> Option<StreamPriority> {
        self.requests.get(&stream).map(|state| state.priority)
    }

    /// Takes over the priority of a request, or keeps it for one that has not begun, RFC 9218 §7.2.
    pub(super) fn receive_priority(
        &mut self,
        stream: StreamId,
        value: &[u8],
    ) -> Result<(), RuleViolation> {
        if stream.kind() != StreamKind::Request {
            return Err(RuleViolation::PriorityId);
        }
        let priority = StreamPriority::SIGNALED.updated(value);
        // The head of a stream that is open may come later, and its field says less than this frame.
        if stream >= self.next_request || self.awaits_head(stream) {
            self.early_priorities.keep(stream, priority);
        } else {
            self.set_priority(stream, priority);
        }
        Ok(())
    }
}
