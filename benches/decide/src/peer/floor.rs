//! The floor under every table of this size: one atomic addition to a line of 64 bytes. Once by itself, once with the hash and the
//! clock that `sluicegate` pays for too: with these no limiter charges an exact counter for less, unless it fetches it ahead. To
//! refuse takes no addition. Of several limits each has its line.

use std::sync::atomic::Ordering;

use sluicegate_limiter::Region;

use super::sluicegate::{self, Preparation};
use super::{Brief, Limiter, Moment, hashed};
use crate::load::Answer;

/// As many lines as the limiter's tables take for so many clients, in memory of the same kind.
pub struct Floor<const LIMITS: usize> {
    tables: [Region; LIMITS],
    answer: Answer,
}

/// Words of a line.
const LINE: usize = 8;

impl<const LIMITS: usize> Floor<LIMITS> {
    pub fn new(brief: Brief) -> Self {
        let tables = sluicegate::bytes::<LIMITS>(brief).map(|bytes| {
            let words = Region::owned(bytes / 8);
            for word in words.iter().step_by(LINE) {
                word.store(1, Ordering::Relaxed);
            }
            words
        });
        Self {
            tables,
            answer: brief.answer,
        }
    }

    /// Adds to the lines of these hashes; true admits.
    #[inline]
    fn add(&self, hashes: [u64; LIMITS]) -> bool {
        let mut added = true;
        for (words, hash) in self.tables.iter().zip(hashes) {
            let lines = words.len() / LINE;
            let line = ((u128::from(hash) * lines as u128) >> 64) as usize;
            // Relaxed: nothing is published.
            added &= words[line * LINE].fetch_add(1, Ordering::Relaxed) > 0;
        }
        added == (self.answer == Answer::Admit)
    }
}

impl<const LIMITS: usize> Limiter for Floor<LIMITS> {
    #[inline]
    fn admits(&self, client: u32, _: Moment) -> bool {
        self.add(super::keys(client).map(hashed))
    }
}

/// The same as one would use it.
pub struct FloorAsUsed<const LIMITS: usize> {
    floor: Floor<LIMITS>,
    preparation: Preparation,
}

impl<const LIMITS: usize> FloorAsUsed<LIMITS> {
    pub fn new(brief: Brief) -> Self {
        Self {
            floor: Floor::new(brief),
            preparation: Preparation::new(),
        }
    }
}

impl<const LIMITS: usize> Limiter for FloorAsUsed<LIMITS> {
    #[inline]
    fn admits(&self, client: u32, _: Moment) -> bool {
        let keys = super::keys(client).map(|key| self.preparation.key(key));
        self.preparation.read_clock();
        self.floor.add(keys.map(|key| key.bits()))
    }
}
