//! `pingora_limits::rate::Rate`, used as its documentation shows. One sketch of 4 × 1,024 counters for all clients: it stays in the
//! cache since it does not tell clients apart, and is wrong about single ones as soon as there are many.

use std::time::Duration;

use pingora_limits::rate::Rate;

use super::{Brief, Limiter, Moment};
use crate::load::Answer;

/// A sketch a rate.
pub struct Sketches {
    /// Each with what it lets pass.
    rates: Vec<(Rate, isize)>,
}

impl Sketches {
    pub fn new(brief: Brief) -> Self {
        let rate = |answer| {
            let most = match answer {
                Answer::Admit => isize::MAX,
                Answer::Refuse => 0,
            };
            (Rate::new(Duration::from_secs(3600)), most)
        };
        Self {
            rates: brief.answers().map(rate).collect(),
        }
    }
}

impl Limiter for Sketches {
    #[inline]
    fn admits(&self, client: u32, _: Moment) -> bool {
        self.rates
            .iter()
            .all(|(rate, most)| rate.observe(&client, 1) <= *most)
    }
}
