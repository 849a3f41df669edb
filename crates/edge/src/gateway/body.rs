//! Names the part of a body that was read before the decision, for routes with a limit that takes its key from the body. The origin still
//! gets every byte.

use bytes::Bytes;
use sluicegate_base::bounds;

use sluicegate_decide::admission::KnownBody;

/// The part of a body that was read before the decision.
pub(super) enum BodyPrefix {
    /// The whole body.
    Whole(Bytes),
    /// The body is longer than the limit.
    TooLarge,
    /// The body has a media type from which no key is read.
    OfOtherKind,
}

/// Returns the bytes that a body takes of which so many are held, in all copies: with the buffer through which they are read, which the
/// connection keeps while the request is served.
pub(super) fn with_read_buffer(copies: u64, bytes: u64) -> u64 {
    let read = bytes.min(bounds::BODY_READ as u64);
    bytes.saturating_mul(copies).saturating_add(read)
}

impl BodyPrefix {
    /// Returns the part of a body that was `read` in the form that admission has.
    pub(super) fn known(read: Option<&Self>) -> KnownBody<'_> {
        match read {
            None => KnownBody::Unread,
            Some(Self::Whole(bytes)) => KnownBody::Whole(bytes),
            Some(Self::TooLarge) => KnownBody::TooLarge,
            Some(Self::OfOtherKind) => KnownBody::OfOtherKind,
        }
    }
}
