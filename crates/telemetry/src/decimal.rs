//! Writes numbers of thousandths as decimals with three places: microseconds as milliseconds.
//!
//! # Example
//!
//! ```
//! use sluicegate_telemetry::decimal;
//!
//! let mut line = Vec::new();
//! decimal::write_thousandths(&mut line, 1_020);
//! assert_eq!(line, b"1.020");
//! ```

/// Bytes of the largest number: the digits of `u64::MAX`, and the point.
const LONGEST: usize = 21;

/// Bytes of the smallest number, `0.000`.
const SHORTEST: usize = 5;

/// Bytes of the point and the places behind it.
const FRACTION: usize = 4;

/// Appends a number of thousandths to `into`.
pub fn write_thousandths(into: &mut Vec<u8>, number: u64) {
    let mut digits = [0; LONGEST];
    let mut start = LONGEST;
    let mut rest = number;
    // From the last digit on, so that the number is copied once.
    while start > 0 && (rest > 0 || start > LONGEST - SHORTEST) {
        start -= 1;
        if start == LONGEST - FRACTION {
            digits[start] = b'.';
        } else {
            digits[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }
    into.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(number: u64) -> String {
        let mut into = b"a".to_vec();
        write_thousandths(&mut into, number);
        String::from_utf8(into).unwrap()
    }

    /// Goal: each number of digits has its form. Method: numbers at both sides of the point, and the largest.
    #[test]
    fn the_ends_are_written() {
        for (number, text) in [
            (0, "a0.000"),
            (7, "a0.007"),
            (999, "a0.999"),
            (1_000, "a1.000"),
            (u64::MAX, "a18446744073709551.615"),
        ] {
            assert_eq!(written(number), text);
        }
    }

    proptest! {
        /// Goal: what is written is what the standard library writes. Method: arbitrary numbers, small ones too.
        #[test]
        fn thousandths_are_formatted(number: u64, bits in 0u32..64) {
            let number = number >> bits;
            prop_assert_eq!(written(number), format!("a{}.{:03}", number / 1_000, number % 1_000));
        }
    }
}
