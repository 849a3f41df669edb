//! The floor under every table of this size: one atomic addition to a line of 64 bytes. Once by itself, once with the hash and the
//! clock that `sluicegate` pays for too: with these no limiter charges an exact counter for less, unless it fetches it ahead. To
//! refuse takes no addition.

use std::sync::atomic::Ordering;

use sluicegate_limiter::Region;

use super::sluicegate::{self, Preparation};
use super::{Brief, Limiter, Moment, hashed};
use crate::load::Answer;

/// As many lines as the limiter's table takes for so many clients, in memory of the same kind.
pub struct Floor {
    words: Region,
    answer: Answer,
}

/// Words of a line.
const LINE: usize = 8;

impl Floor {
    pub fn new(brief: Brief) -> Self {
        let words = Region::owned(sluicegate::bytes(brief) / 8);
        for word in words.iter().step_by(LINE) {
            word.store(1, Ordering::Relaxed);
        }
        Self {
            words,
            answer: brief.answer,
        }
    }

    /// Adds to the line of this hash; true admits.
    #[inline]
    fn add(&self, hash: u64) -> bool {
        let lines = self.words.len() / LINE;
        let line = ((u128::from(hash) * lines as u128) >> 64) as usize;
        // Relaxed: nothing is published.
        let added = self.words[line * LINE].fetch_add(1, Ordering::Relaxed) > 0;
        added == (self.answer == Answer::Admit)
    }
}

impl Limiter for Floor {
    #[inline]
    fn admits(&self, client: u32, _: Moment) -> bool {
        self.add(hashed(client))
    }
}

/// The same as one would use it.
pub struct FloorAsUsed {
    floor: Floor,
    preparation: Preparation,
}

impl FloorAsUsed {
    pub fn new(brief: Brief) -> Self {
        Self {
            floor: Floor::new(brief),
            preparation: Preparation::new(),
        }
    }
}

impl Limiter for FloorAsUsed {
    #[inline]
    fn admits(&self, client: u32, _: Moment) -> bool {
        let key = self.preparation.key(client);
        self.preparation.read_clock();
        self.floor.add(key.bits())
    }
}
