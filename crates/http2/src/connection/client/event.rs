//! Lists what a server does, as the caller learns it.

use crate::connection::stream_end::StreamEnd;
use crate::error_code::ErrorCode;
use crate::field_lines::FieldLines;
use crate::response_head::ResponseHead;
use crate::stream_id::StreamId;
use crate::violation::RuleViolation;

/// The event that a frame causes, if any, or the rule that ends the connection.
pub(super) type ClientResult<'a> = Result<Option<ClientEvent<'a>>, RuleViolation>;

/// An act of the server.
#[derive(Debug)]
pub enum ClientEvent<'a> {
    /// A head of a response: any number of interim ones, then the final one.
    Response {
        /// Its stream.
        stream: StreamId,
        /// The head.
        head: ResponseHead,
        /// The end of the response, where it has no body.
        end: StreamEnd,
    },
    /// A part of a body. The caller releases as many bytes when it has taken them ([`ClientConnection::release`]).
    ///
    /// [`ClientConnection::release`]: crate::ClientConnection::release
    Data {
        /// The stream.
        stream: StreamId,
        /// The bytes; none where only the end comes.
        data: &'a [u8],
        /// The end of the response.
        end: StreamEnd,
    },
    /// The trailers of a response, which end it.
    Trailers {
        /// The stream.
        stream: StreamId,
        /// The fields.
        fields: FieldLines,
    },
    /// The stream is over, and the server has not acted on its request, which may be sent again, RFC 9113 §8.7.
    Unprocessed {
        /// The stream.
        stream: StreamId,
    },
    /// The stream is over: nothing more comes, and nothing can be sent. Behind a whole response, `NO_ERROR` says that the server wants no
    /// more of the request, RFC 9113 §8.1.
    Reset {
        /// The stream.
        stream: StreamId,
        /// The reason that the server gives, or that it was given.
        code: ErrorCode,
        /// The rule that the server broke; `None` where the server reset the stream.
        violation: Option<RuleViolation>,
    },
    /// The server takes no more streams, RFC 9113 §6.8. [`ClientEvent::Unprocessed`] follows for each open stream behind the last one, or
    /// [`ClientEvent::Reset`] where its response has begun; the others go on.
    GoAway {
        /// The last stream that the server has acted on, or may act on.
        last: StreamId,
        /// The reason.
        code: ErrorCode,
    },
    /// The connection ends since the server broke a rule. All streams are over. What waits for the socket says why.
    Closed(RuleViolation),
}
