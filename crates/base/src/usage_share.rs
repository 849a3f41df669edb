//! Divides the memory for samples of uses among the tables of all limits.
//!
//! A sample is a hash table, so its memory comes in powers of two: each table gets the largest that fits into its part of
//! [`USAGE_BYTES`], beside its heaviest keys, and as many keys as fill it. Of very many tables the samples shrink first, since a heavy key
//! that is left out cannot be estimated from others.

use sluicegate_limiter::MAX_RATES;

use crate::bounds::{USAGE_BYTES, USAGE_HEAVIEST, USAGE_KEYS};

/// Samples of each table: that of the present, and the one before.
const SAMPLES: u64 = 2;
/// Bytes of a slot: 24 of a key with its uses, and one of control.
const SLOT_BYTES: u64 = 25;
/// Slots of a full sample: a hash table is at most seven eighths full, and holds one key more for a moment.
const MOST_SLOTS: u64 = ((USAGE_KEYS + 1) * 8 / 7).next_power_of_two() as u64;
/// Slots of the smallest sample, and its heaviest keys: some 3 KB for a table with both samples. A table of a limit itself is larger.
const LEAST_SLOTS: u64 = 16;
/// Bytes of a key among the heaviest of each rate.
const HEAVIEST_BYTES: u64 = 16 * MAX_RATES as u64;

/// The part of each sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageShare {
    /// Keys in a sample.
    pub keys: usize,
    /// Keys among the heaviest of each rate.
    pub heaviest: usize,
    /// Bytes of all samples when they are full.
    pub bytes: u64,
}

impl UsageShare {
    /// Returns the part where so many tables are sampled.
    #[must_use]
    pub fn new(tables: u64) -> Self {
        let samples = tables.saturating_mul(SAMPLES);
        let bytes = |slots| samples.saturating_mul(sample_bytes(slots));
        let mut slots = MOST_SLOTS;
        while slots > LEAST_SLOTS && bytes(slots) > USAGE_BYTES {
            slots /= 2;
        }
        let filling = usize::try_from(slots / 8 * 7 - 1).unwrap_or(USAGE_KEYS);
        Self {
            keys: filling.min(USAGE_KEYS),
            heaviest: usize::try_from(heaviest(slots)).unwrap_or(USAGE_HEAVIEST),
            bytes: bytes(slots),
        }
    }
}

/// Returns the heaviest keys of each rate beside a sample of so many slots.
fn heaviest(slots: u64) -> u64 {
    slots.min(USAGE_HEAVIEST as u64)
}

/// Returns the bytes of a sample of so many slots and of the heaviest keys beside it.
fn sample_bytes(slots: u64) -> u64 {
    slots * SLOT_BYTES + heaviest(slots) * HEAVIEST_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the samples of all limits together are bounded, and few limits have full ones. Method: numbers of tables from none to more
    /// than a configuration has, of which the last have the smallest samples.
    #[test]
    fn all_samples_together_are_bounded() {
        assert_eq!(UsageShare::new(0).bytes, 0);
        assert_eq!(UsageShare::new(1).bytes, 2 * (8192 * 25 + 256 * 16 * 4));
        assert_eq!(UsageShare::new(151).keys, USAGE_KEYS);
        assert_eq!(UsageShare::new(152).keys, 3_583);
        assert_eq!(UsageShare::new(1_000).keys, 447);
        assert_eq!(UsageShare::new(1_472).heaviest, USAGE_HEAVIEST);
        assert_eq!(UsageShare::new(1_473).heaviest, USAGE_HEAVIEST / 2);
        let mut before = UsageShare::new(0);
        for tables in 1..=20_000 {
            let share = UsageShare::new(tables);
            assert!(share.bytes <= USAGE_BYTES && share.keys <= before.keys);
            // Never less than half of what there is.
            assert!(share.bytes > USAGE_BYTES / 2 || share.keys == USAGE_KEYS);
            before = share;
        }
        assert_eq!((before.keys, before.heaviest), (13, 16));
        assert_eq!(UsageShare::new(1_000_000).keys, 13);
    }
}
