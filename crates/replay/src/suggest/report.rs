//! Owns the suggestion for a limit, for programs; [`text`](super::text) writes it for people.

use std::fmt;

use serde::Serialize;

use super::SuggestQuestion;
use super::key_maxima::{KeyMaxima, PERIODS};
use super::numbers::KeyUses;
use super::sample::{SampledLimit, SampledLog};
use sluicegate_explain::{counted, span};

/// Keys that are listed of each period.
const LISTED_KEYS: usize = 3;
/// Most rates of a limit.
const MOST_RATES: usize = 4;
/// Keys and seconds below which a suggestion is a guess.
const LEAST: (usize, u64) = (100, 86_400);
/// Keys and seconds from which it is sound.
const SOUND: (usize, u64) = (1_000, 604_800);

/// The suggestion for a limit.
#[derive(Clone, Debug, Serialize)]
pub struct SuggestReport {
    /// The path of the route.
    pub path: String,
    /// The key.
    pub key: String,
    /// Requests that the limit would count.
    pub requests: u64,
    /// Keys.
    pub keys: u64,
    /// Requests of keys that are not counted, since there are too many.
    pub requests_of_uncounted_keys: u64,
    /// The logs.
    #[serde(flatten)]
    pub log: SampledLog,
    /// The numbers.
    #[serde(flatten)]
    pub numbers: SuggestedNumbers,
    /// The configuration to paste.
    pub config: String,
}

/// The numbers for a limit, with their reasons.
#[derive(Clone, Debug, Serialize)]
pub struct SuggestedNumbers {
    /// Confidence by the number of keys and the time.
    #[serde(flatten)]
    pub confidence: SampleConfidence,
    /// Each period that is not longer than the log.
    pub periods: Vec<PeriodSuggestion>,
    /// The rates to write.
    pub rates: Vec<String>,
    /// Seconds and count of each of these rates.
    #[serde(skip)]
    pub(super) counts: Vec<(u64, u32)>,
    /// Signs that the sample holds an attack.
    pub warnings: Vec<String>,
}

/// The reliability of a suggestion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SampleConfidence {
    /// `low`, `medium` or `high`.
    pub confidence: &'static str,
    /// The reason for that.
    pub confidence_reason: String,
}

/// The maxima of keys in windows of one length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeriodSuggestion {
    /// The length: `10s`.
    pub period: String,
    /// The same in seconds.
    pub seconds: u64,
    /// The median of the keys' maxima.
    pub p50: u32,
    /// The maximum that 90 % of keys do not exceed.
    pub p90: u32,
    /// That of 99 %.
    pub p99: u32,
    /// That of 99.9 %.
    pub p99_9: u32,
    /// The largest maximum.
    pub max: u32,
    /// The suggested count.
    pub suggested: u32,
    /// Keys whose maximum exceeds it.
    pub keys_above: u64,
    /// The keys with the largest maxima, each with its maximum.
    pub largest: Vec<(String, u32)>,
}

impl SuggestReport {
    /// Returns the suggestion from the requests of a limit.
    pub(super) fn new(question: &SuggestQuestion, log: SampledLog, limit: &SampledLimit) -> Self {
        let numbers = SuggestedNumbers::new(&limit.maxima, log.seconds);
        Self {
            path: question.path.clone(),
            key: question.key.clone(),
            requests: limit.requests,
            keys: limit.maxima.len() as u64,
            requests_of_uncounted_keys: limit.maxima.left_out,
            log,
            config: question.config(&numbers.rates, "shadow"),
            numbers,
        }
    }
}

impl SuggestedNumbers {
    /// Returns the numbers from the maxima of all keys over so many seconds.
    pub(super) fn new(maxima: &KeyMaxima, seconds: u64) -> Self {
        let mut warnings = Vec::new();
        let mut periods = Vec::new();
        let mut rates: Vec<(u64, u32)> = Vec::new();
        // A window that is longer than the log was never full.
        let covered = PERIODS
            .iter()
            .enumerate()
            .filter(|(index, period)| *index == 0 || **period <= seconds);
        for (index, period) in covered {
            let uses = maxima.uses(index);
            let largest = maxima.largest(index, LISTED_KEYS);
            let first = largest.first().map(|(key, _, all)| (key.clone(), *all));
            let largest = largest.into_iter().map(|(key, most, _)| (key, most));
            let suggestion = PeriodSuggestion::new(*period, &uses, largest.collect());
            if warnings.is_empty() {
                warnings.extend(suggestion.attack_warning(&uses, first));
            }
            rates.push((*period, suggestion.suggested));
            periods.push(suggestion);
        }
        let rates = useful(rates);
        let written = rates.iter();
        let written = written.map(|(period, count)| format!("{count} per {}", span(*period)));
        Self {
            confidence: SampleConfidence::new(maxima.len(), seconds),
            periods,
            rates: written.collect(),
            counts: rates,
            warnings,
        }
    }
}

impl PeriodSuggestion {
    /// Returns the suggestion for windows of `seconds` from the maxima of all keys.
    pub(super) fn new(seconds: u64, uses: &KeyUses, largest: Vec<(String, u32)>) -> Self {
        let suggested = uses.recommended();
        Self {
            period: span(seconds),
            seconds,
            p50: uses.percentile(500),
            p90: uses.percentile(900),
            p99: uses.percentile(990),
            p99_9: uses.percentile(999),
            max: uses.max(),
            suggested,
            keys_above: uses.keys_above(suggested),
            largest,
        }
    }

    /// Returns the warning of a sample that probably holds an attack; `first` is the key with the largest maximum and all its requests,
    /// where that is known.
    pub(super) fn attack_warning(
        &self,
        uses: &KeyUses,
        first: Option<(String, u64)>,
    ) -> Option<String> {
        if !uses.holds_attack() {
            return None;
        }
        let most = self.max;
        let period = &self.period;
        let ordinary = self.p99;
        let sample = "the sample probably holds an attack or a robot";
        Some(match first {
            Some((key, all)) => format!(
                "{sample}: {key} sent {most} requests in {period}, {all} in all, while 99 % of keys sent at most {ordinary}; leave it out \
                 with --exclude if it is an address"
            ),
            None => format!(
                "{sample}: a key used {most} in {period}, while 99 % of keys used at most {ordinary}"
            ),
        })
    }
}

impl SampleConfidence {
    /// Returns the confidence of a sample of so many keys over so many seconds.
    pub(super) fn new(keys: usize, seconds: u64) -> Self {
        let days = seconds as f64 / 86_400.0;
        let seen = format!("{} in {days:.1} days", counted(keys as u64, "key"));
        let (confidence, confidence_reason) = match (keys, seconds) {
            (keys, seconds) if keys >= SOUND.0 && seconds >= SOUND.1 => ("high", seen),
            (keys, seconds) if keys >= LEAST.0 && seconds >= LEAST.1 => (
                "medium",
                format!("{seen}; 1,000 keys and 7 days would be better"),
            ),
            _ => (
                "low",
                format!("{seen}; at least 100 keys and one day are needed"),
            ),
        };
        Self {
            confidence,
            confidence_reason,
        }
    }

    /// Lowers it: keys reached the limit, so their maxima are not known.
    pub(super) fn reached_limit(&mut self) {
        self.confidence = "low";
        self.confidence_reason += "; keys reached the limit, so their maxima are not known";
    }
}

impl fmt::Display for SampleConfidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "confidence: {} ({})",
            self.confidence, self.confidence_reason
        )
    }
}

/// Returns the rates that say something beside the others, at most as many as a limit may have: a longer one is tighter than each shorter
/// one repeated, a shorter one than each longer one.
pub(super) fn useful(mut rates: Vec<(u64, u32)>) -> Vec<(u64, u32)> {
    let all = rates.clone();
    rates.retain(|(period, count)| {
        all.iter().all(|(other, most)| match other.cmp(period) {
            std::cmp::Ordering::Less => u64::from(*count) < u64::from(*most) * (period / other),
            std::cmp::Ordering::Equal => true,
            std::cmp::Ordering::Greater => count < most,
        })
    });
    // The middle of five is missed least.
    while rates.len() > MOST_RATES {
        rates.remove(rates.len() / 2);
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no rate is without effect. Method: rates of which some follow from others, and five that all say something.
    #[test]
    fn rates_without_effect_are_left_out() {
        let rates = [(10, 9), (60, 9), (600, 9), (3_600, 9), (86_400, 30)];
        assert_eq!(useful(rates.to_vec()), [(3_600, 9), (86_400, 30)]);
        assert_eq!(useful(vec![(10, 5), (60, 30)]), [(10, 5)]);
        let rates = [(10, 5), (60, 20), (600, 100), (3_600, 300), (86_400, 900)];
        assert_eq!(
            useful(rates.to_vec()),
            [rates[0], rates[1], rates[3], rates[4]]
        );
    }
}
