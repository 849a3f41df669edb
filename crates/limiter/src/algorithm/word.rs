//! Defines the word that holds what a key used of a rate, and the charge that an undo takes back from it.

use crate::cost::Cost;
use crate::time::Timestamp;

/// The packed state of one rate for one key; what its bits mean is its algorithm's business.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Word(u64);

impl Word {
    /// Never charged.
    pub(crate) const UNUSED: Self = Self(0);

    #[inline(always)]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline(always)]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }
}

/// A charge of one rate, as an undo needs to know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateCharge {
    /// The part to take back.
    pub(crate) cost: Cost,
    /// The word as the charge left it.
    pub(crate) left: Word,
    /// Time of the charge.
    pub(crate) made: Timestamp,
}
