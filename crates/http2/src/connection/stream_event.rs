//! Lists what the frames of a stream cause on either side.

use super::stream_end::StreamEnd;
use crate::error_code::ErrorCode;
use crate::field_lines::FieldLines;
use crate::stream_id::StreamId;
use crate::violation::RuleViolation;

/// The event that a frame causes, if any, or the rule that ends the connection.
pub(super) type StreamResult<'a> = Result<Option<StreamEvent<'a>>, RuleViolation>;

/// An act of the peer on one stream.
#[derive(Debug)]
pub(super) enum StreamEvent<'a> {
    /// A part of a body.
    Data {
        stream: StreamId,
        data: &'a [u8],
        end: StreamEnd,
    },
    /// Trailers, which end a message.
    Trailers {
        stream: StreamId,
        fields: FieldLines,
    },
    /// The message breaks a rule. Its side decides what becomes of the stream.
    Malformed {
        stream: StreamId,
        violation: RuleViolation,
    },
    /// The stream is over.
    Reset {
        stream: StreamId,
        code: ErrorCode,
        violation: Option<RuleViolation>,
    },
}
