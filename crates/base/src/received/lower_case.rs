//! Makes names lower case, eight bytes at a time: names are too short for the vector instructions to which a loop over bytes compiles.

const WORD: usize = size_of::<u64>();

/// Makes the letters of a name lower case.
pub(super) fn make(name: &mut [u8]) {
    if name.len() < WORD {
        name.make_ascii_lowercase();
        return;
    }
    let (words, rest) = name.as_chunks_mut::<WORD>();
    for word in words {
        *word = lower(*word);
    }
    if rest.is_empty() {
        return;
    }
    // The last word again: letters that are lower already stay.
    if let Some(last) = name.last_chunk_mut::<WORD>() {
        *last = lower(*last);
    }
}

/// Returns eight bytes with lower-case letters.
fn lower(bytes: [u8; WORD]) -> [u8; WORD] {
    const EACH: u64 = u64::from_ne_bytes([1; WORD]);
    const HIGH: u64 = 0x80 * EACH;
    let word = u64::from_ne_bytes(bytes);
    let low = word & !HIGH;
    // The high bit of each byte is set where the byte is at least `A`, and where it is beyond `Z`.
    let from_a = low + EACH * u64::from(0x80 - b'A');
    let beyond_z = low + EACH * u64::from(0x7f - b'Z');
    let upper = from_a & !beyond_z & !word & HIGH;
    (word | upper >> 2).to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Goal: the letters alone change, of names of every length. Method: any bytes, against the loop of the standard library.
        #[test]
        fn letters_become_lower_case(name in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut made = name.clone();
            make(&mut made);
            prop_assert_eq!(made, name.to_ascii_lowercase());
        }
    }

    /// Goal: every byte is made lower case as it should be. Method: all bytes, at each place of a word.
    #[test]
    fn every_byte_is_right() {
        for byte in 0..=u8::MAX {
            for at in 0..WORD {
                let mut word = [b'Z'; WORD];
                word[at] = byte;
                assert_eq!(lower(word).to_vec(), word.to_ascii_lowercase(), "{byte}");
            }
        }
    }
}
