//! Keeps the largest use of each key in a fair sample of keys of bounded size.
//!
//! A key is in the sample if its hash ends with so many zero bits; whenever there are too many, one more bit must be zero.
//! The hash is keyed with a secret, so what a key uses does not depend on it, and neither does the time at which the key came.

use ahash::AHashMap;
use sluicegate_limiter::{KeyHash, MAX_RATES};

/// Units under each rate of a limit.
pub(super) type Units = [u32; MAX_RATES];

/// The mark of a key that shared counters with others: what it used itself is at least the units beside the mark.
pub(super) const SHARED: u32 = 1 << 31;
/// The mark of such a key that reached the limit together with the others.
pub(super) const SHARED_LIMIT: u32 = 1 << 30;

/// Returns the units of a key without its marks.
pub(super) fn used(units: u32) -> u32 {
    units & !(SHARED | SHARED_LIMIT)
}

/// The largest use of some keys, of each rate by itself.
#[derive(Clone, Debug)]
pub(super) struct KeySample {
    keys: AHashMap<u64, Units>,
    /// Zero bits at the end of the hash of each key.
    zero_bits: u32,
    /// Keys that it may have.
    most: usize,
}

impl KeySample {
    /// An empty sample of at most so many keys.
    pub(super) fn new(most: usize) -> Self {
        Self {
            keys: AHashMap::new(),
            zero_bits: 0,
            most,
        }
    }

    /// Sets the number of keys that it may have, and frees the memory of those beyond it.
    pub(super) fn bound(&mut self, most: usize) {
        self.most = most;
        self.thin();
        self.keys.shrink_to(0);
    }

    /// Returns the number of keys that each key of the sample stands for.
    pub(super) fn keys_for_each(&self) -> u64 {
        1_u64.checked_shl(self.zero_bits).unwrap_or(u64::MAX)
    }

    /// Returns the keys by their hashes and their largest uses, in no order.
    pub(super) fn keys(&self) -> impl Iterator<Item = (u64, &Units)> {
        self.keys.iter().map(|(key, units)| (*key, units))
    }

    /// Adds a use of a key.
    pub(super) fn add(&mut self, key: KeyHash, units: &Units) {
        if zero_bits(key.bits()) < self.zero_bits {
            return;
        }
        let most = self.keys.entry(key.bits()).or_default();
        for (most, units) in most.iter_mut().zip(units) {
            let marks = (*most | *units) & (SHARED | SHARED_LIMIT);
            *most = used(*most).max(used(*units)) | marks;
        }
        self.thin();
    }

    /// Adds the keys of another sample; then both are thinned alike.
    pub(super) fn merge(&mut self, other: &Self) {
        self.require(self.zero_bits.max(other.zero_bits));
        for (key, units) in &other.keys {
            self.add(KeyHash::from_bits(*key), units);
        }
    }

    /// Drops keys until there are not too many.
    fn thin(&mut self) {
        while self.keys.len() > self.most {
            self.require(self.zero_bits + 1);
        }
    }

    /// Drops the keys whose hash has fewer zero bits.
    fn require(&mut self, least: u32) {
        self.zero_bits = least;
        self.keys.retain(|key, _| zero_bits(*key) >= least);
    }
}

/// Returns the zero bits at the end of a hash, without the lowest bit, which tables do not hold.
fn zero_bits(key: u64) -> u32 {
    (key >> 1).trailing_zeros()
}

#[cfg(test)]
mod tests {
    use sluicegate_base::bounds::USAGE_KEYS;
    use sluicegate_limiter::Seed;

    use super::*;

    fn key(number: u64) -> KeyHash {
        let seed = Seed::from_bytes([5; 16]);
        KeyHash::from_bits(
            seed.hasher()
                .part(&number.to_le_bytes())
                .finish()
                .kept_bits(),
        )
    }

    /// Goal: few keys are all there, with the largest use of each rate by itself. Method: three keys, one with two uses.
    #[test]
    fn few_keys_are_kept_with_their_largest_uses() {
        let mut sample = KeySample::new(USAGE_KEYS);
        for (number, units) in [(1, [2, 9, 0, 0]), (2, [1, 1, 0, 0]), (1, [5, 5, 0, 0])] {
            sample.add(key(number), &units);
        }
        let mut units: Vec<_> = sample.keys().map(|(_, units)| units).collect();
        units.sort();
        assert_eq!(units, [&[1, 1, 0, 0], &[5, 9, 0, 0]]);
        assert_eq!((sample.keys.len(), sample.keys_for_each()), (2, 1));
    }

    /// Goal: a sample of many keys is bounded and fair. Method: 100,000 keys of which every tenth uses 9 of a rate; shares and the
    /// extrapolated number within what chance allows, and the same after a merge of two halves.
    #[test]
    fn many_keys_are_sampled_fairly() {
        let (mut whole, mut halves) = (
            KeySample::new(USAGE_KEYS),
            [KeySample::new(USAGE_KEYS), KeySample::new(USAGE_KEYS)],
        );
        for number in 0..100_000 {
            let units = [if number % 10 == 0 { 9 } else { 1 }, 0, 0, 0];
            whole.add(key(number), &units);
            halves[usize::from(number >= 30_000)].add(key(number), &units);
        }
        let [mut merged, other] = halves;
        merged.merge(&other);
        for sample in [whole, merged] {
            assert!((USAGE_KEYS / 4..=USAGE_KEYS).contains(&sample.keys.len()));
            let all = sample.keys.len() as u64 * sample.keys_for_each();
            assert!((90_000..110_000).contains(&all), "{all}");
            let heavy = sample.keys().filter(|(_, units)| units[0] == 9).count();
            let share = heavy as f64 / sample.keys.len() as f64;
            assert!((0.07..0.13).contains(&share), "{share}");
        }
    }

    /// Goal: a sample gives memory back where more limits share it. Method: a full sample, and a lower bound: its keys, what they stand
    /// for, and its slots.
    #[test]
    fn a_lower_bound_frees_memory() {
        let mut sample = KeySample::new(USAGE_KEYS);
        (0..USAGE_KEYS as u64).for_each(|number| sample.add(key(number), &[1; MAX_RATES]));
        assert_eq!(sample.keys.len(), USAGE_KEYS);
        sample.bound(447);
        assert!((100..=447).contains(&sample.keys.len()));
        assert!(sample.keys.capacity() <= 512);
        let all = sample.keys.len() as u64 * sample.keys_for_each();
        assert!((3_000..5_500).contains(&all), "{all}");
    }
}
