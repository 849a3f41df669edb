//! Owns whether a part of a message is its last.

use crate::frame::FrameFlags;

/// The end of one side of a stream, or not yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// It does.
    Here,
    /// More follows.
    NotYet,
}

impl StreamEnd {
    /// Returns whether a frame of DATA or HEADERS with these flags does.
    pub(super) fn from_flags(flags: FrameFlags) -> Self {
        match flags.has(FrameFlags::END_STREAM) {
            true => Self::Here,
            false => Self::NotYet,
        }
    }

    /// Returns whether it ends its side.
    #[must_use]
    pub fn is_here(self) -> bool {
        self == Self::Here
    }
}
