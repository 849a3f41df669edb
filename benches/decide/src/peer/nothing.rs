//! The bench itself: a turn in which nobody decides. What it takes is taken off what the others take.

use super::{Brief, Limiter, Moment};
use crate::load::Answer;

/// Says what it was made to say.
pub struct Nothing {
    answer: Answer,
}

impl Nothing {
    pub fn new(brief: Brief) -> Self {
        Self {
            answer: brief.answer,
        }
    }
}

impl Limiter for Nothing {
    #[inline]
    fn admits(&self, client: u32, _: Moment) -> bool {
        // There is no such client, which only we know.
        (client != u32::MAX) == (self.answer == Answer::Admit)
    }
}
