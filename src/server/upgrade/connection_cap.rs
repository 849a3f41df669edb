//! Counts the conversations with successors that are open, so that they have a bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The conversations of the process.
#[derive(Debug, Default)]
pub(super) struct ConnectionCap(AtomicUsize);

/// One conversation; it counts until this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionGuard(Arc<ConnectionCap>);

impl ConnectionCap {
    /// One more.
    #[must_use]
    pub(super) fn enter(self: &Arc<Self>) -> ConnectionGuard {
        // Relaxed, here and below: a count to look at, publishes nothing.
        self.0.fetch_add(1, Ordering::Relaxed);
        ConnectionGuard(Arc::clone(self))
    }

    /// Returns the number of open connections.
    #[must_use]
    pub(super) fn open(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
