//! Holds a count and the moment when what it counts began: all that windows and buckets refilled at intervals remember.
//!
//! What begins then and when the count ends is the algorithm's business; the word, and how two of them are compared and
//! joined, is the same for both and stands here once.
//!
//! # The word
//! ```text
//! 63  62                     24 23          0
//! | 1 |  start in ms 39         |  count 24  |
//! ```
//! Starts go round after 2^39 ms, 17 years; one up to a day ahead is a clock that stepped back, any other is past. Counts
//! stop at 2^24 − 1. The highest bit says that the word was charged, so 0 says "never used".

use super::word::Word;
use crate::time::Timestamp;

const NANOS_PER_MILLI: u64 = 1_000_000;
const DAY_MILLIS: i64 = 24 * 60 * 60 * 1_000;
const COUNT_BITS: u32 = 24;
const ROUND: i64 = 1 << 39;
const CHARGED: u64 = 1 << 63;

/// The largest count.
pub(super) const MOST: u32 = (1 << COUNT_BITS) - 1;

/// A count since a start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BegunWindow {
    /// In milliseconds since the epoch; a calendar's window may begin before it.
    pub(super) start: i64,
    pub(super) count: u32,
}

impl BegunWindow {
    /// Reads a charged word as of a moment.
    pub(super) fn from_word(word: Word, now: Timestamp) -> Option<Self> {
        if word == Word::UNUSED {
            return None;
        }
        let now = millis(now);
        let start = (word.bits() >> COUNT_BITS) as i64 & (ROUND - 1);
        let ahead = (start - now).rem_euclid(ROUND);
        let start = if ahead <= DAY_MILLIS {
            now + ahead
        } else {
            now + ahead - ROUND
        };
        Some(Self {
            start,
            count: (word.bits() & u64::from(MOST)) as u32,
        })
    }

    /// The word that holds it.
    pub(super) fn word(self) -> Word {
        let start = (self.start.rem_euclid(ROUND) as u64) << COUNT_BITS;
        Word::from_bits(CHARGED | start | u64::from(self.count.min(MOST)))
    }

    /// Adds units.
    pub(super) fn plus(self, units: u32) -> Self {
        Self {
            count: self.count.saturating_add(units),
            ..self
        }
    }
}

impl Word {
    /// The word of a count since this millisecond of the epoch.
    pub(crate) fn begun(millis: u64, count: u32) -> Self {
        // Only the remainder matters.
        let start = (millis % ROUND as u64) as i64;
        BegunWindow { start, count }.word()
    }
}

/// A moment, in whole milliseconds since the epoch.
pub(super) fn millis(now: Timestamp) -> i64 {
    // 2^64 ns are below 2^45 ms.
    (now.as_nanos() / NANOS_PER_MILLI) as i64
}

/// A judge whose words hold a [`BegunWindow`].
pub(super) trait CountsSince {
    /// Reads the part of the word that counts at the judge's moment, and its start.
    fn begun(&self, word: Word) -> BegunWindow;

    /// Returns whether the word may still affect a decision.
    fn owes(&self, word: Word) -> bool;

    /// Units used by now.
    fn used_units(&self, word: Word) -> u64 {
        u64::from(self.begun(word).count)
    }

    /// The one of two words that has used less by now.
    fn lighter(&self, [one, other]: [Word; 2]) -> Word {
        if self.begun(one).count <= self.begun(other).count {
            one
        } else {
            other
        }
    }

    /// Both words together.
    fn sum(&self, word: Word, other: Word) -> Word {
        self.join(word, other, u32::saturating_add)
    }

    /// A word that counts at least what each of them counts.
    fn larger(&self, word: Word, other: Word) -> Word {
        self.join(word, other, u32::max)
    }

    /// Both counts joined, since the later start: so what is joined ends no earlier than either.
    fn join(&self, word: Word, other: Word, join: fn(u32, u32) -> u32) -> Word {
        match (self.owes(word), self.owes(other)) {
            (_, false) => word,
            (false, true) => other,
            (true, true) => {
                let one = self.begun(word);
                let two = self.begun(other);
                let start = one.start.max(two.start);
                let count = join(one.count, two.count);
                BegunWindow { start, count }.word()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_nanos(millis as u64 * NANOS_PER_MILLI)
    }

    /// Goal: a word says what was put into it, for half a round of starts. Method: starts around now, and the ends of the
    /// range.
    #[test]
    fn a_word_gives_back_what_it_holds() {
        let now = 1_800_000_000_000;
        for start in [
            now - ROUND + DAY_MILLIS + 1,
            now - 1,
            now,
            now + 1,
            now + DAY_MILLIS,
        ] {
            for count in [0, 1, MOST] {
                let held = BegunWindow { start, count };
                assert_eq!(BegunWindow::from_word(held.word(), at(now)), Some(held));
            }
        }
        let ahead = BegunWindow {
            start: now + DAY_MILLIS + 1,
            count: 1,
        };
        let seen = BegunWindow::from_word(ahead.word(), at(now)).map(|begun| begun.start);
        assert_eq!(seen, Some(ahead.start - ROUND), "further ahead is past");
        assert_eq!(BegunWindow::from_word(Word::UNUSED, at(now)), None);
        let full = BegunWindow {
            start: now,
            count: MOST,
        }
        .plus(u32::MAX)
        .word();
        assert_eq!(
            BegunWindow::from_word(full, at(now)).map(|begun| begun.count),
            Some(MOST)
        );
    }
}
