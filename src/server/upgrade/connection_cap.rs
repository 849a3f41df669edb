//! Counts the open connections of upgrades, so that they have a bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of open connections.
#[derive(Debug, Default)]
pub(super) struct ConnectionCap(AtomicUsize);

/// One connection; it counts until this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionGuard(Arc<ConnectionCap>);

impl ConnectionCap {
    /// Counts one more connection.
    #[must_use]
    pub(super) fn enter(self: &Arc<Self>) -> ConnectionGuard {
        // Relaxed, here and below: the count publishes nothing.
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
