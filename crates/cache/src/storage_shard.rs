//! One shard of the storage: the responses of some URLs, found by URL, and the order of their eviction.
//!
//! The order is a clock: a response that was used since the hand last passed stays for another round. That is nearly as good as strict
//! recency, and a hit only sets a mark.
//!
//! # Invariants
//! 1. An answer is in the map if and only if its number is counted in `count`.
//! 2. Every answer has a place in `order`; places of answers that are gone are at most as many again, and skipped.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ahash::HashMap;
use bytes::Bytes;
use pingora::cache::key::HashBinary;
use sluicegate_base::bounds;

use super::purge::PurgeScope;
use super::stored_head::StoredHead;

/// Memory of an entry beside its texts: the entry, its place in the order, and the allocator's overhead.
const FIXED: usize = 512;

/// A URL, hashed; two that collide share a list and still differ by their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct UrlHash(pub(super) u64);

/// The identity of a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryId {
    pub(super) primary: HashBinary,
    pub(super) variance: Option<HashBinary>,
}

/// A stored answer.
#[derive(Debug)]
pub(super) struct CacheEntry {
    /// The serial number of the entry.
    pub(super) number: u64,
    pub(super) identity: EntryId,
    pub(super) key: Box<[u8]>,
    pub(super) head: Arc<StoredHead>,
    pub(super) body: Bytes,
    pub(super) used: bool,
}

impl CacheEntry {
    /// Returns its size in bytes.
    pub(super) fn weight(&self) -> usize {
        FIXED + self.key.len() + self.head.weight() + self.body.len()
    }
}

/// An answer that is being stored.
#[derive(Debug)]
pub(super) struct PendingEntry {
    pub(super) key: Box<[u8]>,
    spoilt: AtomicBool,
}

impl PendingEntry {
    pub(super) fn new(key: &[u8]) -> Self {
        Self {
            key: key.into(),
            spoilt: AtomicBool::new(false),
        }
    }

    /// Returns whether it was removed before it was complete. Read under the shard's lock, under which it is written.
    pub(super) fn is_spoilt(&self) -> bool {
        // Relaxed, here and below: the lock orders it.
        self.spoilt.load(Ordering::Relaxed)
    }

    fn spoil(&self) {
        self.spoilt.store(true, Ordering::Relaxed);
    }
}

/// One shard of the storage.
#[derive(Debug, Default)]
pub(super) struct StorageShard {
    urls: HashMap<u64, Vec<CacheEntry>>,
    order: VecDeque<(UrlHash, u64)>,
    pub(super) count: usize,
    pub(super) filling: Vec<Arc<PendingEntry>>,
}

impl StorageShard {
    /// Finds the response with this identity, and marks it as used.
    pub(super) fn find(&mut self, url: UrlHash, identity: EntryId) -> Option<&mut CacheEntry> {
        let entries = self.urls.get_mut(&url.0)?;
        let entry = entries
            .iter_mut()
            .find(|entry| entry.identity == identity)?;
        entry.used = true;
        Some(entry)
    }

    /// Stores a response; returns those that it displaces.
    pub(super) fn put(&mut self, url: UrlHash, entry: CacheEntry) -> Vec<CacheEntry> {
        let entries = self.urls.entry(url.0).or_default();
        let mut displaced = Vec::new();
        if let Some(at) = entries
            .iter()
            .position(|other| other.identity == entry.identity)
        {
            displaced.push(entries.swap_remove(at));
        } else if entries.len() >= bounds::URL_VARIANTS {
            let oldest = (0..entries.len()).min_by_key(|at| entries[*at].number);
            displaced.extend(oldest.map(|at| entries.swap_remove(at)));
        }
        self.order.push_back((url, entry.number));
        entries.push(entry);
        self.count += 1;
        self.count -= displaced.len();
        self.tidy();
        displaced
    }

    /// Removes the next response that was not used since the hand last passed; `None` where there is none. Responses that the
    /// hand passes count as unused from now on.
    pub(super) fn evict(&mut self) -> Option<CacheEntry> {
        for _ in 0..self.order.len() {
            let (url, number) = self.order.pop_front()?;
            let Some(entries) = self.urls.get_mut(&url.0) else {
                continue;
            };
            let Some(at) = entries.iter().position(|entry| entry.number == number) else {
                continue;
            };
            if std::mem::take(&mut entries[at].used) {
                self.order.push_back((url, number));
                continue;
            }
            let entry = entries.swap_remove(at);
            if entries.is_empty() {
                self.urls.remove(&url.0);
            }
            self.count -= 1;
            return Some(entry);
        }
        None
    }

    /// Removes the responses of one URL that are stored or being stored.
    pub(super) fn forget(&mut self, url: UrlHash, purge: &PurgeScope) -> Vec<CacheEntry> {
        self.spoil(purge);
        let Some(entries) = self.urls.get_mut(&url.0) else {
            return Vec::new();
        };
        let taken: Vec<CacheEntry> = entries
            .extract_if(.., |entry| purge.takes(&entry.key))
            .collect();
        if entries.is_empty() {
            self.urls.remove(&url.0);
        }
        self.count -= taken.len();
        self.tidy();
        taken
    }

    /// Removes all responses in the scope of `purge`.
    pub(super) fn sweep(&mut self, purge: &PurgeScope) -> Vec<CacheEntry> {
        self.spoil(purge);
        let mut taken = Vec::new();
        self.urls.retain(|_, entries| {
            taken.extend(entries.extract_if(.., |entry| purge.takes(&entry.key)));
            !entries.is_empty()
        });
        self.count -= taken.len();
        self.tidy();
        taken
    }

    /// Marks responses that are being stored: they were requested before the purge, and may be in its scope.
    fn spoil(&self, purge: &PurgeScope) {
        for filling in self.filling.iter().filter(|one| purge.takes(&one.key)) {
            filling.spoil();
        }
    }

    /// Restores invariant 2: as many steps as answers were stored since the last time.
    fn tidy(&mut self) {
        if self.order.len() > 2 * self.count + 64 {
            let urls = &self.urls;
            self.order.retain(|(url, number)| {
                let entries = urls.get(&url.0);
                entries.is_some_and(|all| all.iter().any(|entry| entry.number == *number))
            });
        }
    }
}
