//! Derives from a key where in each period its windows begin.
//!
//! The offset is a fixed part of the period: the keys of a limit are spread evenly over it, and every window of one key begins at
//! the same place, whatever the process, as long as the key's hash is the same.
//!
//! # What a client learns
//! The end of a window is sent to its client, so up to 32 bits of what the offset is made of are public. The hash also names the
//! buckets of a key, and who knew those could aim at them. So the bits are mixed first: every bit of the hash changes every bit of
//! the offset with probability one half, and to a known offset belong as many hashes with each bucket. Of other keys an offset says
//! nothing, since their hashes depend on a secret.

use crate::key::KeyHash;
use crate::rate::Period;

/// A place in a period: so many parts of 2^32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyPhase(u32);

impl KeyPhase {
    /// The place for a key, by the bits of its hash that a table keeps.
    pub(crate) const fn new(key: KeyHash) -> Self {
        Self((mixed(key.bits() >> 1) >> 32) as u32)
    }

    /// Milliseconds from the beginning of a period to the place; less than the period.
    pub(crate) fn millis(self, period: Period) -> u64 {
        // The longest period is below 2^32 ms, so no place is left out.
        (u64::from(self.0) * u64::from(period.as_secs()) * 1_000) >> 32
    }
}

/// The bits with each depending on all: the finalizer of SplitMix64 (Steele, Lea, Flood 2014), a bijection.
const fn mixed(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Seed;
    use crate::rate::MAX_PERIOD;

    const KEYS: u64 = if cfg!(miri) { 3_200 } else { 320_000 };

    fn period(secs: u32) -> Period {
        Period::from_secs(secs).expect("a period")
    }

    fn key(number: u64) -> KeyHash {
        Seed::from_bytes([3; 16])
            .hasher()
            .part(&number.to_le_bytes())
            .finish()
    }

    /// Returns how far counts in 32 parts are from even: chi-squared, which exceeds 70 once in 10,000 times for 31 degrees.
    fn unevenness(parts: impl Iterator<Item = u64>) -> f64 {
        let (mut counts, mut all) = ([0_u32; 32], 0.0);
        for part in parts {
            counts[part as usize] += 1;
            all += 1.0;
        }
        let even: f64 = all / 32.0;
        let far = counts.iter().map(|count| f64::from(*count) - even);
        far.map(|far| far * far / even).sum()
    }

    /// Goal: keys are spread evenly, over short periods and the longest. Method: many keys, counted in 32 parts of the period; none is
    /// outside.
    #[test]
    fn windows_begin_evenly_over_the_period() {
        // Whose milliseconds 32 divides.
        for secs in [4, 60, 3_600, MAX_PERIOD] {
            let millis = u64::from(secs) * 1_000;
            let phases = (0..KEYS).map(|number| KeyPhase::new(key(number)).millis(period(secs)));
            let uneven = unevenness(phases.map(|phase| phase * 32 / millis));
            assert!(uneven < 70.0, "{secs} s: {uneven}");
        }
    }

    /// Goal: who knows where windows of a key begin knows nothing of its buckets. Method: the keys whose windows begin in one second of an
    /// hour, counted by the highest bits of both bucket numbers; hashes that differ in one bit begin elsewhere.
    #[test]
    fn the_offset_says_nothing_of_the_buckets() {
        let at_once = || {
            let all = (0..64 * KEYS).step_by(64).map(KeyHash::from_bits);
            // Hashes in a row stand for those that an attacker would sort by their buckets.
            all.filter(|key| KeyPhase::new(*key).millis(period(32)) / 1_000 == 7)
        };
        let low = at_once().map(|key| (key.bits() / 64) % 32);
        assert!(unevenness(low) < 70.0);
        for bit in 1..64 {
            let flipped = |number| KeyHash::from_bits(key(number).bits() ^ (1 << bit));
            let differ = (0..1_000).map(|number| {
                (KeyPhase::new(key(number)).0 ^ KeyPhase::new(flipped(number)).0).count_ones()
            });
            let bits: u32 = differ.sum();
            assert!(
                (15_000..17_000).contains(&bits),
                "bit {bit}: {bits} of 32,000"
            );
        }
    }

    /// Goal: offsets stay where they are, from one release to the next and in every gateway of a fleet. Method: known values.
    #[test]
    fn offsets_are_as_they_always_were() {
        let at = |bits| KeyPhase::new(KeyHash::from_bits(bits)).millis(period(10));
        assert_eq!([0, 1 << 40, 0x9E37_79B9_7F4A_7C15].map(at), [0, 13, 4_416]);
        assert_eq!(at(6), at(7), "tables do not keep the lowest bit");
    }
}
