//! Lists what the caller does with streams of QUIC.

use sluicegate_http2::StreamPriority;

use crate::error_code::ErrorCode;
use crate::stream_id::StreamId;

/// An act on a stream of QUIC. Streams that are over there need none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamAction {
    /// Asks the client to send no more, RFC 9000 §19.5, and reads nothing more.
    Stop {
        /// The stream.
        stream: StreamId,
        /// The reason.
        code: ErrorCode,
    },
    /// Ends the server's side at once, RFC 9000 §19.4.
    Reset {
        /// The stream.
        stream: StreamId,
        /// The reason.
        code: ErrorCode,
    },
    /// Changes when the stream's bytes go out.
    Prioritize {
        /// The stream.
        stream: StreamId,
        /// Its priority.
        priority: StreamPriority,
    },
}
