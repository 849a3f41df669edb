//! Decides which texts are whole numbers that every origin reads as the same one.
//!
//! Parsers take more for a number than one writing of it, and differ in which: `07` is 7 for Flask's `<int:id>`, Python, Go and JavaScript,
//! 7 or an error in JSON, and `010` is 8 for C and Ruby's `Integer`; `+7`, `7.0`, `7_0`, `７`, `0x7`, `7e0` and `7abc` are numbers for some.
//! So a number has one form here, the shortest in ASCII digits.
//!
//! # Limits
//! Numbers beyond ±(2^53 − 1) have no form: JSON parsers that keep numbers as doubles merge neighbors there (RFC 8259 §6).

/// The largest number that no double shares with another, 2^53 − 1.
const LARGEST: u64 = (1 << 53) - 1;

/// Returns whether `text` is a whole number in its one form: digits without a zero in front, after a `-` where it is negative.
pub(super) fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_shortest = !digits.starts_with('0') || text == "0";
    is_plain && is_shortest && digits.parse().is_ok_and(|number: u64| number <= LARGEST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Goal: what some parser takes for another number, or for the same one, has no form. Method: spellings of Flask, Python, JavaScript,
    /// Ruby, Go, C and PHP.
    #[test]
    fn a_number_has_one_form() {
        for text in [
            "0",
            "7",
            "-7",
            "70",
            "9007199254740991",
            "-9007199254740991",
        ] {
            assert!(is_integer(text), "{text}");
        }
        for text in [
            "",
            "-",
            "-0",
            "00",
            "07",
            "007",
            "+7",
            "--7",
            "7.0",
            "7.",
            "7e0",
            "7E0",
            "7_0",
            "0x7",
            "0b111",
            "0o7",
            "７",
            "٧",
            "7,0",
            "7 ",
            " 7",
            "7\0",
            "7\u{0}1",
            "7abc",
            "7n",
            "7L",
            "−7",
            "NaN",
            "true",
            "9007199254740992",
            "-9007199254740992",
            "99999999999999999999999999",
        ] {
            assert!(!is_integer(text), "{text:?}");
        }
    }

    proptest! {
        /// Goal: one form a number. Method: any text that has the form is what its number is written as, and any number in range has it.
        #[test]
        fn the_form_is_how_the_number_is_written(text in "-?[0-9_.+x]{0,18}", number in any::<i64>()) {
            if is_integer(&text) {
                prop_assert_eq!(text.parse::<i64>().map(|number| number.to_string()), Ok(text));
            }
            let in_range = number.unsigned_abs() <= LARGEST;
            prop_assert_eq!(is_integer(&number.to_string()), in_range);
        }
    }
}
