//! Decides how the body of a message is framed: once, by one enum for requests and responses.

use crate::fields::HeaderField;
use crate::framing_names::{CONTENT_LENGTH, TRANSFER_ENCODING, is_framing_lookalike};
use crate::version::HttpVersion;
use crate::violation::RuleViolation;

/// The framing of a body, RFC 9112 §6.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// No body follows the head.
    None,
    /// So many bytes follow.
    Length(u64),
    /// Chunks follow, whose end [`crate::ChunkDecoder`] finds.
    Chunked,
}

impl BodyFraming {
    /// Returns how many bytes the body has; `None` where only its bytes say so.
    #[must_use]
    pub const fn length(self) -> Option<u64> {
        match self {
            Self::None => Some(0),
            Self::Length(bytes) => Some(bytes),
            Self::Chunked => None,
        }
    }
}

/// The fields that frame a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FramingFields {
    length: Option<u64>,
    is_chunked: bool,
}

impl FramingFields {
    /// Adds a field if it frames the message.
    ///
    /// # Errors
    /// It is malformed, contradicts an earlier field, or has a name that some recipients take for that of a framing field.
    pub(crate) fn add(&mut self, field: HeaderField<'_>) -> Result<(), RuleViolation> {
        // The length first: most fields differ from both in it.
        match field.name.len() {
            14 if field.is(CONTENT_LENGTH) => {
                // One length, digits only: no sign, no list, no repetition.
                if self.length.is_some() || !field.value.iter().all(u8::is_ascii_digit) {
                    return Err(RuleViolation::ContentLength);
                }
                let length = std::str::from_utf8(field.value).ok();
                let length = length.and_then(|length| length.parse().ok());
                self.length = Some(length.ok_or(RuleViolation::ContentLength)?);
            }
            17 if field.is(TRANSFER_ENCODING) => {
                // Other codings would have to be decoded by every recipient.
                if self.is_chunked || !field.value.eq_ignore_ascii_case(b"chunked") {
                    return Err(RuleViolation::TransferEncoding);
                }
                self.is_chunked = true;
            }
            _ if is_framing_lookalike(field.name) => return Err(RuleViolation::FramingName),
            _ => {}
        }
        Ok(())
    }

    /// Returns the framing of a request. RFC 9112 §6.1, §6.3: not both framings, no chunks in HTTP/1.0.
    pub(crate) fn of_request(self, version: HttpVersion) -> Result<BodyFraming, RuleViolation> {
        match (self.length, self.is_chunked) {
            (Some(_), true) => Err(RuleViolation::TwoFramings),
            (None, true) if version == HttpVersion::Http11 => Ok(BodyFraming::Chunked),
            (None, true) => Err(RuleViolation::TransferEncoding),
            (Some(length), false) => Ok(BodyFraming::Length(length)),
            (None, false) => Ok(BodyFraming::None),
        }
    }
}
