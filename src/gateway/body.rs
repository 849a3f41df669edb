//! Names the part of a body that was read before the decision, for routes with a limit that takes its key from the body. The origin still
//! gets every byte.

use bytes::Bytes;

use crate::admission::KnownBody;

/// The part of a body that was read before the decision.
pub(super) enum Prefix {
    /// The whole body.
    Whole(Bytes),
    /// The body is longer than the limit.
    TooLarge,
    /// The body has a media type from which no key is read.
    OfOtherKind,
}

impl Prefix {
    /// Returns the body in the form that admission reads.
    pub(super) fn known(&self) -> KnownBody<'_> {
        match self {
            Self::Whole(bytes) => KnownBody::Whole(bytes),
            Self::TooLarge => KnownBody::TooLarge,
            Self::OfOtherKind => KnownBody::OfOtherKind,
        }
    }
}
