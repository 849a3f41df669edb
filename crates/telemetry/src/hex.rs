//! Writes numbers in hexadecimal: lower-case digits, as many as the type has, with leading zeros.
//!
//! Ids and hashes are written several times a request, so a digit costs a look into a table instead of a formatter.
//!
//! # Example
//!
//! ```
//! use sluicegate_telemetry::hex;
//!
//! assert_eq!(&hex::digits_of_u64(0xbcde), b"000000000000bcde");
//! ```

/// The two digits of every byte.
const PAIRS: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 0xf]];
        byte += 1;
    }
    pairs
};

/// Returns the digits of a number of 64 bits.
#[must_use]
pub fn digits_of_u64(number: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    fill(&mut digits, &number.to_be_bytes());
    digits
}

/// Returns the digits of a number of 128 bits.
#[must_use]
pub fn digits_of_u128(number: u128) -> [u8; 32] {
    let mut digits = [0; 32];
    fill(&mut digits, &number.to_be_bytes());
    digits
}

fn fill(digits: &mut [u8], bytes: &[u8]) {
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&PAIRS[usize::from(*byte)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the digits are those of the standard library. Method: numbers with each digit and with leading zeros.
    #[test]
    fn digits_are_those_of_the_formatter() {
        for number in [0, 0xa_bcde, 0x0123_4567_89ab_cdef, u64::MAX] {
            assert_eq!(
                digits_of_u64(number).as_slice(),
                format!("{number:016x}").as_bytes()
            );
            let wide = u128::from(number) << 37;
            assert_eq!(
                digits_of_u128(wide).as_slice(),
                format!("{wide:032x}").as_bytes()
            );
        }
    }
}
