//! Owns the memory of stored answers: bounded, in shards, each behind a lock of its own.
//!
//! Pingora's own storage is a map without bound, for tests. Here every byte counts: bodies, heads, keys, and the buffers of
//! answers that are being stored. The thread that brings the sum over the bound evicts, one response at a time, from one shard
//! after the other.
//!
//! A body is returned as a reference, so no lock is held while bytes are copied; an evicted body stays in memory while it is
//! read. Answers become visible when they are complete: a reader of half an answer would depend on the pace of the client that
//! fetches it, or on memory without bound where that client reads slowly and the length is unknown (`super::entry_writer`).
//!
//! # Concurrency
//! `used` and the statistics are sums on which no other memory depends, so they are relaxed. The size of an answer is added
//! before it can be found, so it is never subtracted before it was added. `used` may exceed the bound by the bytes that requests
//! add before they evict, a piece of a body each.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahash::RandomState;
use bytes::Bytes;
use pingora::cache::CacheKey;
use pingora::cache::key::CacheHashKey;

use super::entry_writer::EntryWriter;
use super::key::url_of;
use super::purge::PurgeScope;
use super::storage_shard::{CacheEntry, EntryId, PendingEntry, StorageShard, UrlHash};
use super::stored_head::StoredHead;

/// Number of shards: enough that threads seldom meet, few enough to walk them all.
const SHARDS: usize = 64;

/// The memory of stored answers.
pub struct MemoryStorage {
    shards: [Mutex<StorageShard>; SHARDS],
    /// Hashes URLs under a secret, so that clients cannot target a shard.
    hasher: RandomState,
    memory: AtomicUsize,
    used: AtomicUsize,
    /// The shard that evicts next.
    hand: AtomicUsize,
    numbers: AtomicU64,
    /// The statistics of the storage.
    pub stats: StorageStats,
}

/// Statistics of stored answers.
#[derive(Debug, Default)]
pub struct StorageStats {
    /// Responses that were evicted.
    pub evicted: AtomicU64,
    /// Responses that were not stored: no memory left, or the body did not match its Content-Length.
    pub abandoned: AtomicU64,
    /// Responses that the operator purged.
    pub purged: AtomicU64,
    /// Responses that an unsafe method on their URL invalidated.
    pub invalidated: AtomicU64,
    /// Requests that waited for another request to fetch the same response.
    pub waited: AtomicU64,
    /// Stale responses that were refreshed in the background.
    pub refreshed: AtomicU64,
}

/// A stored response. It stays readable when it is evicted.
#[derive(Clone, Debug)]
pub struct StoredResponse {
    /// Its head.
    pub head: Arc<StoredHead>,
    /// Its body.
    pub body: Bytes,
}

/// The current usage of the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageUsage {
    /// The maximum size in bytes.
    pub memory: u64,
    /// The current size in bytes.
    pub bytes: u64,
    /// Number of stored responses.
    pub objects: u64,
}

/// The result of an attempt to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoomResult {
    Made,
    /// Responses that are being stored, alone or with those being read, fill the memory.
    None,
}

impl MemoryStorage {
    /// Returns an empty storage for so many bytes.
    #[must_use]
    pub fn new(memory: usize) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::new(),
            memory: AtomicUsize::new(memory),
            used: AtomicUsize::new(0),
            hand: AtomicUsize::new(0),
            numbers: AtomicU64::new(0),
            stats: StorageStats::default(),
        }
    }

    /// Changes the maximum size.
    pub fn resize(&self, memory: usize) {
        self.memory.store(memory, Ordering::Relaxed);
        let _ = self.make_room();
    }

    /// Returns the current usage.
    #[must_use]
    pub fn usage(&self) -> StorageUsage {
        let objects: usize = self.shards.iter().map(|shard| lock(shard).count).sum();
        StorageUsage {
            memory: self.memory.load(Ordering::Relaxed) as u64,
            bytes: self.used.load(Ordering::Relaxed) as u64,
            objects: objects as u64,
        }
    }

    /// Returns the response that is stored under this key.
    #[must_use]
    pub fn get(&self, key: &CacheKey) -> Option<StoredResponse> {
        let url = self.hash(url_of(key.primary_key()));
        let mut shard = self.shard(url);
        let entry = shard.find(url, identity(key))?;
        Some(StoredResponse {
            head: Arc::clone(&entry.head),
            body: entry.body.clone(),
        })
    }

    /// Begins to store a response with this head under this key.
    #[must_use]
    pub fn write(&'static self, key: &CacheKey, head: StoredHead) -> EntryWriter {
        EntryWriter::new(self, identity(key), key.primary_key(), head)
    }

    /// Replaces the head of the response that is stored under this key. Returns whether there is one.
    pub fn update(&self, key: &CacheKey, head: Arc<StoredHead>) -> bool {
        let url = self.hash(url_of(key.primary_key()));
        let mut shard = self.shard(url);
        // Evicted or purged meanwhile: the request that looked it up still holds it, and it stays removed.
        let Some(entry) = shard.find(url, identity(key)) else {
            return false;
        };
        let before = entry.weight();
        entry.head = head;
        self.used.fetch_add(entry.weight(), Ordering::Relaxed);
        self.give_back(before);
        drop(shard);
        let _ = self.make_room();
        true
    }

    /// Removes the responses of one URL after an unsafe method on it; returns their number.
    pub fn invalidate(&self, url: &[u8]) -> usize {
        let hash = self.hash(url);
        let purge = PurgeScope::Url(url.to_owned());
        let taken = self.shard(hash).forget(hash, &purge);
        self.release(&taken);
        let count = taken.len();
        let tally = &self.stats.invalidated;
        tally.fetch_add(count as u64, Ordering::Relaxed);
        count
    }

    /// Removes the responses in the scope of `purge`; returns their number. Reads every key.
    pub fn purge(&self, purge: &PurgeScope) -> u64 {
        let mut count = 0;
        for shard in &self.shards {
            let taken = lock(shard).sweep(purge);
            self.release(&taken);
            count += taken.len() as u64;
        }
        self.stats.purged.fetch_add(count, Ordering::Relaxed);
        count
    }

    /// Reserves bytes of the memory, and evicts to make room for them.
    pub(super) fn reserve(&self, bytes: usize) -> RoomResult {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        self.make_room()
    }

    /// Releases reserved bytes.
    pub(super) fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Releases the bytes of an answer that is not stored.
    pub(super) fn abandon(&self, bytes: usize) {
        self.give_back(bytes);
        self.stats.abandoned.fetch_add(1, Ordering::Relaxed);
    }

    /// Begins to store a response under this key.
    pub(super) fn begin(&self, key: &[u8]) -> (UrlHash, Arc<PendingEntry>) {
        let url = self.hash(url_of(key));
        let filling = Arc::new(PendingEntry::new(key));
        self.shard(url).filling.push(Arc::clone(&filling));
        (url, filling)
    }

    /// Stores the response of [`Self::begin`], unless there is no room, or it was removed meanwhile.
    pub(super) fn store(&self, url: UrlHash, filling: &PendingEntry, mut entry: CacheEntry) {
        // Room first, so that a response never evicts itself, and its size is counted before it can be evicted.
        let weight = entry.weight();
        if self.reserve(weight) == RoomResult::None {
            self.abandon(weight);
            return;
        }
        let mut shard = self.shard(url);
        if filling.is_spoilt() {
            self.give_back(weight);
            return;
        }
        entry.number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let displaced = shard.put(url, entry);
        drop(shard);
        self.release(&displaced);
    }

    /// Ends the storing of [`Self::begin`], stored or not.
    pub(super) fn end(&self, url: UrlHash, filling: &Arc<PendingEntry>) {
        let mut shard = self.shard(url);
        shard.filling.retain(|other| !Arc::ptr_eq(other, filling));
    }

    fn hash(&self, url: &[u8]) -> UrlHash {
        UrlHash(self.hasher.hash_one(url))
    }

    fn shard(&self, url: UrlHash) -> MutexGuard<'_, StorageShard> {
        let at = usize::try_from(url.0 % SHARDS as u64).unwrap_or(0);
        lock(&self.shards[at])
    }

    fn release(&self, entries: &[CacheEntry]) {
        self.give_back(entries.iter().map(CacheEntry::weight).sum());
    }

    /// Evicts until there is room. Each turn evicts a response or passes a shard without one. Responses in use stay during the
    /// first walk over all shards, since a shard may have no others, and are evicted on the second; after that there is nothing
    /// to evict.
    fn make_room(&self) -> RoomResult {
        let mut in_vain = 0;
        while self.used.load(Ordering::Relaxed) > self.memory.load(Ordering::Relaxed) {
            if in_vain == 2 * SHARDS {
                return RoomResult::None;
            }
            let at = self.hand.fetch_add(1, Ordering::Relaxed) % SHARDS;
            let evicted = lock(&self.shards[at]).evict();
            match evicted {
                Some(entry) => {
                    in_vain = 0;
                    self.give_back(entry.weight());
                    self.stats.evicted.fetch_add(1, Ordering::Relaxed);
                }
                None => in_vain += 1,
            }
        }
        RoomResult::Made
    }
}

fn identity(key: &CacheKey) -> EntryId {
    EntryId {
        primary: key.primary_bin(),
        variance: key.variance_bin(),
    }
}

/// Ignores poison: no statement of a shard can panic and leave it half changed.
fn lock(shard: &Mutex<StorageShard>) -> MutexGuard<'_, StorageShard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "memory_storage_tests.rs"]
mod tests;
