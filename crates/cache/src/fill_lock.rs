//! Lets one request fetch a response that others wait for.
//!
//! The request that fetches holds a [`FillPermit`]. However it ends, the permit tells those that wait what follows: look again, fetch
//! instead of it, or go to the origin each by itself.

use std::time::Duration;

use pingora::cache::CacheKey;
use pingora::cache::lock::{
    CacheKeyLock, CacheKeyLockImpl, LockStatus, Locked, ReadLock, WritePermit,
};
use tokio::time::timeout;

/// The turn of a request that needs a response from the origin.
pub enum FillTurn {
    /// It fetches the response.
    Fetch(FillPermit),
    /// Another request fetches it.
    Wait(FillWait),
}

/// The permit to fetch a response for all that wait for it. Dropped, it lets another one fetch.
pub struct FillPermit {
    lock: &'static CacheKeyLockImpl,
    key: CacheKey,
    permit: Option<WritePermit>,
}

/// The wait for a request that fetches a response.
pub struct FillWait(ReadLock);

/// The end of such a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillWaitEnd {
    /// The response may be stored, or another request may fetch it now.
    LookAgain,
    /// The response cannot be stored, or the wait was too long.
    GiveUp,
}

/// The reason for which a response is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillReason {
    /// None is stored.
    Missing,
    /// The stored one is stale.
    Stale,
}

/// Returns the turn of a request for the response under `key`.
pub(super) fn take_turn(
    lock: &'static CacheKeyLockImpl,
    key: &CacheKey,
    reason: FillReason,
) -> FillTurn {
    match CacheKeyLock::lock(lock, key, reason == FillReason::Stale) {
        Locked::Write(permit) => FillTurn::Fetch(FillPermit {
            lock,
            key: key.clone(),
            permit: Some(permit),
        }),
        Locked::Read(lock) => FillTurn::Wait(FillWait(lock)),
    }
}

impl FillPermit {
    /// Lets those that wait look up the response, which is stored or confirmed.
    pub fn stored(self) {
        self.release(LockStatus::Done);
    }

    /// Lets those that wait go to the origin, each by itself: the response cannot be stored.
    pub fn not_storable(self) {
        self.release(LockStatus::GiveUp);
    }

    fn release(mut self, status: LockStatus) {
        self.end(status);
    }

    fn end(&mut self, status: LockStatus) {
        if let Some(permit) = self.permit.take() {
            self.lock.release(&self.key, permit, status);
        }
    }
}

impl Drop for FillPermit {
    fn drop(&mut self) {
        self.end(LockStatus::TransientError);
    }
}

impl FillWait {
    /// Waits until the request that fetches has ended, or has held its permit for too long, for at most `patience`.
    pub async fn end(self, patience: Duration) -> FillWaitEnd {
        if timeout(patience, self.0.wait()).await.is_err() {
            return FillWaitEnd::GiveUp;
        }
        match self.0.lock_status() {
            LockStatus::GiveUp | LockStatus::WaitTimeout => FillWaitEnd::GiveUp,
            _ => FillWaitEnd::LookAgain,
        }
    }
}

#[cfg(test)]
mod tests {
    use pingora::cache::lock::CacheLock;

    use super::*;

    fn lock() -> &'static CacheKeyLockImpl {
        Box::leak(Box::new(CacheLock::new(Duration::from_secs(60))))
    }

    fn permit(lock: &'static CacheKeyLockImpl) -> FillPermit {
        match take_turn(lock, &CacheKey::new("a", ""), FillReason::Missing) {
            FillTurn::Fetch(permit) => permit,
            FillTurn::Wait(_) => unreachable!("nobody fetches"),
        }
    }

    fn wait(lock: &'static CacheKeyLockImpl) -> FillWait {
        match take_turn(lock, &CacheKey::new("a", ""), FillReason::Missing) {
            FillTurn::Fetch(_) => unreachable!("another one fetches"),
            FillTurn::Wait(wait) => wait,
        }
    }

    /// Goal: each end of a fetch reaches those that wait, and the next request may fetch. Method: each end, one after the other.
    #[tokio::test]
    async fn every_end_of_a_fetch_ends_the_wait() {
        let lock = lock();
        let ends: [(fn(FillPermit), FillWaitEnd); 3] = [
            (FillPermit::stored, FillWaitEnd::LookAgain),
            (FillPermit::not_storable, FillWaitEnd::GiveUp),
            (drop, FillWaitEnd::LookAgain),
        ];
        for (end, expected) in ends {
            let permit = permit(lock);
            let waiting = wait(lock);
            end(permit);
            assert_eq!(waiting.end(Duration::from_secs(60)).await, expected);
        }
    }

    /// Goal: a wait is bounded. Method: a fetch that does not end.
    #[tokio::test]
    async fn a_wait_ends_in_time() {
        let lock = lock();
        let _permit = permit(lock);
        let waited = wait(lock).end(Duration::from_millis(10)).await;
        assert_eq!(waited, FillWaitEnd::GiveUp);
    }
}
