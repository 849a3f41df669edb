//! Checks single fields, RFC 9113 §8.2, and the parts of a request's target, §8.3.1.
//!
//! A request may go on to an origin of HTTP/1.1, where a line end or white space around a value would be read otherwise than here.

use crate::violation::RuleViolation;

/// The bytes of a name: a token of RFC 9110 §5.6.2 without upper case, RFC 9113 §8.2.1.
const NAME_BYTES: [bool; 256] = byte_set(b"abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~");

const fn byte_set(bytes: &[u8]) -> [bool; 256] {
    let mut set = [false; 256];
    let mut at = 0;
    while at < bytes.len() {
        set[bytes[at] as usize] = true;
        at += 1;
    }
    set
}

/// Checks name and value of a field that is no pseudo-field.
#[inline]
pub(crate) fn check_field(name: &[u8], value: &[u8]) -> Result<(), RuleViolation> {
    if name.is_empty() || !is_name(name) {
        return Err(RuleViolation::FieldName);
    }
    if !is_value(value) {
        return Err(RuleViolation::FieldValue);
    }
    match name {
        // RFC 9113 §8.2.2.
        b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade" => {
            Err(RuleViolation::ConnectionField)
        }
        b"te" if !value.eq_ignore_ascii_case(b"trailers") => Err(RuleViolation::ConnectionField),
        _ => Ok(()),
    }
}

/// Returns whether all bytes are those of a name.
#[inline]
fn is_name(name: &[u8]) -> bool {
    let is_part = |found: bool, byte: &u8| found & NAME_BYTES[usize::from(*byte)];
    name.iter().fold(true, is_part)
}

/// Returns whether a value has neither control characters but tabs, RFC 9110 §5.5, nor white space around it, RFC 9113 §8.2.1.
#[inline]
fn is_value(value: &[u8]) -> bool {
    // Without a branch for each byte, so that many are compared at once.
    let control = value.iter().fold(0, |found, byte| {
        found | u8::from((*byte < 0x20) & (*byte != b'\t')) | u8::from(*byte == 0x7f)
    });
    let is_clean = control == 0;
    is_clean && !matches!(value, [b' ' | b'\t', ..] | [.., b' ' | b'\t'])
}

/// Returns whether the text is a token, RFC 9110 §5.6.2.
pub(crate) fn is_token(text: &[u8]) -> bool {
    let is_part = |byte: &u8| NAME_BYTES[usize::from(byte.to_ascii_lowercase())];
    !text.is_empty() && text.iter().all(is_part)
}

/// Returns whether the text is a scheme, RFC 3986 §3.1.
pub(crate) fn is_scheme(text: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    text.first().is_some_and(u8::is_ascii_alphabetic) && text.iter().all(is_part)
}

/// Returns whether the text can be the target of a request line: it has no byte that ends the line or a word of it, and no fragment.
pub(crate) fn is_target(text: &[u8]) -> bool {
    !text
        .iter()
        .any(|byte| matches!(byte, 0..=b' ' | 0x7f | b'#'))
}

/// Returns whether the text can be an authority without userinfo, RFC 9113 §8.3.1.
pub(crate) fn is_authority(text: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_graphic() && !b"@/?#\\".contains(byte);
    !text.is_empty() && text.iter().all(is_part)
}

/// Returns the number of a Content-Length, RFC 9110 §8.6.
pub(crate) fn content_length(value: &[u8]) -> Result<u64, RuleViolation> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let number = value.iter().try_fold(0_u64, |number, digit| {
        number
            .checked_mul(10)?
            .checked_add(u64::from(digit.wrapping_sub(b'0')))
    });
    number
        .filter(|_| is_number)
        .ok_or(RuleViolation::ContentLength)
}
