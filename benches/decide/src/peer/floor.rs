//! The floor under every table of this size: one atomic addition to a line of 64 bytes. Once by itself, once with the hash and the
//! clock that whoever uses a limiter pays for: below that no limiter of this kind gets.

use std::hint::black_box;
use std::sync::atomic::Ordering;

use quanta::Clock;
use sluicegate_limiter::{Region, Seed};

use super::{Brief, Limiter, Moment, hashed, sluicegate};
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

/// The same as one would use it: a clock is read, and the address hashed under a secret seed.
pub struct FloorAsUsed {
    floor: Floor,
    seed: Seed,
    clock: Clock,
}

impl FloorAsUsed {
    pub fn new(brief: Brief) -> Self {
        Self {
            floor: Floor::new(brief),
            seed: Seed::from_bytes([7; 16]),
            clock: Clock::new(),
        }
    }
}

impl Limiter for FloorAsUsed {
    #[inline]
    fn admits(&self, client: u32, _: Moment) -> bool {
        black_box(self.clock.now());
        let key = self.seed.hasher().part(&client.to_be_bytes()).finish();
        self.floor.add(key.bits())
    }
}
