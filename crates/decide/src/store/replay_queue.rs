//! Queues what strict limits admitted while the store was unavailable, until the store gets it.
//!
//! Charges are merged by key, so that a busy key is one entry however long the store is unavailable. Only charges that certainly did not
//! reach the store are queued: one that may have reached it is never sent again, because nothing may be charged twice.
//!
//! # Concurrency
//! One lock. Requests take it while the store is unavailable, and when a queued charge changes at the response; a sync takes its batch at
//! once and releases the lock.
//!
//! # Limits
//! At most [`UNSENT_KEYS`](bounds::UNSENT_KEYS) keys. At the bound this node alone counts further keys, and a counter shows how many
//! charges.

use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ahash::{HashMap, RandomState};
use sluicegate_base::bounds;
use sluicegate_limiter::{Cost, Policy, Settle};

use super::store_call::{KeyName, StoreAsk, settled_units};

/// Charges of strict limits that the store does not have yet.
#[derive(Debug)]
pub struct ReplayQueue {
    deltas: Mutex<HashMap<KeyName, ReplayDelta>>,
    /// Charges that were dropped because the queue was full.
    lost: AtomicU64,
}

/// The units that the store is to charge one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayDelta {
    /// The policy of the key.
    pub policy: Policy,
    /// Units of cost.
    pub units: u64,
}

impl Default for ReplayQueue {
    fn default() -> Self {
        // Names contain a hash under the secret seed of the store, so no client chooses their buckets. Fixed seeds here send the same names
        // in the same order.
        let hasher = RandomState::with_seeds(1, 2, 3, 4);
        Self {
            deltas: Mutex::new(HashMap::with_hasher(hasher)),
            lost: AtomicU64::new(0),
        }
    }
}

impl ReplayQueue {
    /// Adds a charge.
    pub fn add(&self, ask: &StoreAsk<'_>) {
        let units = ask.cost.get().into();
        let mut deltas = self.lock();
        let full = deltas.len() >= bounds::UNSENT_KEYS;
        match deltas.entry(ask.name.clone()) {
            Entry::Occupied(mut known) => {
                let delta = known.get_mut();
                delta.units = delta.units.saturating_add(units);
                // The newest configuration applies.
                delta.policy.clone_from(ask.policy);
            }
            // Relaxed, here and below: a number to show, publishes nothing.
            Entry::Vacant(_) if full => {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
            Entry::Vacant(place) => {
                place.insert(ReplayDelta {
                    policy: ask.policy.clone(),
                    units,
                });
            }
        }
    }

    /// Settles the charge that was added for `ask`.
    pub fn correct(&self, ask: &StoreAsk<'_>, due: Settle) {
        let added = ask.cost.get();
        let actual = settled_units(ask.cost, due);
        if let Some(missing) = Cost::new(actual.saturating_sub(added)) {
            self.add(&StoreAsk {
                cost: missing,
                ..*ask
            });
        }
        if let Some(surplus) = Cost::new(added.saturating_sub(actual)) {
            self.refund(ask.name, surplus);
        }
    }

    /// Refunds `cost`, as far as it is still queued.
    fn refund(&self, name: &KeyName, cost: Cost) {
        let mut deltas = self.lock();
        if let Some(delta) = deltas.get_mut(name) {
            delta.units = delta.units.saturating_sub(cost.get().into());
            if delta.units == 0 {
                deltas.remove(name);
            }
        }
    }

    /// Takes up to `most` keys with their units. A caller that cannot send them returns them by [`add`](Self::add).
    #[must_use]
    pub fn take(&self, most: usize) -> Vec<(KeyName, ReplayDelta)> {
        let mut deltas = self.lock();
        let names: Vec<KeyName> = deltas.keys().take(most).cloned().collect();
        let taken = names
            .into_iter()
            .filter_map(|name| deltas.remove_entry(&name));
        taken.collect()
    }

    /// Drops the units of one key.
    pub fn forget_key(&self, name: &KeyName) {
        self.lock().remove(name);
    }

    /// Drops all keys, and returns the sum of their units.
    pub fn forget(&self) -> u64 {
        let deltas = std::mem::take(&mut *self.lock());
        deltas
            .values()
            .fold(0, |sum: u64, delta| sum.saturating_add(delta.units))
    }

    /// Returns the number of queued keys.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.lock().len()
    }

    /// Returns the charges that were dropped since the start because the queue was full.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<KeyName, ReplayDelta>> {
        // Each entry is whole whatever panicked elsewhere.
        self.deltas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_limiter::{KeyHash, Period, Rate, Rates};

    use super::*;

    fn policy() -> Policy {
        let rate = Rate::new(5, Period::from_secs(60).unwrap()).unwrap();
        Rates::new([rate]).unwrap().into()
    }

    fn name(limit: &str, bits: usize) -> KeyName {
        KeyName::new("sluicegate", KeyHash::from_bits(bits as u64), limit)
    }

    fn cost(units: u32) -> Cost {
        Cost::new(units).unwrap()
    }

    fn add(queue: &ReplayQueue, name: &KeyName, units: u32) {
        let (policy, cost) = (&policy(), cost(units));
        queue.add(&StoreAsk { policy, name, cost });
    }

    /// Goal: one entry a key, and what is refunded is not sent. Method: two limits and two keys, added to, forgiven in part, in full
    /// and beyond.
    #[test]
    fn charges_of_a_key_are_one_delta() {
        let queue = ReplayQueue::default();
        for (limit, bits, units) in [("a", 1, 2), ("a", 1, 3), ("a", 2, 1), ("b", 1, 7)] {
            add(&queue, &name(limit, bits), units);
        }
        assert_eq!(queue.keys(), 3);
        queue.refund(&name("a", 1), cost(4));
        queue.refund(&name("a", 2), cost(9));
        queue.refund(&name("a", 3), cost(1));
        let mut taken = queue.take(10);
        taken.sort_by_key(|(_, delta)| delta.units);
        let units: Vec<_> = taken
            .into_iter()
            .map(|(name, delta)| (name, delta.units))
            .collect();
        assert_eq!(units, [(name("a", 1), 1), (name("b", 1), 7)]);
        assert_eq!((queue.keys(), queue.lost()), (0, 0));
    }

    /// Goal: a delta is what its charge was settled to. Method: a charge of three that costs nothing, one, three and five.
    #[test]
    fn a_delta_is_what_the_charge_came_to() {
        for (due, left) in [
            (Settle::Refund, None),
            (Settle::Adjust(cost(1)), Some(1)),
            (Settle::Keep, Some(3)),
            (Settle::Adjust(cost(5)), Some(5)),
        ] {
            let queue = ReplayQueue::default();
            let (policy, name) = (&policy(), &name("a", 1));
            let ask = StoreAsk {
                policy,
                name,
                cost: cost(3),
            };
            queue.add(&ask);
            queue.correct(&ask, due);
            let units = queue.take(1).first().map(|(_, delta)| delta.units);
            assert_eq!(units, left, "{due:?}");
        }
    }

    /// Goal: an outage cannot fill the memory, and what does not fit is counted. Method: more keys than there may be; known ones still
    /// grow; taking makes room.
    #[test]
    fn keys_are_bounded() {
        let queue = ReplayQueue::default();
        for bits in 0..bounds::UNSENT_KEYS + 3 {
            add(&queue, &name("a", bits), 1);
        }
        add(&queue, &name("a", 0), 1);
        assert_eq!((queue.keys(), queue.lost()), (bounds::UNSENT_KEYS, 3));
        assert_eq!(queue.take(2).len(), 2);
        add(&queue, &name("a", bounds::UNSENT_KEYS + 7), 1);
        assert_eq!((queue.keys(), queue.lost()), (bounds::UNSENT_KEYS - 1, 3));
    }
}
