//! Carries the wish for a reload to the one service that reloads, and its end back to who wished.
//!
//! # Concurrency
//! Wishes are numbered. A reload that begins after a wish was counted fulfills it, so whoever waits sees the file as it was at the wish, or
//! later.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// Wishes for reloads.
#[derive(Debug, Default)]
pub struct ReloadRequests {
    counts: Mutex<Counts>,
    ended: Condvar,
    bell: Notify,
}

/// How many wishes there were, and how many of them are fulfilled.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    wished: u64,
    fulfilled: u64,
}

impl ReloadRequests {
    /// Wishes for a reload and blocks until it has ended. Returns false when that takes longer than `patience`.
    pub fn wish(&self, patience: Duration) -> bool {
        let mut counts = self.lock();
        counts.wished += 1;
        let mine = counts.wished;
        self.bell.notify_one();
        let waited = self
            .ended
            .wait_timeout_while(counts, patience, |counts| counts.fulfilled < mine);
        let (counts, _) = waited.unwrap_or_else(PoisonError::into_inner);
        counts.fulfilled >= mine
    }

    /// Completes when there is a wish.
    pub async fn wished(&self) {
        self.bell.notified().await;
    }

    /// Does `reload`, which fulfills every wish that was counted before.
    pub fn fulfill(&self, reload: impl FnOnce()) {
        let wished = self.lock().wished;
        reload();
        self.lock().fulfilled = wished;
        self.ended.notify_all();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counts> {
        // Two numbers that are written whole, so a poisoned lock still holds them.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Goal: nobody is told of a reload that began before they wished. Method: a wish during a reload, then the next reload.
    #[test]
    fn a_reload_fulfills_the_wishes_from_before_it() {
        let wishes = Arc::new(ReloadRequests::default());
        let during = Arc::clone(&wishes);
        wishes.fulfill(move || assert!(!during.wish(Duration::ZERO)));
        let waiting = Arc::clone(&wishes);
        let waiter = std::thread::spawn(move || waiting.wish(Duration::from_secs(60)));
        while wishes.lock().wished < 2 {
            std::thread::yield_now();
        }
        wishes.fulfill(|| {});
        assert!(waiter.join().unwrap());
    }
}
