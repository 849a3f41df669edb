//! Owns the time at which a background job of a pool is due.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sluicegate_limiter::Timestamp;

/// The time at which a background job of a pool is due.
#[derive(Debug, Default)]
pub(super) struct DueTime {
    /// In nanoseconds since the Unix epoch.
    next: AtomicU64,
    running: AtomicBool,
}

impl DueTime {
    /// Returns the time of a job that is due at `next`.
    pub(super) fn at(next: Timestamp) -> Self {
        Self {
            next: AtomicU64::new(next.as_nanos()),
            running: AtomicBool::new(false),
        }
    }

    /// Returns whether the job is due at `now`; if so it counts as running until [`Self::done`].
    pub(super) fn begin(&self, now: Timestamp) -> bool {
        // Acquire: pairs with the release of `done`, so that the due time belongs to the latest run.
        let due = !self.running.load(Ordering::Acquire)
            && self.next.load(Ordering::Relaxed) <= now.as_nanos();
        if due {
            self.running.store(true, Ordering::Relaxed);
        }
        due
    }

    /// Ends the run; the next one is due at `next`.
    pub(super) fn done(&self, next: Timestamp) {
        // Release: a thread that sees the end of the run also sees the next due time.
        self.next.store(next.as_nanos(), Ordering::Relaxed);
        self.running.store(false, Ordering::Release);
    }
}
