//! Owns the suggestion for a limit, for programs; [`text`](super::text) writes it for people.

use serde::Serialize;

use super::SuggestQuestion;
use super::key_maxima::{KeyMaxima, PERIODS};
use super::numbers::{holds_attack, percentile, recommended};
use crate::explain::span;

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
    /// Seconds from the first request to the last.
    pub seconds: u64,
    /// Lines that are not requests although they should be.
    pub broken: u64,
    /// `low`, `medium` or `high`: by the number of keys and the time.
    pub confidence: &'static str,
    /// The reason for that.
    pub confidence_reason: String,
    /// Each period that is not longer than the log.
    pub periods: Vec<PeriodSuggestion>,
    /// The rates to write.
    pub rates: Vec<String>,
    /// The configuration to paste.
    pub config: String,
    /// Signs that the sample holds an attack.
    pub warnings: Vec<String>,
}

/// The maxima of keys in windows of one length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeriodSuggestion {
    /// The length: `10s`.
    pub period: String,
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
    /// Returns the suggestion from the maxima of all keys.
    pub(super) fn of(
        question: &SuggestQuestion,
        maxima: &KeyMaxima,
        requests: u64,
        seconds: u64,
        broken: u64,
    ) -> Self {
        let mut warnings = Vec::new();
        let mut periods = Vec::new();
        let mut rates: Vec<(u64, u32)> = Vec::new();
        // A window that is longer than the log was never full.
        let covered = PERIODS
            .iter()
            .enumerate()
            .filter(|(index, period)| *index == 0 || **period <= seconds);
        for (index, period) in covered {
            let sorted = maxima.sorted(index);
            let suggested = recommended(&sorted);
            let above = sorted.iter().filter(|most| **most > suggested).count();
            let largest = maxima.largest(index, LISTED_KEYS);
            if holds_attack(&sorted)
                && let Some((key, most, all)) = largest.first()
                && warnings.is_empty()
            {
                warnings.push(format!(
                    "the sample probably holds an attack or a robot: {key} sent {most} requests in {}, {all} in all, while 99 % of keys \
                     sent at most {}; leave it out with --exclude if it is an address",
                    span(*period),
                    percentile(&sorted, 990)
                ));
            }
            rates.push((*period, suggested));
            periods.push(PeriodSuggestion {
                period: span(*period),
                p50: percentile(&sorted, 500),
                p90: percentile(&sorted, 900),
                p99: percentile(&sorted, 990),
                p99_9: percentile(&sorted, 999),
                max: sorted.last().copied().unwrap_or(0),
                suggested,
                keys_above: above as u64,
                largest: largest
                    .into_iter()
                    .map(|(key, most, _)| (key, most))
                    .collect(),
            });
        }
        let rates = useful(rates);
        let rates: Vec<String> = rates
            .iter()
            .map(|(period, count)| format!("{count} per {}", span(*period)))
            .collect();
        let (confidence, confidence_reason) = confidence(maxima.len(), seconds);
        Self {
            path: question.path.clone(),
            key: question.key.clone(),
            requests,
            keys: maxima.len() as u64,
            requests_of_uncounted_keys: maxima.left_out,
            seconds,
            broken,
            confidence,
            confidence_reason,
            periods,
            config: question.config(&rates, "shadow"),
            rates,
            warnings,
        }
    }
}

/// Returns the rates that say something beside the others, at most as many as a limit may have: a longer one is tighter than each shorter
/// one repeated, a shorter one than each longer one.
fn useful(mut rates: Vec<(u64, u32)>) -> Vec<(u64, u32)> {
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

fn confidence(keys: usize, seconds: u64) -> (&'static str, String) {
    let seen = format!("{keys} keys in {:.1} days", seconds as f64 / 86_400.0);
    match (keys, seconds) {
        (keys, seconds) if keys >= SOUND.0 && seconds >= SOUND.1 => ("high", seen),
        (keys, seconds) if keys >= LEAST.0 && seconds >= LEAST.1 => (
            "medium",
            format!("{seen}; 1,000 keys and 7 days would be better"),
        ),
        _ => (
            "low",
            format!("{seen}; at least 100 keys and one day are needed"),
        ),
    }
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
