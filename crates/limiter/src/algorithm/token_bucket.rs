//! The token bucket: requests take tokens, and tokens come back, all the time or so many at once.
//!
//! *Greedy:* a token comes back every period / count, as a continuous trickle; that is `gcra` from the other side and
//! shares its code (`drain`). *Interval:* `count` tokens come back at once at each multiple of the period, up to `burst`;
//! that is judged here.
//!
//! # The word
//! The start of the period in which the latest charge was made, and the tokens missing then (`begun_window`). After
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

use super::begun_window::{BegunWindow, CountsSince, millis};
use super::peak::RatePeak;
use super::word::{RateCharge, Word};
use crate::cost::Cost;
use crate::rate::Rate;
use crate::status::{NEVER, RateStatus};
use crate::time::Timestamp;

const NANOS_PER_MILLI: u64 = 1_000_000;
const MILLIS_PER_SECOND: i64 = 1_000;

/// A rate at a moment, refilled at intervals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucketAt {
    rate: Rate,
    burst: u32,
    now: Timestamp,
    /// Begin of the period that now is in, in milliseconds since the epoch.
    start: i64,
}

impl TokenBucketAt {
    pub(crate) fn new(rate: Rate, burst: u32, now: Timestamp) -> Self {
        let millis = millis(now);
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

    fn period(&self) -> i64 {
        i64::from(self.rate.period().as_secs()) * MILLIS_PER_SECOND
    }

    /// Subtracts the refills between `start` and now from `missing` tokens.
    fn refilled(&self, missing: u32, start: i64) -> u32 {
        let periods = ((self.start - start).max(0) / self.period()) as u64;
        let refilled = periods.saturating_mul(u64::from(self.rate.count()));
        // At most `missing`.
        (u64::from(missing) - refilled.min(u64::from(missing))) as u32
    }

    /// The word, or an unused one where its period begins more than a period ahead; no more tokens missing than unchecked charges take.
    #[cfg(feature = "mmap")]
    pub(crate) fn believed(&self, word: Word) -> Word {
        match BegunWindow::from_word(word, self.now) {
            None => word,
            Some(BegunWindow { start, .. }) if start > self.start + self.period() => Word::UNUSED,
            Some(BegunWindow { start, count }) => {
                let missing = self.refilled(count, start);
                if missing <= self.burst.saturating_mul(2) {
                    return word;
                }
                let start = start.max(self.start);
                let count = self.burst.saturating_mul(2);
                BegunWindow { start, count }.word()
            }
        }
    }

    pub(crate) fn fits(&self, word: Word, cost: Cost) -> bool {
        self.has_room(self.begun(word).count, cost)
    }

    fn has_room(&self, missing: u32, cost: Cost) -> bool {
        missing.saturating_add(cost.get()) <= self.burst
    }

    pub(crate) fn charge(&self, word: Word, cost: Cost) -> Option<Word> {
        let begun = self.begun(word);
        self.has_room(begun.count, cost)
            .then(|| begun.plus(cost.get()).word())
    }

    /// The word after a charge of `cost` whether it fits or not; stops at twice the burst.
    pub(crate) fn charge_unchecked(&self, word: Word, cost: Cost) -> Word {
        let begun = self.begun(word);
        let most = self.burst.saturating_mul(2).max(begun.count);
        let count = begun.plus(cost.get()).count.min(most);
        BegunWindow { count, ..begun }.word()
    }

    pub(crate) fn set(&self, word: Word, used: u32) -> Word {
        let start = self.begun(word).start;
        let count = used.min(self.burst.saturating_mul(2));
        BegunWindow { start, count }.word()
    }

    pub(crate) fn adopt(&self, word: Word, told: Word) -> Word {
        let before = BegunWindow::from_word(word, self.now);
        let begun = BegunWindow::from_word(told, self.now);
        match (before, begun) {
            (None, _) => told,
            (Some(before), Some(begun)) if begun.start >= before.start => told,
            (Some(BegunWindow { start, .. }), begun) => {
                let then = Self { start, ..*self };
                let count = begun.map_or(0, |begun| then.refilled(begun.count, begun.start));
                BegunWindow { start, count }.word()
            }
        }
    }

    pub(crate) fn undo(&self, word: Word, charge: RateCharge) -> Option<Word> {
        let begun = self.begun(word);
        let made = BegunWindow::from_word(charge.left, self.now)?;
        let left = self
            .refilled(charge.cost.get(), made.start)
            .min(begun.count);
        let count = begun.count - left;
        (left > 0).then(|| BegunWindow { count, ..begun }.word())
    }

    pub(crate) fn undo_unchecked(&self, word: Word, charge: RateCharge) -> Option<Word> {
        let full = self.begun(word).count >= self.burst.saturating_mul(2);
        (!full).then(|| self.undo(word, charge)).flatten()
    }

    pub(crate) fn status(&self, word: Word, refused: Option<Cost>) -> RateStatus {
        let BegunWindow {
            start,
            count: missing,
        } = self.begun(word);
        let remaining = self.room(missing);
        let until = |left: u32| self.until(start, missing.saturating_sub(left));
        RateStatus {
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

    /// Tokens that are there now.
    pub(crate) fn remaining(&self, word: Word) -> u32 {
        self.room(self.begun(word).count)
    }

    /// The tokens that were missing after the latest charge.
    pub(crate) fn peak(&self, word: Word) -> Option<RatePeak> {
        let begun = BegunWindow::from_word(word, self.now)?;
        RatePeak::until(begun.count, begun.start + self.period(), self.now)
    }

    /// Tokens that are there when so many are missing.
    fn room(&self, missing: u32) -> u32 {
        self.burst.saturating_sub(missing)
    }

    /// Time until so many tokens of a bucket of the period at `start` have come back.
    fn until(&self, start: i64, tokens: u32) -> Duration {
        let periods = i64::from(tokens.div_ceil(self.rate.count()));
        let millis = if periods == 0 {
            millis(self.now)
        } else {
            start + periods * self.period()
        };
        let nanos = i128::from(millis) * i128::from(NANOS_PER_MILLI);
        let wait = (nanos - i128::from(self.now.as_nanos())).max(0);
        // Too long for a word that a charge wrote, but a file may hold any.
        Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
    }
}

impl CountsSince for TokenBucketAt {
    /// The tokens that are missing now, in the period of now.
    fn begun(&self, word: Word) -> BegunWindow {
        match BegunWindow::from_word(word, self.now) {
            Some(BegunWindow { start, count }) => BegunWindow {
                start: start.max(self.start),
                count: self.refilled(count, start),
            },
            None => BegunWindow {
                start: self.start,
                count: 0,
            },
        }
    }

    fn owes(&self, word: Word) -> bool {
        BegunWindow::from_word(word, self.now).is_some_and(|BegunWindow { start, count }| {
            start >= self.start || self.refilled(count, start) > 0
        })
    }
}
