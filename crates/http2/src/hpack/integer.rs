//! Reads and writes integers with a prefix, RFC 7541 §5.1.

use super::decoder::HpackError;

/// Bytes behind the prefix that an integer may take: more than any index or length needs that a block can have.
const MOST_BYTES: usize = 4;

/// Reads an integer whose prefix has so many bits of the first byte. Returns it with the bytes behind it.
///
/// # Errors
/// The integer is not whole, or larger than any that makes sense here.
#[inline]
pub fn read(bytes: &[u8], prefix_bits: u32) -> Result<(usize, &[u8]), HpackError> {
    let (first, rest) = bytes.split_first().ok_or(HpackError::Truncated)?;
    let most = 0xff_u8 >> (8 - prefix_bits);
    let prefix = first & most;
    match prefix < most {
        true => Ok((usize::from(prefix), rest)),
        false => read_rest(usize::from(prefix), rest),
    }
}

fn read_rest(prefix: usize, bytes: &[u8]) -> Result<(usize, &[u8]), HpackError> {
    let mut value = prefix;
    for (index, byte) in bytes.iter().take(MOST_BYTES).enumerate() {
        value += usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((value, &bytes[index + 1..]));
        }
    }
    // RFC 7541 §5.1: integers that exceed the limits of an implementation are an error.
    match bytes.len() < MOST_BYTES {
        true => Err(HpackError::Truncated),
        false => Err(HpackError::Integer),
    }
}

/// Writes an integer behind the bits of `pattern`, which are those in front of the prefix.
#[inline]
pub fn write(out: &mut Vec<u8>, pattern: u8, prefix_bits: u32, value: usize) {
    let most = usize::from(0xff_u8 >> (8 - prefix_bits));
    if value < most {
        out.push(pattern | value as u8);
        return;
    }
    out.push(pattern | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Goal: integers are those of RFC 7541 Appendix C.1, and too long ones are errors. Method: the three of the RFC, and one more byte.
    #[test]
    fn integers_are_those_of_the_rfc() {
        for (value, prefix_bits, bytes) in [
            (10, 5, &[0x0a_u8][..]),
            (1337, 5, &[0x1f, 0x9a, 0x0a]),
            (42, 8, &[0x2a]),
        ] {
            let mut out = Vec::new();
            write(&mut out, 0, prefix_bits, value);
            assert_eq!(out, bytes);
            assert_eq!(read(bytes, prefix_bits), Ok((value, &[][..])));
        }
        assert_eq!(read(&[], 7), Err(HpackError::Truncated));
        assert_eq!(read(&[0x7f, 0x80], 7), Err(HpackError::Truncated));
        let long = [0x7f, 0x80, 0x80, 0x80, 0x80, 0];
        assert_eq!(read(&long, 7), Err(HpackError::Integer));
    }

    proptest! {
        /// Goal: writing loses nothing. Method: any integer and prefix, there and back, with a byte behind it.
        #[test]
        fn what_is_written_is_read(value in 0_usize..1 << 24, prefix_bits in 1_u32..=8) {
            let mut out = Vec::new();
            write(&mut out, 0, prefix_bits, value);
            out.push(7);
            prop_assert_eq!(read(&out, prefix_bits), Ok((value, &[7][..])));
        }
    }
}
