//! Counts calls of the store, for `/metrics`.
//!
//! Shared by all threads rather than striped: each addition stands beside a round trip, which costs a thousand times as much. It
//! outlives the links of single configurations, so that no counter falls at a reload.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::histogram::{Histogram, HistogramSum};
use super::line::micros;

/// Upper bounds of `sluicegate_store_round_trip_seconds`, in microseconds: from a socket on the same machine to the longest timeout.
pub(super) const ROUND_TRIP_BOUNDS: [u64; 12] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 50_000, 250_000, 5_000_000,
];

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// It was answered.
    Ok,
    /// Nothing was sent, since the store was away.
    Away,
    /// No answer came in time.
    TimedOut,
    /// The connection broke.
    Lost,
    /// The store answered with an error.
    Refused,
}

/// An event of the link apart from calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// A connection stands.
    Connected,
    /// None could be made.
    NotConnected,
    /// A breaker opened.
    Opened,
    /// A script was given to a server.
    ScriptLoaded,
}

/// The counts.
#[derive(Debug, Default)]
pub struct StoreCallCounts {
    results: [AtomicU64; CallResult::ALL.len()],
    round_trips: Histogram<{ ROUND_TRIP_BOUNDS.len() }>,
    events: [AtomicU64; 4],
}

impl CallResult {
    /// All, in the order of their counters.
    pub const ALL: [Self; 5] = [
        Self::Ok,
        Self::Away,
        Self::TimedOut,
        Self::Lost,
        Self::Refused,
    ];

    /// The value of the label `result`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Away => "circuit_open",
            Self::TimedOut => "timed_out",
            Self::Lost => "lost",
            Self::Refused => "refused",
        }
    }
}

impl StoreCallCounts {
    /// Counts a call; `took` is the time that it waited.
    pub fn called(&self, result: CallResult, took: Duration) {
        // Relaxed, here and below: counts for the scrape, each on its own.
        self.results[result as usize].fetch_add(1, Ordering::Relaxed);
        if result != CallResult::Away {
            self.round_trips.observe(&ROUND_TRIP_BOUNDS, micros(took));
        }
    }

    /// Counts an event.
    pub fn happened(&self, event: LinkEvent) {
        self.events[event as usize].fetch_add(1, Ordering::Relaxed);
    }

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
