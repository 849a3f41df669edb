//! Counts the requests of one HTTP/2 connection: those that are open, and those that its client cancelled (CVE-2023-44487, "rapid reset").
//!
//! # Concurrency
//! Each stream is a task of its own. Its request finds the counts of its connection in a local of that task.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sluicegate_base::bounds;
use tokio::sync::Notify;

tokio::task_local! {
    /// The counts of the connection whose request this task serves.
    static TALLY: Arc<CancelledStreams>;
}

/// The outcomes of the requests of one connection.
#[derive(Default)]
pub(crate) struct CancelledStreams {
    begun: AtomicU32,
    given_up: AtomicU32,
    /// Requests that are served.
    open: AtomicU32,
    /// Notified when the last of them ends.
    none_open: Notify,
    exceeded: Notify,
}

/// A request of the connection, until it is dropped.
pub(crate) struct OpenRequest(Arc<CancelledStreams>);

impl CancelledStreams {
    /// Counts a request, which is open until the value is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> OpenRequest {
        // Relaxed, here and below: counts that need not agree; an error by the streams in flight does not matter.
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenRequest(Arc::clone(self))
    }

    /// Returns whether no request is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.load(Ordering::Relaxed) == 0
    }

    /// Completes when no request was open for as long as `patience` returns once the last one has ended.
    pub(crate) async fn idle(&self, patience: impl FnOnce() -> Duration) {
        while self.open.load(Ordering::Relaxed) > 0 {
            self.none_open.notified().await;
        }
        tokio::time::sleep(patience()).await;
    }

    /// Completes when no request has begun for so long; never once one has.
    pub(crate) async fn silence(&self, patience: Duration) {
        tokio::time::sleep(patience).await;
        if self.begun.load(Ordering::Relaxed) > 0 {
            std::future::pending().await
        }
    }

    /// Completes when the client has cancelled so many of its requests that the connection must end.
    pub(crate) async fn exceeded(&self) {
        self.exceeded.notified().await;
    }

    /// Serves a request of this connection.
    pub(crate) async fn scope<T>(tally: &Arc<Self>, served: impl Future<Output = T>) -> T {
        TALLY.scope(Arc::clone(tally), served).await
    }

    fn give_up(&self) {
        let given_up = self
            .given_up
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1);
        if is_abuse(given_up, self.begun.load(Ordering::Relaxed)) {
            self.exceeded.notify_one();
        }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.none_open.notify_one();
        }
    }
}

/// Returns whether the cancellations are abuse: there are many, and they are most of the requests.
fn is_abuse(given_up: u32, of: u32) -> bool {
    given_up >= bounds::CLIENT_GIVEN_UP && given_up > of / 2
}

/// Records that the client cancelled the request of this task before it was answered.
pub(crate) fn note_given_up() {
    // Requests of HTTP/1 have no such counts: there a cancellation costs the connection.
    let _ = TALLY.try_with(|tally| tally.give_up());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a client that cancels now and then is served, one that does little else is not. Method: counts on both sides of the
    /// two bounds.
    #[test]
    fn only_many_streams_given_up_among_few_answered_are_abuse() {
        let most = bounds::CLIENT_GIVEN_UP;
        assert!(!is_abuse(most - 1, most - 1));
        assert!(is_abuse(most, most));
        assert!(!is_abuse(most, most * 2));
        assert!(is_abuse(most + 1, most * 2));
    }
}
