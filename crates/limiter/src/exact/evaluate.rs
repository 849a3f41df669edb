//! Judges rates by a log: whether a cost fits, how much is left, and when more frees.
//!
//! A rate of `count` per `P` admits a cost at `now` iff at most `count − cost` entries lie in `(now − P, now]`: iff the
//! entry with `count − cost` later ones is at least `P` old, or there is none. That is one look into the log, whatever
//! the count; how much is left is a search by halving.
//!
//! Entries are milliseconds, rounded up when they are made; `now` is rounded down when it is judged. So an entry counts
//! for at least `P`, and for less than `P` + 1 ms. A wait for an entry that was made just now is `P` all the same: else
//! `Retry-After`, in whole seconds, would be longer than the period.

use std::ops::RangeInclusive;
use std::time::Duration;

use arrayvec::ArrayVec;

use crate::cost::Cost;
use crate::rate::{MAX_RATES, Period, Rate, Rates};
use crate::status::{KeyPlacement, NEVER, RateStatus, RateStatuses};
use crate::table::OverflowPeriod;
use crate::time::Timestamp;

use super::log::LogView;

pub(super) const NANOS_PER_MILLI: u64 = 1_000_000;
const MILLIS_PER_SECOND: u64 = 1_000;
/// Milliseconds by which an entry that was made just now may be ahead of now: by rounding, and by another thread that read
/// the clock later and decided earlier. Further ahead is a clock that stepped back.
const JUST_NOW_MILLIS: u64 = 10;

/// Now, in the units of a log.
#[derive(Clone, Copy)]
pub(super) struct LogTime {
    now: Timestamp,
    /// Whole milliseconds since the epoch.
    rounded_down: u64,
}

impl LogTime {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            now,
            rounded_down: now.as_nanos() / NANOS_PER_MILLI,
        }
    }

    pub(super) fn now(self) -> Timestamp {
        self.now
    }

    /// The moment under which a charge made now is entered.
    pub(super) fn rounded_up(self) -> u64 {
        self.now.as_nanos().div_ceil(NANOS_PER_MILLI)
    }

    /// The latest moment that counts no more in `period`; `None` when the epoch is too close for any.
    pub(super) fn expired(self, period: Period) -> Option<u64> {
        self.rounded_down.checked_sub(millis(period))
    }

    /// Returns whether an entry counts no more in `period`.
    pub(super) fn is_expired(self, entry: u64, period: Period) -> bool {
        self.expired(period).is_some_and(|expired| entry <= expired)
    }

    /// Age of an entry.
    pub(super) fn age_of(self, entry: u64) -> Duration {
        Duration::from_nanos(self.now.as_nanos()).saturating_sub(Duration::from_millis(entry))
    }

    /// The moment from which an entry counts no more in `period`, now at the earliest.
    pub(super) fn expiry(self, entry: u64, period: Period) -> Timestamp {
        let millis = entry.saturating_add(millis(period)).saturating_add(1);
        Timestamp::from_nanos(millis.saturating_mul(NANOS_PER_MILLI)).max(self.now)
    }

    /// The time through which a charge made now counts in a period; what clocks entered ahead of it counts longer.
    pub(super) fn overflow_period(self, period: Period) -> OverflowPeriod {
        OverflowPeriod {
            since: self.now,
            until: self
                .now
                .saturating_add(Duration::from_millis(millis(period) + 1)),
        }
    }

    /// The time from now until an entry counts no more in `period`; no longer than the period, unless the clock stepped back.
    pub(super) fn until_expiry(self, entry: u64, period: Period) -> Duration {
        let wait = Duration::from_millis(entry.saturating_add(millis(period)))
            .saturating_sub(Duration::from_nanos(self.now.as_nanos()));
        let whole = Duration::from_millis(millis(period));
        match wait.checked_sub(whole) {
            Some(ahead) if ahead <= Duration::from_millis(JUST_NOW_MILLIS) => whole,
            _ => wait.min(NEVER),
        }
    }
}

pub(super) fn millis(period: Period) -> u64 {
    u64::from(period.as_secs()) * MILLIS_PER_SECOND
}

/// The longest period: what a log owes is told by it.
pub(super) fn longest(rates: &Rates) -> Period {
    rates.longest().period()
}

/// The answer about a key, computed at once: that of a table of logs, and that of a rejection, of which several facts are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputedAnswer {
    told: ArrayVec<RateSummary, MAX_RATES>,
    refusing: Option<usize>,
    placement: KeyPlacement,
}

impl ComputedAnswer {
    /// The answer over rates that stand so, at most [`MAX_RATES`], each with whether it refuses.
    pub(crate) fn new(statuses: impl Iterator<Item = (RateStatus, bool)>) -> Self {
        let mut told = ArrayVec::new();
        let mut longest: Option<(usize, Duration)> = None;
        for (status, refuses) in statuses.take(MAX_RATES) {
            if refuses && longest.is_none_or(|(_, wait)| status.next_free > wait) {
                longest = Some((told.len(), status.next_free));
            }
            told.push(RateSummary::new(&status));
        }
        Self {
            told,
            refusing: longest.map(|(rate, _)| rate),
            placement: KeyPlacement::OwnSlot,
        }
    }

    /// The refusal of a new key whose payer has taken its share: when others make room is not known, so each rate stands as if all of it
    /// had just been used.
    pub(super) fn over_share(rates: &Rates) -> Self {
        let status = |rate: &Rate| {
            let period = Duration::from_secs(rate.period().as_secs().into());
            let status = RateStatus {
                rate: *rate,
                remaining: 0,
                next_free: period,
                reset: period,
            };
            (status, true)
        };
        Self::new(rates.iter().map(status)).with_placement(KeyPlacement::OverShare)
    }

    /// The status of every rate, after the charge where one was made.
    #[must_use]
    pub fn statuses(&self) -> RateStatuses {
        RateStatuses::new(self.told.iter().map(RateSummary::status))
    }

    /// The least that any rate has left.
    pub(crate) fn remaining(&self) -> u32 {
        let remaining = self.told.iter().map(|told| told.remaining);
        remaining.min().unwrap_or(0)
    }

    /// The rate that refuses with the longest wait, and the wait.
    pub(crate) fn refusal(&self) -> Option<(usize, Duration)> {
        let wait = |rate: usize| Duration::from_nanos(self.told[rate].next_free);
        self.refusing.map(|rate| (rate, wait(rate)))
    }

    /// The rate that refuses with the longest wait; `None` when all have room.
    #[must_use]
    pub fn refusing(&self) -> Option<usize> {
        self.refusing
    }

    /// Thousandths of its fullest rate that are used.
    pub(crate) fn fullness(&self) -> u64 {
        let fullness = |told: &RateSummary| {
            let count = told.rate.count();
            let left = told.remaining;
            u64::from(1000 * count.saturating_sub(left) / count)
        };
        self.told.iter().map(fullness).max().unwrap_or(0)
    }

    /// The counter that the key was counted by.
    #[must_use]
    pub fn placement(&self) -> KeyPlacement {
        self.placement
    }

    pub(crate) fn with_placement(self, placement: KeyPlacement) -> Self {
        Self { placement, ..self }
    }
}

/// A status in fewer bytes: an answer is no larger than a decision that is told from words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RateSummary {
    rate: Rate,
    remaining: u32,
    /// In nanoseconds, like `reset`; at most [`NEVER`], which fits.
    next_free: u64,
    reset: u64,
}

impl RateSummary {
    fn new(status: &RateStatus) -> Self {
        let nanos = |wait: Duration| u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        Self {
            rate: status.rate,
            remaining: status.remaining,
            next_free: nanos(status.next_free),
            reset: nanos(status.reset),
        }
    }

    fn status(&self) -> RateStatus {
        RateStatus {
            rate: self.rate,
            remaining: self.remaining,
            next_free: Duration::from_nanos(self.next_free),
            reset: Duration::from_nanos(self.reset),
        }
    }
}

/// The operation that an answer is about.
#[derive(Clone, Copy)]
pub(super) enum LogOutcome {
    /// A cost that was not taken.
    NotCharged(Cost),
    /// A charge on top of the log.
    Charged {
        cost: Cost,
        /// The moment under which it was entered.
        at: u64,
    },
}

impl LogView<'_> {
    /// Returns whether every rate has room for `cost`.
    #[inline]
    pub(super) fn fits(&self, rates: &Rates, cost: Cost, moment: LogTime) -> bool {
        rates.iter().all(|rate| self.has_room(rate, cost, moment))
    }

    #[inline]
    fn has_room(&self, rate: &Rate, cost: Cost, moment: LogTime) -> bool {
        match self.count(rate).checked_sub(cost.get()) {
            Some(room) => self.len() <= room || moment.is_expired(self.entry(room), rate.period()),
            None => false,
        }
    }

    /// The rate's count. A table is made for the largest; a larger one would be judged by what the log can tell.
    fn count(&self, rate: &Rate) -> u32 {
        rate.count().min(self.size())
    }

    /// Returns whether the log may still affect any decision.
    pub(super) fn owes(&self, period: Period, moment: LogTime) -> bool {
        self.latest()
            .is_some_and(|latest| !moment.is_expired(latest, period))
    }

    /// Entries that count in `period`.
    pub(super) fn used(&self, period: Period, moment: LogTime) -> u32 {
        self.used_within(period, 0..=self.len(), moment)
    }

    /// The same, where it is known to be in a range.
    fn used_within(&self, period: Period, range: RangeInclusive<u32>, moment: LogTime) -> u32 {
        match moment.expired(period) {
            Some(expired) => self.later_within(expired, range),
            None => self.len(),
        }
    }

    /// The moment under which a charge made now is entered: never earlier than the latest entry.
    pub(super) fn enters_as(&self, moment: LogTime) -> u64 {
        self.latest().unwrap_or(0).max(moment.rounded_up())
    }

    /// Computes the status of every rate.
    pub(super) fn answer(
        &self,
        rates: &Rates,
        asked: LogOutcome,
        moment: LogTime,
    ) -> ComputedAnswer {
        ComputedAnswer::new(rates.iter().map(|rate| self.status(rate, asked, moment)))
    }

    /// Computes the status of one rate, and whether it refuses.
    fn status(&self, rate: &Rate, asked: LogOutcome, moment: LogTime) -> (RateStatus, bool) {
        let count = self.count(rate);
        let period = rate.period();
        let frees = |entry: u64| moment.until_expiry(entry, period);
        let status = |used: u32, next_free, reset| RateStatus {
            rate: *rate,
            remaining: count.saturating_sub(used),
            next_free,
            reset,
        };
        // With nothing used all is free; otherwise one more is free when the oldest of those that fill the count is.
        let awaited = |used: u32| used.min(count).checked_sub(1);
        match asked {
            LogOutcome::Charged { cost, at } => {
                let used = self.used(period, moment).saturating_add(cost.get());
                let next_free = match awaited(used).and_then(|age| age.checked_sub(cost.get())) {
                    Some(age) => frees(self.entry(age)),
                    None => frees(at),
                };
                (status(used, next_free, frees(at)), false)
            }
            LogOutcome::NotCharged(cost) => {
                let refuses = !self.has_room(rate, cost, moment);
                // What has no room is more than `count − cost`: for a cost of 1 there is nothing left to search.
                let range = match count.checked_sub(cost.get()) {
                    Some(room) if refuses => room + 1..=count,
                    _ => 0..=self.len(),
                };
                let used = self.used_within(period, range, moment);
                let next_free = match count.checked_sub(cost.get()) {
                    None => NEVER,
                    Some(room) if refuses => frees(self.entry(room)),
                    Some(_) => awaited(used).map_or(Duration::ZERO, |age| frees(self.entry(age))),
                };
                let reset = if used == 0 {
                    Duration::ZERO
                } else {
                    frees(self.entry(0))
                };
                (status(used, next_free, reset), refuses)
            }
        }
    }
}
