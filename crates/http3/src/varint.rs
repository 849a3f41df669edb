//! Reads and writes variable-length integers, RFC 9000 §16.

/// The greatest number that such an integer holds.
pub const GREATEST: u64 = (1 << 62) - 1;
/// The bytes of the longest one.
pub const LONGEST: usize = 8;

/// Returns how many bytes an integer takes that begins with this byte.
#[must_use]
pub const fn length(first: u8) -> usize {
    1 << (first >> 6)
}

/// Reads an integer. Returns it with the bytes behind it; `None` where the bytes end within it.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let first = bytes.first()?;
    let (integer, rest) = bytes.split_at_checked(length(*first))?;
    let bits = integer
        .iter()
        .fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let mask = GREATEST >> (62 - (8 * integer.len() - 2));
    Some((bits & mask, rest))
}

/// Writes an integer in as few bytes as it needs. A number beyond [`GREATEST`] is written as that one.
pub fn write(number: u64, out: &mut Vec<u8>) {
    let number = number.min(GREATEST);
    match number {
        0..0x40 => out.push(number as u8),
        0x40..0x4000 => out.extend_from_slice(&(number as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(number as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(number | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Goal: integers are those of the RFC. Method: the examples of RFC 9000 Appendix A.1.
    #[test]
    fn integers_are_those_of_the_rfc() {
        for (bytes, number) in [
            (
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..],
                151_288_809_941_952_652,
            ),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ] {
            assert_eq!(read(bytes), Some((number, &[][..])));
            assert_eq!(read(&bytes[..bytes.len() - 1]), None);
        }
    }

    proptest! {
        /// Goal: writing loses nothing, and takes as few bytes as may be. Method: any number, there and back, with a byte behind it.
        #[test]
        fn written_integers_are_read(bits in 0_u32..=62, number in 0..=GREATEST) {
            let number = number & ((1 << bits) - 1);
            let mut out = Vec::new();
            write(number, &mut out);
            let shortest = [6, 14, 30, 62].iter().position(|bits| number < 1 << bits).unwrap();
            prop_assert_eq!(out.len(), 1 << shortest);
            out.push(7);
            prop_assert_eq!(read(&out), Some((number, &[7][..])));
        }
    }
}
