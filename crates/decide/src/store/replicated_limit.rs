//! Identifies the limits with `store = "shared"` and their counters, over reloads and over the edits of a limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_limiter::{KeyHash, Limit};

use sluicegate_config::rules::Name;

/// A replicated limit with the tables for one policy.
#[derive(Debug)]
pub struct ReplicatedLimit {
    /// The limit, shared by all its policies.
    pub registered: Arc<RegisteredLimit>,
    /// The store's latest counts, with what this node admitted since.
    pub cache: Limit,
    /// The counts of this node alone.
    pub own: Limit,
}

/// The identity of a replicated limit, which outlives reloads, and its excess.
#[derive(Debug)]
pub struct RegisteredLimit {
    /// The name of the limit.
    pub limit: Name,
    number: u32,
    excess: AtomicU64,
}

/// The identity of a counter: a limit and a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CounterId {
    limit: u32,
    key: KeyHash,
}

/// A key of a replicated limit.
#[derive(Clone, Debug)]
pub struct ReplicatedKey {
    /// The limit.
    pub replicated: Arc<ReplicatedLimit>,
    /// The key in the tables of this node.
    pub key: KeyHash,
    /// The key in the store.
    pub name: KeyHash,
}

impl ReplicatedLimit {
    /// Returns the counter of a key in the tables of this node.
    pub fn counter(&self, key: KeyHash) -> CounterId {
        let limit = self.registered.number;
        CounterId { limit, key }
    }
}

impl ReplicatedKey {
    /// Returns its counter.
    pub fn counter(&self) -> CounterId {
        self.replicated.counter(self.key)
    }
}

impl RegisteredLimit {
    /// Returns the limit of this name, as the `number`-th one that was registered.
    pub fn new(limit: Name, number: u32) -> Self {
        Self {
            limit,
            number,
            excess: AtomicU64::new(0),
        }
    }

    /// Returns the units that this node's pushes charged beyond the limit since the start.
    #[must_use]
    pub fn excess(&self) -> u64 {
        // Relaxed, here and below: a number to show, publishes nothing.
        self.excess.load(Ordering::Relaxed)
    }

    /// Counts units that a push of this node charged beyond the limit.
    pub fn exceed(&self, units: u64) {
        self.excess.fetch_add(units, Ordering::Relaxed);
    }
}

impl CounterId {
    /// Returns the key in the tables of this node.
    #[must_use]
    pub fn key(&self) -> KeyHash {
        self.key
    }

    /// Returns a number that differs for the counters of one key at two limits, below `shards`. Limits of one request often have one key:
    /// each is in another shard, so that an answer for one does not make the charge of the next count twice.
    #[must_use]
    pub fn shard(&self, shards: usize) -> usize {
        // Tables take bits from both ends of the hash; any will do here.
        let place = (self.key.bits() >> 20).wrapping_add(self.limit.into());
        place as usize % shards
    }
}
