//! Counts the connections that are open, so that a drain knows when the last is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The connections of the process.
#[derive(Debug, Default)]
pub struct Presence(AtomicUsize);

/// One connection; it counts until this is dropped.
#[derive(Debug)]
pub struct Present(Arc<Presence>);

impl Presence {
    /// One more.
    #[must_use]
    pub fn enter(self: &Arc<Self>) -> Present {
        // Relaxed, here and below: a count to look at, publishes nothing.
        self.0.fetch_add(1, Ordering::Relaxed);
        Present(Arc::clone(self))
    }

    /// How many there are.
    #[must_use]
    pub fn open(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
