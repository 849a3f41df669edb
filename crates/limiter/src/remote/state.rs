//! Converts the state that a store holds of a key to words.

use crate::algorithm::{CompiledRate, Word};
use crate::rate::MAX_RATES;
use crate::remote_state::{RateState, RemoteState};

impl RemoteState {
    /// The words that it stands for under these meters. A state of another algorithm stands for nothing.
    pub(super) fn words(&self, compiled_rates: &[CompiledRate; MAX_RATES]) -> [Word; MAX_RATES] {
        std::array::from_fn(|rate| self.rate(rate).word(&compiled_rates[rate]))
    }
}

impl RateState {
    fn word(&self, compiled: &CompiledRate) -> Word {
        match (*self, compiled) {
            (
                Self::Sliding {
                    second,
                    previous,
                    current,
                },
                CompiledRate::Sliding(_),
            ) => Word::sliding(second, previous, current),
            (
                Self::Begun { millis, count },
                CompiledRate::Window(..) | CompiledRate::Interval(..),
            ) => Word::begun(millis, count),
            (
                Self::Owing {
                    millis,
                    ticks,
                    generation,
                },
                CompiledRate::Drain(..),
            ) => Word::owing(millis, ticks, generation),
            _ => Word::UNUSED,
        }
    }
}
