//! Writes the report of a replay for a terminal.

use std::fmt;

use super::compare::{ConfigComparison, LimitDifference};
use super::report::{KeyReport, LimitReport, LogSummary, OutcomeSummary, ReplayReport};
use sluicegate_explain::{count, counted, counted_with, span};
use sluicegate_telemetry::terminal_text::printable;

/// The verb of one and of several.
pub(super) const WAS: [&str; 2] = ["was", "were"];
/// Columns of a chart.
const COLUMNS: usize = 60;
/// Heights of a column, from none to full.
const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

impl fmt::Display for ReplayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.log.fmt(f)?;
        self.outcomes.fmt(f)?;
        for (name, limit) in &self.limits {
            if limit.requests > 0 || limit.exempt > 0 {
                writeln!(f)?;
                write_limit(f, name, limit)?;
            }
        }
        if let Some(against) = &self.against {
            writeln!(f)?;
            against.fmt(f)?;
        }
        let idle = self
            .limits
            .iter()
            .filter(|(_, limit)| limit.requests == 0 && limit.exempt == 0);
        let idle: Vec<&str> = idle.map(|(name, _)| &**name).collect();
        if !idle.is_empty() {
            writeln!(f, "\nno request came to: {}", idle.join(", "))?;
        }
        if !self.not_judged.is_empty() {
            writeln!(f, "\nnot judged")?;
            for limit in &self.not_judged {
                writeln!(f, "  limit {}: {}", limit.limit, limit.reason)?;
            }
        }
        if !self.notes.is_empty() {
            writeln!(f, "\nnotes")?;
            for note in &self.notes {
                writeln!(f, "  {note}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for LogSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let formats = self.formats.join(", ");
        write!(f, "log       {}, {formats}", counted(self.lines, "line"))?;
        if !self.envelopes.is_empty() {
            write!(f, " in {}", self.envelopes.join(", "))?;
        }
        if let (Some(first), Some(last)) = (&self.first, &self.last) {
            write!(f, ", {first} to {last}")?;
        }
        writeln!(f)?;
        let spread = match self.times {
            "over-second" => "requests of one second are spread over it (--spread)",
            _ => "as logged",
        };
        write!(f, "times     {spread}")?;
        if self.sorted > 0 {
            write!(
                f,
                "; {} sorted before a later line",
                counted_with(self.sorted, "request", WAS)
            )?;
        }
        writeln!(f)?;
        if self.late > 0 {
            writeln!(
                f,
                "          {} more than two minutes late and judged at the time that was reached",
                counted_with(self.late, "request", WAS)
            )?;
        }
        if self.broken > 0 {
            writeln!(f, "broken    {}; the first:", counted(self.broken, "line"))?;
            for line in &self.broken_lines {
                writeln!(f, "          {line}")?;
            }
        }
        if self.skipped.total() > 0 {
            writeln!(f, "skipped   {}", self.skipped)?;
        }
        if self.misdated > 0 {
            writeln!(
                f,
                "misdated  {} left out; the first:",
                counted(self.misdated, "line")
            )?;
            for line in &self.misdated_lines {
                writeln!(f, "          {line}")?;
            }
        }
        if self.nul_bytes > 0 {
            let bytes = counted(self.nul_bytes, "NUL byte");
            writeln!(f, "NULs      {bytes} skipped, as copytruncate leaves them")?;
        }
        for misread in &self.misread {
            writeln!(f, "misread   {misread}")?;
        }
        for cut in &self.cut {
            writeln!(f, "cut off   {cut}")?;
        }
        Ok(())
    }
}

impl fmt::Display for OutcomeSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "requests  {}: {} admitted, {} rejected{}",
            count(self.requests),
            count(self.admitted),
            count(self.rejected),
            share(self.rejected, self.requests)
        )?;
        for (number, text) in [
            (self.blocked, "blocked"),
            (self.no_route, "without a route"),
            (self.malformed, "malformed"),
            (
                self.not_replayed,
                "not replayed, since they broke a rule when they were logged",
            ),
        ] {
            if number > 0 {
                write!(f, ", {} {text}", count(number))?;
            }
        }
        writeln!(f)
    }
}

impl fmt::Display for ConfigComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changes = &self.changes;
        let all = self.outcomes.requests;
        writeln!(f, "compared with {}", self.config)?;
        for (number, text) in [
            (changes.newly_rejected, "newly rejected"),
            (changes.newly_admitted, "newly admitted"),
            (changes.rejected_by_both, "rejected by both"),
            (changes.admitted_by_both, "admitted by both"),
        ] {
            writeln!(f, "  {:>11} {text}{}", count(number), share(number, all))?;
        }
        for (name, difference) in &self.differences {
            write_difference(f, name, difference)?;
        }
        for (names, text) in [
            (&self.added, "new, or with another key"),
            (&self.removed, "removed, or with another key"),
        ] {
            if !names.is_empty() {
                writeln!(f, "  {text}: {}", names.join(", "))?;
            }
        }
        Ok(())
    }
}

fn write_difference(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    difference: &LimitDifference,
) -> fmt::Result {
    writeln!(
        f,
        "  limit {name}: {} newly rejected, {} no longer, {} by both",
        counted_with(difference.keys_newly_rejected, "key", ["is", "are"]),
        count(difference.keys_no_longer_rejected),
        count(difference.keys_rejected_by_both)
    )?;
    if difference.keys.is_empty() {
        return Ok(());
    }
    writeln!(
        f,
        "    largest differences                         requests    before       now"
    )?;
    for key in &difference.keys {
        writeln!(
            f,
            "    {:<42}  {:>8}  {:>8}  {:>8}",
            shown(&key.key),
            count(key.requests.into()),
            count(key.rejected_before.into()),
            count(key.rejected_now.into())
        )?;
    }
    Ok(())
}

fn write_limit(f: &mut fmt::Formatter<'_>, name: &str, limit: &LimitReport) -> fmt::Result {
    writeln!(
        f,
        "limit {name}: {} by {}, {}, {}",
        limit.rates.join(" and "),
        limit.key,
        limit.algorithm,
        limit.action
    )?;
    let verb = match limit.action {
        "mark" => "exceeded and marked",
        "shadow" => "would have been rejected",
        _ => "rejected",
    };
    writeln!(
        f,
        "  requests  {}: {} admitted, {} {verb}{}",
        count(limit.requests),
        count(limit.admitted),
        count(limit.rejected),
        share(limit.rejected, limit.requests)
    )?;
    let details = [
        (limit.banned, "by a ban"),
        (limit.over_concurrency, "by concurrency"),
        (limit.blocked, "blocked by a tier or for a missing key"),
        (limit.exempt, "exempt by a tier"),
        (
            limit.shadow_rates_rejected,
            "would have been rejected by shadow_rates",
        ),
        (limit.refunded, "refunded by count_if or cost"),
    ];
    for (number, text) in details.into_iter().filter(|(number, _)| *number > 0) {
        writeln!(f, "            {} {text}", count(number))?;
    }
    if limit.delayed > 0 {
        writeln!(
            f,
            "            {} delayed, at most {:.3} s",
            count(limit.delayed),
            limit.longest_delay_ms as f64 / 1_000.0
        )?;
    }
    writeln!(
        f,
        "  keys      {}: {} rejected at least once{}{}",
        count(limit.keys),
        count(limit.keys_rejected),
        share(limit.keys_rejected, limit.keys),
        limit.keys_text()
    )?;
    let Some(first) = &limit.first_rejection else {
        return Ok(());
    };
    writeln!(f, "  first     {first}")?;
    write_chart(f, limit)?;
    writeln!(
        f,
        "  worst keys                                    requests  rejected  of those 2xx"
    )?;
    for key in &limit.worst_keys {
        write_key(f, key)?;
    }
    let suspects = &limit.suspects;
    writeln!(
        f,
        "  possible false positives: {} rejected once or twice; {} rejected although the request had been answered with 2xx",
        counted_with(suspects.rejected_rarely, "key", WAS),
        counted_with(suspects.rejected_answered, "key", WAS)
    )?;
    for key in &suspects.keys {
        write_key(f, key)?;
    }
    Ok(())
}

fn write_key(f: &mut fmt::Formatter<'_>, key: &KeyReport) -> fmt::Result {
    writeln!(
        f,
        "    {:<42}  {:>8}  {:>8}  {:>12}",
        shown(&key.key),
        count(key.requests.into()),
        count(key.rejected.into()),
        count(key.rejected_answered.into())
    )
}

/// Returns the beginning of a key's values for a terminal.
fn shown(values: &str) -> String {
    printable(values).chars().take(42).collect()
}

/// Writes rejections over time, one character a column.
fn write_chart(f: &mut fmt::Formatter<'_>, limit: &LimitReport) -> fmt::Result {
    let (columns, seconds) = limit.timeline.columns(COLUMNS);
    let highest = columns.iter().copied().max().unwrap_or(0).max(1);
    let steps = HEIGHTS.len() as u64 - 1;
    let height = |count: u64| {
        HEIGHTS
            .get((count * steps).div_ceil(highest) as usize)
            .copied()
            .unwrap_or('█')
    };
    let chart: String = columns.iter().map(|count| height(*count)).collect();
    writeln!(f, "  when      |{chart}|")?;
    writeln!(
        f,
        "            rejections; a column is {}, the highest has {}",
        span(seconds),
        count(highest)
    )
}

/// Returns ` (1.53 %)`; nothing where there is nothing to compare with.
pub(super) fn share(part: u64, of: u64) -> String {
    match of {
        0 => String::new(),
        of => format!(" ({:.2} %)", part as f64 * 100.0 / of as f64),
    }
}
