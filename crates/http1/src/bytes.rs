//! Owns the tables of the bytes that tokens and values may contain, and the bytes that end a line.

/// The end of a line: of the data of a chunk, of a trailer, and of a head.
pub const LINE_END: &[u8] = b"\r\n";

/// The bytes of a token, such as the name of a field: RFC 9110 §5.6.2.
const TOKEN: [bool; 256] = alphanumerics_and(b"!#$%&'*+-.^_`|~");

/// Returns whether a token may contain this byte.
pub(crate) fn is_token(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}

/// Returns whether a value has no control characters but tabs, RFC 9110 §5.5.
///
/// Eight bytes are checked at a time: most values have neither tabs nor what is forbidden, and are too short for wider steps.
pub(crate) fn is_value(value: &[u8]) -> bool {
    let (words, rest) = value.as_chunks::<8>();
    let mut is_suspect = words
        .iter()
        .fold(false, |found, word| found | may_have_control(*word));
    match value.last_chunk::<8>() {
        // The last eight overlap those before.
        Some(last) if !rest.is_empty() => is_suspect |= may_have_control(*last),
        Some(_) => {}
        None => is_suspect = true,
    }
    !is_suspect || value.iter().copied().all(is_text)
}

/// Returns whether a value may contain this byte.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || !byte.is_ascii_control()
}

/// Returns whether one of eight bytes is a control character; tabs are.
fn may_have_control(bytes: [u8; 8]) -> bool {
    controls(u64::from_le_bytes(bytes)) != 0
}

/// Returns the number of bytes before the first control character; tabs are control characters here.
pub(crate) fn text_length(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(word) = bytes[at..].first_chunk::<8>() {
        let found = controls(u64::from_le_bytes(*word));
        if found != 0 {
            return at + first_of(found);
        }
        at += 8;
    }
    let rest = bytes[at..].iter();
    at + rest.take_while(|byte| !byte.is_ascii_control()).count()
}

/// Bytes of the longest name that [`name_length`] finds, so that it does not look for a colon in a body.
const LONGEST_NAME: usize = 127;

/// Returns the length of the token in front of the first colon; `None` where there is no such token, or it is long.
pub(crate) fn name_length(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    // Nearly all names have letters and hyphens alone, of which eight are found at a time.
    while at <= LONGEST_NAME
        && let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>())
    {
        let others = others(u64::from_le_bytes(*word));
        if others == 0 {
            at += 8;
            continue;
        }
        at += first_of(others);
        if at > 0 && bytes.get(at) == Some(&b':') {
            return Some(at);
        }
        break;
    }
    odd_name_length(&bytes[..bytes.len().min(LONGEST_NAME + 1)])
}

/// Returns the length of a name with other characters, as [`name_length`] does.
fn odd_name_length(bytes: &[u8]) -> Option<usize> {
    let end = bytes.iter().position(|&byte| !is_token(byte))?;
    (end > 0 && bytes[end] == b':').then_some(end)
}

const ONES: u64 = u64::MAX / 255;
const HIGHS: u64 = ONES << 7;

/// Marks the first control character among eight bytes in its highest bit; those behind it may be marked wrongly.
fn controls(word: u64) -> u64 {
    // A subtraction borrows from the highest bit of a byte where the byte is less, and that bit was not set.
    let below_space = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
    below_space | zeros(word ^ (ONES * 0x7f))
}

/// Marks the first zero among eight bytes in its highest bit; those behind it may be marked wrongly.
fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGHS
}

/// Marks each of eight bytes that is neither a letter nor a hyphen in its highest bit.
fn others(word: u64) -> u64 {
    // Sums of bytes below 0x80 that reach the highest bit from a certain byte on.
    const FROM_A: u64 = ONES * (0x80 - b'a' as u64);
    const BEHIND_Z: u64 = ONES * (0x80 - (b'z' + 1) as u64);
    let ascii = word & !HIGHS;
    let lower = ascii | (ONES * 0x20);
    let letters = (lower + FROM_A) & !(lower + BEHIND_Z);
    let others = (ascii ^ (ONES * b'-' as u64)) + !HIGHS;
    ((others & !letters) | word) & HIGHS
}

/// Returns the place of the first byte that is marked.
fn first_of(marks: u64) -> usize {
    (marks.trailing_zeros() / 8) as usize
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Goal: each control character but the tab is found, wherever it stands. Method: every byte at every place of two words and a rest.
    #[test]
    fn control_characters_are_found_at_every_place() {
        for at in 0..19 {
            for byte in 0..=u8::MAX {
                let mut value = *b"0123456789 abcdefgh";
                value[at] = byte;
                assert_eq!(is_value(&value), is_text(byte), "{byte} at {at}");
            }
        }
    }

    /// Goal: bytes that are neither letters nor hyphens are found, wherever they stand. Method: every byte at every place of a word.
    #[test]
    fn letters_and_hyphens_are_found_at_every_place() {
        for at in 0..8 {
            for byte in 0..=u8::MAX {
                let mut word = *b"azAZ-mMb";
                word[at] = byte;
                let marks = others(u64::from_le_bytes(word));
                let is_other = !byte.is_ascii_alphabetic() && byte != b'-';
                assert_eq!(marks, u64::from(is_other) << (8 * at + 7), "{byte} at {at}");
            }
        }
    }

    proptest! {
        /// Goal: eight bytes at a time find what one at a time find. Method: arbitrary bytes.
        #[test]
        fn words_are_judged_like_bytes(value: Vec<u8>) {
            prop_assert_eq!(is_value(&value), value.iter().copied().all(is_text));
        }

        /// Goal: lengths are those that one byte at a time has. Method: texts with few of the bytes that end them, at every place.
        #[test]
        fn lengths_end_where_bytes_do(text in "[a-zA-Z0-9_-]{0,20}[a-z: \u{80}\t\r\x7f]{0,24}") {
            let bytes = text.as_bytes();
            let control = bytes.iter().position(u8::is_ascii_control);
            prop_assert_eq!(text_length(bytes), control.unwrap_or(bytes.len()));
            let name = bytes.iter().position(|&byte| !is_token(byte));
            let name = name.filter(|&end| end > 0 && bytes[end] == b':');
            prop_assert_eq!(name_length(bytes), name);
        }
    }
}
