//! Counts the look-ups of a process: those in flight, those that ended by result, and those that a bound prevented.

use std::sync::atomic::{AtomicU64, Ordering};

use super::answers::LookUpResult;
use super::fault::NamesFault;

/// The bound that prevented a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LookUpBound {
    /// Another address of the network is looked up.
    Network,
    /// Too many look-ups wait.
    Queue,
    /// Too many look-ups of the network confirmed nothing lately.
    Failures,
}

/// The counts since the start of the process.
#[derive(Debug, Default)]
pub struct LookUpCounts {
    results: [AtomicU64; RESULTS.len()],
    skipped: [AtomicU64; BOUNDS.len()],
    in_flight: AtomicU64,
}

/// The results as metrics name them.
const RESULTS: [&str; 5] = ["confirmed", "no-name", "other-domain", "mismatch", "failed"];

/// The bounds as metrics name them, in the order of [`LookUpBound`].
const BOUNDS: [&str; 3] = ["network", "queue", "failures"];

impl LookUpCounts {
    pub(super) fn add(&self, result: &LookUpResult) {
        let at = match result {
            LookUpResult::Confirmed { .. } => 0,
            LookUpResult::Unconfirmed { fault, .. } => match fault {
                NamesFault::NoName => 1,
                NamesFault::OtherDomain => 2,
                NamesFault::Mismatch => 3,
            },
            LookUpResult::Failed => 4,
        };
        increment(self.results.get(at));
    }

    pub(super) fn skip(&self, bound: LookUpBound) {
        increment(self.skipped.get(bound as usize));
    }

    pub(super) fn begin(&self) {
        increment(Some(&self.in_flight));
    }

    pub(super) fn end(&self) {
        // Relaxed: as in `increment`. Each call follows one of `begin`, so the count is not below 0.
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the number of look-ups that began and did not end.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        read(&self.in_flight)
    }

    /// Returns the look-ups that ended, by result.
    pub fn results(&self) -> impl Iterator<Item = (&'static str, u64)> {
        RESULTS.into_iter().zip(self.results.iter().map(read))
    }

    /// Returns the requests for which no look-up began, by the bound that prevented it.
    pub fn skipped(&self) -> impl Iterator<Item = (&'static str, u64)> {
        BOUNDS.into_iter().zip(self.skipped.iter().map(read))
    }
}

fn increment(count: Option<&AtomicU64>) {
    if let Some(count) = count {
        // Relaxed: a count for the scrape, on its own.
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn read(count: &AtomicU64) -> u64 {
    // Relaxed: as in `increment`.
    count.load(Ordering::Relaxed)
}
