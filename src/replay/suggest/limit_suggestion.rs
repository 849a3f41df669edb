//! Suggests the numbers of a limit from the uses that a running gateway has sampled.
//!
//! Percentiles, gap and confidence are those of a suggestion from a log. What a log shows and counters do not: how much a key wanted beyond
//! the limit. Where enough keys reached it to matter, no number is suggested but a higher one to try in shadow.

use std::fmt;

use serde::Serialize;
use sluicegate_base::bounds::USAGE_KEYS;

use super::numbers::percentile;
use super::report::{PeriodSuggestion, SampleConfidence, useful};
use super::text::write_periods;
use super::{NoSuggestion, quoted, written_parts};
use crate::explain::{count, span};
use crate::usage::{RatePage, UsagePage};

/// The algorithms whose counters say what was used within a window.
const WINDOWS: [&str; 3] = ["sliding-window", "exact", "fixed-window"];

/// The factor by which the rate of a limit in shadow is raised where keys reached it.
const RAISE: u32 = 2;

/// The suggestion for a limit of a running gateway.
#[derive(Clone, Debug, Serialize)]
pub struct LimitSuggestion {
    /// The limit.
    pub limit: String,
    /// Its key.
    pub key: String,
    /// Its action now.
    pub action: String,
    /// The most keys that any of its rates has seen.
    pub keys: u64,
    /// Seconds since which the gateway records uses.
    pub seconds: u64,
    /// Confidence by the number of keys and the time; low where keys reached the limit.
    #[serde(flatten)]
    pub confidence: SampleConfidence,
    /// Each rate, also those in shadow.
    pub periods: Vec<UsedPeriod>,
    /// The rates to write.
    pub rates: Vec<String>,
    /// The configuration to paste.
    pub config: String,
    /// Limits of the sample, and signs of an attack.
    pub warnings: Vec<String>,
}

/// The uses under one rate.
#[derive(Clone, Debug, Serialize)]
pub struct UsedPeriod {
    /// The percentiles of the keys' largest uses, and the count to write.
    #[serde(flatten)]
    pub period: PeriodSuggestion,
    /// The count of the limit now.
    pub limit: u32,
    /// Keys that reached it.
    pub keys_at_limit: u64,
    /// Set if so many reached it that `suggested` is only the next number to try.
    pub unknown: bool,
}

impl LimitSuggestion {
    /// Returns the suggestion from the page of a limit.
    ///
    /// # Errors
    /// The counters of the limit do not say what is used in a window, or no key was seen.
    pub fn of(page: &UsagePage) -> Result<Self, NoSuggestion> {
        if !WINDOWS.contains(&&*page.algorithm) {
            return Err(NoSuggestion(format!(
                "limit {} counts by {}, which keeps what is owed now, not what was used in a window; put a limit with algorithm = \
                 \"sliding-window\" and the same key in shadow beside it",
                page.limit, page.algorithm
            )));
        }
        let rates = rates_by_window(page);
        let keys = rates.iter().map(|rate| rate.keys).max().unwrap_or(0);
        if keys == 0 {
            return Err(NoSuggestion(format!(
                "no key of limit {} was seen since {}; send it requests first",
                page.limit, page.since
            )));
        }
        let mut warnings = Vec::new();
        let mut periods = Vec::new();
        for rate in rates {
            let sorted = sorted_uses(rate);
            let window = u64::from(rate.window_seconds);
            let mut period = PeriodSuggestion::of(window, &sorted, Vec::new());
            // The 99.9th percentile, above which the number lies, is itself at the limit.
            let unknown = percentile(&sorted, 999) >= rate.limit;
            if unknown {
                period.suggested = rate.limit.saturating_mul(RAISE);
                period.keys_above = 0;
            } else {
                warnings.extend(period.attack_warning(&sorted, None));
            }
            if rate.keys_at_limit > 0 {
                warnings.push(at_limit(rate, unknown));
            }
            periods.push(UsedPeriod {
                period,
                limit: rate.limit,
                keys_at_limit: rate.keys_at_limit,
                unknown,
            });
        }
        let sampled = usize::try_from(keys).unwrap_or(usize::MAX);
        let mut confidence = SampleConfidence::of(sampled, page.seconds);
        if periods.iter().any(|period| period.unknown) {
            confidence.reached_limit();
        }
        let rates = periods
            .iter()
            .map(|used| (used.period.seconds, used.period.suggested));
        let rates = useful(rates.collect());
        let rates: Vec<String> = rates
            .iter()
            .map(|(seconds, count)| format!("{count} per {}", span(*seconds)))
            .collect();
        Ok(Self {
            config: config(page, &rates),
            limit: page.limit.clone(),
            key: page.key.clone(),
            action: page.action.clone(),
            keys,
            seconds: page.seconds,
            confidence,
            periods,
            rates,
            warnings,
        })
    }
}

/// Returns a rate for each length of window, the shortest first: of a rate and one in shadow that with the larger count, which fewer keys
/// reach.
fn rates_by_window(page: &UsagePage) -> Vec<&RatePage> {
    let mut rates: Vec<&RatePage> = page.rates.iter().chain(&page.shadow_rates).collect();
    rates.sort_by_key(|rate| (rate.window_seconds, std::cmp::Reverse(rate.limit)));
    rates.dedup_by_key(|rate| rate.window_seconds);
    rates
}

/// Returns the largest use of each key of the sample, the least first.
fn sorted_uses(rate: &RatePage) -> Vec<u32> {
    let each = (rate.keys / rate.sample_keys.max(1)).max(1);
    let uses = rate.peaks.iter().flat_map(|peak| {
        let keys = usize::try_from(peak.keys / each).unwrap_or(usize::MAX);
        std::iter::repeat_n(peak.used, keys)
    });
    // The gateway keeps so many at most.
    let mut uses: Vec<u32> = uses.take(2 * USAGE_KEYS).collect();
    uses.sort_unstable();
    uses
}

/// Returns the sentence about keys that reached the limit.
fn at_limit(rate: &RatePage, unknown: bool) -> String {
    let raise = format!(
        "raise the rate of the limit in shadow to {} per {} and ask again",
        rate.limit.saturating_mul(RAISE),
        span(rate.window_seconds.into())
    );
    let reached = format!(
        "{} of {} keys reached {}: what they wanted beyond it is not known, since a rejection charges nothing",
        count(rate.keys_at_limit),
        count(rate.keys),
        rate.rate
    );
    if unknown {
        format!("{reached}; {raise}")
    } else {
        format!("{reached}; they are too few to change the suggestion")
    }
}

/// Returns the limit with the suggested rates.
fn config(page: &UsagePage, rates: &[String]) -> String {
    let rates: Vec<String> = rates.iter().map(|rate| quoted(rate)).collect();
    let rates = rates.join(", ");
    if page.action == "shadow" {
        let key = written_parts(page.key.split(", ").map(str::to_owned));
        format!(
            "[limit.{}]\nkey = {key}\nrates = [{rates}]\naction = \"shadow\"\n",
            page.limit
        )
    } else {
        format!("[limit.{}]\nshadow_rates = [{rates}]\n", page.limit)
    }
}

impl fmt::Display for LimitSuggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# {} keys of limit {} ({}), by the counters of the gateway",
            count(self.keys),
            self.limit,
            self.key
        )?;
        writeln!(f, "# {}", self.confidence)?;
        let what = "the most that a key used in a window of this length:";
        write_periods(f, what, self.periods.iter().map(|used| &used.period))?;
        for warning in &self.warnings {
            writeln!(f, "#\n# warning: {warning}")?;
        }
        let next = if self.periods.iter().any(|used| used.unknown) {
            "Numbers to try in shadow next."
        } else if self.action == "shadow" {
            "In shadow it counts and rejects nobody; write action = \"reject\" when its numbers are right."
        } else {
            "Beside the rates of the limit they are counted and reject nobody; write them as rates when they are right."
        };
        writeln!(f, "#\n# {next}\n")?;
        write!(f, "{}", self.config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::PeakCount;

    /// A page of a limit in shadow with these uses of so many keys, under `20 per 1m`, over two days.
    fn page(uses: &[(u32, u64)]) -> UsagePage {
        let keys = uses.iter().map(|(_, keys)| keys).sum();
        let at_limit = uses.iter().filter(|(used, _)| *used >= 20);
        let peaks = uses.iter().map(|(used, keys)| PeakCount {
            used: *used,
            keys: *keys,
        });
        UsagePage {
            limit: "otp".to_owned(),
            at: String::new(),
            since: "2026-11-23T09:30:00.000Z".to_owned(),
            seconds: 2 * 86_400,
            key: "client.ip/32,/64, path".to_owned(),
            algorithm: "sliding-window".to_owned(),
            action: "shadow".to_owned(),
            note: String::new(),
            rates: vec![RatePage {
                rate: "20 per 60s".to_owned(),
                limit: 20,
                window_seconds: 60,
                keys,
                sampled: false,
                sample_keys: keys,
                keys_at_limit: at_limit.map(|(_, keys)| keys).sum(),
                unseen: 0,
                peaks: peaks.collect(),
            }],
            shadow_rates: Vec::new(),
        }
    }

    /// Goal: the number is that of a log with the same uses. Method: keys that use up to five, and none at the limit; the whole text.
    #[test]
    fn the_number_lies_above_ordinary_keys() {
        let found = LimitSuggestion::of(&page(&[(1, 400), (3, 90), (5, 10)])).unwrap();
        assert_eq!(found.rates, ["6 per 1m"]);
        assert_eq!(found.confidence.confidence, "medium");
        assert_eq!(found.warnings, Vec::<String>::new());
        let text = found.to_string();
        let config = "[limit.otp]\nkey = [\"client.ip/32,/64\", \"path\"]\nrates = [\"6 per 1m\"]\naction = \"shadow\"\n";
        assert!(text.ends_with(config), "{text}");
        assert!(
            text.contains(
                "# 1m           1       3       5       5       5          6           0"
            ),
            "{text}"
        );
    }

    /// Goal: no number is made of what is not known. Method: many keys at the limit, and one of many thousands.
    #[test]
    fn keys_at_the_limit_make_the_number_unknown() {
        let found = LimitSuggestion::of(&page(&[(1, 400), (20, 10)])).unwrap();
        assert_eq!(found.rates, ["40 per 1m"]);
        assert_eq!(found.confidence.confidence, "low");
        assert!(
            found.warnings[0].contains("10 of 410 keys reached 20 per 60s"),
            "{found}"
        );
        assert!(
            found.warnings[0].contains("in shadow to 40 per 1m"),
            "{found}"
        );
        let found = LimitSuggestion::of(&page(&[(1, 4_000), (20, 1)])).unwrap();
        assert_eq!(found.rates, ["2 per 1m"]);
        assert!(
            found
                .warnings
                .iter()
                .any(|warning| warning.contains("too few to change")),
            "{found}"
        );
    }

    /// Goal: of a rate in shadow beside the real one the wider view counts. Method: both with one window, and another algorithm.
    #[test]
    fn rates_in_shadow_count_where_they_are_wider() {
        let mut both = page(&[(1, 400), (20, 10)]);
        both.shadow_rates = page(&[(1, 400), (30, 10)]).rates;
        both.shadow_rates[0].limit = 100;
        both.shadow_rates[0].keys_at_limit = 0;
        let found = LimitSuggestion::of(&both).unwrap();
        assert_eq!((found.periods.len(), found.periods[0].limit), (1, 100));
        assert!(!found.periods[0].unknown);
        both.algorithm = "gcra".to_owned();
        assert!(
            LimitSuggestion::of(&both)
                .unwrap_err()
                .0
                .contains("sliding-window")
        );
        let none = page(&[]);
        assert!(LimitSuggestion::of(&none).unwrap_err().0.contains("no key"));
    }
}
