//! Remembers streams that are over, as far as frames that still come for them differ in meaning.
//!
//! Frames for a stream that this side has reset are under way for as long as the peer does not know it, and are ignored, RFC 9113 §5.1.
//! Frames for a stream that ended in both directions end the connection with `STREAM_CLOSED`, and those for a number that was left out with
//! `PROTOCOL_ERROR`, §5.1.1. The latter two differ in the code alone, so a few numbers are enough.

use std::collections::VecDeque;

use crate::stream_id::StreamId;

/// Streams that are remembered as ended.
const ENDED: usize = 16;

/// The streams that are over.
#[derive(Debug)]
pub(super) struct EndedStreams {
    reset: VecDeque<StreamId>,
    most_reset: usize,
    ended: [StreamId; ENDED],
    next: usize,
}

impl EndedStreams {
    /// Returns no streams. At most so many are remembered that this side has reset.
    pub(super) fn new(most_reset: usize) -> Self {
        Self {
            reset: VecDeque::new(),
            most_reset,
            ended: [StreamId::CONNECTION; ENDED],
            next: 0,
        }
    }

    /// Adds a stream that this side has reset.
    pub(super) fn add_reset(&mut self, id: StreamId) {
        if self.reset.len() >= self.most_reset {
            self.reset.pop_front();
        }
        self.reset.push_back(id);
    }

    /// Adds a stream that ended in both directions, or that the peer has reset.
    pub(super) fn add_ended(&mut self, id: StreamId) {
        self.ended[self.next % ENDED] = id;
        self.next = self.next.wrapping_add(1);
    }

    /// Returns whether this side has reset the stream.
    pub(super) fn is_reset(&self, id: StreamId) -> bool {
        self.reset.contains(&id)
    }

    /// Returns whether the stream has ended lately.
    pub(super) fn is_ended(&self, id: StreamId) -> bool {
        self.ended.contains(&id)
    }
}
