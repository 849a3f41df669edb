//! Lists the rules of HTTP/3 that the client can break, each with the error code that RFC 9114 or RFC 9204 demands.

use std::error::Error;
use std::fmt;

use sluicegate_http2::RuleViolation as MessageViolation;

use crate::error_code::ErrorCode;

/// A rule of HTTP/3 that the client breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleViolation {
    /// The request is malformed. RFC 9114 §4.1.2 to §4.5 have the rules of RFC 9113 §8.1.1 to §8.6, which the crate of HTTP/2 checks.
    Message(MessageViolation),
    /// RFC 9114 §4.1: a stream of a request has a head.
    MissingHead,
    /// RFC 9114 §4.2.2: a list of fields is as long as SETTINGS_MAX_FIELD_SECTION_SIZE allows.
    FieldListSize,
    /// RFC 9114 §6.2.1, RFC 9204 §4.2: a client has one control stream, one encoder stream and one decoder stream.
    SecondStream,
    /// RFC 9114 §6.2.2: only servers push.
    PushStream,
    /// RFC 9114 §6.2.1, RFC 9204 §4.2: these streams last as long as the connection.
    ClosedCriticalStream,
    /// RFC 9114 §6.2.1: the control stream begins with SETTINGS.
    MissingSettings,
    /// RFC 9114 §7.2: a frame comes on the streams that its type belongs to. No frame has a type that only HTTP/2 has, §7.2.8.
    FrameOnStream,
    /// RFC 9114 §4.1: HEADERS comes first, then DATA, then HEADERS at most once; §4.4: DATA alone behind CONNECT.
    FrameOrder,
    /// RFC 9114 §7.2.4: SETTINGS comes once.
    SecondSettings,
    /// RFC 9114 §7.1: a frame has the size of its fields.
    FrameSize,
    /// RFC 9114 §7.1: a stream does not end within a frame.
    TruncatedFrame,
    /// RFC 9114 §7.2.4.1: settings of HTTP/2 alone are not sent.
    ReservedSetting,
    /// RFC 9114 §7.2.4: a setting comes once.
    RepeatedSetting,
    /// RFC 9220 §3, RFC 8441 §3: SETTINGS_ENABLE_CONNECT_PROTOCOL is 0 or 1.
    SettingValue,
    /// RFC 9114 §5.2: the number in a later GOAWAY is no greater.
    GoAwayId,
    /// RFC 9114 §7.2.7: MAX_PUSH_ID does not fall.
    MaxPushId,
    /// RFC 9114 §7.2.3, RFC 9218 §7.2: no frame names a push that was not promised.
    PushId,
    /// RFC 9218 §7.2: PRIORITY_UPDATE of a request names a request.
    PriorityId,
    /// RFC 9204 §2.2: a field section is one of QPACK.
    FieldSection,
    /// RFC 9204 §2.2.3, §3.2.3: a field section refers to no table that the server does not allow.
    DynamicTable,
    /// RFC 9204 §3.2.3, §4.3: an encoder without a table has only the capacity 0 to say.
    EncoderStream,
    /// RFC 9204 §4.4: a decoder acknowledges only what came.
    DecoderStream,
    /// RFC 9114 §10.5: a frame that only the connection needs is short.
    ControlFrameSize,
    /// RFC 9114 §10.5: streams and frames that carry neither a head nor data stay rare.
    ControlFlood,
    /// RFC 9114 §10.5: a client does not cancel most of its requests, as in CVE-2023-44487.
    CancelFlood,
    /// RFC 9114 §10.5: a client does not make the server reset its streams, as in CVE-2025-8671.
    ResetFlood,
}

impl RuleViolation {
    /// RFC 9114 §4.1.2: a body has the length that Content-Length says.
    pub const BODY_LENGTH: Self = Self::Message(MessageViolation::BodyLength);

    /// Returns the code with which the stream or the connection ends.
    #[must_use]
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::Message(_) => ErrorCode::MESSAGE_ERROR,
            Self::MissingHead => ErrorCode::REQUEST_INCOMPLETE,
            // RFC 9114 §4.1: the answer is whole, and the client stops sending the request.
            Self::FieldListSize => ErrorCode::NO_ERROR,
            Self::SecondStream | Self::PushStream => ErrorCode::STREAM_CREATION_ERROR,
            Self::ClosedCriticalStream => ErrorCode::CLOSED_CRITICAL_STREAM,
            Self::MissingSettings => ErrorCode::MISSING_SETTINGS,
            Self::FrameOnStream | Self::FrameOrder | Self::SecondSettings => {
                ErrorCode::FRAME_UNEXPECTED
            }
            Self::FrameSize | Self::TruncatedFrame => ErrorCode::FRAME_ERROR,
            Self::ReservedSetting | Self::RepeatedSetting | Self::SettingValue => {
                ErrorCode::SETTINGS_ERROR
            }
            Self::GoAwayId | Self::MaxPushId | Self::PushId | Self::PriorityId => {
                ErrorCode::ID_ERROR
            }
            Self::FieldSection | Self::DynamicTable => ErrorCode::QPACK_DECOMPRESSION_FAILED,
            Self::EncoderStream => ErrorCode::QPACK_ENCODER_STREAM_ERROR,
            Self::DecoderStream => ErrorCode::QPACK_DECODER_STREAM_ERROR,
            Self::ControlFrameSize | Self::ControlFlood | Self::CancelFlood | Self::ResetFlood => {
                ErrorCode::EXCESSIVE_LOAD
            }
        }
    }

    /// Returns the rule that is broken, in words.
    const fn text(self) -> &'static str {
        match self {
            Self::Message(_) => "malformed message (RFC 9114 §4.1.2)",
            Self::MissingHead => "stream that ends without a request (RFC 9114 §4.1)",
            Self::FieldListSize => "list of fields that is too long (RFC 9114 §4.2.2)",
            Self::SecondStream => "second stream of a type that there is once (RFC 9114 §6.2.1)",
            Self::PushStream => "push stream of a client (RFC 9114 §6.2.2)",
            Self::ClosedCriticalStream => "end of a stream that lasts (RFC 9114 §6.2.1)",
            Self::MissingSettings => {
                "control stream that does not begin with SETTINGS (RFC 9114 §6.2.1)"
            }
            Self::FrameOnStream => "frame type that does not belong to its stream (RFC 9114 §7.2)",
            Self::FrameOrder => "frames of a request out of order (RFC 9114 §4.1)",
            Self::SecondSettings => "SETTINGS for the second time (RFC 9114 §7.2.4)",
            Self::FrameSize => "frame of another size than its fields (RFC 9114 §7.1)",
            Self::TruncatedFrame => "stream that ends within a frame (RFC 9114 §7.1)",
            Self::ReservedSetting => "setting of HTTP/2 (RFC 9114 §7.2.4.1)",
            Self::RepeatedSetting => "setting that is repeated (RFC 9114 §7.2.4)",
            Self::SettingValue => "invalid value of a setting (RFC 9220 §3)",
            Self::GoAwayId => "GOAWAY with a greater number (RFC 9114 §5.2)",
            Self::MaxPushId => "MAX_PUSH_ID that falls (RFC 9114 §7.2.7)",
            Self::PushId => "frame about a push that was not promised (RFC 9114 §7.2.3)",
            Self::PriorityId => "PRIORITY_UPDATE that names no request (RFC 9218 §7.2)",
            Self::FieldSection => "malformed field section (RFC 9204 §2.2)",
            Self::DynamicTable => "reference to a table of capacity 0 (RFC 9204 §3.2.3)",
            Self::EncoderStream => "instruction for a table of capacity 0 (RFC 9204 §3.2.3)",
            Self::DecoderStream => "acknowledgment of an entry that was not sent (RFC 9204 §4.4)",
            Self::ControlFrameSize => "control frame that is too long (RFC 9114 §10.5)",
            Self::ControlFlood => "too many frames without head or data (RFC 9114 §10.5)",
            Self::CancelFlood => "most requests are cancelled (RFC 9114 §10.5)",
            Self::ResetFlood => "too many streams had to be reset (RFC 9114 §10.5)",
        }
    }
}

impl fmt::Display for RuleViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())?;
        match self {
            Self::Message(violation) => write!(f, ": {violation}"),
            _ => Ok(()),
        }
    }
}

impl Error for RuleViolation {}
