//! Counts the requests of one HTTP/2 connection that its client gave up (CVE-2023-44487, "rapid reset").
//!
//! # Concurrency
//! Each stream is a task of its own. Its request finds the tally of its connection in a local of that task.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::bounds;

tokio::task_local! {
    /// The tally of the connection whose request this task serves.
    static TALLY: Arc<CancelledStreams>;
}

/// What became of the requests of one connection.
#[derive(Default)]
pub(crate) struct CancelledStreams {
    begun: AtomicU32,
    given_up: AtomicU32,
    exceeded: Notify,
}

impl CancelledStreams {
    /// Counts a request.
    pub(crate) fn begin(&self) {
        // Relaxed, here and below: two counts that need not agree; being off by the streams under way changes nothing that matters.
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends when no request has begun for so long; never once one has.
    pub(crate) async fn silence(&self, patience: Duration) {
        tokio::time::sleep(patience).await;
        if self.begun.load(Ordering::Relaxed) > 0 {
            std::future::pending().await
        }
    }

    /// Completes when the client has given up so many of its requests that the connection must end.
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

/// Whether that is no client changing its mind: there are many, and they are most of its requests.
fn is_abuse(given_up: u32, of: u32) -> bool {
    given_up >= bounds::CLIENT_GIVEN_UP && given_up > of / 2
}

/// Notes that the client gave up the request of this task before it was answered.
pub(crate) fn note_given_up() {
    // Requests of HTTP/1 have no tally: there giving up costs the connection.
    let _ = TALLY.try_with(|tally| tally.give_up());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: whoever cancels now and then is served, whoever does little else is not. Method: counts on both sides of the two bounds.
    #[test]
    fn only_many_streams_given_up_among_few_answered_are_abuse() {
        let most = bounds::CLIENT_GIVEN_UP;
        assert!(!is_abuse(most - 1, most - 1));
        assert!(is_abuse(most, most));
        assert!(!is_abuse(most, most * 2));
        assert!(is_abuse(most + 1, most * 2));
    }
}
