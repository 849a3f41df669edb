//! Owns the tables of the bytes that tokens and values may contain.

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
    let word = u64::from_ne_bytes(bytes);
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    // A subtraction borrows from the highest bit of a byte where the byte is less, and that bit was not set.
    let below_space = word.wrapping_sub(ONES * 0x20) & !word;
    let deleted = word ^ (ONES * 0x7f);
    let is_deleted = deleted.wrapping_sub(ONES) & !deleted;
    (below_space | is_deleted) & HIGHS != 0
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

    proptest! {
        /// Goal: eight bytes at a time find what one at a time find. Method: arbitrary bytes.
        #[test]
        fn words_are_judged_like_bytes(value: Vec<u8>) {
            prop_assert_eq!(is_value(&value), value.iter().copied().all(is_text));
        }
    }
}
