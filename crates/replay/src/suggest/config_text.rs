//! Writes the suggestions for a configuration for a terminal: a table and lines to paste for each limit.

use std::fmt;

use super::config_suggestion::{ConfigSuggestion, ReplayedLimit, SuggestedLimit};
use super::text::{write_periods, write_uncounted, write_unread};
use crate::text::share;
use sluicegate_explain::{count, counted};

impl fmt::Display for ConfigSuggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# {} of {}, by {:.1} days of requests",
            counted(self.limits.len() as u64, "limit"),
            self.config,
            self.log.seconds as f64 / 86_400.0
        )?;
        write_unread(f, &self.log)?;
        for (name, limit) in &self.limits {
            writeln!(f)?;
            write_limit(f, name, limit)?;
        }
        if !self.not_suggested.is_empty() {
            writeln!(f, "\n# no number is suggested for")?;
            for limit in &self.not_suggested {
                writeln!(f, "#   limit {}: {}", limit.limit, limit.reason)?;
            }
        }
        if !self.routes_without_limits.is_empty() {
            let routes = self.routes_without_limits.join(", ");
            writeln!(f, "\n# no limit counts the requests of: {routes}")?;
        }
        if !self.notes.is_empty() {
            writeln!(f, "\n# notes")?;
            for note in &self.notes {
                writeln!(f, "#   {note}")?;
            }
        }
        Ok(())
    }
}

fn write_limit(f: &mut fmt::Formatter<'_>, name: &str, limit: &SuggestedLimit) -> fmt::Result {
    writeln!(
        f,
        "# limit {name}: {} of {} ({}) on {}",
        counted(limit.requests, "request"),
        counted(limit.keys, "key"),
        limit.key,
        limit.routes.join(", ")
    )?;
    writeln!(f, "# {}", limit.numbers.confidence)?;
    write_uncounted(f, limit.requests_of_uncounted_keys)?;
    let what = "the most units of a key in any window of this length:";
    write_periods(f, what, limit.numbers.periods.iter())?;
    for warning in &limit.numbers.warnings {
        writeln!(f, "#\n# warning: {warning}")?;
    }
    writeln!(
        f,
        "#\n# now: {}, {}, {}",
        limit.rates_now.join(" and "),
        limit.algorithm,
        limit.action
    )?;
    if let Some(replayed) = &limit.replayed {
        write_replayed(f, replayed)?;
    }
    write!(f, "\n{}", limit.config)
}

fn write_replayed(f: &mut fmt::Formatter<'_>, replayed: &ReplayedLimit) -> fmt::Result {
    writeln!(
        f,
        "# enforced, these rates would reject {} of {}{}, of {} of {}{}",
        count(replayed.rejected),
        counted(replayed.requests, "request"),
        share(replayed.rejected, replayed.requests),
        count(replayed.keys_rejected),
        counted(replayed.keys, "key"),
        share(replayed.keys_rejected, replayed.keys)
    )
}
