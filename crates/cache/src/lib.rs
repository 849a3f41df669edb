//! Stores responses, so that an origin need not send them twice: RFC 9111, as a shared cache.
//!
//! This module has what does not depend on the path of a request: which responses may be stored and for how long ([`freshness`]), the
//! directives of a request ([`request_directives`]), the key and its variants ([`key`], [`vary`]), the storage ([`memory_storage`]), the
//! turn of a request that fetches ([`fill_lock`]), and the part of a response that a client asks for ([`conditions`], [`ranges`]). The
//! gateway leads a request through them.
//!
//! The cache belongs to the process, not to a snapshot: stored responses survive a reload, and the new rules apply to them from then on.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod conditions;
pub mod entry_writer;
pub mod fill_lock;
pub mod freshness;
pub mod key;
pub mod memory_storage;
pub mod name_case;
pub mod purge;
pub mod ranges;
pub mod request_directives;
pub mod status;
mod storage_shard;
pub mod stored_head;
pub mod vary;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pingora::cache::CacheKey;
use pingora::cache::lock::{CacheKeyLockImpl, CacheLock};
use pingora::cache::predictor::{CacheablePredictor, Predictor};
use sluicegate_limiter::Timestamp;

use fill_lock::{FillReason, FillTurn};
use freshness::CacheAudience;
use memory_storage::MemoryStorage;
use sluicegate_base::bounds;
use sluicegate_config::rules::CacheRules;

/// Number of parts of a predictor.
const PARTS: usize = 16;

/// The cache of the process.
pub struct ResponseCache {
    /// The stored responses.
    pub storage: MemoryStorage,
    /// Lets one request fetch a response that others wait for.
    lock: CacheLock,
    /// URLs whose last answer could not be stored.
    unstorable: Predictor<PARTS>,
    /// The same for requests with credentials, whose responses do not affect other requests.
    unstorable_for_somebody: Predictor<PARTS>,
}

impl ResponseCache {
    /// Returns an empty cache. Pingora requires that it lives as long as the process; there is one per process.
    #[must_use]
    pub fn of_the_process(rules: &CacheRules) -> &'static Self {
        let keys = bounds::UNSTORABLE_URLS / PARTS;
        Box::leak(Box::new(Self {
            storage: MemoryStorage::new(rules.max_bytes),
            lock: CacheLock::new(bounds::FILL_AGE),
            // A reason in the request is not remembered for its URL.
            unstorable: Predictor::new(keys, Some(|_| true)),
            unstorable_for_somebody: Predictor::new(keys, None),
        }))
    }

    /// Returns the lock that lets one request fetch for all that wait.
    #[must_use]
    pub fn lock(&'static self) -> &'static CacheKeyLockImpl {
        &self.lock
    }

    /// Returns the turn of a request for the response under `key`.
    #[must_use]
    pub fn take_turn(&'static self, key: &CacheKey, reason: FillReason) -> FillTurn {
        fill_lock::take_turn(&self.lock, key, reason)
    }

    /// Returns the predictor that remembers URLs whose responses cannot be stored for this audience.
    #[must_use]
    pub fn predictor(
        &'static self,
        audience: CacheAudience,
    ) -> &'static (dyn CacheablePredictor + Sync) {
        match audience {
            CacheAudience::Anybody => &self.unstorable,
            CacheAudience::WithCookie | CacheAudience::Authorised => &self.unstorable_for_somebody,
        }
    }
}

/// Converts a time to the type of Pingora's cache.
#[must_use]
pub fn moment(at: Timestamp) -> SystemTime {
    let since = Duration::from_nanos(at.as_nanos());
    UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
}
