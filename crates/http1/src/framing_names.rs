//! Names the fields that frame a message, and finds those that an origin may take for one of them.

/// `Content-Length`, in lower case.
pub const CONTENT_LENGTH: &[u8] = b"content-length";
/// `Transfer-Encoding`, in lower case.
pub const TRANSFER_ENCODING: &[u8] = b"transfer-encoding";

/// Returns whether a name, which is neither, may be taken for `Content-Length` or `Transfer-Encoding`: its letters and digits
/// are the same.
///
/// Origins with a CGI interface read `_` as `-`, others drop or merge unexpected characters of a name, and each would frame the
/// body by a field that no server before it has checked (RFC 9112 §11.2).
#[must_use]
pub fn is_framing_lookalike(name: &[u8]) -> bool {
    // Most names are shorter, or begin with another letter.
    if name.len() < CONTENT_LENGTH.len() - 1 {
        return false;
    }
    let is_letter = |byte: &&u8| byte.is_ascii_alphanumeric();
    let whole = match name.iter().find(is_letter) {
        Some(b'c' | b'C') => CONTENT_LENGTH,
        Some(b't' | b'T') => TRANSFER_ENCODING,
        _ => return false,
    };
    let letters = name.iter().filter(is_letter).map(u8::to_ascii_lowercase);
    letters.eq(whole.iter().filter(is_letter).copied()) && !name.eq_ignore_ascii_case(whole)
}
