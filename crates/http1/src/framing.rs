//! Decides how the body of a message is framed: once, by one enum for requests and responses.

use crate::fields::HeaderField;
use crate::framing_names::is_framing_lookalike;
use crate::known_field::KnownField;
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
    /// All bytes until the end of the connection follow. Only responses have this framing.
    UntilClose,
}

impl BodyFraming {
    /// Returns how many bytes the body has; `None` where only its bytes or their end say so.
    #[must_use]
    pub const fn length(self) -> Option<u64> {
        match self {
            Self::None => Some(0),
            Self::Length(bytes) => Some(bytes),
            Self::Chunked | Self::UntilClose => None,
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
        match field.known() {
            KnownField::ContentLength => {
                // One length: no repetition.
                let length = length_of(field.value).filter(|_| self.length.is_none());
                self.length = Some(length.ok_or(RuleViolation::ContentLength)?);
            }
            KnownField::TransferEncoding => {
                // Other codings would have to be decoded by every recipient.
                if self.is_chunked || !field.value.eq_ignore_ascii_case(b"chunked") {
                    return Err(RuleViolation::TransferEncoding);
                }
                self.is_chunked = true;
            }
            KnownField::Other if is_framing_lookalike(field.name) => {
                return Err(RuleViolation::FramingName);
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the framing of a request. RFC 9112 §6.3: without a framing field it has no body.
    pub(crate) fn of_request(self, version: HttpVersion) -> Result<BodyFraming, RuleViolation> {
        Ok(self.declared(version)?.unwrap_or(BodyFraming::None))
    }

    /// Returns the framing of a response to any method but HEAD.
    pub(crate) fn of_response(
        self,
        version: HttpVersion,
        status: u16,
    ) -> Result<BodyFraming, RuleViolation> {
        let declared = self.declared(version)?;
        match (status, declared) {
            // RFC 9112 §6.1: these have no body that could be encoded.
            (100..200 | 204, Some(BodyFraming::Chunked)) => Err(RuleViolation::TransferEncoding),
            // §6.3: these end with their head, whatever its fields say.
            (100..200 | 204 | 304, _) => Ok(BodyFraming::None),
            // §6.3: a body without a framing field ends with the connection.
            _ => Ok(declared.unwrap_or(BodyFraming::UntilClose)),
        }
    }

    /// Returns the framing that the fields declare. RFC 9112 §6.1, §6.3: not both framings, no chunks in HTTP/1.0.
    fn declared(self, version: HttpVersion) -> Result<Option<BodyFraming>, RuleViolation> {
        match (self.length, self.is_chunked) {
            (Some(_), true) => Err(RuleViolation::TwoFramings),
            (None, true) if version == HttpVersion::Http11 => Ok(Some(BodyFraming::Chunked)),
            (None, true) => Err(RuleViolation::TransferEncoding),
            (length, false) => Ok(length.map(BodyFraming::Length)),
        }
    }
}

/// Returns the length that a value states, of digits only: no sign, no list.
fn length_of(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0_u64, |length, &byte| {
        let digit = byte.wrapping_sub(b'0');
        let next = length.checked_mul(10)?.checked_add(digit.into())?;
        (digit < 10).then_some(next)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Goal: a length is what the standard library reads in a text of digits alone. Method: texts about as long as the largest.
        #[test]
        fn lengths_are_digits_alone(value in "[0-9]{0,21}|[0-9+, -]{0,4}") {
            let is_digits = value.bytes().all(|byte| byte.is_ascii_digit());
            let expected = value.parse().ok().filter(|_| is_digits);
            prop_assert_eq!(length_of(value.as_bytes()), expected);
        }
    }

    /// Goal: the largest length is read, and the one behind it is none. Method: both.
    #[test]
    fn a_length_fits_into_64_bits() {
        assert_eq!(length_of(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(length_of(b"18446744073709551616"), None);
    }
}
