//! Owns what a limit's sample shows of one rate: how many keys used how much of it.

use std::collections::BTreeMap;

use sluicegate_base::bounds::{USAGE_EXACT, USAGE_STEPS};
use sluicegate_limiter::Rate;

/// The largest uses of one rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateUsage {
    /// The rate.
    pub rate: Rate,
    /// Units that a key may use at once: the count, or the burst.
    pub limit: u32,
    /// Keys of the sample.
    pub sample_keys: u64,
    /// Keys for which each of the sample stands: 1 if all are in it.
    pub keys_for_each: u64,
    /// Keys of the sample by their largest use, rising; several uses beyond [`USAGE_EXACT`] are joined under the largest of them.
    pub peaks: Vec<(u32, u64)>,
    /// Keys of the sample that used all that they might.
    pub at_limit: u64,
    /// Units by which a use may exceed what the sample has: those that a bucket was paid back between two looks. 0 for windows.
    pub unseen: u32,
}

/// Counts equal uses; beyond [`USAGE_EXACT`] those of one step of [`USAGE_STEPS`] an octave are joined under the largest of them.
pub(super) fn joined(units: impl Iterator<Item = u32>) -> Vec<(u32, u64)> {
    let mut steps: BTreeMap<(u32, u32), (u32, u64)> = BTreeMap::new();
    for used in units {
        let width = match used {
            0..=USAGE_EXACT => 1,
            _ => (1 << used.ilog2()) / USAGE_STEPS,
        };
        let (most, keys) = steps.entry((width, used / width)).or_default();
        *most = (*most).max(used);
        *keys += 1;
    }
    steps.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: small uses are exact, large ones within a few percent, and the largest is exact. Method: uses around the bound and above.
    #[test]
    fn large_uses_are_joined_within_a_few_percent() {
        let uses = [1, 1, 2, 127, 128, 129, 132, 1_009, 1_010, 1_048_575];
        let joined = joined(uses.into_iter());
        assert_eq!(
            joined,
            [
                (1, 2),
                (2, 1),
                (127, 1),
                (128, 1),
                (129, 1),
                (132, 1),
                (1_010, 2),
                (1_048_575, 1)
            ]
        );
    }
}
