//! Owns the place within the frames of the peer, and the bytes of one that is not whole.

use super::body_frame::BodyFrame;
use crate::frame::{FRAME_HEAD_BYTES, FrameHead};

/// The place within the frames of the peer.
#[derive(Debug, Default)]
pub(super) struct FrameInput {
    pub(super) at: InputPosition,
    /// Bytes of a frame's head that have come.
    head: [u8; FRAME_HEAD_BYTES],
    /// The payload of a frame that is not whole.
    pub(super) payload: Vec<u8>,
    /// True if the first frame has come.
    pub(super) has_begun: bool,
}

/// The part of the input to which the next byte belongs.
#[derive(Clone, Copy, Debug)]
pub(super) enum InputPosition {
    /// The preface, of which so many bytes have come.
    Preface(usize),
    /// The head of a frame, of which so many bytes have come.
    Head(usize),
    /// The payload of a frame.
    Payload(FrameHead),
    /// The payload of a DATA frame.
    Data(BodyFrame),
    /// Nothing is read any more.
    Closed,
}

impl Default for InputPosition {
    fn default() -> Self {
        Self::Preface(0)
    }
}

impl FrameInput {
    /// Reads frames from the first byte, as those of a server come.
    pub(super) fn expect_no_preface(&mut self) {
        self.at = InputPosition::Head(0);
    }

    /// Returns the bytes that are kept.
    pub(super) fn held_back(&self) -> usize {
        self.payload.len()
    }

    /// Returns whether nothing is read any more.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.at, InputPosition::Closed)
    }

    /// Stops reading.
    pub(super) fn close(&mut self) {
        self.at = InputPosition::Closed;
        self.payload = Vec::new();
    }

    /// Takes the head of a frame of which so many bytes have come; `None` where it is not whole.
    #[inline]
    pub(super) fn take_head(&mut self, came: usize, input: &mut &[u8]) -> Option<FrameHead> {
        if came == 0
            && let Some((head, rest)) = input.split_first_chunk()
        {
            *input = rest;
            return Some(FrameHead::parse(*head));
        }
        let missing = self.head.get_mut(came..)?;
        let (taken, rest) = input.split_at(missing.len().min(input.len()));
        missing[..taken.len()].copy_from_slice(taken);
        *input = rest;
        self.at = InputPosition::Head(came + taken.len());
        (came + taken.len() == FRAME_HEAD_BYTES).then(|| FrameHead::parse(self.head))
    }
}
