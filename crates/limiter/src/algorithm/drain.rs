//! Judges a debt that drains at a constant rate: what GCRA, the greedy token bucket and the leaky bucket have in common.
//!
//! A rate of `count` per period drains one unit in T = period / count. A key's state is the moment at which it owes
//! nothing any more (GCRA's theoretical arrival time): a charge of cost c moves it from max(it, now) to c · T later. The
//! debt at `now` is the time from now to that moment, in ticks of 1/count ms, so that T is a whole number of ticks, as
//! many as the period has milliseconds. Nothing is rounded but `now`, down to a millisecond: there is no drift.
//!
//! # The word
//! ```text
//! 63          55 54                  20 19           0
//! | generation 9 |  milliseconds 35    |  ticks 20    |
//! ```
//! Milliseconds go round after 2^35, 397 days. The generation is 1 to 511 in a word that was charged, and goes on with
//! each undo and each change of hands: a moment can come back under another key when an undo lowered it, the whole word
//! cannot, unless a thread sleeps between two of its instructions while 511 undos and claims happen to this very slot and
//! the last of them hits the same tick (invariant 2 of `table`).
//!
//! # Guarantee
//! *Any window of length W admits at most burst + count · (W + 1 ms) / period:* the debt is never above burst · T after a
//! charge and falls by W in W; the millisecond is the rounding of now. So with burst = count a window of one period holds
//! up to 2 · count, of which one count in the first instant.
//!
//! # An undo
//! gives back what still counts. If no other charge of the key was undone since, the charge drained behind all debt
//! before it, so what is left of it is what lies between now and the moment that it left. Otherwise it is taken as
//! draining from the moment when it was made, which is the least that can be left of it: the debt of a key without the
//! charge is lower by its cost at first, and the two come closer only while the lower one is zero.
//!
//! # Limits
//! A full debt drains within 62 days ([`MAX_FILL`]); unchecked charges stop at twice what is full. A moment further ahead than
//! that and 31 days is one from the round before. So much may be owed beyond what a rate allows, since it was made under a
//! larger burst, before an edit or in another tier. A clock that steps back further forgets, one that steps back less delays
//! by no more than the step. A key that was silent for 397 days less all that may find an old debt as if it were new.

use std::time::Duration;

use super::word::{RateCharge, Word};
use crate::cost::Cost;
use crate::rate::{MAX_COUNT, MAX_PERIOD, Rate};
use crate::status::{NEVER, RateStatus};
use crate::terms::{DrainTime, RateTerms};
use crate::time::Timestamp;

/// Longest time that a full debt may take to drain, in milliseconds: two of the longest periods.
pub(crate) const MAX_FILL: u64 = 2 * MAX_PERIOD as u64 * MILLIS_PER_SECOND;

const MILLIS_PER_SECOND: u64 = 1_000;
const NANOS_PER_MILLI: u64 = 1_000_000;
/// Longest time that may be owed beyond twice what a rate allows: the longest period.
const BEYOND_MILLIS: i64 = MAX_PERIOD as i64 * MILLIS_PER_SECOND as i64;
const TICK_BITS: u32 = 20;
const MILLI_BITS: u32 = 35;
const ROUND: i64 = 1 << MILLI_BITS;
const GENERATIONS: u64 = 511;

const _: () = assert!(MAX_COUNT < 1 << TICK_BITS);
const _: () = assert!(2 * MAX_FILL as i64 + BEYOND_MILLIS < ROUND / 2);

/// The bounds of a debt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DrainBounds {
    /// Units that may be owed.
    pub(crate) burst: u32,
    /// Milliseconds that a request may be held back until what was owed before it has drained; `None` holds no request back.
    pub(crate) most_wait: Option<u32>,
}

impl DrainBounds {
    /// No bound but the burst, and an admitted request goes at once.
    pub(crate) const fn of_burst(burst: u32) -> Self {
        Self {
            burst,
            most_wait: None,
        }
    }
}

impl DrainBounds {
    /// Computes the integers that a store needs to judge a cost.
    pub(crate) fn terms(self, rate: Rate, cost: Cost) -> RateTerms {
        // These depend on no moment.
        let rate_at = DrainAt::new(rate, self, Timestamp::default());
        let debt = |ticks| DrainTime::new(ticks, rate.count());
        let nothing = DrainTime {
            millis: 0,
            ticks: 0,
        };
        RateTerms::Drain {
            rate,
            cost: debt(rate_at.ticks(cost.get())).unwrap_or(nothing),
            room: debt(rate_at.allowed(cost)),
            ceiling: debt(2 * rate_at.most()).unwrap_or(nothing),
            horizon: Duration::from_millis(rate_at.horizon() as u64),
        }
    }
}

impl Word {
    /// The word of a debt that ends so many ticks after this millisecond of the epoch.
    pub(crate) fn owing(millis: u64, ticks: u32, generation: u16) -> Self {
        let generation = u64::from(generation).clamp(1, GENERATIONS);
        let ticks = u64::from(ticks) & ((1 << TICK_BITS) - 1);
        // Only the remainder matters.
        let millis = millis % ROUND as u64;
        Self::from_bits(generation << (TICK_BITS + MILLI_BITS) | millis << TICK_BITS | ticks)
    }
}

/// A rate at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DrainAt {
    rate: Rate,
    shape: DrainBounds,
    now: Timestamp,
}

impl DrainAt {
    #[inline]
    pub(crate) fn new(rate: Rate, shape: DrainBounds, now: Timestamp) -> Self {
        Self { rate, shape, now }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }

    fn count(&self) -> i64 {
        i64::from(self.rate.count())
    }

    /// Ticks in which one unit drains: the period in milliseconds.
    fn unit(&self) -> i64 {
        i64::from(self.rate.period().as_secs()) * MILLIS_PER_SECOND as i64
    }

    /// Now in whole milliseconds; below 2^45.
    fn millis(&self) -> i64 {
        (self.now.as_nanos() / NANOS_PER_MILLI) as i64
    }

    /// Ticks that may be owed: at most 62 days of 2^20 ticks a millisecond and one unit, below 2^54.
    fn most(&self) -> i64 {
        i64::from(self.shape.burst) * self.unit()
    }

    /// Ticks that may be owed before a charge: waits are at most 2^32 ms, so below 2^52 where there are any.
    fn most_before(&self) -> i64 {
        let most = self.shape.most_wait;
        most.map_or(i64::MAX, |wait| i64::from(wait) * self.count())
    }

    /// Converts units to ticks, at most four times the largest debt, so that nothing overflows.
    fn ticks(&self, units: u32) -> i64 {
        i64::from(units)
            .saturating_mul(self.unit())
            .min(4 * self.most())
    }

    /// Milliseconds ahead of now at which a moment is taken for one from the round before.
    fn horizon(&self) -> i64 {
        2 * (self.most() / self.count()) + BEYOND_MILLIS
    }

    /// The debt at the judge's moment, in ticks.
    fn debt(&self, word: Word) -> i64 {
        if word == Word::UNUSED {
            return 0;
        }
        let millis = (word.bits() >> TICK_BITS) as i64 & (ROUND - 1);
        let ticks = (word.bits() & ((1 << TICK_BITS) - 1)) as i64;
        let ahead = (millis - self.millis()).rem_euclid(ROUND);
        if ahead > self.horizon() {
            return 0;
        }
        // An edit of the count may leave more ticks than make a millisecond.
        ahead * self.count() + ticks.min(self.count() - 1)
    }

    fn generation(word: Word) -> u64 {
        word.bits() >> (TICK_BITS + MILLI_BITS)
    }

    /// The word of a debt.
    fn owing(&self, debt: i64, generation: u64) -> Word {
        let millis = (self.millis() + debt / self.count()).rem_euclid(ROUND) as u64;
        let ticks = (debt % self.count()) as u64;
        let generation = generation.clamp(1, GENERATIONS);
        Word::from_bits(generation << (TICK_BITS + MILLI_BITS) | millis << TICK_BITS | ticks)
    }

    fn next_generation(word: Word) -> u64 {
        Self::generation(word) % GENERATIONS + 1
    }

    fn has_room(&self, debt: i64, cost: Cost) -> bool {
        debt <= self.allowed(cost)
    }

    /// Most that may be owed before a charge of `cost`; negative if it never fits.
    fn allowed(&self, cost: Cost) -> i64 {
        let room = self.most() - self.ticks(cost.get());
        room.min(self.most_before())
    }

    pub(crate) fn fits(&self, word: Word, cost: Cost) -> bool {
        self.has_room(self.debt(word), cost)
    }

    pub(crate) fn charge(&self, word: Word, cost: Cost) -> Option<Word> {
        let debt = self.debt(word);
        self.has_room(debt, cost)
            .then(|| self.owing(debt + self.ticks(cost.get()), Self::generation(word)))
    }

    /// The word after a charge of `cost` whether it fits or not; stops at twice what may be owed.
    pub(crate) fn charge_unchecked(&self, word: Word, cost: Cost) -> Word {
        let debt = self.debt(word);
        let forced = (debt + self.ticks(cost.get())).min(debt.max(2 * self.most()));
        self.owing(forced, Self::generation(word))
    }

    pub(crate) fn set(&self, word: Word, used: u32) -> Word {
        let debt = self.ticks(used).min(2 * self.most());
        self.owing(debt, Self::next_generation(word))
    }

    pub(crate) fn undo(&self, word: Word, charge: RateCharge) -> Option<Word> {
        let debt = self.debt(word);
        let cost = self.ticks(charge.cost.get());
        let left = if Self::generation(word) == Self::generation(charge.left) {
            cost.min(self.debt(charge.left))
        } else {
            let passed = self.millis()
                - DrainAt {
                    now: charge.made,
                    ..*self
                }
                .millis();
            // A full debt drains within 2^33 ms; so much for what the product may be.
            cost - passed.clamp(0, 1 << 33) * self.count()
        };
        let left = left.min(debt);
        (left > 0).then(|| self.owing(debt - left, Self::next_generation(word)))
    }

    pub(crate) fn undo_unchecked(&self, word: Word, charge: RateCharge) -> Option<Word> {
        // At the ceiling it may stand for more.
        (self.debt(word) < 2 * self.most())
            .then(|| self.undo(word, charge))
            .flatten()
    }

    /// `fresh`, so that it differs from whatever `before` ever was.
    pub(crate) fn follow(&self, fresh: Word, before: Word) -> Word {
        self.owing(self.debt(fresh), Self::next_generation(before))
    }

    /// The word, or one that owes no more than unchecked charges make it.
    #[cfg(feature = "mmap")]
    pub(crate) fn believed(&self, word: Word) -> Word {
        let most = 2 * self.most();
        if self.debt(word) <= most {
            return word;
        }
        self.owing(most, Self::next_generation(word))
    }

    pub(crate) fn owes(&self, word: Word) -> bool {
        self.debt(word) > 0
    }

    pub(crate) fn lighter(&self, [one, other]: [Word; 2]) -> Word {
        if self.debt(one) <= self.debt(other) {
            one
        } else {
            other
        }
    }

    pub(crate) fn sum(&self, word: Word, other: Word) -> Word {
        self.join(word, other, |one, two| one + two)
    }

    pub(crate) fn larger(&self, word: Word, other: Word) -> Word {
        self.join(word, other, i64::max)
    }

    fn join(&self, word: Word, other: Word, join: fn(i64, i64) -> i64) -> Word {
        let one = self.debt(word);
        let two = self.debt(other);
        if one.max(two) == 0 {
            return word;
        }
        let most = one.max(two).max(2 * self.most());
        self.owing(join(one, two).min(most), Self::next_generation(word))
    }

    pub(crate) fn used_units(&self, word: Word) -> u64 {
        (self.debt(word) as u64).div_ceil(self.unit() as u64)
    }

    pub(crate) fn status(&self, word: Word, refused: Option<Cost>) -> RateStatus {
        let debt = self.debt(word);
        let remaining = self.room(debt);
        let wanted = refused.or_else(|| Cost::new(remaining.saturating_add(1)));
        let next_free = match wanted {
            None => Duration::ZERO,
            Some(_) if refused.is_none() && debt == 0 => Duration::ZERO,
            Some(cost) if self.allowed(cost) < 0 => NEVER,
            Some(cost) => self.until(debt - self.allowed(cost)),
        };
        RateStatus {
            rate: self.rate,
            remaining,
            next_free,
            reset: self.until(debt),
        }
    }

    /// Whole units that fit now.
    pub(crate) fn remaining(&self, word: Word) -> u32 {
        self.room(self.debt(word))
    }

    /// Whole units that fit on top of this debt.
    fn room(&self, debt: i64) -> u32 {
        if debt > self.most_before() {
            return 0;
        }
        // At most the burst.
        ((self.most() - debt).max(0) / self.unit()) as u32
    }

    /// Time until so many ticks have drained: until the first whole millisecond that sees it.
    fn until(&self, ticks: i64) -> Duration {
        if ticks <= 0 {
            return Duration::ZERO;
        }
        let millis = (ticks as u64).div_ceil(self.count() as u64);
        Duration::from_nanos(millis * NANOS_PER_MILLI - self.now.as_nanos() % NANOS_PER_MILLI)
    }

    /// Time that a request has to wait for all debt from before its charge of `cost` left `word`.
    pub(crate) fn delay(&self, word: Word, cost: Cost) -> Duration {
        match self.shape.most_wait {
            None => Duration::ZERO,
            Some(_) => self.until(self.debt(word) - self.ticks(cost.get())),
        }
    }
}
