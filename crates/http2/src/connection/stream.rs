//! Owns the state of one stream, RFC 9113 §5.1.

use crate::error_code::ErrorCode;
use crate::priority::StreamPriority;
use crate::response_head::RequestedContent;
use crate::stream_id::StreamId;

/// A stream that is not over.
#[derive(Debug)]
pub(super) struct StreamState {
    pub(super) id: StreamId,
    pub(super) receiving: ReceiveState,
    pub(super) sending: SendState,
    /// Bytes of the body that Content-Length announces and that have not come.
    pub(super) announced: Option<u64>,
    /// Bytes that the peer may send.
    pub(super) receive_window: i64,
    /// Bytes that came and that the caller has not released.
    pub(super) unreleased: u32,
    /// Released bytes by which the window has not grown.
    pub(super) released: u32,
    /// Bytes that may be sent, less the initial window of the peer's settings.
    pub(super) send_window: i64,
    /// Bytes of output that are kept free for this stream.
    pub(super) reserved: usize,
    pub(super) priority: StreamPriority,
    /// The order among streams of one urgency.
    pub(super) turn: u64,
}

/// The peer's side of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReceiveState {
    /// The final head of a response follows.
    Head(RequestedContent),
    /// A body, or trailers, follow.
    Body,
    /// The message is whole.
    Ended,
    /// The request is malformed: what comes is dropped, and the stream is reset with this code when it is answered.
    Malformed(ErrorCode),
}

/// The own side of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendState {
    /// The head of the answer was not sent. Interim ones may have been.
    Head,
    /// The head was sent, and its body follows.
    Body,
    /// The answer is whole.
    Ended,
}

/// The open streams of a connection.
#[derive(Debug, Default)]
pub(super) struct StreamSlab {
    slots: Vec<Option<StreamState>>,
    free: Vec<u32>,
    /// The number and the slot of each stream, by number: new ones have greater numbers.
    open: Vec<(StreamId, u32)>,
}

impl StreamSlab {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Returns the open stream with the greatest number.
    pub(super) fn greatest(&self) -> Option<StreamId> {
        self.open.last().map(|(id, _)| *id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    #[inline]
    pub(super) fn get(&self, id: StreamId) -> Option<&StreamState> {
        let place = self.place(id)?;
        let (_, slot) = self.open.get(place)?;
        self.slots.get(*slot as usize)?.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: StreamId) -> Option<&mut StreamState> {
        let place = self.place(id)?;
        let (_, slot) = self.open.get(place)?;
        self.slots.get_mut(*slot as usize)?.as_mut()
    }

    /// Adds a stream, whose number is greater than those of all others.
    pub(super) fn insert(&mut self, stream: StreamState) {
        let id = stream.id;
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        match self.slots.get_mut(slot as usize) {
            Some(place) => *place = Some(stream),
            None => self.slots.push(Some(stream)),
        }
        self.open.push((id, slot));
    }

    pub(super) fn remove(&mut self, id: StreamId) -> Option<StreamState> {
        let (_, slot) = self.open.remove(self.place(id)?);
        self.free.push(slot);
        self.slots.get_mut(slot as usize)?.take()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &StreamState> {
        self.slots.iter().flatten()
    }

    /// Removes all streams with their memory.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut StreamState> {
        self.slots.iter_mut().flatten()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    #[inline]
    fn place(&self, id: StreamId) -> Option<usize> {
        self.open
            .binary_search_by_key(&id, |(other, _)| *other)
            .ok()
    }
}
