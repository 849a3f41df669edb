//! The floor under every table of this size: one atomic addition to a line of 64 bytes.

use std::sync::atomic::Ordering;

use sluicegate_limiter::Region;

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
}

impl Limiter for Floor {
    #[inline]
    fn admits(&self, client: u32, _: Moment) -> bool {
        let lines = self.words.len() / LINE;
        let line = ((u128::from(hashed(client)) * lines as u128) >> 64) as usize;
        // Relaxed: nothing is published.
        let added = self.words[line * LINE].fetch_add(1, Ordering::Relaxed) > 0;
        added == (self.answer == Answer::Admit)
    }
}
