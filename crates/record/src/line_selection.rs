//! Decides which requests have a line in the access log: those that `[log] only` keeps, and of the rejected ones the share that
//! `[log] refused` sets.
//!
//! Under an attack nearly every request is rejected, and a line for each fills a disk with the same sentence. Metrics count every request
//! all the same; a line says how many were left out before it, so that the numbers of lines and of left-out requests add up.
//!
//! # Concurrency
//! Each place is one word: a second, and the requests left out since. Two threads that meet in one decide by compare-and-swap which
//! one writes the line of the second. All is Relaxed: nothing but the words themselves is published.
//!
//! # Limits
//! [`LOG_PLACES`] places, whatever the number of keys: keys that share one share its line, so at most that many lines of refused
//! requests are written a second. A random hash selects the place, so that no client can choose it.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use ahash::RandomState;
use sluicegate_base::bounds::LOG_PLACES;
use sluicegate_decide::outcome::RequestDisposition;

use super::outcome::Outcome;
use sluicegate_config::LineFacts;
use sluicegate_config::rules::{LogRules, RefusedLines};

/// Seconds between two lines in the process log about lines that are left out.
const REMINDER: u32 = 60;

/// The counts of skipped lines, and the second of each key's last line.
#[derive(Debug)]
pub(super) struct LineSelection {
    random: RandomState,
    /// Counts rejected requests, of which some are picked.
    drawn: AtomicU64,
    /// Requests left out since the last line of a rejected request.
    since_last: AtomicU64,
    /// The second of the last line in the upper half, requests left out since in the lower.
    places: Box<[AtomicU64]>,
    reminded: AtomicU32,
    untold: AtomicU64,
    refused: AtomicU64,
    filtered: AtomicU64,
}

/// Requests without a line, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// By `[log] refused`.
    pub refused: u64,
    /// By `[log] only`.
    pub filtered: u64,
}

impl LineSelection {
    pub(super) fn new() -> Self {
        Self {
            random: RandomState::new(),
            drawn: AtomicU64::new(0),
            since_last: AtomicU64::new(0),
            places: (0..LOG_PLACES).map(|_| AtomicU64::new(0)).collect(),
            reminded: AtomicU32::new(0),
            untold: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            filtered: AtomicU64::new(0),
        }
    }

    /// Returns the number of rejected requests that were left out before the line of `outcome`, or `None` where it has none.
    pub(super) fn choose(&self, rules: &LogRules, outcome: &Outcome<'_>) -> Option<u64> {
        if let Some(only) = &rules.only
            && !only.keeps(&facts(outcome))
        {
            self.filtered.fetch_add(1, Relaxed);
            return None;
        }
        if !is_refused(outcome.disposition) {
            return Some(0);
        }
        let chosen = match rules.refused {
            RefusedLines::All => return Some(0),
            RefusedLines::PerMillion(share) => self.draw(share),
            RefusedLines::OnePerKeyAndSecond => self.take_turn(outcome),
        };
        if chosen.is_none() {
            self.refused.fetch_add(1, Relaxed);
            self.remind(second_of(outcome));
        }
        chosen
    }

    pub(super) fn left_out(&self) -> LeftOut {
        LeftOut {
            refused: self.refused.load(Relaxed),
            filtered: self.filtered.load(Relaxed),
        }
    }

    /// Picks at random, so that no rhythm of requests hides a part of them.
    fn draw(&self, share: u32) -> Option<u64> {
        let number = self.random.hash_one(self.drawn.fetch_add(1, Relaxed));
        let drawn = (u128::from(number) * 1_000_000) >> 64;
        if drawn < u128::from(share) {
            Some(self.since_last.swap(0, Relaxed))
        } else {
            self.since_last.fetch_add(1, Relaxed);
            None
        }
    }

    /// Gives the first request of a second the line of its key.
    fn take_turn(&self, outcome: &Outcome<'_>) -> Option<u64> {
        let of = match outcome.key() {
            Some(key) => self
                .random
                .hash_one((outcome.refused_by_name(), key.bits())),
            None => self.random.hash_one(outcome.client),
        };
        let place = self.places.get(of as usize % LOG_PLACES)?;
        let second = u64::from(second_of(outcome));
        let mut word = place.load(Relaxed);
        // Lock-free: a turn is lost only to another request that took it.
        loop {
            let last = word >> 32;
            let left_out = word & u64::from(u32::MAX);
            // Requests arrive a little out of order; a clock that went back by a minute begins anew.
            let is_taken = last >= second && last - second < u64::from(REMINDER);
            let next = match is_taken {
                true if left_out == u64::from(u32::MAX) => word,
                true => word + 1,
                false => second << 32,
            };
            match place.compare_exchange_weak(word, next, Relaxed, Relaxed) {
                Ok(_) if is_taken => return None,
                Ok(_) => return Some(left_out),
                Err(now) => word = now,
            }
        }
    }

    /// Logs once a minute that lines are left out, since not every format has a field for it.
    fn remind(&self, second: u32) {
        self.untold.fetch_add(1, Relaxed);
        let last = self.reminded.load(Relaxed);
        if last != 0 && second < last.saturating_add(REMINDER) {
            return;
        }
        let is_first = last == 0;
        let exchanged = self
            .reminded
            .compare_exchange(last, second, Relaxed, Relaxed);
        if exchanged.is_ok() && !is_first {
            let untold = self.untold.swap(0, Relaxed);
            tracing::info!(
                "access log: {untold} lines of refused requests were left out; metrics count them"
            );
        }
    }
}

fn second_of(outcome: &Outcome<'_>) -> u32 {
    // Until 2106.
    u32::try_from(outcome.arrived.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX)
}

fn is_refused(disposition: RequestDisposition) -> bool {
    disposition.is_refusal() || disposition == RequestDisposition::RefusedStoreAway
}

fn facts<'a>(outcome: &'a Outcome<'_>) -> LineFacts<'a> {
    LineFacts {
        status: outcome.status,
        outcome: outcome.disposition.as_str(),
        method: outcome.method,
        route: outcome.route.map(|route| route.name()),
        duration: outcome.total,
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_decide::rejection::LimitRejection;
    use sluicegate_limiter::{KeyHash, Timestamp};

    use super::super::example::{Example, NOW, refused};
    use super::*;
    use sluicegate_config::OUTCOMES;
    use sluicegate_config::rules::AccessLogTarget;

    fn rules(refused: RefusedLines) -> LogRules {
        LogRules {
            refused,
            ..LogRules::to(AccessLogTarget::Off)
        }
    }

    /// Goal: the filter's words are the log's. Method: both lists.
    #[test]
    fn the_filter_has_the_outcomes_of_the_log() {
        assert_eq!(
            RequestDisposition::ALL.map(RequestDisposition::as_str),
            OUTCOMES
        );
    }

    /// Goal: lines and what they say was left out add up to the requests, and are about the share that was asked for. Method: a hundredth
    /// of many; the bounds are ten standard deviations away.
    #[test]
    fn a_share_is_drawn_and_adds_up() {
        let (route, verdict) = refused();
        let example = Example {
            route: Some(&route),
            verdict: Some(&verdict),
            ..Example::default()
        };
        let (selection, rules) = (
            LineSelection::new(),
            rules(RefusedLines::PerMillion(10_000)),
        );
        let outcome = example.outcome();
        let lines: Vec<u64> = (0..100_000)
            .filter_map(|_| selection.choose(&rules, &outcome))
            .collect();
        assert!((680..1_320).contains(&lines.len()), "{}", lines.len());
        let told = lines.len() as u64 + lines.iter().sum::<u64>();
        assert_eq!(told + selection.since_last.load(Relaxed), 100_000);
        assert_eq!(selection.left_out().refused, 100_000 - lines.len() as u64);
    }

    /// Goal: a key has a line a second, and the next says how many it stands for; another key has its own. Method: two keys over two
    /// seconds, and a clock that goes back.
    #[test]
    fn a_key_has_one_line_a_second() {
        let (route, verdict) = refused();
        let example = Example {
            route: Some(&route),
            verdict: Some(&verdict),
            ..Example::default()
        };
        let (selection, rules) = (
            LineSelection::new(),
            rules(RefusedLines::OnePerKeyAndSecond),
        );
        let choose = |key, seconds: i64| {
            let nanos = NOW.as_nanos().wrapping_add_signed(seconds * 1_000_000_000);
            let outcome = example.outcome();
            let rejection = outcome.rejection.map(|rejection| LimitRejection {
                key: KeyHash::from_bits(key),
                ..rejection
            });
            let outcome = Outcome {
                rejection,
                arrived: Timestamp::from_nanos(nanos),
                ..outcome
            };
            selection.choose(&rules, &outcome)
        };
        let place = |key: u64| selection.random.hash_one((Some("otp"), key)) as usize % LOG_PLACES;
        let other = (2..)
            .find(|key| place(*key) != place(1))
            .expect("a key elsewhere");
        assert_eq!(choose(1, 0), Some(0));
        assert_eq!([choose(1, 0), choose(1, 0), choose(1, -1)], [None; 3]);
        assert_eq!(choose(other, 0), Some(0));
        assert_eq!(choose(1, 1), Some(3));
        assert_eq!(choose(1, 1), None);
        assert_eq!(choose(1, -3600), Some(1));
    }

    /// Goal: only refused requests are thinned out. Method: an answered one under the smallest share.
    #[test]
    fn what_is_not_refused_has_its_line() {
        let selection = LineSelection::new();
        let outcome = Example::default();
        let outcome = outcome.outcome();
        let rules = rules(RefusedLines::PerMillion(1));
        assert_eq!(selection.choose(&rules, &outcome), Some(0));
        assert_eq!(selection.left_out(), LeftOut::default());
    }
}
