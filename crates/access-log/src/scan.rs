//! Finds the end of a text in quotes.
//!
//! Most texts of a log are short, so the first bytes are searched eight at a time in place; a call of `memchr` would take longer than
//! they do. Long texts are searched by `memchr` behind that.

/// Words of eight bytes that are searched in place.
const NEAR_WORDS: usize = 6;

const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);

/// Returns the index of the first quote or backslash.
#[inline]
pub(crate) fn quote_or_backslash(bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes;
    for begin in (0..8 * NEAR_WORDS).step_by(8) {
        let Some((word, behind)) = rest.split_first_chunk() else {
            break;
        };
        let word = u64::from_le_bytes(*word);
        let found = first_of(word, b'"') | first_of(word, b'\\');
        if found != 0 {
            return Some(begin + found.trailing_zeros() as usize / 8);
        }
        rest = behind;
    }
    // What is left of a short text is shorter than a word.
    let found = match rest.len() {
        0..8 => (rest.iter()).position(|byte| matches!(byte, b'"' | b'\\')),
        _ => memchr::memchr2(b'"', b'\\', rest),
    };
    found.map(|at| bytes.len() - rest.len() + at)
}

/// Returns a word whose lowest set bit is in the first byte, in memory order of a little-endian word, that equals `byte`; 0 without one.
#[inline]
fn first_of(word: u64, byte: u8) -> u64 {
    let differences = word ^ (ONES * u64::from(byte));
    // The borrow of a byte that is zero may reach those above it, never those below.
    differences.wrapping_sub(ONES) & !differences & HIGHS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Goal: the first of both is found wherever it is. Method: bytes around theirs, of every length around the words, beside a search
        /// byte by byte.
        #[test]
        fn the_first_is_found(bytes in proptest::collection::vec(
            prop_oneof![8 => any::<u8>(), 1 => Just(b'"'), 1 => Just(b'\\'), 1 => Just(b'#'), 1 => Just(b'!'), 1 => Just(0xa2)],
            0..90,
        )) {
            let expected = bytes.iter().position(|byte| matches!(byte, b'"' | b'\\'));
            prop_assert_eq!(quote_or_backslash(&bytes), expected);
        }
    }
}
