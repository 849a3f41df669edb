//! Owns the place within a DATA frame, which is taken in pieces.

use super::stream_end::StreamEnd;
use super::stream_event::StreamEvent;
use crate::stream_id::StreamId;
use crate::violation::RuleViolation;

/// A DATA frame whose head has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyFrame {
    pub(super) stream: StreamId,
    pub(super) stage: BodyFrameStage,
    /// Bytes that have not come. Those of the padding are among them until its length is known.
    pub(super) data: u32,
    pub(super) padding: u32,
    pub(super) end: StreamEnd,
    pub(super) use_of_data: BodyUse,
}

/// The part of a frame that comes next.
#[derive(Clone, Copy, Debug)]
pub(super) enum BodyFrameStage {
    /// The byte that says how long the padding is.
    PaddingLength,
    /// Bytes whose number is known, and was not checked.
    Start,
    /// Bytes.
    Bytes,
}

/// The result of some bytes of a frame.
#[derive(Debug)]
pub(super) struct BodyFrameProgress<'a> {
    pub(super) event: Option<StreamEvent<'a>>,
    /// The frame, where it is not whole.
    pub(super) rest: Option<BodyFrame>,
}

/// The use of a frame's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyUse {
    /// They go to the caller.
    Lent,
    /// They are dropped.
    Dropped,
    /// The stream breaks a rule, and they are dropped.
    Broken(RuleViolation),
}

impl BodyFrame {
    /// Returns the event of some bytes of the frame, which is not whole.
    pub(super) fn progress(self, event: Option<StreamEvent<'_>>) -> BodyFrameProgress<'_> {
        BodyFrameProgress {
            event,
            rest: Some(self),
        }
    }
}
