//! Converts the state that a store holds of a key to words.

use crate::algorithm::{Meter, Word};
use crate::rate::MAX_RATES;
use crate::remote_state::{RateState, RemoteState};

impl RemoteState {
    /// The words that it stands for under these meters. A state of another algorithm stands for nothing.
    pub(super) fn words(&self, meters: &[Meter; MAX_RATES]) -> [Word; MAX_RATES] {
        std::array::from_fn(|rate| self.rate(rate).word(&meters[rate]))
    }
}

impl RateState {
    fn word(&self, meter: &Meter) -> Word {
        match (*self, meter) {
            (
                Self::Sliding {
                    second,
                    previous,
                    current,
                },
                Meter::Sliding(_),
            ) => Word::sliding(second, previous, current),
            (Self::Begun { millis, count }, Meter::Window(..) | Meter::Interval(..)) => {
                Word::begun(millis, count)
            }
            (
                Self::Owing {
                    millis,
                    ticks,
                    generation,
                },
                Meter::Drain(..),
            ) => Word::owing(millis, ticks, generation),
            _ => Word::UNUSED,
        }
    }
}
