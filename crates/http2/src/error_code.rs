//! Owns the error codes of RFC 9113 §7, which RST_STREAM and GOAWAY carry.

use std::fmt;

/// The reason why a stream or a connection ends.
///
/// A code that RFC 9113 does not define stays as it was received: §7 has no meaning for it, and nothing special happens.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(u32);

impl ErrorCode {
    /// The end is no error.
    pub const NO_ERROR: Self = Self(0x00);
    /// The other side breaks the protocol in a way that no other code names.
    pub const PROTOCOL_ERROR: Self = Self(0x01);
    /// The sender of the code failed.
    pub const INTERNAL_ERROR: Self = Self(0x02);
    /// The other side sends more than a window allows, or makes a window too large.
    pub const FLOW_CONTROL_ERROR: Self = Self(0x03);
    /// SETTINGS were not acknowledged in time.
    pub const SETTINGS_TIMEOUT: Self = Self(0x04);
    /// A frame came for a stream that is half-closed or closed.
    pub const STREAM_CLOSED: Self = Self(0x05);
    /// A frame has an invalid size.
    pub const FRAME_SIZE_ERROR: Self = Self(0x06);
    /// The stream was not processed: its request may be repeated.
    pub const REFUSED_STREAM: Self = Self(0x07);
    /// The stream is no longer needed.
    pub const CANCEL: Self = Self(0x08);
    /// A block of fields cannot be decoded.
    pub const COMPRESSION_ERROR: Self = Self(0x09);
    /// The connection of a CONNECT request was reset.
    pub const CONNECT_ERROR: Self = Self(0x0a);
    /// The other side causes too much work.
    pub const ENHANCE_YOUR_CALM: Self = Self(0x0b);
    /// The transport is not secure enough.
    pub const INADEQUATE_SECURITY: Self = Self(0x0c);
    /// HTTP/1.1 is required.
    pub const HTTP_1_1_REQUIRED: Self = Self(0x0d);

    /// Returns the code with this number.
    #[must_use]
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }

    /// Returns the number of the code.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns the name of the code in RFC 9113 §7; `None` for another number.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::NO_ERROR => "NO_ERROR",
            Self::PROTOCOL_ERROR => "PROTOCOL_ERROR",
            Self::INTERNAL_ERROR => "INTERNAL_ERROR",
            Self::FLOW_CONTROL_ERROR => "FLOW_CONTROL_ERROR",
            Self::SETTINGS_TIMEOUT => "SETTINGS_TIMEOUT",
            Self::STREAM_CLOSED => "STREAM_CLOSED",
            Self::FRAME_SIZE_ERROR => "FRAME_SIZE_ERROR",
            Self::REFUSED_STREAM => "REFUSED_STREAM",
            Self::CANCEL => "CANCEL",
            Self::COMPRESSION_ERROR => "COMPRESSION_ERROR",
            Self::CONNECT_ERROR => "CONNECT_ERROR",
            Self::ENHANCE_YOUR_CALM => "ENHANCE_YOUR_CALM",
            Self::INADEQUATE_SECURITY => "INADEQUATE_SECURITY",
            Self::HTTP_1_1_REQUIRED => "HTTP_1_1_REQUIRED",
            _ => return None,
        })
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
