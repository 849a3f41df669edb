//! Owns the tables of the bytes that tokens and values may contain.

/// The bytes of a token, such as the name of a field: RFC 9110 §5.6.2.
const TOKEN: [bool; 256] = alphanumerics_and(b"!#$%&'*+-.^_`|~");

/// Returns whether a token may contain this byte.
pub(crate) fn is_token(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}

/// Returns whether a value has no control characters but tabs, RFC 9110 §5.5. Reads every byte, so that the loop is vectorized.
pub(crate) fn is_value(value: &[u8]) -> bool {
    let is_control = |byte: u8| (byte < b' ' && byte != b'\t') || byte == 0x7f;
    !value
        .iter()
        .fold(false, |found, &byte| found | is_control(byte))
}

/// Returns a table of the bytes that are letters, digits or one of `marks`.
pub(crate) const fn alphanumerics_and(marks: &[u8]) -> [bool; 256] {
    let mut members = [false; 256];
    let mut byte = 0;
    while byte < members.len() {
        members[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut mark = 0;
    while mark < marks.len() {
        members[marks[mark] as usize] = true;
        mark += 1;
    }
    members
}
