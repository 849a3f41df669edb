//! Owns charges in a store that may still change, and settles them.
//!
//! The part of a charge in this node's counters is settled at once; the store is corrected by a call in the background. The cache drops
//! the state of the key, which includes the charge: a cached rejection must be one that the store would repeat.
//!
//! A charge that was not sent yet is settled in the queue. A charge that may or may not have arrived stays as it is in the store.

use std::sync::Arc;

use sluicegate_limiter::{Cost, KeyHash, Limit, Reservation, Settle, Timestamp};

use super::counting_store::CachedKey;
use super::store_call::{KeyName, StoreAsk, StoreCharge};
use super::strict::{RemoteBackend, RemoteCheck};

/// The charge of one check in a store. Dropped without being settled, it stands.
#[must_use = "dropped, it leaves everything charged"]
#[derive(Debug)]
pub struct RemoteCharge {
    /// The index of the check among those that were reserved together.
    pub index: usize,
    backend: Arc<RemoteBackend>,
    /// The cached state of the store, with the policy of the key.
    cache: Limit,
    /// The key in the tables of this node.
    key: KeyHash,
    /// The charge in this node's own counters.
    own: Reservation,
    /// The charge for all nodes.
    location: ChargeLocation,
}

/// The place of a charge that counts for all nodes.
#[derive(Debug)]
pub(super) enum ChargeLocation {
    /// In the store.
    InStore(Box<StoreCharge>),
    /// In the queue for the store, for this key.
    Queued(KeyName, Cost),
    /// Unknown: it may have reached the store, or not; or there is no name for the key.
    Uncertain,
}

impl RemoteCharge {
    /// Makes the charge of `check`, which has the index `index`: `own` for this node, and another for all nodes.
    pub(super) fn new(
        index: usize,
        check: &RemoteCheck<'_>,
        own: Reservation,
        location: ChargeLocation,
    ) -> Self {
        Self {
            index,
            backend: Arc::clone(check.backend),
            cache: check.ask.limit.clone(),
            key: check.ask.key,
            own,
            location,
        }
    }

    /// Settles the charge.
    pub fn settle(self, settle: Settle, now: Timestamp) {
        if settle == Settle::Keep {
            return;
        }
        let Self {
            backend,
            cache,
            key,
            own,
            location,
            ..
        } = self;
        own.settle_each(now, |_| settle);
        match location {
            ChargeLocation::Uncertain => {}
            ChargeLocation::Queued(name, cost) => {
                let policy = cache.policy();
                let name = &name;
                let replay_queue = backend.store.replay_queue();
                replay_queue.correct(&StoreAsk { policy, name, cost }, settle);
            }
            ChargeLocation::InStore(charge) => {
                cache.reset(key, backend.store.moment(now));
                let cached = CachedKey { table: cache, key };
                Arc::clone(&backend.store).settle_later(charge, settle, cached);
            }
        }
    }
}
