//! Counts requests and rejections of each key of one limit.
//!
//! A request finds the count of its key in one cache line: keys lie beside their counts in an open table of a power of two of slots, of
//! which at most half are in use. With a million keys that line is seldom in a cache, so callers that know keys ahead
//! [fetch](KeyCounts::fetch) them together.

use ahash::{AHashMap, RandomState};

/// Keys that are counted each by itself. 1,000,000 keys take 32 MiB.
pub(super) const MAX_KEYS: usize = 1_000_000;
/// Rejected keys whose values are kept to be shown.
const MAX_VALUES: usize = 100_000;
/// Slots of the smallest table.
const MIN_SLOTS: usize = 1 << 10;

/// The counts of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyCount {
    /// Requests with the key that the limit decided.
    pub(super) requests: u32,
    /// Those that it rejected.
    pub(super) rejected: u32,
    /// Those that it rejected although they were answered with 2xx when they were logged.
    pub(super) answered: u32,
}

/// A key with its counts; a slot without requests is free.
#[derive(Clone, Copy, Debug, Default)]
struct KeySlot {
    key: u64,
    requests: u32,
    rejected: u32,
}

/// The counts of all keys of one limit.
#[derive(Debug, Default)]
pub(super) struct KeyCounts {
    slots: Vec<KeySlot>,
    used: usize,
    /// Keyed, since a log may have hashes of keys that somebody made up.
    hasher: RandomState,
    /// Rejected requests that were answered with 2xx, of keys that have any.
    answered: AHashMap<u64, u32>,
    /// The values of keys that were rejected.
    values: AHashMap<u64, Box<str>>,
    /// Requests of keys that have no count of their own.
    pub(super) uncounted: u64,
}

impl KeyCounts {
    /// Loads the slot where the search for `key` begins. Loads that follow one another overlap, while a count waits for its own.
    pub(super) fn fetch(&self, key: u64) {
        let slot = self.slots.get(self.begin(key));
        std::hint::black_box(slot.map(|slot| slot.key));
    }

    /// Counts a request with `key`; `values` returns the values of the key for people.
    pub(super) fn add(
        &mut self,
        key: u64,
        is_rejected: bool,
        is_answered: bool,
        values: impl FnOnce() -> String,
    ) {
        if 2 * self.used >= self.slots.len() {
            self.grow();
        }
        let place = self.find(key);
        let Some(slot) = self.slots.get_mut(place) else {
            return;
        };
        if slot.requests == 0 {
            if self.used >= MAX_KEYS {
                self.uncounted += 1;
                return;
            }
            self.used += 1;
            slot.key = key;
        }
        slot.requests = slot.requests.saturating_add(1);
        if !is_rejected {
            return;
        }
        slot.rejected = slot.rejected.saturating_add(1);
        let is_first = slot.rejected == 1;
        if is_answered {
            let answered = self.answered.entry(key).or_default();
            *answered = answered.saturating_add(1);
        }
        if is_first && self.values.len() < MAX_VALUES {
            self.values.insert(key, values().into());
        }
    }

    /// Returns the number of keys.
    pub(super) fn len(&self) -> usize {
        self.used
    }

    /// Returns the counts of a key.
    pub(super) fn get(&self, key: u64) -> KeyCount {
        let slot = self.slots.get(self.find(key));
        slot.map_or_else(KeyCount::default, |slot| self.count(key, slot))
    }

    /// Returns each key that was rejected, in no order.
    pub(super) fn rejected(&self) -> impl Iterator<Item = (u64, KeyCount)> {
        let rejected = self.slots.iter().filter(|slot| slot.rejected > 0);
        rejected.map(|slot| (slot.key, self.count(slot.key, slot)))
    }

    /// Returns the values of a key that was rejected; its hash where they are in no log.
    pub(super) fn shown(&self, key: u64) -> String {
        let values = self.values.get(&key).map(|values| values.to_string());
        let values = values.filter(|values| !values.is_empty());
        values.unwrap_or_else(|| format!("{:016x}", key & !1))
    }

    fn count(&self, key: u64, slot: &KeySlot) -> KeyCount {
        KeyCount {
            requests: slot.requests,
            rejected: slot.rejected,
            answered: match slot.rejected {
                0 => 0,
                _ => self.answered.get(&key).copied().unwrap_or(0),
            },
        }
    }

    /// Returns the index of the slot where the search for `key` begins.
    fn begin(&self, key: u64) -> usize {
        // The number of slots is a power of two, so the mask cuts to an index, and the cast cuts nothing that the mask keeps.
        self.hasher.hash_one(key) as usize & self.slots.len().wrapping_sub(1)
    }

    /// Returns the index of the slot of `key`, or of the free one that it would get.
    fn find(&self, key: u64) -> usize {
        let mask = self.slots.len().wrapping_sub(1);
        let mut place = self.begin(key);
        // At most half of the slots are in use, so the search ends.
        while let Some(slot) = self.slots.get(place) {
            if slot.requests == 0 || slot.key == key {
                break;
            }
            place = (place + 1) & mask;
        }
        place
    }

    /// Doubles the slots.
    fn grow(&mut self) {
        let slots = (2 * self.slots.len()).max(MIN_SLOTS);
        let before = std::mem::replace(&mut self.slots, vec![KeySlot::default(); slots]);
        for slot in before.into_iter().filter(|slot| slot.requests > 0) {
            let place = self.find(slot.key);
            if let Some(free) = self.slots.get_mut(place) {
                *free = slot;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Goal: counts are those of an ordinary map, also while the table grows. Method: events of few and of many keys, beside a map.
        #[test]
        fn counts_are_those_of_a_map(
            events in proptest::collection::vec((0_u64..3_000, any::<bool>(), any::<bool>()), 0..6_000),
        ) {
            let mut counts = KeyCounts::default();
            let mut model: AHashMap<u64, KeyCount> = AHashMap::new();
            for (key, is_rejected, is_answered) in events {
                counts.fetch(key);
                counts.add(key, is_rejected, is_answered, || key.to_string());
                let count = model.entry(key).or_default();
                count.requests += 1;
                count.rejected += u32::from(is_rejected);
                count.answered += u32::from(is_rejected && is_answered);
            }
            prop_assert_eq!(counts.len(), model.len());
            for (key, count) in &model {
                prop_assert_eq!(counts.get(*key), *count);
            }
            prop_assert_eq!(counts.get(3_000), KeyCount::default());
            let rejected: AHashMap<u64, KeyCount> = counts.rejected().collect();
            model.retain(|_, count| count.rejected > 0);
            prop_assert_eq!(rejected, model);
        }
    }

    /// Goal: keys beyond the maximum are counted together, and known keys still by themselves. Method: one key more than there may be.
    #[test]
    fn later_keys_are_counted_together() {
        let mut counts = KeyCounts::default();
        for key in 0..=MAX_KEYS as u64 {
            counts.add(key, false, false, String::new);
        }
        counts.add(MAX_KEYS as u64, true, true, String::new);
        counts.add(0, true, true, || "first".to_owned());
        assert_eq!((counts.len(), counts.uncounted), (MAX_KEYS, 2));
        assert_eq!(counts.get(0).requests, 2);
        assert_eq!(counts.shown(0), "first");
        assert_eq!(counts.get(MAX_KEYS as u64), KeyCount::default());
        assert!(size_of::<KeySlot>() == 16 && counts.slots.len() == 1 << 21);
    }
}
