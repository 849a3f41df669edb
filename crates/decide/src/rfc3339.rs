//! Writes a time as RFC 3339 in UTC with milliseconds, `2026-11-21T07:10:38.042Z`: for admin pages and the process log.
//!
//! The access log has a formatter of its own, which is called for each request and keeps what two lines have in common.

use sluicegate_limiter::Timestamp;

/// Returns the text of `at`.
pub fn format(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_nanosecond(at.as_nanos().into())
        .expect("64 bits of nanoseconds end in 2554, and the calendar in 9999");
    format!("{at:.3}")
}

/// Returns the time of a text as [`format`](fn@format) writes it; `None` where it is none since 1970.
pub fn parse(text: &str) -> Option<Timestamp> {
    let at: jiff::Timestamp = text.parse().ok()?;
    let nanos = u64::try_from(at.as_nanosecond()).ok()?;
    Some(Timestamp::from_nanos(nanos))
}

/// Returns the text of a time in seconds since 1970, as `2026-11-21`; the number where no calendar has it.
pub fn date(seconds: u64) -> String {
    let at = i64::try_from(seconds).ok();
    let at = at.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    at.map_or_else(
        || seconds.to_string(),
        |at| at.strftime("%Y-%m-%d").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: milliseconds are cut rather than rounded, and always written. Method: the ends of the range, and values of `date -u`.
    #[test]
    fn known_instants_are_written_as_date_writes_them() {
        for (nanos, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_709_251_199_999_999_999, "2024-02-29T23:59:59.999Z"),
            (1_795_245_038_042_000_000, "2026-11-21T07:10:38.042Z"),
            (u64::MAX, "2554-07-21T23:34:33.709Z"),
        ] {
            assert_eq!(format(Timestamp::from_nanos(nanos)), text);
            let milliseconds = nanos / 1_000_000 * 1_000_000;
            assert_eq!(parse(text), Some(Timestamp::from_nanos(milliseconds)));
        }
        assert_eq!(parse("1969-12-31T23:59:59Z"), None);
        assert_eq!(parse("yesterday"), None);
    }
}
