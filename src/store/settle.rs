//! Owns charges in a store that may still change, and settles them in the background.
//!
//! The part of a charge in this node's counters is settled at once; the store is corrected by a call in the background. The cache drops
//! the state of the key, which includes the charge: a cached rejection must be one that the store would repeat.
//!
//! A charge that was not sent yet is settled in the queue. A charge that may or may not have arrived stays as it is in the store.
//!
//! # Limits
//! At most [`STORE_SETTLEMENTS`](bounds::STORE_SETTLEMENTS) calls are under way. Beyond that, and where a call fails, the charge stays as
//! it was made, and that is counted. It errs towards refusing, but for what cost more than was reserved.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_base::bounds;
use sluicegate_base::clock;
use sluicegate_limiter::{Cost, KeyHash, Limit, Reservation, Settle, Timestamp};
use sluicegate_redis_link::StoreError;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::Store;
use super::script::{Ask, Charge, KeyName};
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
    InStore(Box<Charge>),
    /// In the queue for the store, for this key.
    Queued(KeyName, Cost),
    /// Unknown: it may have reached the store, or not; or there is no name for the key.
    Uncertain,
}

/// The calls that settle: the permits of those under way, and the number of those that ended, by result.
#[derive(Debug)]
pub(super) struct SettlementCounters {
    permits: Arc<Semaphore>,
    made: AtomicU64,
    failed: AtomicU64,
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
                replay_queue.correct(&Ask { policy, name, cost }, settle);
            }
            ChargeLocation::InStore(charge) => {
                cache.reset(key, backend.store.moment(now));
                let store = Arc::clone(&backend.store);
                in_background(&backend.store, async move {
                    let answer = store.settle(&charge, settle, clock::now()).await?;
                    if let Some(answer) = &answer
                        && let Some(left) = answer.results.first()
                    {
                        cache.adopt(key, &left.state, answer.now);
                    }
                    Ok(())
                });
            }
        }
    }
}

/// Executes a settlement in the background, and counts its result.
fn in_background(
    store: &Arc<Store>,
    settlement: impl Future<Output = Result<(), StoreError>> + Send + 'static,
) {
    let counters = store.settlements();
    let permit = Arc::clone(&counters.permits).try_acquire_owned();
    // Without a runtime the process is about to end.
    let (Ok(permit), Ok(runtime)) = (permit, Handle::try_current()) else {
        // Relaxed, here and below: numbers to show, which publish nothing.
        counters.failed.fetch_add(1, Ordering::Relaxed);
        return;
    };
    let store = Arc::clone(store);
    runtime.spawn(async move {
        let counters = store.settlements();
        let counter = match settlement.await {
            Ok(()) => &counters.made,
            Err(_) => &counters.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        drop(permit);
    });
}

impl Default for SettlementCounters {
    fn default() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(bounds::STORE_SETTLEMENTS)),
            made: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }
}

impl SettlementCounters {
    /// Returns the number of settlements that the store confirmed, since the start.
    pub(super) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Returns the number of settlements that failed.
    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}
