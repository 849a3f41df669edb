//! Counts the requests of one HTTP/2 connection that its client cancelled (CVE-2023-44487, "rapid reset").
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
    exceeded: Notify,
}

impl CancelledStreams {
    /// Counts a request.
    pub(crate) fn begin(&self) {
        // Relaxed, here and below: two counts that need not agree; an error by the streams in flight does not matter.
        self.begun.fetch_add(1, Ordering::Relaxed);
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
