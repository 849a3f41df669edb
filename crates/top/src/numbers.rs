//! Writes numbers for narrow columns.

use super::view::CountRate;

/// Writes the rate of a counter; a dash where it is not known.
pub(super) fn per_second(count: CountRate) -> String {
    count.per_second.map_or_else(|| "-".to_owned(), short)
}

/// Writes a number in at most six characters.
pub(super) fn short(number: f64) -> String {
    match number {
        0.0 => "0".to_owned(),
        number if number < 9.95 => format!("{number:.1}"),
        number if number < 9_999.5 => format!("{number:.0}"),
        number if number < 999_500.0 => format!("{:.0}k", number / 1e3),
        number => format!("{:.1}M", number / 1e6),
    }
}

/// Writes a duration in milliseconds, or in seconds from one second on.
pub(super) fn millis(millis: f64) -> String {
    if millis < 1_000.0 {
        format!("{} ms", short(millis))
    } else {
        format!("{} s", short(millis / 1_000.0))
    }
}

/// Writes a time in its two largest units.
pub(super) fn span(seconds: u64) -> String {
    let days = seconds / 86_400;
    let hours = seconds / 3_600 % 24;
    let minutes = seconds / 60 % 60;
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: numbers fit their columns. Method: numbers at the edges.
    #[test]
    fn numbers_are_short() {
        for (number, written) in [
            (0.0, "0"),
            (0.04, "0.0"),
            (9.94, "9.9"),
            (9.96, "10"),
            (9_999.0, "9999"),
            (10_000.0, "10k"),
            (999_499.0, "999k"),
            (1_234_567.0, "1.2M"),
        ] {
            assert_eq!(short(number), written);
        }
        assert_eq!((&*millis(1.24), &*millis(2_500.0)), ("1.2 ms", "2.5 s"));
        assert_eq!(span(59), "59 s");
        assert_eq!(span(3_700), "1 h 1 min");
    }
}
