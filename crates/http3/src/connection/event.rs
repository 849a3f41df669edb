//! Lists what a client does, as the caller learns it.

use sluicegate_http2::{FieldLines, RequestHead, StreamEnd};

use crate::error_code::ErrorCode;
use crate::stream_id::StreamId;
use crate::violation::RuleViolation;

/// The event that input causes, if any, or the rule that ends the connection.
pub(super) type EventResult<'a> = Result<Option<ConnectionEvent<'a>>, RuleViolation>;

/// An act of the client.
#[derive(Debug)]
pub enum ConnectionEvent<'a> {
    /// A request begins.
    Request {
        /// Its stream.
        stream: StreamId,
        /// Its head.
        head: RequestHead,
        /// The end of the request, where it has no body.
        end: StreamEnd,
    },
    /// A part of a body.
    Data {
        /// The stream.
        stream: StreamId,
        /// The bytes; none where only the end comes.
        data: &'a [u8],
        /// The end of the request.
        end: StreamEnd,
    },
    /// The trailers of a request, which end it.
    Trailers {
        /// The stream.
        stream: StreamId,
        /// The fields.
        fields: FieldLines,
    },
    /// A request breaks a rule before its answer has begun, and nothing more comes of it. The caller answers it, with 431 for
    /// [`RuleViolation::FieldListSize`] and 400 for others, or abandons it.
    Malformed {
        /// The stream.
        stream: StreamId,
        /// The rule.
        violation: RuleViolation,
    },
    /// The stream is over: nothing more comes, and nothing can be sent.
    Reset {
        /// The stream.
        stream: StreamId,
        /// The reason that the client gives, or that it was given.
        code: ErrorCode,
        /// The rule that the client broke; `None` where the client reset the stream.
        violation: Option<RuleViolation>,
    },
    /// The connection ends since the client broke a rule. All streams are over. The caller closes it with the code of the rule.
    Closed(RuleViolation),
}
