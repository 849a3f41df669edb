//! Judges by windows that do not slide: a count that starts again when the next window begins.
//!
//! Windows are aligned to the Unix epoch, or to days, weeks or months somewhere (`calendar`), or each key's window starts
//! with its first request.
//!
//! # The word
//! ```text
//! 63  62                     24 23          0
//! | 1 |  start in ms 39         |  count 24  |
//! ```
//! Starts go round after 2^39 ms, 17 years. The start of a slot's word grows whenever it changes hands, and an undo
//! leaves it alone: no word comes back under another key.
//!
//! # Guarantee
//! *No window of the chosen alignment admits more than count.* Any other window of the same length overlaps two of them,
//! so it holds at most 2 · count: a client that sends all of one at its end and all of the next at its beginning gets
//! that. With windows from the first request, two bursts of one count are at least one window apart, but a first request
//! alone, then count − 1 at the end, then count at the next begin still come to 2 · count − 1.
//!
//! # Clocks
//! A start up to a day ahead is a clock that stepped back: the word is judged in its own window, which ends when it would
//! have ended. Further back, or after 17 years, it is forgotten.

use std::time::Duration;

use super::{Charge, Word};
use crate::cost::Cost;
use crate::decision::{NEVER, Standing};
use crate::rate::Rate;
use crate::time::Timestamp;

const NANOS_PER_MILLI: u64 = 1_000_000;
const MILLIS_PER_SECOND: i64 = 1_000;
const DAY_MILLIS: i64 = 24 * 60 * 60 * 1_000;
const COUNT_BITS: u32 = 24;
const MOST: u32 = (1 << COUNT_BITS) - 1;
const ROUND: i64 = 1 << 39;
const USED: u64 = 1 << 63;

/// Where windows begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// At multiples of the period.
    Epoch,
    /// At a key's first request.
    First,
    /// The window that now is in begins at this second and is so long.
    Span {
        /// Seconds since the epoch; a window's begin may lie before it.
        start: i64,
        /// In seconds.
        length: u32,
    },
}

/// A rate at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge {
    rate: Rate,
    shape: Shape,
    now: Timestamp,
    /// Where a window that begins now begins, in milliseconds since the epoch.
    start: i64,
    /// Milliseconds of a window.
    length: i64,
}

/// A word as a moment sees it.
#[derive(Clone, Copy)]
struct Window {
    start: i64,
    count: u32,
}

/// Packs a start and a count, which stops at 2^24 − 1.
pub(super) fn pack(start: i64, count: u32) -> Word {
    let start = (start.rem_euclid(ROUND) as u64) << COUNT_BITS;
    Word::from_bits(USED | start | u64::from(count.min(MOST)))
}

/// The start and the count of a word that was charged; a start more than a day ahead of `now` is past.
pub(super) fn unpack(word: Word, now: i64) -> Option<(i64, u32)> {
    if word == Word::UNUSED {
        return None;
    }
    let start = (word.bits() >> COUNT_BITS) as i64 & (ROUND - 1);
    let ahead = (start - now).rem_euclid(ROUND);
    let start = if ahead <= DAY_MILLIS {
        now + ahead
    } else {
        now + ahead - ROUND
    };
    Some((start, (word.bits() & u64::from(MOST)) as u32))
}

impl Judge {
    pub(crate) fn new(rate: Rate, shape: Shape, now: Timestamp) -> Self {
        let millis = (now.as_nanos() / NANOS_PER_MILLI) as i64;
        let period = i64::from(rate.period().as_secs()) * MILLIS_PER_SECOND;
        let (start, length) = match shape {
            Shape::Epoch => (millis - millis % period, period),
            Shape::First => (millis, period),
            Shape::Span { start, length } => (
                start * MILLIS_PER_SECOND,
                i64::from(length) * MILLIS_PER_SECOND,
            ),
        };
        Self {
            rate,
            shape,
            now,
            start,
            length,
        }
    }

    /// Whether windows begin at the same moments, for windows of one period.
    pub(crate) fn is_aligned_as(&self, other: &Self) -> bool {
        std::mem::discriminant(&self.shape) == std::mem::discriminant(&other.shape)
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

    fn counts(&self, start: i64) -> bool {
        match self.shape {
            Shape::First => self.millis() < start + self.length,
            Shape::Epoch | Shape::Span { .. } => start >= self.start,
        }
    }

    fn window(&self, word: Word) -> Window {
        match unpack(word, self.millis()) {
            Some((start, count)) if self.counts(start) => Window { start, count },
            _ => Window {
                start: self.start,
                count: 0,
            },
        }
    }

    pub(crate) fn fits(&self, word: Word, cost: Cost) -> bool {
        self.has_room(self.window(word).count, cost)
    }

    fn has_room(&self, count: u32, cost: Cost) -> bool {
        count.saturating_add(cost.get()) <= self.rate.count()
    }

    pub(crate) fn charge(&self, word: Word, cost: Cost) -> Option<Word> {
        let Window { start, count } = self.window(word);
        self.has_room(count, cost)
            .then(|| pack(start, count.saturating_add(cost.get())))
    }

    pub(crate) fn force(&self, word: Word, cost: Cost) -> Word {
        let Window { start, count } = self.window(word);
        pack(start, count.saturating_add(cost.get()))
    }

    /// As [`force`](Self::force) on a word that several keys share. Where each would have a window of its own the shared
    /// one begins again with every charge: it ends no earlier than any of theirs.
    pub(crate) fn force_shared(&self, word: Word, cost: Cost) -> Word {
        let Window { start, count } = self.window(word);
        pack(start.max(self.start), count.saturating_add(cost.get()))
    }

    pub(crate) fn set(&self, word: Word, used: u32) -> Word {
        pack(self.window(word).start, used)
    }

    pub(crate) fn undo(&self, word: Word, charge: Charge) -> Option<Word> {
        let (start, count) = unpack(word, self.millis())?;
        let (begun, _) = unpack(charge.left, self.millis())?;
        (start == begun && count > 0).then(|| pack(start, count.saturating_sub(charge.cost.get())))
    }

    pub(crate) fn undo_forced(&self, word: Word, charge: Charge) -> Option<Word> {
        let (_, count) = unpack(word, self.millis())?;
        (count < MOST).then(|| self.undo(word, charge)).flatten()
    }

    pub(crate) fn owes(&self, word: Word) -> bool {
        unpack(word, self.millis()).is_some_and(|(start, _)| self.counts(start))
    }

    pub(crate) fn lighter(&self, [one, other]: [Word; 2]) -> Word {
        if self.window(one).count <= self.window(other).count {
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
        let (one, two) = (self.window(word), self.window(other));
        match (self.owes(word), self.owes(other)) {
            (_, false) => word,
            (false, true) => other,
            (true, true) => pack(one.start.max(two.start), join(one.count, two.count)),
        }
    }

    pub(crate) fn used_units(&self, word: Word) -> u64 {
        u64::from(self.window(word).count)
    }

    pub(crate) fn standing(&self, word: Word, refused: Option<Cost>) -> Standing {
        let Window { start, count } = self.window(word);
        let end = match count {
            0 => Duration::ZERO,
            _ => self.until(start + self.length),
        };
        Standing {
            rate: self.rate,
            remaining: self.rate.count().saturating_sub(count),
            next_free: match refused {
                Some(cost) if cost.get() > self.rate.count() => NEVER,
                _ => end,
            },
            reset: end,
        }
    }

    /// How long until this millisecond.
    fn until(&self, millis: i64) -> Duration {
        let nanos = i128::from(millis) * i128::from(NANOS_PER_MILLI);
        Duration::from_nanos((nanos - i128::from(self.now.as_nanos())).max(0) as u64)
    }
}
