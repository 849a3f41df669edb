//! Keeps the keys with the largest uses of one rate, and how much each used.
//!
//! A fair sample says how many keys used how much, and nothing of single keys: three keys at a limit beside 20,000 light ones are probably
//! not in it. They are here, whatever comes beside them.
//!
//! # Invariants
//! 1. A key that is not kept never used more than `left_out`.
//! 2. A kept key that used `left_out` or more is kept with its largest use.

use sluicegate_limiter::KeyHash;

/// The keys with the largest uses of one rate.
#[derive(Clone, Debug)]
pub(super) struct HeaviestKeys {
    /// In no order.
    keys: Vec<HeavyKey>,
    /// The least of them once there are as many as there may be.
    lightest: Option<HeavyKey>,
    /// Keys that it may have.
    most: usize,
    /// The largest use of a key that was left out; 0 if none was.
    left_out: u32,
}

/// A key and its largest use. Of equal uses that of the larger hash counts as heavier, so that all walks keep the same keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HeavyKey {
    /// Units.
    pub(super) used: u32,
    /// The key's hash.
    pub(super) key: u64,
}

impl HeaviestKeys {
    /// Keeps no key yet, and at most so many.
    pub(super) fn new(most: usize) -> Self {
        Self {
            keys: Vec::new(),
            lightest: None,
            most,
            left_out: 0,
        }
    }

    /// Adds a use of a key.
    pub(super) fn add(&mut self, key: KeyHash, used: u32) {
        if used > 0 {
            let key = key.bits();
            self.insert(HeavyKey { used, key });
        }
    }

    /// Adds the keys of another time.
    pub(super) fn merge(&mut self, other: &Self) {
        self.left_out = self.left_out.max(other.left_out);
        for heavy in &other.keys {
            self.insert(*heavy);
        }
    }

    /// Sets the number of keys that it may have, and frees the memory of those beyond it.
    pub(super) fn bound(&mut self, most: usize) {
        self.most = most;
        self.keys.sort_unstable_by(|one, other| other.cmp(one));
        if let Some(first) = self.keys.get(most) {
            self.left_out = self.left_out.max(first.used);
        }
        self.keys.truncate(most);
        self.keys.shrink_to_fit();
        self.find_lightest();
    }

    /// Returns the keys whose largest use is known, in no order.
    pub(super) fn known(&self) -> impl Iterator<Item = HeavyKey> {
        // Invariant 2.
        let keys = self.keys.iter().copied();
        keys.filter(|heavy| heavy.used >= self.left_out)
    }

    /// Returns the use above which no key is missing.
    pub(super) fn complete_above(&self) -> u32 {
        self.left_out
    }

    fn insert(&mut self, heavy: HeavyKey) {
        if self.lightest.is_some_and(|lightest| heavy <= lightest) {
            self.left_out = self.left_out.max(heavy.used);
            return;
        }
        match self.keys.iter_mut().find(|kept| kept.key == heavy.key) {
            Some(kept) => *kept = heavy.max(*kept),
            None => self.push(heavy),
        }
        self.find_lightest();
    }

    /// Adds a key that is not kept, in place of the lightest where there is no room.
    fn push(&mut self, heavy: HeavyKey) {
        if self.keys.len() < self.most {
            self.keys.push(heavy);
        } else if let Some(lightest) = self.keys.iter_mut().min() {
            self.left_out = self.left_out.max(lightest.used);
            *lightest = heavy;
        }
    }

    fn find_lightest(&mut self) {
        let is_full = self.keys.len() >= self.most;
        self.lightest = self.keys.iter().min().copied().filter(|_| is_full);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn key(number: u64) -> KeyHash {
        KeyHash::from_bits(number << 1)
    }

    proptest! {
        /// Goal: the invariants, and that no heavy key is missing. Method: random uses of few keys in two times that are merged, with
        /// changes of the bound, against all uses.
        #[test]
        fn no_heavy_key_is_missing(
            uses in proptest::collection::vec((0_u64..40, 0_u32..30), 0..300),
            bounds in (1_usize..12, 1_usize..12),
            turn in 0_usize..300,
        ) {
            let mut all = BTreeMap::new();
            let mut times = [HeaviestKeys::new(bounds.0), HeaviestKeys::new(bounds.0)];
            for (number, (name, used)) in uses.into_iter().enumerate() {
                if number == turn {
                    times.iter_mut().for_each(|heaviest| heaviest.bound(bounds.1));
                }
                times[usize::from(number >= turn)].add(key(name), used);
                let largest = all.entry(key(name).bits()).or_insert(0);
                *largest = used.max(*largest);
            }
            let [mut merged, later] = times;
            merged.merge(&later);
            prop_assert!(merged.keys.len() <= merged.most);
            let known: BTreeMap<u64, u32> = merged.known().map(|heavy| (heavy.key, heavy.used)).collect();
            prop_assert_eq!(known.len(), merged.known().count());
            for (name, used) in &known {
                prop_assert_eq!(all[name], *used);
            }
            for (name, used) in all {
                prop_assert!(used <= merged.complete_above() || known.contains_key(&name), "{used}");
            }
        }
    }

    /// Goal: the heaviest keys are kept, however many light ones come and in which order. Method: three heavy keys before, between and
    /// behind 100,000 light ones, of which some use twice as much as others.
    #[test]
    fn light_keys_erase_no_heavy_one() {
        let mut heaviest = HeaviestKeys::new(256);
        for number in 0..100_000 {
            let is_heavy = [0, 50_000, 99_999].contains(&number);
            let light = 1 + u32::from(number % 3 == 0);
            heaviest.add(key(number), if is_heavy { 20 } else { light });
        }
        assert_eq!(heaviest.complete_above(), 2);
        assert_eq!(heaviest.known().count(), 256);
        assert_eq!(heaviest.known().filter(|heavy| heavy.used == 20).count(), 3);
    }
}
