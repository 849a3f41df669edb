//! Names what decisions need of a store in which several nodes count: names of keys, its time, and the queues of what it is to get.
//!
//! Decisions make no calls. They describe them as a [`StoreCall`](super::StoreCall), or hand over what may be sent later.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_limiter::{KeyHash, Limit, Seed, Settle, Timestamp};

use super::pending_writes::{ClockPair, PendingWrites};
use super::replay_queue::ReplayQueue;
use super::store_call::StoreCharge;

/// A store in which several nodes count.
pub trait CountingStore: fmt::Debug + Send + Sync {
    /// Returns the beginning of the names of its keys.
    fn prefix(&self) -> &str;

    /// Returns the seed under which keys are hashed; `None` until the store was reached for the first time, where no file names it.
    fn seed(&self) -> Option<Seed>;

    /// Returns whether it is a Cluster, in which only keys of one slot can be asked by one call.
    fn has_slots(&self) -> bool;

    /// Returns the time of this node.
    fn now(&self) -> Timestamp;

    /// Converts a moment of this node's clock into the store's, as far as the offset is known.
    fn moment(&self, now: Timestamp) -> Timestamp;

    /// Returns the number of nodes that count in it.
    fn nodes(&self) -> NonZeroU32;

    /// Returns the longest time from a charge of another node until this node hears of it.
    fn longest_push_delay(&self) -> Duration;

    /// Returns whether counts of keys are exchanged with the fleet, as [`has_counts_of_key`](Self::has_counts_of_key) does for one; true of
    /// a Cluster, in which that depends on the key.
    fn has_counts(&self, now: Timestamp) -> bool;

    /// Returns whether counts of the key `key` of the limit `limit` are exchanged with the fleet: the store can be reached and is not late,
    /// and no counts are being restored.
    fn has_counts_of_key(&self, key: KeyHash, limit: &str, now: Timestamp) -> bool;

    /// Takes the change that an operator made at another gateway to a key with this hash in the store, and drops what this node would send
    /// about the key.
    fn take_change(&self, key: KeyHash, limit: &str) -> Option<KeyChange>;

    /// Returns what strict limits admitted and the store does not have yet.
    fn replay_queue(&self) -> &ReplayQueue;

    /// Returns what this node admitted of replicated limits and the store does not have yet.
    fn pending_writes(&self) -> &PendingWrites;

    /// Settles a charge in the store, in the background; `cache` has the cached state of its key, and gets what the settlement leaves.
    fn settle_later(self: Arc<Self>, charge: Box<StoreCharge>, settle: Settle, cache: CachedKey);

    /// Returns one moment by both clocks.
    fn moments(&self, here: Timestamp) -> ClockPair {
        ClockPair {
            here,
            store: self.moment(here),
        }
    }

    /// Returns whether both stores share their state: this one gets what the other did not, and refusals of the other hold until this one
    /// answers.
    fn follows(&self, other: &dyn CountingStore) -> bool {
        std::ptr::eq(self.pending_writes(), other.pending_writes())
    }
}

/// The cached state of a key in a store.
#[derive(Debug)]
pub struct CachedKey {
    /// The table, with the policy of the key.
    pub table: Limit,
    /// The key in the tables of this node.
    pub key: KeyHash,
}

/// A change that an operator made to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// The counters and bans of the key were cleared.
    Cleared,
    /// The used units were set; bans stay.
    Set,
}

impl KeyChange {
    /// Returns the word in the store.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cleared => "cleared",
            Self::Set => "set",
        }
    }

    /// Returns the change of this word.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        let all = [Self::Cleared, Self::Set];
        all.into_iter().find(|change| change.as_str() == text)
    }
}
