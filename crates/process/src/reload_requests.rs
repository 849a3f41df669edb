//! Passes requests for a reload to the service that reloads, and its end back to the callers.
//!
//! # Concurrency
//! Requests are numbered. A reload that begins after a request was counted fulfills it, so a caller that waits sees the file as
//! it was at the request, or later.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// Requests for reloads.
#[derive(Debug, Default)]
pub struct ReloadRequests {
    counts: Mutex<Counts>,
    ended: Condvar,
    bell: Notify,
}

/// The number of requests, how many of them are fulfilled, and who made those that are not.
#[derive(Debug, Default)]
struct Counts {
    requested: u64,
    fulfilled: u64,
    /// At most as many as the connections of the admin listener, each of which waits for its request.
    peers: BTreeSet<String>,
}

impl ReloadRequests {
    /// Requests a reload in the name of `peer` and blocks until it has ended. Returns false when that takes longer than `patience`.
    pub fn request_and_wait(&self, peer: Option<String>, patience: Duration) -> bool {
        let mut counts = self.lock();
        counts.requested += 1;
        counts.peers.extend(peer);
        let mine = counts.requested;
        self.bell.notify_one();
        let waited = self
            .ended
            .wait_timeout_while(counts, patience, |counts| counts.fulfilled < mine);
        let (counts, _) = waited.unwrap_or_else(PoisonError::into_inner);
        counts.fulfilled >= mine
    }

    /// Completes when there is a request.
    pub async fn requested(&self) {
        self.bell.notified().await;
    }

    /// Runs `reload` with the peers of the requests. It fulfills every request that was counted before.
    pub fn fulfill(&self, reload: impl FnOnce(Vec<String>)) {
        let mut counts = self.lock();
        let requested = counts.requested;
        let peers = std::mem::take(&mut counts.peers);
        drop(counts);
        reload(peers.into_iter().collect());
        self.lock().fulfilled = requested;
        self.ended.notify_all();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counts> {
        // Each is written as a whole, so a poisoned lock still holds them.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Goal: a caller does not get the result of a reload that began before its request. Method: a request during a reload, then
    /// the next reload.
    #[test]
    fn a_reload_fulfills_earlier_requests() {
        let requests = Arc::new(ReloadRequests::default());
        let during = Arc::clone(&requests);
        let peer = || Some("127.0.0.1:1".to_owned());
        requests.fulfill(move |_| assert!(!during.request_and_wait(peer(), Duration::ZERO)));
        let waiting = Arc::clone(&requests);
        let waiter =
            std::thread::spawn(move || waiting.request_and_wait(None, Duration::from_secs(60)));
        while requests.lock().requested < 2 {
            std::thread::yield_now();
        }
        requests.fulfill(|peers| assert_eq!(peers, ["127.0.0.1:1"]));
        assert!(waiter.join().unwrap());
    }
}
