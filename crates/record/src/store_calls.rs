//! Counts calls of the store, for `/metrics`.
//!
//! Shared by all threads rather than striped: each addition stands beside a round trip, which costs a thousand times as much. It
//! outlives the links of single configurations, so that no counter falls at a reload.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_redis_link::{CallResult, LinkEvent, LinkObserver};
use sluicegate_telemetry::histogram::{Histogram, HistogramSum};

use super::line_values::micros;

/// Upper bounds of `sluicegate_store_round_trip_seconds`, in microseconds: from a socket on the same machine to the longest timeout.
pub(super) const ROUND_TRIP_BOUNDS: [u64; 12] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 50_000, 250_000, 5_000_000,
];

/// The counts of calls, of their durations and of events of the link.
#[derive(Debug, Default)]
pub struct StoreCallCounts {
    results: [AtomicU64; CallResult::ALL.len()],
    round_trips: Histogram<{ ROUND_TRIP_BOUNDS.len() }>,
    events: [AtomicU64; LinkEvent::ALL.len()],
}

/// Returns the value of the label `result`.
pub(super) fn label_of(result: CallResult) -> &'static str {
    match result {
        CallResult::Ok => "ok",
        CallResult::Unavailable => "circuit_open",
        CallResult::TimedOut => "timed_out",
        CallResult::ConnectionLost => "lost",
        CallResult::Refused => "refused",
    }
}

impl LinkObserver for StoreCallCounts {
    fn count_call(&self, result: CallResult, took: Duration) {
        // Relaxed, here and below: counts for the scrape, each on its own.
        self.results[result as usize].fetch_add(1, Ordering::Relaxed);
        if result != CallResult::Unavailable {
            self.round_trips.observe(&ROUND_TRIP_BOUNDS, micros(took));
        }
    }

    fn count_event(&self, event: LinkEvent) {
        self.events[event as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl StoreCallCounts {
    /// Returns the number of calls with this result.
    #[must_use]
    pub fn calls(&self, result: CallResult) -> u64 {
        self.results[result as usize].load(Ordering::Relaxed)
    }

    /// Returns the number of these events.
    #[must_use]
    pub fn events(&self, event: LinkEvent) -> u64 {
        self.events[event as usize].load(Ordering::Relaxed)
    }

    pub(super) fn round_trips(&self) -> HistogramSum<{ ROUND_TRIP_BOUNDS.len() }> {
        HistogramSum::sum(std::iter::once(&self.round_trips))
    }
}
