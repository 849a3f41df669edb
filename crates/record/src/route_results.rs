//! Holds the results of requests and their durations, as counted so far or within some time.

use super::recent_requests::{LatencyFigures, RequestDurations, since};
use super::request_totals::RequestTotals;

/// Requests by their result, and the durations of those that were not rejected.
#[derive(Clone, Copy, Debug)]
pub struct RouteResults {
    /// Their numbers by result.
    pub totals: RequestTotals,
    durations: RequestDurations,
}

impl Default for RouteResults {
    fn default() -> Self {
        let none = RequestDurations::sum(std::iter::empty());
        Self::new(RequestTotals::default(), none)
    }
}

impl RouteResults {
    /// Returns these results.
    pub(super) fn new(totals: RequestTotals, durations: RequestDurations) -> Self {
        Self { totals, durations }
    }

    /// Returns the growth since `earlier`; all of it where the counters began anew.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        if self.totals.all < earlier.totals.all {
            return *self;
        }
        Self {
            totals: self.totals.since(earlier.totals),
            durations: since(&self.durations, &earlier.durations),
        }
    }

    /// Adds `other`.
    pub fn add(&mut self, other: &Self) {
        self.totals = self.totals.plus(other.totals);
        let counts = self.durations.within.iter_mut();
        for (count, more) in counts.zip(other.durations.within) {
            *count += more;
        }
        self.durations.above += other.durations.above;
    }

    /// Returns the percentiles of the durations; `None` without any.
    #[must_use]
    pub fn latency(&self) -> Option<LatencyFigures> {
        LatencyFigures::new(&self.durations)
    }
}
