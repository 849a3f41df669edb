//! Owns the state of one request and its answer, RFC 9114 §4.1.

use sluicegate_http2::StreamPriority;

use crate::frame::FrameHeadInput;

/// A request that is not over.
#[derive(Debug)]
pub(super) struct RequestStream {
    pub(super) receiving: ReceiveState,
    pub(super) at: FramePosition,
    /// The bytes of a field section whose end has not come.
    pub(super) section: Vec<u8>,
    /// Bytes of the body that Content-Length announces and that have not come.
    pub(super) announced: Option<u64>,
    pub(super) sending: SendState,
    /// Heads that QUIC has not taken.
    pub(super) output: Vec<u8>,
    /// Bytes of the DATA frame that was begun and that QUIC has not taken.
    pub(super) data_left: u64,
    pub(super) priority: StreamPriority,
}

/// The client's side of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReceiveState {
    /// The head follows.
    Head,
    /// A body, or trailers, follow.
    Body,
    /// The bytes of a tunnel follow, RFC 9114 §4.4.
    Tunnel,
    /// Trailers came: nothing but the end follows.
    Trailers,
    /// The stream has ended, or the client was asked to end it.
    Ended,
}

/// The server's side of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendState {
    /// The final head was not sent. Interim ones may have been.
    Head,
    /// The head was sent, and its body follows.
    Body,
    /// The answer is whole, but for what QUIC has not taken.
    Ended,
    /// QUIC has taken all of it.
    Finished,
}

/// The place between the frames of a stream, or within one.
#[derive(Clone, Copy, Debug)]
pub(super) enum FramePosition {
    /// The head of a frame follows.
    Head(FrameHeadInput),
    /// So many bytes of a body follow.
    Data(u64),
    /// A field section of so many bytes in all follows.
    Section(usize),
    /// So many bytes of an unknown frame follow.
    Skipped(u64),
}

impl FramePosition {
    /// The place between two frames.
    pub(super) const BETWEEN: Self = Self::Head(FrameHeadInput::NEW);
}

impl RequestStream {
    /// Returns a stream on which nothing has come or gone.
    pub(super) fn new() -> Self {
        Self {
            receiving: ReceiveState::Head,
            at: FramePosition::BETWEEN,
            section: Vec::new(),
            announced: None,
            sending: SendState::Head,
            output: Vec::new(),
            data_left: 0,
            priority: StreamPriority::UNSIGNALED,
        }
    }

    /// Returns whether the stream has ended in both directions.
    pub(super) fn is_over(&self) -> bool {
        self.receiving == ReceiveState::Ended && self.sending == SendState::Finished
    }
}
