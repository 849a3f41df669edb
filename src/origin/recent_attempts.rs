//! Judges a server by the attempts that ended lately, from the counters that requests keep anyway.
//!
//! The background task of the pools reads the counters once a second, so a request pays nothing for it. Where no attempt ended within the
//! window, the judgment of the latest attempts stays: a quiet server that failed its last request is not sound because time has passed.

use sluicegate_limiter::Timestamp;

use super::failure::AttemptOutcome;
use crate::reading_window::ReadingWindow;

/// Failures below which a share of failed attempts says nothing of a server.
const LEAST_FAILURES: u64 = 3;

/// One failed attempt of so many makes a server a failing one.
const ENDED_PER_FAILURE: u64 = 10;

/// The attempts at a server, or at all servers of an origin, that ended by an answer or a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptCounts {
    /// All of them. An attempt whose client left or broke a rule is not among them: its server did nothing wrong, and nothing right.
    pub ended: u64,
    /// Those that failed: answers of 5xx, no connection, no answer in time, a broken connection.
    pub failed: u64,
}

/// The latest attempts at a server.
#[derive(Debug, Default)]
pub(super) struct RecentAttempts {
    window: ReadingWindow<AttemptCounts>,
    latest: AttemptCounts,
}

impl AttemptCounts {
    /// Adds `count` attempts with this outcome.
    pub(super) fn add(&mut self, outcome: AttemptOutcome, count: u64) {
        if outcome == AttemptOutcome::Abandoned {
            return;
        }
        self.ended += count;
        if outcome.is_failure() {
            self.failed += count;
        }
    }

    /// Returns the sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            ended: self.ended + other.ended,
            failed: self.failed + other.failed,
        }
    }

    /// Returns the growth since `earlier`; nothing where counts shrank, because a server left its origin.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let ended = self.ended.saturating_sub(earlier.ended);
        Self {
            ended,
            failed: self.failed.saturating_sub(earlier.failed).min(ended),
        }
    }

    /// Returns whether a server with these attempts is failing: all of them failed, or a tenth and more than one or two.
    #[must_use]
    pub fn are_failing(self) -> bool {
        let is_share =
            self.failed >= LEAST_FAILURES && self.failed * ENDED_PER_FAILURE >= self.ended;
        self.failed > 0 && (self.failed == self.ended || is_share)
    }
}

impl RecentAttempts {
    /// Takes the counts since the start of the process, as they are at `now`.
    pub(super) fn look(&mut self, counts: AttemptCounts, now: Timestamp) {
        let (_, earlier) = self.window.begin(&counts, now);
        let growth = counts.since(earlier);
        if growth.ended > 0 {
            self.latest = growth;
        }
    }

    /// Returns the attempts of the latest window in which one ended.
    pub(super) fn latest(&self) -> AttemptCounts {
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(1_800_000_000).saturating_add(Duration::from_secs(secs))
    }

    /// Goal: a server is failing by its share of failures, and single ones of many do not make it so. Method: shares on both sides.
    #[test]
    fn a_share_of_failures_makes_a_server_failing() {
        for (failed, ended, is_failing) in [
            (0, 0, false),
            (0, 5, false),
            (1, 1, true),
            (1, 2, false),
            (2, 2, true),
            (2, 9, false),
            (3, 9, true),
            (3, 30, true),
            (3, 31, false),
            (500, 1_000, true),
        ] {
            let counts = AttemptCounts { ended, failed };
            assert_eq!(counts.are_failing(), is_failing, "{failed} of {ended}");
        }
    }

    /// Goal: failures are seen at once, are forgotten once others have ended, and are not forgotten by time alone. Method: good seconds,
    /// bad ones, a silence of a minute, one failure more, then good ones.
    #[test]
    fn failures_are_those_of_the_latest_attempts() {
        let mut recent = RecentAttempts::default();
        let mut counts = AttemptCounts::default();
        let mut look = |secs, ended, failed| {
            counts = counts.plus(AttemptCounts { ended, failed });
            recent.look(counts, at(secs));
            recent.latest().are_failing()
        };
        assert!((0..20).all(|secs| !look(secs, 10, 0)));
        assert!(!look(20, 10, 9), "less than a tenth of 100");
        assert!(look(21, 10, 10));
        assert!((22..80).all(|secs| look(secs, 0, 0)));
        assert!(look(80, 1, 1));
        assert!(!look(95, 1, 0), "the latest attempt was answered");
    }

    /// Goal: what a client ends counts for and against nobody. Method: each outcome.
    #[test]
    fn an_outcome_is_a_failure_an_answer_or_neither() {
        let mut counts = AttemptCounts::default();
        for outcome in AttemptOutcome::ALL {
            counts.add(outcome, 1);
        }
        assert_eq!((counts.ended, counts.failed), (8, 4));
    }
}
