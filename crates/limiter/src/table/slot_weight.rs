//! Says which slots must stay with their keys, and how much their words count.

use crate::algorithm::{RateAt, Word};

/// Says what a word weighs.
pub(crate) trait SlotWeight {
    /// Returns whether its slot must stay with its key.
    fn owes(&self, word: Word) -> bool;

    /// The units that it counts.
    fn used_units(&self, word: Word) -> u64;
}

impl SlotWeight for RateAt {
    fn owes(&self, word: Word) -> bool {
        self.owes(word)
    }

    fn used_units(&self, word: Word) -> u64 {
        self.used_units(word)
    }
}
