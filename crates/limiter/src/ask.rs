//! Says what a request takes from one limit.

use crate::cost::Cost;
use crate::key::KeyHash;
use crate::limit::Limit;
use crate::share::Payer;

/// One limit that a request is checked against.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The limit.
    pub limit: &'a Limit,
    /// The key whose counter is charged.
    pub key: KeyHash,
    /// The units to charge.
    pub cost: Cost,
    /// Payer of the slot if the key has none; `None` for a key that no client can invent. See
    /// [`Limit::with_payer_shares`].
    pub payer: Option<Payer>,
}

impl Ask<'_> {
    /// Sums what all of `asks` take from this one's counter; two asks may name the same counter.
    pub(crate) fn joint_cost(&self, asks: &[Self]) -> Cost {
        let same =
            |other: &&Self| other.key == self.key && other.limit.shares_counters_with(self.limit);
        let others = asks
            .iter()
            .filter(|other| !std::ptr::eq(*other, self))
            .filter(same);
        others.fold(self.cost, |sum, other| sum.saturating_add(other.cost))
    }
}
