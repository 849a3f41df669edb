//! Suggests the numbers of a limit from the uses that a running gateway has sampled.
//!
//! Percentiles, gap and confidence are those of a suggestion from a log. What a log shows and counters do not: how much a key wanted beyond
//! the limit. Where enough keys reached it to matter, no number is suggested but a higher one to try in shadow.
//!
//! Of windows the number is the count of each rate. Of a bucket it is what the bucket holds: the largest debt of a key depends on the rate,
//! so it says which burst or queue is enough at this rate, and nothing of another rate.

use std::fmt;

use serde::Serialize;

use super::numbers::KeyUses;
use super::report::{PeriodSuggestion, SampleConfidence, useful};
use super::text::write_periods;
use super::{NoSuggestion, quoted, written_parts};
use sluicegate_decide::admission::ScaledRates;
use sluicegate_explain::{count, counted, counted_with, span};
use sluicegate_usage::{RatePage, SharedCounters, UsagePage};

/// The longest wait in a leaky bucket without `max_wait`, and the longest that may be written, in seconds.
const MAX_WAIT: u64 = 10;
const LONGEST_WAIT: u64 = 600;

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
    /// The keys that are estimated, and how well; `None` where all are counted.
    pub estimated: Option<String>,
    /// Keys that are banned now; `None` where the limit bans no key.
    pub banned_keys: Option<u64>,
    /// Seconds since which the gateway records uses.
    pub seconds: u64,
    /// Confidence by the number of keys and the time; low where keys reached the limit.
    #[serde(flatten)]
    pub confidence: SampleConfidence,
    /// Each rate, also those in shadow.
    pub periods: Vec<UsedPeriod>,
    /// The rates to write; those of a bucket stay as they are.
    pub rates: Vec<String>,
    /// Units that a bucket must hold; `None` for windows.
    pub bucket: Option<u32>,
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

/// The key of the configuration that has the number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NumberKey {
    /// The counts of `rates`.
    Rates,
    /// `burst`.
    Burst,
    /// `queue`; a leaky bucket holds one unit more, since the first request does not wait.
    Queue,
}

impl NumberKey {
    fn from_algorithm(algorithm: &str) -> Self {
        match algorithm {
            "gcra" | "token-bucket" => Self::Burst,
            "leaky-bucket" => Self::Queue,
            _ => Self::Rates,
        }
    }

    /// Returns the key with so many units.
    fn with(self, units: u32, rate: &RatePage) -> String {
        match self {
            Self::Rates => format!("{units} per {}", span(rate.window_seconds.into())),
            Self::Burst => format!("burst = {units}"),
            Self::Queue => format!("queue = {}", units.saturating_sub(1).max(1)),
        }
    }
}

impl LimitSuggestion {
    /// Returns the suggestion from the page of a limit.
    ///
    /// # Errors
    /// No key was seen, or the limit is a bucket of several rates, which can have no burst.
    pub fn new(page: &UsagePage) -> Result<Self, NoSuggestion> {
        let key = NumberKey::from_algorithm(&page.algorithm);
        let rates = match key {
            NumberKey::Rates => rates_by_window(page),
            NumberKey::Burst | NumberKey::Queue => vec![only_rate(page)?],
        };
        let seen = rates.iter().max_by_key(|rate| rate.keys);
        let keys = seen.map_or(0, |rate| rate.keys);
        let estimated = seen.and_then(|rate| estimated(rate));
        if keys == 0 {
            return Err(NoSuggestion(format!(
                "no key of limit {} was seen since {}; send it requests first",
                page.limit, page.since
            )));
        }
        let mut warnings = caveats(page, &rates);
        let mut periods = Vec::new();
        for rate in rates {
            let uses = rate.peaks.iter().map(|peak| (peak.used, peak.keys));
            let uses = KeyUses::new(uses.collect());
            let window = u64::from(rate.window_seconds);
            let mut period = PeriodSuggestion::new(window, &uses, Vec::new());
            // What a key may have used, which the number must allow for.
            let most = uses.raised(rate.unseen);
            let allowing = PeriodSuggestion::new(window, &most, Vec::new());
            (period.suggested, period.keys_above) = (allowing.suggested, allowing.keys_above);
            // The 99.9th percentile, above which the number lies, is itself at the limit.
            let unknown = most.percentile(999) >= rate.limit;
            if unknown {
                period.suggested = rate.limit.saturating_mul(RAISE);
                period.keys_above = 0;
            } else {
                warnings.extend(period.attack_warning(&uses, None));
            }
            if unknown || rate.keys_at_limit > 0 {
                warnings.push(at_limit(rate, key, unknown));
            }
            if rate.unseen > 0 {
                warnings.push(unseen(rate));
            }
            periods.push(UsedPeriod {
                period,
                limit: rate.limit,
                keys_at_limit: rate.keys_at_limit,
                unknown,
            });
        }
        let sampled = usize::try_from(keys).unwrap_or(usize::MAX);
        let mut confidence = SampleConfidence::new(sampled, page.seconds);
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
        let (rates, bucket, config) = match (key, periods.first(), page.rates.first()) {
            (NumberKey::Burst | NumberKey::Queue, Some(used), Some(rate)) => {
                let units = used.period.suggested;
                let wait = longest_wait(rate, units).filter(|_| key == NumberKey::Queue);
                warnings.extend(wait.filter(|wait| *wait > LONGEST_WAIT).map(too_long));
                let config = bucket_config(page, &key.with(units, rate), wait);
                (vec![rate.rate.clone()], Some(units), config)
            }
            _ => {
                let config = config(page, &rates);
                (rates, None, config)
            }
        };
        Ok(Self {
            config,
            limit: page.limit.clone(),
            key: page.key.clone(),
            action: page.action.clone(),
            keys,
            estimated,
            banned_keys: page.banned_keys,
            seconds: page.seconds,
            confidence,
            periods,
            rates,
            bucket,
            warnings,
        })
    }
}

/// Returns the rate of a bucket.
fn only_rate(page: &UsagePage) -> Result<&RatePage, NoSuggestion> {
    match &*page.rates {
        [rate] => Ok(rate),
        _ => Err(NoSuggestion(format!(
            "limit {} is a {} of several rates, and a burst belongs to one rate; put a limit with each of its rates in shadow beside it",
            page.limit, page.algorithm
        ))),
    }
}

/// Returns the seconds that the last request of a full leaky bucket waits.
fn longest_wait(rate: &RatePage, units: u32) -> Option<u64> {
    let count: u64 = rate.rate.split_once(' ')?.0.parse().ok()?;
    let waits = u64::from(units.saturating_sub(1)) * u64::from(rate.window_seconds);
    waits.checked_div(count).map(|seconds| seconds + 1)
}

/// Returns the warning of a queue that is longer than a request may wait.
fn too_long(wait: u64) -> String {
    format!(
        "the last request of this queue waits {}, longer than `max_wait` may be; raise the rate",
        span(wait)
    )
}

/// Returns a rate for each length of window, the shortest first: of a rate and one in shadow that with the larger count, which fewer keys
/// reach.
fn rates_by_window(page: &UsagePage) -> Vec<&RatePage> {
    let mut rates: Vec<&RatePage> = page.rates.iter().chain(&page.shadow_rates).collect();
    rates.sort_by_key(|rate| (rate.window_seconds, std::cmp::Reverse(rate.limit)));
    rates.dedup_by_key(|rate| rate.window_seconds);
    rates
}

/// Returns the sentences about the page as a whole.
fn caveats(page: &UsagePage, rates: &[&RatePage]) -> Vec<String> {
    let scaled = page.scaled.iter().map(scaled);
    let overflow = page.overflow.iter().map(|period| overflow(period, rates));
    scaled.chain(overflow).collect()
}

/// Returns the sentence about rates that are not those of the configuration.
fn scaled(scaled: &ScaledRates) -> String {
    format!(
        "the temporary rule {} multiplies the rates of the limit by {} until {}; the configuration says {}",
        scaled.rule,
        scaled.factor,
        scaled.until,
        scaled.rates.join(", ")
    )
}

/// Returns the sentence about keys that shared counters.
fn overflow(period: &SharedCounters, rates: &[&RatePage]) -> String {
    let keys = rates.iter().map(|rate| rate.shared_keys).max();
    format!(
        "the table was full from {} to {}: new keys shared counters. What {} used is not known, and keys without a slot \
         are in no number; raise the limit's capacity",
        period.since,
        period.until,
        counted(keys.unwrap_or(0), "such key")
    )
}

/// Returns the sentence about keys that are not counted one by one.
fn estimated(rate: &RatePage) -> Option<String> {
    (rate.keys_error > 0).then(|| {
        format!(
            "keys that used more than {} are counted one by one; the others are estimated from a sample, and all keys are {} within {}",
            count(rate.complete_above.into()),
            count(rate.keys),
            count(rate.keys_error)
        )
    })
}

/// Returns the sentence about keys that reached the limit.
fn at_limit(rate: &RatePage, key: NumberKey, unknown: bool) -> String {
    let raise = key.with(rate.limit.saturating_mul(RAISE), rate);
    let (raise, limit) = match key {
        NumberKey::Rates => (
            format!("raise the rate of the limit in shadow to {raise} and ask again"),
            rate.rate.clone(),
        ),
        NumberKey::Burst | NumberKey::Queue => (
            format!("write {raise} in the limit in shadow and ask again"),
            format!("the {} of the bucket", counted(rate.limit.into(), "unit")),
        ),
    };
    let reached = match rate.keys_at_limit {
        0 => format!("keys came so near to {limit} that some may have reached them unseen"),
        keys => format!(
            "{}{} of {} reached {limit}: what they wanted beyond it is not known, since a rejection charges nothing",
            if rate.keys_at_limit_error > 0 {
                "about "
            } else {
                ""
            },
            count(keys),
            counted(rate.keys, "key"),
        ),
    };
    if unknown {
        format!("{reached}; {raise}")
    } else {
        format!("{reached}; they are too few to change the suggestion")
    }
}

/// Returns the sentence about uses of a bucket that no look saw.
fn unseen(rate: &RatePage) -> String {
    format!(
        "a bucket drains between two looks at it, so a key may have used up to {} more than the table shows; the number allows for that",
        count(rate.unseen.into())
    )
}

/// Returns the lines to write in the table of a bucket, of which the rest stays.
fn bucket_config(page: &UsagePage, number: &str, wait: Option<u64>) -> String {
    let max_wait = wait.filter(|wait| *wait > MAX_WAIT).map(|wait| {
        let wait = span(wait.min(LONGEST_WAIT));
        format!("max_wait = {}\n", quoted(&wait))
    });
    format!(
        "[limit.{}]\n{number}\n{}",
        page.limit,
        max_wait.unwrap_or_default()
    )
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
            "# {} of limit {} ({}), by the counters of the gateway",
            counted(self.keys, "key"),
            self.limit,
            self.key
        )?;
        writeln!(f, "# {}", self.confidence)?;
        if let Some(estimated) = &self.estimated {
            writeln!(f, "# {estimated}")?;
        }
        if let Some(keys) = self.banned_keys.filter(|keys| *keys > 0) {
            writeln!(
                f,
                "# {} now",
                counted_with(keys, "key", ["is banned", "are banned"])
            )?;
        }
        let what = match self.bucket {
            None => "the most that a key used in a window of this length:",
            Some(_) => {
                "the most that a key had used of the bucket at once, and what it must hold at this rate:"
            }
        };
        write_periods(f, what, self.periods.iter().map(|used| &used.period))?;
        for warning in &self.warnings {
            writeln!(f, "#\n# warning: {warning}")?;
        }
        let next = if self.periods.iter().any(|used| used.unknown) {
            "Numbers to try in shadow next."
        } else if self.action == "shadow" {
            "In shadow it counts and rejects nobody; write action = \"reject\" when its numbers are right."
        } else if self.bucket.is_some() {
            "The limit rejects, so try a lower number in shadow first; the rest of its table stays as it is."
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
    use sluicegate_usage::PeakCount;

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
            banned_keys: None,
            note: String::new(),
            rates: vec![RatePage {
                rate: "20 per 1m".to_owned(),
                limit: 20,
                window_seconds: 60,
                keys,
                keys_error: 0,
                sampled: false,
                sample_keys: keys,
                complete_above: 0,
                keys_at_limit: at_limit.map(|(_, keys)| keys).sum(),
                keys_at_limit_error: 0,
                shared_keys: 0,
                unseen: 0,
                peaks: peaks.collect(),
            }],
            scaled: None,
            overflow: None,
            shadow_rates: Vec::new(),
        }
    }

    /// Goal: the number is that of a log with the same uses. Method: keys that use up to five, and none at the limit; the whole text.
    #[test]
    fn the_number_lies_above_ordinary_keys() {
        let found = LimitSuggestion::new(&page(&[(1, 400), (3, 90), (5, 10)])).unwrap();
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
        let found = LimitSuggestion::new(&page(&[(1, 400), (20, 10)])).unwrap();
        assert_eq!(found.rates, ["40 per 1m"]);
        assert_eq!(found.confidence.confidence, "low");
        assert!(
            found.warnings[0].contains("10 of 410 keys reached 20 per 1m"),
            "{found}"
        );
        assert!(
            found.warnings[0].contains("in shadow to 40 per 1m"),
            "{found}"
        );
        let found = LimitSuggestion::new(&page(&[(1, 4_000), (20, 1)])).unwrap();
        assert_eq!(found.rates, ["2 per 1m"]);
        assert!(
            found
                .warnings
                .iter()
                .any(|warning| warning.contains("too few to change")),
            "{found}"
        );
    }

    /// Goal: heavy keys weigh as many as they are beside estimated ones. Method: a page of a sample in which each light key stands for
    /// eight, with three keys at the limit; the percentiles, the warning and what is said of the estimate.
    #[test]
    fn estimated_keys_weigh_as_many_as_they_stand_for() {
        let mut sampled = page(&[(1, 20_000), (4, 8), (20, 3)]);
        let rate = &mut sampled.rates[0];
        (rate.sampled, rate.sample_keys, rate.keys_error) = (true, 2_760, 749);
        rate.complete_above = 1;
        sampled.banned_keys = Some(2);
        let found = LimitSuggestion::new(&sampled).unwrap();
        assert_eq!(found.rates, ["4 per 1m"]);
        let period = &found.periods[0];
        assert_eq!((period.keys_at_limit, period.period.max), (3, 20));
        assert_eq!((period.period.p99_9, period.period.keys_above), (1, 3));
        let text = found.to_string();
        for part in [
            "# 20,011 keys of limit otp",
            "# keys that used more than 1 are counted one by one; the others are estimated from a sample",
            "and all keys are 20,011 within 749\n",
            "# 2 keys are banned now\n",
            "3 of 20,011 keys reached 20 per 1m",
        ] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
    }

    /// Goal: of a rate in shadow beside the real one the wider view counts. Method: both with one window, and another algorithm.
    #[test]
    fn rates_in_shadow_count_where_they_are_wider() {
        let mut both = page(&[(1, 400), (20, 10)]);
        both.shadow_rates = page(&[(1, 400), (30, 10)]).rates;
        both.shadow_rates[0].limit = 100;
        both.shadow_rates[0].keys_at_limit = 0;
        let found = LimitSuggestion::new(&both).unwrap();
        assert_eq!((found.periods.len(), found.periods[0].limit), (1, 100));
        assert!(!found.periods[0].unknown);
        let none = page(&[]);
        assert!(
            LimitSuggestion::new(&none)
                .unwrap_err()
                .0
                .contains("no key")
        );
    }

    /// Goal: of a bucket the number is what it must hold at its rate, with what no look saw. Method: the same uses under each bucket, with
    /// and without keys at the limit, and a bucket of several rates.
    #[test]
    fn the_number_of_a_bucket_is_what_it_holds() {
        let bucket = |algorithm: &str, uses: &[(u32, u64)]| {
            let mut page = page(uses);
            page.algorithm = algorithm.to_owned();
            page.rates[0].unseen = 5;
            page
        };
        // 1.2 times ten and the five that may have drained.
        for (algorithm, number) in [
            ("gcra", "burst = 20\n"),
            ("token-bucket", "burst = 20\n"),
            ("leaky-bucket", "queue = 19\nmax_wait = \"58s\"\n"),
        ] {
            let found = LimitSuggestion::new(&bucket(algorithm, &[(1, 400), (10, 90)])).unwrap();
            assert_eq!(found.rates, ["20 per 1m"]);
            assert_eq!(found.bucket, Some(20));
            assert_eq!(found.config, format!("[limit.otp]\n{number}"));
            assert!(
                found
                    .to_string()
                    .contains("up to 5 more than the table shows")
            );
        }
        // Fifteen and five may have been all twenty.
        let found = LimitSuggestion::new(&bucket("gcra", &[(1, 400), (15, 90)])).unwrap();
        assert!(found.periods[0].unknown, "{found}");
        assert!(
            found.warnings[0].contains("write burst = 40 in the limit in shadow"),
            "{found}"
        );
        let mut several = bucket("gcra", &[(1, 400)]);
        several.rates.push(several.rates[0].clone());
        let refused = LimitSuggestion::new(&several).unwrap_err().0;
        assert!(refused.contains("a burst belongs to one rate"), "{refused}");
        let mut slow = bucket("leaky-bucket", &[(1, 400), (10, 90)]);
        slow.rates[0].rate = "1 per 1m".to_owned();
        let found = LimitSuggestion::new(&slow).unwrap();
        assert!(found.config.ends_with("max_wait = \"10m\"\n"), "{found}");
        assert!(
            found
                .warnings
                .iter()
                .any(|warning| warning.contains("raise the rate")),
            "{found}"
        );
    }
}
