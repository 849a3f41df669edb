//! Carries words over when the structure of a limit is edited: counts are added, never lost.

use super::{SlidingAt, WindowSnapshot, stamp_of};
use crate::algorithm::Word;

impl SlidingAt {
    /// Units used by now; a fraction affects no decision, and only grows smaller.
    pub(crate) fn used_units(&self, word: Word) -> u64 {
        self.units(&self.window(word))
    }

    /// `word` and `other` together, both words of this rate.
    #[must_use]
    pub(crate) fn sum(&self, word: Word, other: Word) -> Word {
        self.together(word, other, u32::saturating_add)
    }

    /// A word that counts at least what `word` and what `other` count, both words of this rate.
    #[must_use]
    pub(crate) fn larger(&self, word: Word, other: Word) -> Word {
        self.together(word, other, u32::max)
    }

    /// Both words moved into the later of their windows, and each count joined by `join`.
    fn together(&self, word: Word, other: Word, join: fn(u32, u32) -> u32) -> Word {
        let (Some(one), Some(two)) = (word.snapshot(), other.snapshot()) else {
            return if word == Word::UNUSED { other } else { word };
        };
        let second = self.second_of(one.stamp).max(self.second_of(two.stamp));
        let one = self.seen_from(one, second);
        let two = self.seen_from(two, second);
        Word::pack(stamp_of(second), join(one.0, two.0), join(one.1, two.1))
    }

    /// The previous and the current count of a word as the window of `second` sees them.
    fn seen_from(
        &self,
        WindowSnapshot {
            stamp,
            previous,
            current,
        }: WindowSnapshot,
        second: i64,
    ) -> (u32, u32) {
        let windows =
            (self.start_of(second) - self.start_of(self.second_of(stamp))) / self.period_secs();
        match windows {
            0 => (previous, current),
            1 => (current, 0),
            _ => (0, 0),
        }
    }

    /// The counts of `told` as of the later second of both words; without `told`, none since the second of `word`.
    #[must_use]
    pub(crate) fn adopt(&self, word: Word, told: Word) -> Word {
        let Some(told) = told.snapshot() else {
            return match word.snapshot() {
                Some(before) => Word::pack(before.stamp, 0, 0),
                None => Word::UNUSED,
            };
        };
        let before = word.snapshot().map(|before| self.second_of(before.stamp));
        let second = before.unwrap_or(i64::MIN).max(self.second_of(told.stamp));
        let (previous, current) = self.seen_from(told, second);
        Word::pack(stamp_of(second), previous, current)
    }

    /// A word of the rate `from`, at the same moment, as one of this rate.
    ///
    /// The periods differ and a word does not tell when in its windows the charges were made, so all that `from` still
    /// counts is taken as made in the window of the latest charge: more than the truth for at most two of this rate's
    /// periods, never less.
    #[must_use]
    pub(crate) fn convert(&self, word: Word, from: &SlidingAt) -> Word {
        let Some(snapshot) = word.snapshot() else {
            return Word::UNUSED;
        };
        if self.rate.period() == from.rate.period() {
            return word;
        }
        let window = from.window(word);
        match window.previous.saturating_add(window.current) {
            0 => Word::UNUSED,
            counted => Word::pack(snapshot.stamp, 0, counted),
        }
    }
}
