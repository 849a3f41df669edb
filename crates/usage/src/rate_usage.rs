//! Owns what a limit's sample shows of one rate: how many keys used how much of it.
//!
//! The heaviest keys are counted one by one. Each other key of the sample stands for several, so numbers of them have an error.

use std::collections::BTreeMap;

use ahash::AHashMap;
use sluicegate_base::bounds::{USAGE_EXACT, USAGE_STEPS};
use sluicegate_limiter::Rate;

use super::generation::Generation;
use super::key_sample::{SHARED, SHARED_LIMIT, used};

/// The largest uses of one rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateUsage {
    /// The rate.
    pub rate: Rate,
    /// Units that a key may use at once: the count, or the burst.
    pub limit: u32,
    /// Keys that used anything.
    pub keys: KeyEstimate,
    /// Keys that are kept: the heaviest, and those of the sample.
    pub kept_keys: u64,
    /// The use above which each key is counted by itself; 0 where all are.
    pub complete_above: u32,
    /// Keys for which each lighter one of the sample stands: 1 if all are in it.
    pub keys_for_each: u64,
    /// Keys by their largest use, rising; several uses beyond [`USAGE_EXACT`] are joined under the largest of them.
    pub peaks: Vec<(u32, u64)>,
    /// Keys that used all that they might.
    pub at_limit: KeyEstimate,
    /// Keys that shared counters with others, of which only one use is in `peaks`.
    pub shared_keys: u64,
    /// Units by which a use may exceed what the sample has: those that a bucket was paid back between two looks. 0 for windows.
    pub unseen: u32,
}

/// A number of keys, of which some may be extrapolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyEstimate {
    /// The number.
    pub keys: u64,
    /// The error that it exceeds once in twenty times; 0 if all keys are counted.
    pub error: u64,
}

/// The rate of which uses are shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShownRate {
    pub(super) rate: Rate,
    /// The place among the rates of the limit.
    pub(super) index: usize,
    pub(super) limit: u32,
    pub(super) unseen: u32,
}

impl RateUsage {
    /// Returns the uses of a rate by the keys of a generation, each of whose sample stands for so many keys.
    pub(super) fn new(shown: ShownRate, seen: &Generation, keys_for_each: u64) -> Self {
        let ShownRate { index, limit, .. } = shown;
        let heaviest = seen.heaviest.get(index);
        let known: Vec<_> = heaviest.iter().flat_map(|keys| keys.known()).collect();
        let names: AHashMap<u64, u32> = known.iter().map(|heavy| (heavy.key, heavy.used)).collect();
        let others = seen
            .sample
            .keys()
            .filter(|(key, _)| !names.contains_key(key))
            .map(|(_, units)| used(units[index]))
            .filter(|used| *used > 0);
        let others: Vec<u32> = others.collect();
        // Keys with this mark that are not known to have used all of the limit themselves.
        let marked = |mark: u32| {
            let marked = seen.sample.keys().filter(|(key, units)| {
                let own = names.get(key).copied().unwrap_or(0).max(used(units[index]));
                units[index] & mark != 0 && own < limit
            });
            KeyEstimate::new(0, marked.count(), keys_for_each)
        };
        let shared_keys = marked(SHARED).keys;
        let unsure = match shared_keys {
            0 => KeyEstimate::exact(0),
            _ => marked(SHARED_LIMIT),
        };
        let known: Vec<u32> = known.iter().map(|heavy| heavy.used).collect();
        let complete_above = heaviest.map_or(0, |keys| keys.complete_above());
        let count_from = |least: u32| {
            let in_all = |uses: &[u32]| uses.iter().filter(|used| **used >= least).count();
            let counted = in_all(&known) as u64;
            match least > complete_above {
                true => KeyEstimate::exact(counted),
                false => KeyEstimate::new(counted, in_all(&others), keys_for_each),
            }
        };
        let at_limit = count_from(limit);
        let one_by_one = known.iter().map(|used| (*used, 1));
        let extrapolated = others.iter().map(|used| (*used, keys_for_each));
        Self {
            rate: shown.rate,
            limit,
            keys: count_from(1),
            kept_keys: (known.len() + others.len()) as u64,
            complete_above,
            keys_for_each,
            peaks: joined(one_by_one.chain(extrapolated)),
            at_limit: KeyEstimate {
                error: at_limit
                    .error
                    .saturating_add(unsure.keys)
                    .saturating_add(unsure.error),
                ..at_limit
            },
            shared_keys,
            unseen: shown.unseen,
        }
    }
}

impl KeyEstimate {
    /// Returns a number of keys that are all counted.
    fn exact(keys: u64) -> Self {
        Self { keys, error: 0 }
    }

    /// Returns the number of so many keys that are counted and so many of a sample.
    fn new(counted: u64, sampled: usize, keys_for_each: u64) -> Self {
        let sampled = sampled as u64;
        let for_each = keys_for_each as f64;
        // A key is in the sample with a chance of one in `for_each`: twice the standard deviation of the extrapolated number. Two keys
        // more, since there may be some where none is in the sample.
        let variance = (sampled + 2) as f64 * for_each * (for_each - 1.0);
        Self {
            keys: sampled
                .saturating_mul(keys_for_each)
                .saturating_add(counted),
            error: (2.0 * variance.sqrt()).ceil() as u64,
        }
    }
}

/// Adds the keys of equal uses up; beyond [`USAGE_EXACT`] those of one step of [`USAGE_STEPS`] an octave are joined under the largest of
/// them.
fn joined(uses: impl Iterator<Item = (u32, u64)>) -> Vec<(u32, u64)> {
    let mut steps: BTreeMap<(u32, u32), (u32, u64)> = BTreeMap::new();
    for (used, keys) in uses {
        let width = match used {
            0..=USAGE_EXACT => 1,
            _ => (1 << used.ilog2()) / USAGE_STEPS,
        };
        let (most, sum) = steps.entry((width, used / width)).or_default();
        *most = (*most).max(used);
        *sum = sum.saturating_add(keys);
    }
    steps.into_values().collect()
}

#[cfg(test)]
mod tests {
    use sluicegate_base::usage_share::UsageShare;
    use sluicegate_limiter::{KeyHash, KeyPeak, Period, Seed, Timestamp};

    use super::*;

    /// Goal: small uses are exact, large ones within a few percent, and the largest is exact. Method: uses around the bound and above.
    #[test]
    fn large_uses_are_joined_within_a_few_percent() {
        let uses = [1, 1, 2, 127, 128, 129, 132, 1_009, 1_010, 1_048_575];
        let joined = joined(uses.into_iter().map(|used| (used, 1)));
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

    /// Goal: heavy keys are counted and light ones estimated, within the error that is shown. Method: 300 heavy keys beside 20,000 light
    /// ones in samples of several sizes, so that 44 heavy ones are estimated too; the whole table in the sample, and one key in four.
    #[test]
    fn numbers_of_keys_are_within_their_error() {
        for share in [1, 10, 1_000].map(UsageShare::new) {
            for keys_for_each in [1, 4] {
                let mut seen = Generation::new(2, share, Timestamp::from_secs(1));
                for number in 0..20_300 {
                    let used = if number % 67 == 0 && number < 20_100 {
                        20
                    } else {
                        1
                    };
                    let seed = Seed::from_bytes([5; 16]);
                    let key = seed
                        .hasher()
                        .part(&u64::to_le_bytes(number))
                        .finish()
                        .bits()
                        & !1;
                    let peak = KeyPeak {
                        key: KeyHash::from_bits(key),
                        units: [used, 2 * used, 0, 0],
                        at: Timestamp::from_secs(1),
                        is_shared: false,
                    };
                    match number % keys_for_each {
                        0 => seen.add(&peak, &[40; 4]),
                        _ => seen.add_heavy(&peak),
                    }
                }
                let each = keys_for_each * seen.sample.keys_for_each();
                let usage = RateUsage::new(shown(1, 40), &seen, each);
                // Three standard deviations where two are shown.
                let is_within = |found: KeyEstimate, keys: u64| {
                    found.keys.abs_diff(keys) <= found.error + found.error / 2 + 3
                };
                assert!(is_within(usage.keys, 20_300), "{:?}", usage.keys);
                assert!(is_within(usage.at_limit, 300), "{:?}", usage.at_limit);
                assert!(usage.at_limit.keys >= 256 && usage.complete_above == 40);
                assert_eq!(usage.peaks.len(), 2, "{:?}", usage.peaks);
                assert!(usage.kept_keys <= (share.keys + share.heaviest) as u64);
            }
        }
    }

    /// Goal: counts that a key shared with others are no use of its own, and the error says how many keys may be at the limit. Method: one
    /// key at the limit, beside ten that shared counters, of which four reached it together with others.
    #[test]
    fn shared_counts_are_no_uses() {
        let mut seen = Generation::new(1, UsageShare::new(1), Timestamp::from_secs(1));
        for number in 0..11_u32 {
            let peak = KeyPeak {
                key: KeyHash::from_bits(u64::from(number) << 1),
                units: [if number < 5 { 20 } else { 11 }, 0, 0, 0],
                at: Timestamp::from_secs(1),
                is_shared: number > 0,
            };
            seen.add(&peak, &[20, 0, 0, 0]);
        }
        let usage = RateUsage::new(shown(0, 20), &seen, 1);
        assert_eq!(usage.peaks, [(1, 10), (20, 1)]);
        assert_eq!((usage.complete_above, usage.shared_keys), (0, 10));
        assert_eq!((usage.at_limit.keys, usage.at_limit.error), (1, 4));
        assert_eq!(usage.keys, KeyEstimate::exact(11));
    }

    /// Goal: few keys are all counted. Method: three keys, under a rate that one of them did not use.
    #[test]
    fn few_keys_are_counted_without_an_error() {
        let mut seen = Generation::new(2, UsageShare::new(1), Timestamp::from_secs(1));
        for (number, units) in [(2, [5, 1, 0, 0]), (4, [5, 0, 0, 0]), (6, [1, 1, 0, 0])] {
            let key = KeyHash::from_bits(number);
            let at = Timestamp::from_secs(1);
            let is_shared = false;
            let peak = KeyPeak {
                key,
                units,
                at,
                is_shared,
            };
            seen.add(&peak, &[5; 4]);
        }
        let exact = KeyEstimate::exact;
        let first = RateUsage::new(shown(0, 5), &seen, 1);
        assert_eq!((first.keys, first.at_limit), (exact(3), exact(2)));
        assert_eq!(
            (first.peaks, first.complete_above),
            (vec![(1, 1), (5, 2)], 0)
        );
        let second = RateUsage::new(shown(1, 5), &seen, 1);
        assert_eq!((second.keys, second.peaks), (exact(2), vec![(1, 2)]));
    }

    fn shown(index: usize, limit: u32) -> ShownRate {
        let minute = Period::from_secs(60).expect("a period");
        ShownRate {
            rate: Rate::new(limit, minute).expect("a rate"),
            index,
            limit,
            unseen: 0,
        }
    }
}
