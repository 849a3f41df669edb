//! Owns what is kept of the client's control stream.

use crate::frame::{FrameHead, FrameHeadInput};

/// The client's control stream.
#[derive(Debug)]
pub(super) struct ControlInput {
    pub(super) at: ControlPosition,
    pub(super) payload: Vec<u8>,
    /// The number of the last GOAWAY, RFC 9114 §5.2.
    pub(super) goaway: Option<u64>,
    /// The greatest push that the client allows, RFC 9114 §7.2.7.
    pub(super) max_push: Option<u64>,
}

/// The place between frames, or within one.
#[derive(Clone, Copy, Debug)]
pub(super) enum ControlPosition {
    /// The head of a frame follows.
    Head(FrameHeadInput),
    /// The payload of a frame follows.
    Payload(FrameHead),
    /// So many bytes of an unknown frame follow.
    Skipped(u64),
}

impl Default for ControlInput {
    fn default() -> Self {
        Self {
            at: ControlPosition::Head(FrameHeadInput::NEW),
            payload: Vec::new(),
            goaway: None,
            max_push: None,
        }
    }
}
