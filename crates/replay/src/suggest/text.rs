//! Writes the suggestion for a limit for a terminal.

use std::fmt;

use super::report::{PeriodSuggestion, SuggestReport};
use super::sample::SampledLog;
use sluicegate_explain::{counted, counted_with};

impl fmt::Display for SuggestReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# {} of {} ({}) on {}",
            counted(self.requests, "request"),
            counted(self.keys, "key"),
            self.key,
            self.path
        )?;
        writeln!(f, "# {}", self.numbers.confidence)?;
        write_unread(f, &self.log)?;
        write_uncounted(f, self.requests_of_uncounted_keys)?;
        let what = "the most requests of a key in any window of this length:";
        write_periods(f, what, self.numbers.periods.iter())?;
        for warning in &self.numbers.warnings {
            writeln!(f, "#\n# warning: {warning}")?;
        }
        writeln!(
            f,
            "#\n# In shadow it counts and rejects nobody; write action = \"reject\" when its numbers are right.\n"
        )?;
        write!(f, "{}", self.config)
    }
}

/// Writes which lines of the logs are not counted.
pub(super) fn write_unread(f: &mut fmt::Formatter<'_>, log: &SampledLog) -> fmt::Result {
    if log.broken > 0 {
        writeln!(f, "# {} could not be read", counted(log.broken, "line"))?;
    }
    if log.skipped.total() > 0 {
        writeln!(f, "# {}", log.skipped)?;
    }
    if log.misdated > 0 {
        writeln!(
            f,
            "# {} left out, since the time is far from that of the lines around",
            counted_with(log.misdated, "line", ["is", "are"])
        )?;
    }
    Ok(())
}

/// Writes how many requests have keys for which there was no room.
pub(super) fn write_uncounted(f: &mut fmt::Formatter<'_>, requests: u64) -> fmt::Result {
    match requests {
        0 => Ok(()),
        _ => writeln!(
            f,
            "# {} of further keys not counted",
            counted(requests, "request")
        ),
    }
}

/// Writes a table of periods under its heading.
pub(super) fn write_periods<'a>(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    periods: impl Iterator<Item = &'a PeriodSuggestion>,
) -> fmt::Result {
    writeln!(
        f,
        "#\n# {what}\n# window     p50     p90     p99   p99.9     max  suggested  keys above"
    )?;
    for period in periods {
        writeln!(
            f,
            "# {:<6} {:>7} {:>7} {:>7} {:>7} {:>7} {:>10} {:>11}",
            period.period,
            period.p50,
            period.p90,
            period.p99,
            period.p99_9,
            period.max,
            period.suggested,
            period.keys_above
        )?;
    }
    Ok(())
}
