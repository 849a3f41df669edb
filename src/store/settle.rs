//! Owns charges that were decided for a whole fleet and may still change, and changes them without anybody waiting for it.
//!
//! What this node counts of a charge is settled at once; the store is told by a call in the background. The view forgets what the store
//! had said of the key: it said that with the charge, and a refusal that is remembered must be one that the store would repeat.
//!
//! A charge that the store does not know of yet is settled where it waits to be sent. One of which nobody knows whether it arrived
//! stays as it is there.
//!
//! # Limits
//! At most [`STORE_SETTLEMENTS`](bounds::STORE_SETTLEMENTS) calls are under way. Beyond that, and where a call fails, the charge stays as
//! it was made, and that is counted. It errs towards refusing, but for what cost more than was reserved.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use sluicegate_limiter::{Cost, KeyHash, Limit, Reservation, Settle, Timestamp};

use super::script::{Ask, Charge, KeyName};
use super::strict::RemoteBackend;
use super::{Store, StoreError};
use crate::bounds;
use crate::clock;

/// The charges of one request; dropped without being settled, they stand.
#[must_use = "dropped, it leaves everything charged"]
#[derive(Debug, Default)]
pub struct RemoteCharge(Vec<(usize, Part)>);

/// The same of a request that is not decided yet: dropped, it gives everything back.
#[derive(Debug, Default)]
pub(super) struct Undecided(RemoteCharge);

/// What one ask took.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) shared: Arc<RemoteBackend>,
    /// What the store last said, with the policy that the key is judged by.
    pub(super) view: Limit,
    /// The key here.
    pub(super) key: KeyHash,
    /// What was charged for this node.
    pub(super) own: Reservation,
    /// Where it is counted for all.
    pub(super) held: ChargeLocation,
}

/// Where a charge is counted for all nodes.
#[derive(Debug)]
pub(super) enum ChargeLocation {
    /// In the store.
    InStore(Box<Charge>),
    /// It waits to be sent, for this key.
    Queued(KeyName, Cost),
    /// It may have reached the store, or not; or there is no name for the key.
    Uncertain,
}

/// Calls that settle, and what came of them.
#[derive(Debug, Default)]
pub(super) struct SettlementCounters {
    under_way: AtomicUsize,
    made: AtomicU64,
    failed: AtomicU64,
}

/// What a charge in the store comes to, to be told there.
struct PendingSettlement {
    shared: Arc<RemoteBackend>,
    view: Limit,
    key: KeyHash,
    charge: Box<Charge>,
    due: Settle,
}

/// One call that is under way.
struct SettlementPermit(Arc<Store>);

impl RemoteCharge {
    /// Makes each ask, by its index among those that were reserved together, cost what is due.
    pub fn settle_each(self, now: Timestamp, due: impl Fn(usize) -> Settle) {
        for (ask, part) in self.0 {
            part.settle(due(ask), now);
        }
    }
}

impl Undecided {
    pub(super) fn add(&mut self, parts: impl Iterator<Item = (usize, Part)>) {
        self.0.0.extend(parts);
    }

    #[cfg(test)]
    pub(super) fn take_over(&mut self, charge: RemoteCharge) {
        self.add(charge.0.into_iter());
    }

    /// The request passes: what was taken is charged.
    pub(super) fn stand(mut self) -> RemoteCharge {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Undecided {
    fn drop(&mut self) {
        let taken = std::mem::take(&mut self.0);
        if !taken.0.is_empty() {
            taken.settle_each(clock::now(), |_| Settle::Refund);
        }
    }
}

impl Part {
    fn settle(self, due: Settle, now: Timestamp) {
        let Self {
            shared,
            view,
            key,
            own,
            held,
        } = self;
        if due == Settle::Keep {
            return;
        }
        own.settle_each(now, |_| due);
        match held {
            ChargeLocation::Uncertain => {}
            ChargeLocation::Queued(name, cost) => {
                let (policy, name) = (view.policy(), &name);
                shared
                    .store
                    .unsent()
                    .correct(&Ask { policy, name, cost }, due);
            }
            ChargeLocation::InStore(charge) => {
                view.reset(key, shared.moment(now));
                let settled = PendingSettlement {
                    shared,
                    view,
                    key,
                    charge,
                    due,
                };
                settled.tell();
            }
        }
    }
}

impl PendingSettlement {
    /// Tells the store in the background.
    fn tell(self) {
        let Some(call) = SettlementPermit::begin(&self.shared.store) else {
            return;
        };
        // Without a runtime the process is about to end.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return call.failed();
        };
        runtime.spawn(async move {
            match self.call().await {
                Ok(()) => call.made(),
                Err(_) => call.failed(),
            }
        });
    }

    async fn call(&self) -> Result<(), StoreError> {
        let store = &self.shared.store;
        if let Some(left) = store.settle(&self.charge, self.due, clock::now()).await? {
            self.view.adopt(self.key, &left.told.state, left.now);
        }
        Ok(())
    }
}

impl SettlementPermit {
    /// `None` where there are too many.
    fn begin(store: &Arc<Store>) -> Option<Self> {
        // Relaxed, here and below: the number bounds memory and is shown; it publishes nothing.
        let before = store
            .settlements()
            .under_way
            .fetch_add(1, Ordering::Relaxed);
        let call = Self(Arc::clone(store));
        if before < bounds::STORE_SETTLEMENTS {
            return Some(call);
        }
        call.failed();
        None
    }

    fn made(self) {
        self.0.settlements().made.fetch_add(1, Ordering::Relaxed);
    }

    fn failed(self) {
        self.0.settlements().failed.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for SettlementPermit {
    fn drop(&mut self) {
        self.0
            .settlements()
            .under_way
            .fetch_sub(1, Ordering::Relaxed);
    }
}

impl SettlementCounters {
    /// Those that the store was told of, since the start.
    pub(super) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Those that it was not told of.
    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}
