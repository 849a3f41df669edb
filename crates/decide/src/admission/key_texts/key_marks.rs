//! A set of key hashes that requests read without a lock.
//!
//! One thread at a time writes it. A reader beside a writer may miss a key or find one that has just left: then a text is learned with the
//! next request of the key, or the lock shows that it is known.

use std::sync::atomic::{AtomicU64, Ordering};

/// The places for each key that the set may have: a key is found behind one or two others.
const PLACES: usize = 2;
/// Stands for no key.
const EMPTY: u64 = 0;

/// The set.
#[derive(Debug)]
pub(super) struct KeyMarks(Box<[AtomicU64]>);

impl KeyMarks {
    /// Has no key, and room for so many.
    pub(super) fn new(most: usize) -> Self {
        let places = (most.max(1) * PLACES).next_power_of_two();
        Self((0..places).map(|_| AtomicU64::new(EMPTY)).collect())
    }

    /// Returns whether it has the key.
    #[inline]
    pub(super) fn has(&self, key: u64) -> bool {
        // Relaxed, here and below: a key publishes nothing but itself.
        let mut places = self.places(key).map(|place| place.load(Ordering::Relaxed));
        places.find(|found| *found == key || *found == EMPTY) == Some(key)
    }

    /// Adds a key, unless there is no room.
    pub(super) fn add(&self, key: u64) {
        let mut places = self.places(key).take(self.0.len() - 1);
        let free = |place: &&AtomicU64| [EMPTY, key].contains(&place.load(Ordering::Relaxed));
        if let Some(place) = places.find(free) {
            place.store(key, Ordering::Relaxed);
        }
    }

    /// Replaces its keys by these.
    pub(super) fn replace(&self, keys: impl Iterator<Item = u64>) {
        for place in &self.0 {
            place.store(EMPTY, Ordering::Relaxed);
        }
        keys.for_each(|key| self.add(key));
    }

    /// Returns the places of a key in the order in which it takes them.
    fn places(&self, key: u64) -> impl Iterator<Item = &AtomicU64> {
        // The hash is keyed, so no client chooses its place. The lowest bit says nothing.
        let first = (key >> 1) as usize % self.0.len();
        let (before, behind) = self.0.split_at(first);
        behind.iter().chain(before)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Goal: it is a set, and a full one ends each search. Method: random keys, more than there is room for, against a set.
        #[test]
        fn it_has_what_was_added(keys in proptest::collection::btree_set(1_u64..5_000, 0..40), most in 1_usize..30) {
            let marks = KeyMarks::new(most);
            marks.replace(keys.iter().map(|key| key << 1));
            let found: BTreeSet<u64> = (1..5_000).filter(|key| marks.has(key << 1)).collect();
            prop_assert!(found.is_subset(&keys));
            prop_assert!(found.len() >= keys.len().min(most));
        }
    }
}
