//! Decides whose DATA goes first, RFC 9218 §10: streams by urgency, then those that are incremental in turns, others one after the other.

use crate::priority::StreamPriority;
use crate::stream_id::StreamId;

/// The streams that have DATA for which there was no room.
#[derive(Debug, Default)]
pub(super) struct SendSchedule {
    waiting: Vec<WaitingStream>,
    /// The number of the last turn.
    turn: u64,
}

/// A stream that waits, and its place in the order.
#[derive(Clone, Copy, Debug)]
struct WaitingStream {
    id: StreamId,
    urgency: u8,
    turn: u64,
}

impl SendSchedule {
    /// Returns the next turn, which comes after all others.
    pub(super) fn next_turn(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a stream, or changes its place.
    pub(super) fn wait(&mut self, id: StreamId, priority: StreamPriority, turn: u64) {
        self.remove(id);
        self.waiting.push(WaitingStream {
            id,
            urgency: priority.urgency,
            turn,
        });
    }

    pub(super) fn is_waiting(&self, id: StreamId) -> bool {
        self.waiting.iter().any(|other| other.id == id)
    }

    pub(super) fn remove(&mut self, id: StreamId) {
        if let Some(place) = self.waiting.iter().position(|other| other.id == id) {
            self.waiting.swap_remove(place);
        }
    }

    /// Returns the first stream that `can_send`.
    pub(super) fn first(&self, can_send: impl Fn(StreamId) -> bool) -> Option<StreamId> {
        let ready = self.waiting.iter().filter(|other| can_send(other.id));
        let first = ready.min_by_key(|other| (other.urgency, other.turn));
        first.map(|other| other.id)
    }

    /// Returns whether a stream that `can_send` comes before another one with this priority and turn.
    pub(super) fn precedes(
        &self,
        priority: StreamPriority,
        turn: u64,
        can_send: impl Fn(StreamId) -> bool,
    ) -> bool {
        let is_first = |other: &&WaitingStream| {
            (other.urgency, other.turn) < (priority.urgency, turn) && can_send(other.id)
        };
        self.waiting.iter().any(|other| is_first(&other))
    }

    /// Returns whether a stream of this urgency `can_send`.
    pub(super) fn has_urgency(&self, urgency: u8, can_send: impl Fn(StreamId) -> bool) -> bool {
        let mut waiting = self.waiting.iter();
        waiting.any(|other| other.urgency == urgency && can_send(other.id))
    }

    /// Removes all streams.
    pub(super) fn clear(&mut self) {
        self.waiting = Vec::new();
    }
}
