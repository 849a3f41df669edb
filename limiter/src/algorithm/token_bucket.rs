//! The token bucket: requests take tokens, and tokens come back, all the time or so many at once.
//!
//! *Greedy:* a token comes back every period / count, as a continuous trickle; that is `gcra` from the other side and
//! shares its code (`drain`). *Interval:* `count` tokens come back at once at each multiple of the period, up to `burst`;
//! that is judged here.
//!
//! # The word
//! As in `fixed_window`: the start of the period in which the latest charge was made, and the tokens missing then. After
//! k periods `missing − min(missing, k · count)` are missing. A slot owes at least until the period of its latest charge
//! ends, and its start grows whenever it changes hands: no word comes back under another key.
//!
//! # Guarantee
//! *Any window of length W admits at most burst + count · ⌈W / period⌉:* missing tokens never exceed burst, and that many
//! refills at most fall into the window. Exact in integers.
//!
//! An undo gives back what is missing still if the charge was refilled from the moment when it was made, which is the
//! least that can be left of it (argued in `drain`).

use std::time::Duration;

use super::fixed_window::{pack, unpack};
use super::{Charge, Word};
use crate::cost::Cost;
use crate::decision::{NEVER, Standing};
use crate::rate::Rate;
use crate::time::Timestamp;

const NANOS_PER_MILLI: u64 = 1_000_000;
const MILLIS_PER_SECOND: i64 = 1_000;

/// A rate at a moment, refilled at intervals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge {
    rate: Rate,
    burst: u32,
    now: Timestamp,
    /// Begin of the period that now is in, in milliseconds since the epoch.
    start: i64,
}

/// A word as a moment sees it.
#[derive(Clone, Copy)]
struct Bucket {
    start: i64,
    missing: u32,
}

impl Judge {
    pub(crate) fn new(rate: Rate, burst: u32, now: Timestamp) -> Self {
        let millis = (now.as_nanos() / NANOS_PER_MILLI) as i64;
        let period = i64::from(rate.period().as_secs()) * MILLIS_PER_SECOND;
        Self {
            rate,
            burst,
            now,
            start: millis - millis % period,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }

    fn millis(&self) -> i64 {
        (self.now.as_nanos() / NANOS_PER_MILLI) as i64
    }

    fn period(&self) -> i64 {
        i64::from(self.rate.period().as_secs()) * MILLIS_PER_SECOND
    }

    /// What is left of `missing` tokens after the refills between `start` and now.
    fn refilled(&self, missing: u32, start: i64) -> u32 {
        let periods = ((self.start - start).max(0) / self.period()) as u64;
        let refilled = periods.saturating_mul(u64::from(self.rate.count()));
        // At most `missing`.
        (u64::from(missing) - refilled.min(u64::from(missing))) as u32
    }

    fn bucket(&self, word: Word) -> Bucket {
        match unpack(word, self.millis()) {
            Some((start, missing)) => Bucket {
                start: start.max(self.start),
                missing: self.refilled(missing, start),
            },
            None => Bucket {
                start: self.start,
                missing: 0,
            },
        }
    }

    pub(crate) fn fits(&self, word: Word, cost: Cost) -> bool {
        self.has_room(self.bucket(word).missing, cost)
    }

    fn has_room(&self, missing: u32, cost: Cost) -> bool {
        missing.saturating_add(cost.get()) <= self.burst
    }

    pub(crate) fn charge(&self, word: Word, cost: Cost) -> Option<Word> {
        let Bucket { start, missing } = self.bucket(word);
        self.has_room(missing, cost)
            .then(|| pack(start, missing.saturating_add(cost.get())))
    }

    /// The word after a charge of `cost` whether it fits or not; stops at twice the burst.
    pub(crate) fn force(&self, word: Word, cost: Cost) -> Word {
        let Bucket { start, missing } = self.bucket(word);
        let most = self.burst.saturating_mul(2).max(missing);
        pack(start, missing.saturating_add(cost.get()).min(most))
    }

    pub(crate) fn set(&self, word: Word, used: u32) -> Word {
        pack(
            self.bucket(word).start,
            used.min(self.burst.saturating_mul(2)),
        )
    }

    pub(crate) fn undo(&self, word: Word, charge: Charge) -> Option<Word> {
        let Bucket { start, missing } = self.bucket(word);
        let (made, _) = unpack(charge.left, self.millis())?;
        let left = self.refilled(charge.cost.get(), made).min(missing);
        (left > 0).then(|| pack(start, missing - left))
    }

    pub(crate) fn undo_forced(&self, word: Word, charge: Charge) -> Option<Word> {
        let full = self.bucket(word).missing >= self.burst.saturating_mul(2);
        (!full).then(|| self.undo(word, charge)).flatten()
    }

    pub(crate) fn owes(&self, word: Word) -> bool {
        unpack(word, self.millis()).is_some_and(|(start, missing)| {
            start >= self.start || self.refilled(missing, start) > 0
        })
    }

    pub(crate) fn lighter(&self, [one, other]: [Word; 2]) -> Word {
        if self.bucket(one).missing <= self.bucket(other).missing {
            one
        } else {
            other
        }
    }

    pub(crate) fn sum(&self, word: Word, other: Word) -> Word {
        self.join(word, other, u32::saturating_add)
    }

    pub(crate) fn larger(&self, word: Word, other: Word) -> Word {
        self.join(word, other, u32::max)
    }

    fn join(&self, word: Word, other: Word, join: fn(u32, u32) -> u32) -> Word {
        let (one, two) = (self.bucket(word), self.bucket(other));
        match (self.owes(word), self.owes(other)) {
            (_, false) => word,
            (false, true) => other,
            (true, true) => pack(one.start.max(two.start), join(one.missing, two.missing)),
        }
    }

    pub(crate) fn used_units(&self, word: Word) -> u64 {
        u64::from(self.bucket(word).missing)
    }

    pub(crate) fn standing(&self, word: Word, refused: Option<Cost>) -> Standing {
        let Bucket { start, missing } = self.bucket(word);
        let remaining = self.burst.saturating_sub(missing);
        let until = |left: u32| self.until(start, missing.saturating_sub(left));
        Standing {
            rate: self.rate,
            remaining,
            next_free: match refused {
                Some(cost) if cost.get() > self.burst => NEVER,
                Some(cost) => until(self.burst - cost.get()),
                None if missing == 0 => Duration::ZERO,
                None => until(self.burst.saturating_sub(remaining + 1)),
            },
            reset: until(0),
        }
    }

    /// How long until so many tokens of a bucket of the period at `start` have come back.
    fn until(&self, start: i64, tokens: u32) -> Duration {
        let periods = i64::from(tokens.div_ceil(self.rate.count()));
        let millis = if periods == 0 {
            self.millis()
        } else {
            start + periods * self.period()
        };
        let nanos = i128::from(millis) * i128::from(NANOS_PER_MILLI);
        let wait = (nanos - i128::from(self.now.as_nanos())).max(0);
        // Too long for a word that a charge wrote, but a file may hold any.
        Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
    }
}
