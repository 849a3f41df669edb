//! Settles charges in a store in the background, and counts what became of that.
//!
//! # Limits
//! At most [`STORE_SETTLEMENTS`](bounds::STORE_SETTLEMENTS) calls are under way. Beyond that, and where a call fails, the charge stays as
//! it was made, and that is counted. It errs towards refusing, but for what cost more than was reserved.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_base::bounds;
use sluicegate_limiter::Settle;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::Store;
use sluicegate_decide::store::StoreCharge;
use sluicegate_decide::store::{CachedKey, CountingStore};

/// The calls that settle: the permits of those under way, and the number of those that ended, by result.
#[derive(Debug)]
pub(super) struct SettlementCounters {
    permits: Arc<Semaphore>,
    made: AtomicU64,
    failed: AtomicU64,
}

/// Settles `charge` in the background, and counts the result.
pub(super) fn settle_later(
    store: Arc<Store>,
    charge: Box<StoreCharge>,
    settle: Settle,
    cache: CachedKey,
) {
    let counters = store.settlements();
    let permit = Arc::clone(&counters.permits).try_acquire_owned();
    // Without a runtime the process is about to end.
    let (Ok(permit), Ok(runtime)) = (permit, Handle::try_current()) else {
        // Relaxed, here and below: numbers to show, which publish nothing.
        counters.failed.fetch_add(1, Ordering::Relaxed);
        return;
    };
    runtime.spawn(async move {
        let settled = store.settle(&charge, settle, store.now()).await;
        if let Ok(Some(answer)) = &settled
            && let Some(left) = answer.results.first()
        {
            cache.table.adopt(cache.key, &left.state, answer.now);
        }
        let counters = store.settlements();
        let counter = match settled {
            Ok(_) => &counters.made,
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
