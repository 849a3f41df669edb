//! Writes numbers in hexadecimal: lower-case digits, as many as the type has, with leading zeros.
//!
//! Ids and hashes are written several times a request, so eight digits are computed at a time instead of each by a formatter.
//!
//! # Example
//!
//! ```
//! use sluicegate_base::hex;
//!
//! assert_eq!(&hex::digits_of_u64(0xbcde), b"000000000000bcde");
//! ```

/// One in each of eight bytes.
const ONES: u64 = u64::MAX / 255;

/// Returns the digits of a number of 64 bits.
#[must_use]
pub fn digits_of_u64(number: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    let (high, low) = digits.split_at_mut(8);
    high.copy_from_slice(&digits_of_half(number >> 32));
    low.copy_from_slice(&digits_of_half(number & u64::from(u32::MAX)));
    digits
}

/// Returns the digits of a number of 128 bits.
#[must_use]
pub fn digits_of_u128(number: u128) -> [u8; 32] {
    let [high, low] = [number >> 64, number & u128::from(u64::MAX)];
    let mut digits = [0; 32];
    for (digits, half) in digits.chunks_exact_mut(16).zip([high, low]) {
        // Both have 64 bits.
        digits.copy_from_slice(&digits_of_u64(u64::try_from(half).unwrap_or_default()));
    }
    digits
}

/// Returns the digits of the lower 32 bits of a number that has no others.
fn digits_of_half(number: u64) -> [u8; 8] {
    // Each four bits move into a byte of their own.
    let spread = (number | number << 16) & 0x0000_ffff_0000_ffff;
    let spread = (spread | spread << 8) & 0x00ff_00ff_00ff_00ff;
    let values = (spread | spread << 4) & (ONES * 0xf);
    // One in each byte of ten or more, whose digit is a letter.
    let letters = (values + ONES * 6) >> 4 & ONES;
    let behind_nine = u64::from(b'a' - b'9' - 1);
    (values + ONES * u64::from(b'0') + letters * behind_nine).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Goal: the digits are those of the standard library. Method: any numbers, of which many have leading zeros.
        #[test]
        fn digits_are_those_of_the_formatter(number: u64, zeros in 0_u32..64, wide: u128) {
            let (number, wide) = (number >> zeros, wide >> zeros);
            prop_assert_eq!(digits_of_u64(number).to_vec(), format!("{number:016x}").into_bytes());
            prop_assert_eq!(digits_of_u128(wide).to_vec(), format!("{wide:032x}").into_bytes());
        }
    }

    /// Goal: every digit is right at every place. Method: numbers of one digit, and 0.
    #[test]
    fn every_digit_is_right_at_every_place() {
        for digit in 0..16 {
            for place in 0..16 {
                let number = digit << (4 * place);
                let expected = format!("{number:016x}");
                assert_eq!(digits_of_u64(number).as_slice(), expected.as_bytes());
            }
        }
    }
}
