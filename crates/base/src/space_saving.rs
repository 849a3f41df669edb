//! Counts the most frequent items of a stream in a bounded number of places.
//!
//! Space-saving (Metwally, Agrawal and El Abbadi, 2005): each kept item has a count; an item that is not kept takes the place of the one
//! with the least count, and goes on from that count, which is noted as its error.
//!
//! # Invariants
//! 1. An item that occurred `n` times has a count from `n` to `n + error`; one that is not kept occurred at most [`SpaceSaving::left_out`]
//!    times.
//! 2. No error, and no count of an item that is not kept, exceeds the number of all occurrences divided by the number of places.

use std::borrow::Borrow;
use std::hash::Hash;

use ahash::{HashMap, HashMapExt};

/// The most frequent items of a stream.
#[derive(Clone, Debug)]
pub struct SpaceSaving<T> {
    /// The index of each kept item in `hitters`.
    places: HashMap<T, usize>,
    hitters: Vec<FrequentItem<T>>,
    /// Items that it may keep.
    most: usize,
}

/// A frequent item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrequentItem<T> {
    /// The item.
    pub item: T,
    /// Its occurrences, or up to `error` more than those.
    pub count: u64,
    /// The most by which `count` is too high.
    pub error: u64,
}

impl<T> FrequentItem<T> {
    /// Returns the occurrences that are certain.
    #[must_use]
    pub fn at_least(&self) -> u64 {
        self.count - self.error
    }
}

impl<T: Clone + Eq + Hash> SpaceSaving<T> {
    /// Keeps no item yet, and at most so many; one at least.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            places: HashMap::new(),
            hitters: Vec::new(),
            most: most.max(1),
        }
    }

    /// Counts an occurrence. Returns the item that loses its place by it.
    pub fn add<Q>(&mut self, item: &Q) -> Option<T>
    where
        T: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = T> + ?Sized,
    {
        if let Some(place) = self.places.get(item) {
            self.hitters[*place].count += 1;
            return None;
        }
        let mut entry = FrequentItem {
            item: item.to_owned(),
            count: 1,
            error: 0,
        };
        if self.hitters.len() < self.most {
            self.places.insert(entry.item.clone(), self.hitters.len());
            self.hitters.push(entry);
            return None;
        }
        let place = self.lightest()?;
        let lightest = &mut self.hitters[place];
        entry.error = lightest.count;
        entry.count += lightest.count;
        self.places.insert(entry.item.clone(), place);
        let out = std::mem::replace(lightest, entry);
        self.places.remove::<T>(&out.item);
        Some(out.item)
    }

    /// Returns the most occurrences of an item that is not kept.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        if self.hitters.len() < self.most {
            return 0;
        }
        self.hitters
            .iter()
            .map(|hitter| hitter.count)
            .min()
            .unwrap_or(0)
    }

    /// Returns the items of this stream and of a later one, those with the most certain occurrences first. Both invariants hold for the sum
    /// of the streams.
    #[must_use]
    pub fn joined(&self, later: &Self) -> Vec<FrequentItem<T>> {
        let mut joined: HashMap<T, FrequentItem<T>> = HashMap::new();
        for (stream, other) in [(self, later), (later, self)] {
            for hitter in &stream.hitters {
                let elsewhere = match other.places.get(&hitter.item) {
                    Some(_) => 0,
                    None => other.left_out(),
                };
                let entry = joined
                    .entry(hitter.item.clone())
                    .or_insert_with(|| FrequentItem {
                        item: hitter.item.clone(),
                        count: 0,
                        error: 0,
                    });
                entry.count += hitter.count + elsewhere;
                entry.error += hitter.error + elsewhere;
            }
        }
        let mut items: Vec<_> = joined.into_values().collect();
        items.sort_by_key(|hitter| std::cmp::Reverse((hitter.at_least(), hitter.count)));
        items
    }

    fn lightest(&self) -> Option<usize> {
        let counts = self.hitters.iter().map(|hitter| hitter.count).enumerate();
        counts
            .min_by_key(|(_, count)| *count)
            .map(|(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Goal: both invariants, for one stream and for the sum of two. Method: random streams of few items, against exact counts.
        #[test]
        fn errors_are_those_that_are_said(
            streams in proptest::array::uniform2(proptest::collection::vec(0_u64..30, 0..400)),
            most in 1_usize..12,
        ) {
            let mut exact: BTreeMap<u64, u64> = BTreeMap::new();
            let [first, second] = streams.map(|stream| {
                let mut sketch = SpaceSaving::new(most);
                for item in stream {
                    *exact.entry(item).or_default() += 1;
                    let out = sketch.add(&item);
                    let is_kept = |item| sketch.places.contains_key(item);
                    assert!(is_kept(&item) && !out.as_ref().is_some_and(is_kept));
                }
                assert!(sketch.hitters.len() <= most && sketch.places.len() == sketch.hitters.len());
                sketch
            });
            let total = exact.values().sum::<u64>();
            let joined = first.joined(&second);
            let left_out = first.left_out() + second.left_out();
            prop_assert!(left_out <= total / most as u64);
            for (item, occurred) in exact {
                match joined.iter().find(|hitter| hitter.item == item) {
                    Some(hitter) => {
                        prop_assert!(hitter.at_least() <= occurred && occurred <= hitter.count);
                        prop_assert!(hitter.error <= total / most as u64);
                    }
                    None => prop_assert!(occurred <= left_out),
                }
            }
        }
    }

    /// Goal: frequent items stay, however many rare ones come. Method: three items of a tenth each between 20,000 that occur once.
    #[test]
    fn rare_items_push_out_no_frequent_one() {
        let mut sketch = SpaceSaving::new(256);
        for number in 0..20_000_u64 {
            sketch.add(&(1_000 + number));
            if number % 3 == 0 {
                sketch.add(&(number % 9 / 3));
            }
        }
        let found = sketch.joined(&SpaceSaving::new(256));
        for (hitter, heavy) in found.iter().zip([2_222, 2_222, 2_222]) {
            assert!(
                hitter.item < 3 && hitter.at_least().abs_diff(heavy) < 120,
                "{hitter:?}"
            );
        }
    }
}
