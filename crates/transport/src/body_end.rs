//! Names the position of a piece in its body, for both sides of the gateway.

use sluicegate_http2::StreamEnd;

/// The position of a piece in its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// The last piece.
    Here,
    /// Pieces may follow.
    NotYet,
}

impl BodyEnd {
    /// Returns the position of a piece behind which the body is over, if `is_over`.
    #[must_use]
    pub const fn here_if(is_over: bool) -> Self {
        if is_over { Self::Here } else { Self::NotYet }
    }

    /// Returns whether it is the last piece.
    #[must_use]
    pub const fn is_here(self) -> bool {
        matches!(self, Self::Here)
    }
}

impl From<BodyEnd> for StreamEnd {
    fn from(end: BodyEnd) -> Self {
        match end {
            BodyEnd::Here => Self::Here,
            BodyEnd::NotYet => Self::NotYet,
        }
    }
}
