//! Judges a server by the attempts that ended lately, from the counters that requests keep anyway.
//!
//! The background task of the pools reads the counters once a second, so a request pays nothing for it. Where no attempt ended within the
//! window, the judgment of the latest attempts stays: a quiet server that failed its last request is not sound because time has passed.
//!
//! A server that accepts requests and answers none fails no attempt until a timeout ends one, and none at all where clients leave before.
//! So requests without an answer count from the time of the last answer on.

use std::time::Duration;

use sluicegate_limiter::Timestamp;

use super::failure::AttemptOutcome;
use sluicegate_decide::reading_window::ReadingWindow;

/// Failures below which a share of failed attempts says nothing of a server.
const LEAST_FAILURES: u64 = 3;

/// One failed attempt of so many makes a server a failing one.
const ENDED_PER_FAILURE: u64 = 10;

/// Requests without an answer below which a silence says nothing of a server.
const LEAST_UNANSWERED: u64 = 5;

/// The shortest time without an answer after which requests that wait make a server a failing one.
const LEAST_SILENCE: Duration = Duration::from_secs(10);

/// The length of a silence that says something, as a multiple of earlier ones that an answer ended.
const SILENCES_PER_USUAL: u32 = 2;

/// The attempts at a server, or at all servers of an origin, that ended by an answer or a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptCounts {
    /// All of them. An attempt whose client left or broke a rule is not among them: its server did nothing wrong, and nothing right.
    pub ended: u64,
    /// Those that failed: answers of 5xx, no connection, no answer in time, a broken connection.
    pub failed: u64,
}

/// The attempts at a server, as they are at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AttemptReading {
    pub(super) counts: AttemptCounts,
    /// Attempts since the start of the process whose client left before an answer.
    pub(super) abandoned: u64,
    /// Attempts in flight that wait for the head of an answer.
    pub(super) waiting: u64,
    /// Attempts in flight whose answer has begun.
    pub(super) answering: u64,
}

/// A time in which a server got requests, and answered none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSilence {
    /// Its beginning.
    pub since: Timestamp,
    /// The requests that wait, or whose client has left.
    pub unanswered: u64,
}

/// The latest attempts at a server.
#[derive(Debug, Default)]
pub(super) struct RecentAttempts {
    window: ReadingWindow<AttemptCounts>,
    latest: AttemptCounts,
    last: AttemptReading,
    silence: Option<OpenSilence>,
    /// The length of silences that an answer ended: a server may answer when something happens.
    usual_silence: Duration,
}

/// A silence that no answer has ended.
#[derive(Clone, Copy, Debug)]
struct OpenSilence {
    since: Timestamp,
    /// The attempts that were abandoned before it.
    abandoned_before: u64,
    /// The latest time at which a request waited, or was abandoned.
    asked: Timestamp,
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

impl AttemptReading {
    /// Returns the attempts that were answered well: those that ended so, and those whose answer has begun.
    fn answered(&self) -> u64 {
        let ended = self.counts.ended.saturating_sub(self.counts.failed);
        ended.saturating_add(self.answering)
    }
}

impl RecentAttempts {
    /// Takes the attempts as they are at `now`.
    pub(super) fn look(&mut self, reading: AttemptReading, now: Timestamp) {
        let (_, earlier) = self.window.begin(&reading.counts, now);
        let growth = reading.counts.since(earlier);
        if growth.ended > 0 {
            self.latest = growth;
        }
        self.listen(reading, now);
        self.last = reading;
    }

    /// Begins or ends a silence.
    fn listen(&mut self, reading: AttemptReading, now: Timestamp) {
        let was_answered = reading.answered() > self.last.answered();
        if was_answered {
            let length = (self.silence.take()).map(|silence| now.saturating_since(silence.since));
            // Longer ones are forgotten in the course of many.
            let faded = self.usual_silence * 9 / 10;
            self.usual_silence = length.map_or(self.usual_silence, |length| length.max(faded));
        }
        // Those that left between the same two readings as an answer came may have left before it.
        let abandoned_before = match was_answered {
            true => reading.abandoned,
            false => self.last.abandoned,
        };
        if reading.waiting > 0 || reading.abandoned > abandoned_before {
            let begun = OpenSilence {
                since: now,
                abandoned_before,
                asked: now,
            };
            self.silence.get_or_insert(begun).asked = now;
        }
    }

    /// Forgets the judgment, and goes on from the latest reading.
    pub(super) fn forget(&mut self) {
        *self = Self {
            last: self.last,
            usual_silence: self.usual_silence,
            ..Self::default()
        };
    }

    /// Returns the attempts of the latest window in which one ended.
    pub(super) fn latest(&self) -> AttemptCounts {
        self.latest
    }

    /// Returns the silence of the server at `now`, where it is longer than those that answers ended. One in which nobody asks is forgotten
    /// after `remembered`.
    pub(super) fn silence(&self, now: Timestamp, remembered: Duration) -> Option<ServerSilence> {
        let silence = self.silence?;
        let left = self.last.abandoned.saturating_sub(silence.abandoned_before);
        let unanswered = self.last.waiting.saturating_add(left);
        let usual = self.usual_silence.saturating_mul(SILENCES_PER_USUAL);
        let is_long = now.saturating_since(silence.since) >= usual.max(LEAST_SILENCE);
        let is_recent = now.saturating_since(silence.asked) < remembered;
        (is_long && is_recent && unanswered >= LEAST_UNANSWERED).then_some(ServerSilence {
            since: silence.since,
            unanswered,
        })
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
            let reading = AttemptReading {
                counts,
                ..AttemptReading::default()
            };
            recent.look(reading, at(secs));
            recent.latest().are_failing()
        };
        assert!((0..20).all(|secs| !look(secs, 10, 0)));
        assert!(!look(20, 10, 9), "less than a tenth of 100");
        assert!(look(21, 10, 10));
        assert!((22..80).all(|secs| look(secs, 0, 0)));
        assert!(look(80, 1, 1));
        assert!(!look(95, 1, 0), "the latest attempt was answered");
    }

    /// Goal: requests that nobody answers are seen before a timeout, also where their clients leave, and a server that always answers late
    /// is not silent. Method: waiting requests, abandoned ones, downloads that go on, an answer, few requests, some that leave beside an
    /// answer, and long polls.
    #[test]
    fn a_server_that_answers_nobody_is_silent() {
        let mut recent = RecentAttempts::default();
        let mut look = |secs, ended, abandoned, waiting, answering| {
            let reading = AttemptReading {
                counts: AttemptCounts { ended, failed: 0 },
                abandoned,
                waiting,
                answering,
            };
            recent.look(reading, at(secs));
            let silence = recent.silence(at(secs), Duration::from_secs(600));
            silence.map(|silence| silence.unanswered)
        };
        assert!((0..100).all(|secs| look(secs, secs * 10, 0, 20, 3).is_none()));
        assert_eq!(look(105, 990, 0, 60, 3), None, "too short");
        assert_eq!(look(110, 990, 0, 90, 3), Some(90));
        assert_eq!(look(120, 992, 90, 10, 1), Some(100), "two downloads ended");
        assert_eq!(look(130, 992, 100, 0, 1), Some(100), "all have left");
        assert_eq!(look(131, 993, 100, 0, 1), None, "an answer came");
        assert_eq!(look(140, 993, 104, 0, 1), None);
        assert_eq!(look(160, 993, 104, 0, 1), None, "they are too few");
        assert_eq!(look(170, 1_000, 104, 0, 0), None);
        assert_eq!(
            look(171, 1_010, 109, 0, 0),
            None,
            "five left beside answers"
        );
        assert_eq!(
            look(190, 1_010, 109, 0, 0),
            None,
            "five left beside answers"
        );
        // Each is answered after half a minute, as before.
        for poll in 0..5_u64 {
            assert_eq!(look(200 + poll * 30, 1_010 + poll * 9, 109, 9, 0), None);
            assert_eq!(look(229 + poll * 30, 1_010 + poll * 9, 109, 9, 0), None);
        }
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
