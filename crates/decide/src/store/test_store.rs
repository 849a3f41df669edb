//! A store that no call reaches, for tests of what is decided without one.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_base::clock;
use sluicegate_limiter::{KeyHash, Seed, Settle, Timestamp};

use super::{CachedKey, CountingStore, KeyChange, PendingWrites, ReplayQueue, StoreCharge};

/// A store that was never reached.
#[derive(Debug, Default)]
pub(crate) struct UnreachableStore {
    seed: Option<Seed>,
    replay_queue: ReplayQueue,
    pending_writes: PendingWrites,
}

impl UnreachableStore {
    /// Returns the store whose keys have this seed.
    pub(crate) fn new(seed: Option<Seed>) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }
}

impl CountingStore for UnreachableStore {
    fn prefix(&self) -> &str {
        "test:"
    }

    fn seed(&self) -> Option<Seed> {
        self.seed
    }

    fn has_slots(&self) -> bool {
        false
    }

    fn now(&self) -> Timestamp {
        clock::now()
    }

    fn moment(&self, now: Timestamp) -> Timestamp {
        now
    }

    fn nodes(&self) -> NonZeroU32 {
        NonZeroU32::MIN
    }

    fn longest_push_delay(&self) -> Duration {
        Duration::ZERO
    }

    fn has_counts(&self, _: Timestamp) -> bool {
        false
    }

    fn has_counts_of_key(&self, _: KeyHash, _: &str, _: Timestamp) -> bool {
        false
    }

    fn take_change(&self, _: KeyHash, _: &str) -> Option<KeyChange> {
        None
    }

    fn replay_queue(&self) -> &ReplayQueue {
        &self.replay_queue
    }

    fn pending_writes(&self) -> &PendingWrites {
        &self.pending_writes
    }

    fn settle_later(self: Arc<Self>, _: Box<StoreCharge>, _: Settle, _: CachedKey) {}
}
