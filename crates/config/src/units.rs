//! Owns how durations and sizes are written.
//!
//! Each has one way to read it: a unit is always named, and units fall from the left, so `1h30m` is one and `30m1h` is not.

use std::fmt;
use std::time::Duration;

use super::field::quoted;
use super::problem::ParseError;

/// Units of a duration in milliseconds, the longest first.
const DURATION_UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Units of a size in bytes.
const SIZE_UNITS: [(&str, u64); 8] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Shows a duration as it would be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShownDuration(pub(super) Duration);

/// Shows a size as it would be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShownSize(pub(super) u64);

/// Reads a duration as the configuration writes it, such as `90s`, from a text that stands elsewhere.
///
/// # Errors
/// What is wrong with the text, and what to write instead.
pub fn read_duration(text: &str) -> Result<Duration, String> {
    duration(text).map_err(|mistake| mistake.to_text())
}

/// A duration: `250ms`, `10s`, `5m`, `1h`, `1d`, `1h30m`.
pub(super) fn duration(text: &str) -> Result<Duration, ParseError> {
    let wrong = || {
        ParseError::with_advice(
            format!("{} is not a duration", quoted(text)),
            "write a number with its unit, one of ms, s, m, h, d: \"250ms\", \"10s\", \"1h30m\"",
        )
    };
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ParseError::with_advice(
            format!("{} has no unit", quoted(text)),
            format!("write \"{text}s\" if seconds are meant"),
        ));
    }
    let mut units = DURATION_UNITS.iter();
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() || text.is_empty() {
        let (count, after) = digits(rest).ok_or_else(wrong)?;
        let letters = after.find(|c: char| !c.is_ascii_alphabetic());
        let (unit, after) = after.split_at(letters.unwrap_or(after.len()));
        // Units that came already, or were skipped, are used up: this is what makes them fall.
        let (_, factor) = units.find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        total = count
            .checked_mul(*factor)
            .and_then(|part| part.checked_add(total))
            .ok_or_else(wrong)?;
        rest = after;
    }
    Ok(Duration::from_millis(total))
}

/// A size in bytes: `512B`, `32KiB`, `100MiB`, `1GB`.
pub(super) fn size(text: &str) -> Result<u64, ParseError> {
    let wrong =
        |advice: String| ParseError::with_advice(format!("{} is not a size", quoted(text)), advice);
    let general = || {
        "write a whole number and one of B, KiB, MiB, GiB, TiB, kB, MB, GB: \"100MiB\"".to_owned()
    };
    let (count, unit) = digits(text).ok_or_else(|| wrong(general()))?;
    let unit = unit.trim_start();
    let Some((_, factor)) = SIZE_UNITS.iter().find(|(name, _)| *name == unit) else {
        let letter = unit.chars().next().map(|c| c.to_ascii_uppercase());
        let meant = |(name, _): &&(&str, u64)| name.chars().next() == letter;
        return Err(wrong(match SIZE_UNITS.iter().find(meant) {
            Some((name, _)) => format!("write \"{count}{name}\""),
            None => general(),
        }));
    };
    count.checked_mul(*factor).ok_or_else(|| wrong(general()))
}

/// An expression that every duration matches, and little else: that units fall is more than it says.
pub(super) fn duration_expression() -> String {
    format!("([0-9]+({}))+", names(DURATION_UNITS.iter()))
}

/// An expression that sizes match, and nothing else.
pub(super) fn size_expression() -> String {
    format!("^[0-9]+\\s*({})$", names(SIZE_UNITS.iter()))
}

fn names<'u>(units: impl Iterator<Item = &'u (&'static str, u64)>) -> String {
    units.map(|(name, _)| *name).collect::<Vec<_>>().join("|")
}

/// The digits that a text begins with, and what follows.
pub(super) fn digits(text: &str) -> Option<(u64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest))
}

impl fmt::Display for ShownDuration {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if rest == 0 {
            return into.write_str("0s");
        }
        for (unit, factor) in DURATION_UNITS {
            if rest >= factor {
                write!(into, "{}{unit}", rest / factor)?;
                rest %= factor;
            }
        }
        Ok(())
    }
}

impl fmt::Display for ShownSize {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = SIZE_UNITS.iter().find(|(name, factor)| {
            (name.contains('i') || *name == "B") && self.0.is_multiple_of(*factor) && self.0 > 0
        });
        let (name, factor) = exact.unwrap_or(&("B", 1));
        write!(into, "{}{name}", self.0 / factor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Goal: each unit means what it says, and units fall. Method: examples of both.
    #[test]
    fn durations_name_their_units_from_long_to_short() {
        let millis = |text| duration(text).map(|duration| duration.as_millis()).ok();
        assert_eq!(millis("250ms"), Some(250));
        assert_eq!(millis("10s"), Some(10_000));
        assert_eq!(millis("1d"), Some(86_400_000));
        assert_eq!(millis("1h30m"), Some(5_400_000));
        assert_eq!(millis("0s"), Some(0));
        for wrong in [
            "",
            "10",
            "s",
            "30m1h",
            "1h1h",
            "1.5s",
            "-1s",
            "1 s",
            "1S",
            "99999999999999999999d",
            "1d99999999999999999ms1",
        ] {
            assert_eq!(millis(wrong), None, "{wrong}");
        }
    }

    /// Goal: decimal and binary units are not mixed up, and others refused with a guess. Method: examples.
    #[test]
    fn sizes_name_their_units() {
        assert_eq!(size("100MiB"), Ok(104_857_600));
        assert_eq!(size("100MB"), Ok(100_000_000));
        assert_eq!(size("1 kB"), Ok(1_000));
        assert_eq!(size("5B"), Ok(5));
        let advice = |text| size(text).unwrap_err().advice.unwrap();
        assert_eq!(advice("100m"), "write \"100MiB\"");
        assert_eq!(advice("8k"), "write \"8KiB\"");
        assert!(size("").is_err() && size("1.5MiB").is_err() && size("99999999TiB").is_err());
    }

    proptest! {
        /// Goal: what a message shows can be written. Method: read it back.
        #[test]
        fn what_is_shown_reads_as_the_same(millis in 0..u64::MAX / 2, bytes in any::<u64>()) {
            let shown = ShownDuration(Duration::from_millis(millis)).to_string();
            prop_assert_eq!(duration(&shown), Ok(Duration::from_millis(millis)));
            prop_assert_eq!(size(&ShownSize(bytes).to_string()), Ok(bytes));
        }
    }
}
