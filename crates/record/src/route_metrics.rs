//! Owns the counters of one route and of its limits, by thread, and sums them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_decide::outcome::{CacheUse, RequestDisposition};
use sluicegate_telemetry::histogram::{Histogram, HistogramSum};
use sluicegate_telemetry::per_thread::PerThread;

use super::limit_counters::LimitCells;
use super::request_series::{CODES, DISPOSITIONS, DURATION_BOUNDS, RequestCounts};
use super::request_totals::RequestTotals;
use super::route_results::RouteResults;
use sluicegate_config::rules::Name;

/// One route's counters, resolved, with the names that log and metrics give it.
#[derive(Clone, Debug)]
pub struct RouteMetrics {
    pub(super) name: Name,
    /// The name as the log writes it, escaped.
    pub(super) logged_name: Arc<[u8]>,
    pub(super) limits: Box<[Name]>,
    pub(super) cells: Arc<PerThread<RouteCells>>,
    pub(super) limit_cells: Box<[Arc<PerThread<LimitCells>>]>,
}

/// One thread's counts of one route.
#[derive(Debug, Default)]
pub(super) struct RouteCells {
    pub(super) requests: [[AtomicU64; CODES.len()]; DISPOSITIONS],
    /// By [`CacheUse`].
    pub(super) cache: [AtomicU64; CacheUse::ALL.len()],
    /// Durations of requests that were not rejected, and of those that were.
    pub(super) durations: [Histogram<{ DURATION_BOUNDS.len() }>; 2],
}

/// The counts of one route.
pub(super) struct RouteCounts {
    pub(super) route: Name,
    /// By disposition and code.
    pub(super) requests: RequestCounts,
    /// By [`CacheUse`].
    pub(super) cache: [u64; CacheUse::ALL.len()],
    pub(super) durations: HistogramSum<{ DURATION_BOUNDS.len() }>,
}

impl RouteMetrics {
    /// Returns the route's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the route's name as the log writes it, escaped.
    pub(super) fn logged_name(&self) -> &[u8] {
        &self.logged_name
    }

    /// Returns the route's name, shared.
    pub(super) fn shared_name(&self) -> &Name {
        &self.name
    }

    /// Returns the names of its limits, in the order in which they decide.
    #[must_use]
    pub fn limits(&self) -> &[Name] {
        &self.limits
    }
}

impl RouteCells {
    /// Returns the results of one route.
    pub(super) fn results(cells: &PerThread<Self>) -> RouteResults {
        let durations = HistogramSum::sum(cells.cells().map(|cells| &cells.durations[0]));
        let mut requests = [[0; CODES.len()]; DISPOSITIONS];
        for cells in cells.cells() {
            cells.add_requests(&mut requests);
        }
        RouteResults::new(totals(requests), durations)
    }

    /// Adds the requests to `sums`.
    pub(super) fn add_requests(&self, sums: &mut RequestCounts) {
        let counts = self.requests.as_flattened();
        for (sum, count) in sums.as_flattened_mut().iter_mut().zip(counts) {
            *sum += count.load(Ordering::Relaxed);
        }
    }
}

/// Returns requests by their result.
pub(super) fn totals(requests: RequestCounts) -> RequestTotals {
    let mut totals = RequestTotals::default();
    for (disposition, by_code) in RequestDisposition::ALL.into_iter().zip(requests) {
        for (code, count) in by_code.into_iter().enumerate() {
            totals.add(disposition, code, count);
        }
    }
    totals
}

impl RouteCounts {
    /// Returns the sums over all threads.
    pub(super) fn sum(route: &Name, cells: &PerThread<RouteCells>) -> Self {
        let mut requests = [[0; CODES.len()]; DISPOSITIONS];
        let mut cache = [0; CacheUse::ALL.len()];
        for cells in cells.cells() {
            for (sum, count) in cache.iter_mut().zip(&cells.cache) {
                *sum += count.load(Ordering::Relaxed);
            }
            cells.add_requests(&mut requests);
        }
        let durations = HistogramSum::sum(cells.cells().flat_map(|cells| &cells.durations));
        Self {
            route: Arc::clone(route),
            requests,
            cache,
            durations,
        }
    }
}
