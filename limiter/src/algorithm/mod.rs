//! Says how a rate is judged, apart from where its state is stored: pure functions over one packed word a rate.

use crate::cost::Cost;
use crate::time::Timestamp;

mod sliding_window;

pub(crate) use sliding_window::{Judge, Meter};

/// The packed state of one rate for one key; what its bits mean is its algorithm's business.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Word(u64);

impl Word {
    /// Never charged.
    pub(crate) const UNUSED: Self = Self(0);

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }
}

/// A charge of one rate, as an undo needs to know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    /// How much of it is to be taken back.
    pub(crate) cost: Cost,
    /// The word as the charge left it.
    pub(crate) left: Word,
    /// When it was made.
    #[expect(dead_code, reason = "windows know it from their word")]
    pub(crate) made: Timestamp,
}
