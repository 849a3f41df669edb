//! Owns the error codes of RFC 9114 §8.1 and RFC 9204 §6, with which streams and connections end.

use std::fmt;

/// The reason why a stream or a connection ends. A code that no RFC defines stays as it was received.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(u64);

/// Declares the codes with their numbers and names.
macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal as $text:literal;)*) => {
        impl ErrorCode {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// Returns the name of the code in its RFC; `None` for another number.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

error_codes! {
    /// The end is no error.
    NO_ERROR = 0x0100 as "H3_NO_ERROR";
    /// The other side breaks the protocol in a way that no other code names.
    GENERAL_PROTOCOL_ERROR = 0x0101 as "H3_GENERAL_PROTOCOL_ERROR";
    /// The sender of the code failed.
    INTERNAL_ERROR = 0x0102 as "H3_INTERNAL_ERROR";
    /// A stream of a kind that the other side may not begin.
    STREAM_CREATION_ERROR = 0x0103 as "H3_STREAM_CREATION_ERROR";
    /// A stream ended that the connection needs.
    CLOSED_CRITICAL_STREAM = 0x0104 as "H3_CLOSED_CRITICAL_STREAM";
    /// A frame came where it is not allowed.
    FRAME_UNEXPECTED = 0x0105 as "H3_FRAME_UNEXPECTED";
    /// A frame has another form or size than its type.
    FRAME_ERROR = 0x0106 as "H3_FRAME_ERROR";
    /// The other side causes too much work.
    EXCESSIVE_LOAD = 0x0107 as "H3_EXCESSIVE_LOAD";
    /// A number of a stream or a push is used where it may not be.
    ID_ERROR = 0x0108 as "H3_ID_ERROR";
    /// A setting has a wrong value.
    SETTINGS_ERROR = 0x0109 as "H3_SETTINGS_ERROR";
    /// The control stream does not begin with SETTINGS.
    MISSING_SETTINGS = 0x010a as "H3_MISSING_SETTINGS";
    /// The request was not processed, and may be repeated.
    REQUEST_REJECTED = 0x010b as "H3_REQUEST_REJECTED";
    /// The request or its answer is no longer needed.
    REQUEST_CANCELLED = 0x010c as "H3_REQUEST_CANCELLED";
    /// The stream ended before its request was whole.
    REQUEST_INCOMPLETE = 0x010d as "H3_REQUEST_INCOMPLETE";
    /// The message is malformed.
    MESSAGE_ERROR = 0x010e as "H3_MESSAGE_ERROR";
    /// The connection of a CONNECT request was reset.
    CONNECT_ERROR = 0x010f as "H3_CONNECT_ERROR";
    /// The request needs HTTP/1.1.
    VERSION_FALLBACK = 0x0110 as "H3_VERSION_FALLBACK";
    /// A field section cannot be decoded.
    QPACK_DECOMPRESSION_FAILED = 0x0200 as "QPACK_DECOMPRESSION_FAILED";
    /// An instruction on the encoder stream cannot be followed.
    QPACK_ENCODER_STREAM_ERROR = 0x0201 as "QPACK_ENCODER_STREAM_ERROR";
    /// An instruction on the decoder stream cannot be followed.
    QPACK_DECODER_STREAM_ERROR = 0x0202 as "QPACK_DECODER_STREAM_ERROR";
}

impl ErrorCode {
    /// Returns the code with this number.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number of the code.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "error code {:#x}", self.0),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
