//! Records since when new keys of a limit have shared counters, and until when at the latest those counts affect any
//! key.
//!
//! Overflow words count, but do not tell when they began to; and no key in overflow has a place where its name could
//! stand. So the table keeps one fact beside them, written only where a new key is counted with others: the period that is
//! going on, or was the last. A charge in overflow after everything that the last period left has expired begins another.
//!
//! # The word
//! ```text
//! 63               29 28                 0
//! |  since, s 35     |  lasts for, s 29   |
//! ```
//! Both facts change together, so they live in one word. Seconds since the epoch fit 35 bits as nanoseconds fit 64; a
//! period of 17 years is told as one that ends then. A period lasts at least a second, so 0 says "never".

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::time::Timestamp;

const LASTS_BITS: u32 = 29;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
const MOST_LASTS: u64 = (1 << LASTS_BITS) - 1;

/// A time through which some new keys were counted together, without a moment at which all of that had expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverflowPeriod {
    /// Time of the first charge in overflow, to the second. After a restart, of the first since then.
    pub since: Timestamp,
    /// Time at which the last of those charges has expired if none is added, to the second and at the latest: a
    /// refunded charge expires sooner.
    pub until: Timestamp,
}

impl OverflowPeriod {
    /// Merges two periods: the other one replaces this one if it begins after its end, else extends it.
    #[must_use]
    fn followed_by(self, other: Self) -> Self {
        if self.until < other.since {
            return other;
        }
        Self {
            since: self.since,
            until: self.until.max(other.until),
        }
    }

    fn word(self) -> u64 {
        let since = self.since.as_secs();
        let until = self
            .until
            .saturating_add(Duration::from_nanos(NANOS_PER_SECOND - 1));
        let lasts = until.as_secs().saturating_sub(since);
        since << LASTS_BITS | lasts.clamp(1, MOST_LASTS)
    }

    fn from_word(word: u64) -> Option<Self> {
        let since = Timestamp::from_secs(word >> LASTS_BITS);
        let lasts = Duration::from_secs(word & MOST_LASTS);
        (word != 0).then(|| Self {
            since,
            until: since.saturating_add(lasts),
        })
    }
}

/// The period of a table. The atomic is the standard library's in loom's models too: nothing is decided by it.
#[derive(Debug, Default)]
pub(super) struct LatestOverflow(AtomicU64);

impl LatestOverflow {
    /// Goes on from a period.
    pub(super) fn after(before: Option<OverflowPeriod>) -> Self {
        Self(AtomicU64::new(before.map_or(0, OverflowPeriod::word)))
    }

    /// New keys are counted together from now until then.
    pub(super) fn extend(&self, by: OverflowPeriod) {
        let longer = |word: u64| {
            let next = Self::joined(word, by).word();
            (next != word).then_some(next)
        };
        // Relaxed, both: one fact, which publishes nothing. Lock-free: another round means that another thread wrote it.
        // In a flood it changes once a second, so all but a few of those who come here only read it.
        let _unchanged = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, longer);
    }

    /// The period that is going on, or was the last.
    pub(super) fn latest(&self) -> Option<OverflowPeriod> {
        OverflowPeriod::from_word(self.0.load(Ordering::Relaxed))
    }

    fn joined(word: u64, by: OverflowPeriod) -> OverflowPeriod {
        OverflowPeriod::from_word(word).map_or(by, |before| before.followed_by(by))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(since: u64, until: u64) -> OverflowPeriod {
        let [since, until] = [since, until].map(Timestamp::from_secs);
        OverflowPeriod { since, until }
    }

    /// Goal: one period goes on while anything of it owes, and the next begins after. Method: charges before, at and after
    /// the end, and one by a clock that stepped back.
    #[test]
    fn a_period_lasts_until_all_of_it_has_expired() {
        let kept = LatestOverflow::default();
        assert_eq!(kept.latest(), None);
        let late = Timestamp::from_nanos(119_000_000_001);
        kept.extend(OverflowPeriod {
            until: late,
            ..period(100, 0)
        });
        kept.extend(period(110, 115));
        assert_eq!(
            kept.latest(),
            Some(period(100, 120)),
            "the end is rounded up"
        );
        kept.extend(period(120, 140));
        kept.extend(period(90, 95));
        assert_eq!(kept.latest(), Some(period(100, 140)));
        kept.extend(period(141, 150));
        assert_eq!(kept.latest(), Some(period(141, 150)));
        assert_eq!(LatestOverflow::after(kept.latest()).latest(), kept.latest());
    }

    /// Goal: nothing wraps. Method: the ends of time.
    #[test]
    fn the_ends_of_time_are_told() {
        for since in [0, u64::MAX] {
            let since = Timestamp::from_nanos(since);
            let until = Timestamp::from_nanos(u64::MAX);
            let told = OverflowPeriod::from_word(OverflowPeriod { since, until }.word());
            let told = told.expect("a spell is never 0");
            assert_eq!(told.since.as_secs(), since.as_secs());
            assert!(told.until > told.since);
        }
    }
}
