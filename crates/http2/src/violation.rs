//! Lists the rules of HTTP/2 that the peer can break, each with the error code that RFC 9113 demands.

use std::error::Error;
use std::fmt;

use crate::error_code::ErrorCode;

/// A rule of HTTP/2 that the peer breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleViolation {
    /// RFC 9113 §3.4: a connection begins with the preface.
    Preface,
    /// RFC 9113 §3.4: the first frame is SETTINGS, and no acknowledgment.
    FirstFrame,
    /// RFC 9113 §4.2: no frame is larger than SETTINGS_MAX_FRAME_SIZE allows.
    FrameSize,
    /// RFC 9113 §4.2: a frame has the size, or the least size, of its type.
    PayloadSize,
    /// RFC 9113 §6: frames of streams name one, frames of the connection name none.
    StreamOfFrame,
    /// RFC 9113 §6.1, §6.2: padding is shorter than the payload.
    Padding,
    /// RFC 9113 §6.2, §6.10: nothing comes between the frames of a block of fields, and CONTINUATION only there.
    Continuation,
    /// RFC 9113 §6.6, §8.4: a client pushes nothing, and a server nothing to a client that does not allow it.
    PushPromise,
    /// RFC 9113 §5.1.1: the streams of a client have odd numbers, each greater than the one before.
    StreamNumber,
    /// RFC 9113 §5.1: nothing but HEADERS and PRIORITY comes for a stream that has not begun.
    IdleStream,
    /// RFC 9113 §5.1: neither HEADERS nor DATA follows the end of a stream.
    ClosedStream,
    /// RFC 7540 §5.3.1: no stream depends on itself.
    SelfDependency,
    /// RFC 9113 §6.5.2: a setting has a value that it may have.
    SettingValue,
    /// RFC 9113 §6.5.2: SETTINGS_INITIAL_WINDOW_SIZE is at most 2^31 - 1.
    WindowSetting,
    /// RFC 9113 §6.9: a window grows by at least 1.
    WindowIncrement,
    /// RFC 9113 §6.9.1: a window is at most 2^31 - 1.
    WindowOverflow,
    /// RFC 9113 §6.9.1: DATA fits into the windows of its stream and of the connection.
    WindowExceeded,
    /// RFC 9218 §7.1: PRIORITY_UPDATE comes from a client, and names a stream of it.
    PriorityUpdate,
    /// RFC 9113 §4.3: a block of fields is one of HPACK.
    Compression,
    /// RFC 9113 §10.5.1: a list of fields is as long as SETTINGS_MAX_HEADER_LIST_SIZE allows.
    FieldListSize,
    /// RFC 9113 §10.5.1: a block of fields is not several times as long as a list of fields may be.
    FieldBlockSize,
    /// RFC 9113 §8.2.1: a name is a token in lower case.
    FieldName,
    /// RFC 9113 §8.2.1, RFC 9110 §5.5: a value has no control characters, and no white space around it.
    FieldValue,
    /// RFC 9113 §8.2.2: no field is about the connection, and TE says only `trailers`.
    ConnectionField,
    /// RFC 9113 §8.3: pseudo-fields are defined, come once, before all fields, and not in trailers.
    PseudoField,
    /// RFC 9113 §8.3.1: a request has one method, which is a token.
    Method,
    /// RFC 9113 §8.3.1: a request has one scheme, except CONNECT, RFC 9113 §8.5.
    Scheme,
    /// RFC 9113 §8.3.1: a request has a path, or `*` for OPTIONS, except CONNECT, RFC 9113 §8.5.
    Path,
    /// RFC 9113 §8.3.1: a request names one host without userinfo, in `:authority`, `host`, or the same in both.
    Authority,
    /// RFC 9113 §8.3.2, §8.6: a response has one status of three digits, which is not 101.
    Status,
    /// RFC 9113 §8.1: an interim response does not end its stream.
    InterimEnd,
    /// RFC 9113 §8.1: the head of a response comes before its body.
    DataBeforeHead,
    /// RFC 9113 §6.8: the last stream of a later GOAWAY is no greater.
    GoAwayStream,
    /// RFC 8441 §4: `:protocol` comes with CONNECT, where the server has allowed it.
    Protocol,
    /// RFC 9113 §8.1.1, RFC 9110 §8.6: Content-Length is one number.
    ContentLength,
    /// RFC 9113 §8.1.1: a body has the length that Content-Length says.
    BodyLength,
    /// RFC 9113 §8.1: trailers end their message.
    Trailers,
    /// RFC 9113 §10.5: frames that carry neither a head nor data stay rare.
    ControlFlood,
    /// RFC 9113 §10.5: a client does not cancel most of its requests (CVE-2023-44487).
    CancelFlood,
    /// RFC 9113 §10.5: a peer does not make the other side reset its streams (CVE-2025-8671).
    ResetFlood,
}

impl RuleViolation {
    /// Returns the code with which the stream or the connection ends.
    #[must_use]
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::FrameSize | Self::PayloadSize => ErrorCode::FRAME_SIZE_ERROR,
            Self::ClosedStream => ErrorCode::STREAM_CLOSED,
            Self::WindowSetting | Self::WindowOverflow | Self::WindowExceeded => {
                ErrorCode::FLOW_CONTROL_ERROR
            }
            Self::Compression => ErrorCode::COMPRESSION_ERROR,
            // RFC 9113 §8.1: the answer is whole, and the client stops sending the request.
            Self::FieldListSize => ErrorCode::NO_ERROR,
            Self::FieldBlockSize | Self::ControlFlood | Self::CancelFlood | Self::ResetFlood => {
                ErrorCode::ENHANCE_YOUR_CALM
            }
            _ => ErrorCode::PROTOCOL_ERROR,
        }
    }

    /// Returns the rule that is broken, in words.
    const fn text(self) -> &'static str {
        match self {
            Self::Preface => "no connection preface (RFC 9113 §3.4)",
            Self::FirstFrame => "the first frame is not SETTINGS (RFC 9113 §3.4)",
            Self::FrameSize => "frame of more than SETTINGS_MAX_FRAME_SIZE (RFC 9113 §4.2)",
            Self::PayloadSize => "frame of another size than its type has (RFC 9113 §4.2)",
            Self::StreamOfFrame => "frame type that does not belong to its stream (RFC 9113 §6)",
            Self::Padding => "padding as long as the payload (RFC 9113 §6.1)",
            Self::Continuation => "interrupted block of fields (RFC 9113 §6.10)",
            Self::PushPromise => "PUSH_PROMISE that nothing allows (RFC 9113 §8.4)",
            Self::StreamNumber => "even or lower number of a new stream (RFC 9113 §5.1.1)",
            Self::IdleStream => "frame for a stream that has not begun (RFC 9113 §5.1)",
            Self::ClosedStream => "frame behind the end of its stream (RFC 9113 §5.1)",
            Self::SelfDependency => "stream that depends on itself (RFC 7540 §5.3.1)",
            Self::SettingValue => "invalid value of a setting (RFC 9113 §6.5.2)",
            Self::WindowSetting => "initial window beyond 2^31-1 (RFC 9113 §6.5.2)",
            Self::WindowIncrement => "window increment of 0 (RFC 9113 §6.9)",
            Self::WindowOverflow => "window beyond 2^31-1 (RFC 9113 §6.9.1)",
            Self::WindowExceeded => "DATA beyond a window (RFC 9113 §6.9.1)",
            Self::PriorityUpdate => {
                "PRIORITY_UPDATE that names no request of its sender (RFC 9218 §7.1)"
            }
            Self::Compression => "malformed block of fields (RFC 9113 §4.3)",
            Self::FieldListSize => "list of fields that is too long (RFC 9113 §10.5.1)",
            Self::FieldBlockSize => "block of fields that is far too long (RFC 9113 §10.5.1)",
            Self::FieldName => "malformed field name (RFC 9113 §8.2.1)",
            Self::FieldValue => "malformed field value (RFC 9113 §8.2.1)",
            Self::ConnectionField => "field about the connection (RFC 9113 §8.2.2)",
            Self::PseudoField => "misplaced, repeated or unknown pseudo-field (RFC 9113 §8.3)",
            Self::Method => "no method, or a malformed one (RFC 9113 §8.3.1)",
            Self::Scheme => "no scheme, or a malformed one (RFC 9113 §8.3.1)",
            Self::Path => "no path, or a malformed one (RFC 9113 §8.3.1)",
            Self::Authority => "no host, a malformed one, or two (RFC 9113 §8.3.1)",
            Self::Status => "no status, a malformed one, or 101 (RFC 9113 §8.3.2)",
            Self::InterimEnd => "interim response that ends its stream (RFC 9113 §8.1)",
            Self::DataBeforeHead => "body before the head of its response (RFC 9113 §8.1)",
            Self::GoAwayStream => "GOAWAY with a greater last stream (RFC 9113 §6.8)",
            Self::Protocol => "`:protocol` that is not allowed here (RFC 8441 §4)",
            Self::ContentLength => "Content-Length is not one number (RFC 9110 §8.6)",
            Self::BodyLength => "body of another length than Content-Length (RFC 9113 §8.1.1)",
            Self::Trailers => "trailers that do not end the message (RFC 9113 §8.1)",
            Self::ControlFlood => "too many frames without head or data (RFC 9113 §10.5)",
            Self::CancelFlood => "most requests are cancelled (RFC 9113 §10.5)",
            Self::ResetFlood => "too many streams had to be reset (RFC 9113 §10.5)",
        }
    }
}

impl fmt::Display for RuleViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Error for RuleViolation {}
