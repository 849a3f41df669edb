//! Counts requests: by route, by limit, and in flight.
//!
//! A snapshot resolves the counters of its routes once, as [`RouteMetrics`]; a request then adds to cells of its own thread,
//! without a look-up, a lock or a shared cache line. Names and sums are made at the scrape.
//!
//! # Limits
//!
//! Every label is a name out of the configuration or of a fixed set, never out of a request: a route costs at most 78
//! request series, five of the cache, one histogram, and a dozen series a limit, and [`RequestMetrics::retain_routes`] forgets those that
//! a reload removed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use sluicegate_limiter::{Outcome as Answer, Timestamp};
use sluicegate_telemetry::escape::escape;
use sluicegate_telemetry::histogram::{Histogram, HistogramSum};
use sluicegate_telemetry::per_thread::{self, PerThread, STRIPES};

use super::accept_errors::AcceptErrorCounts;
use super::crawler_requests::CrawlerRequestCounts;
use super::descriptor_fields::IgnoredFields;
use super::geo_lookups::GeoLookupCounts;
use super::handshakes::HandshakeCounts;
use super::limit_counters::{LimitCells, LimitCounter, LimitSums};
use super::line_values::micros;
use super::look_up_durations::LookUpDurations;
use super::outcome::Outcome;
use super::proxy_headers::ProxyHeaderCounts;
use super::recent_requests::{RecentRequests, RequestFigures};
use super::request_series::{CODES, DECISION_BOUNDS, DISPOSITIONS, DURATION_BOUNDS, RequestCounts};
use super::request_totals::{RequestResult, RequestTotals};
use super::route_metrics::{RouteCells, RouteCounts, RouteMetrics, totals};
use super::route_results::RouteResults;
use super::store_calls::StoreCallCounts;
use super::untrusted_forwarding::UntrustedForwarding;
use sluicegate_config::rules::Name;

/// The counts of requests, and of what happens before there is one.
#[derive(Debug, Default)]
pub struct RequestMetrics {
    routes: RwLock<BTreeMap<Name, Arc<PerThread<RouteCells>>>>,
    limits: RwLock<BTreeMap<RouteAndLimit, Arc<PerThread<LimitCells>>>>,
    /// Requests that matched no route.
    unmatched: PerThread<RouteCells>,
    decisions: PerThread<Histogram<{ DECISION_BOUNDS.len() }>>,
    recent: RecentRequests,
    in_flight: [Arc<InFlightCell>; STRIPES],
    /// Counts reloads.
    pub reloads: ReloadCounts,
    /// Counts connections of HTTP/2 that were closed as abusive.
    pub abuse: AbuseCount,
    /// Counts calls of the store.
    pub store: Arc<StoreCallCounts>,
    /// Counts connections that could not be accepted.
    pub accept_errors: AcceptErrorCounts,
    /// Counts headers of the PROXY protocol.
    pub proxy_headers: ProxyHeaderCounts,
    /// Counts TLS handshakes.
    pub handshakes: HandshakeCounts,
    /// Counts look-ups of clients' places.
    pub(super) geo_lookups: GeoLookupCounts,
    /// Counts requests of crawlers.
    pub(super) crawler_requests: CrawlerRequestCounts,
    /// Counts look-ups of crawlers' addresses by duration.
    pub crawler_look_ups: Arc<LookUpDurations>,
    /// Counts requests that untrusted peers forward.
    pub untrusted_forwarding: UntrustedForwarding,
    /// Counts fields of descriptors that have no effect.
    pub descriptor_fields: IgnoredFields,
}

/// A limit as one route uses it.
type RouteAndLimit = (Name, Name);

/// Reloads of the configuration.
#[derive(Debug, Default)]
pub struct ReloadCounts {
    succeeded: AtomicU64,
    failed: AtomicU64,
}

/// Counts a request as in flight until it is dropped.
#[derive(Debug)]
#[must_use = "the request is in flight for as long as this lives"]
pub struct InFlight(Arc<InFlightCell>);

#[derive(Debug, Default)]
#[repr(align(64))]
struct InFlightCell(AtomicI64);

/// The counts of one limit on one route.
pub(super) struct LimitCounts {
    pub(super) route: Name,
    pub(super) limit: Name,
    pub(super) sums: LimitSums,
}

impl RequestMetrics {
    /// Makes counters at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the counters of the route `name` with these limits, in the route's order. A known route keeps its counts, and so does each
    /// of its limits.
    #[must_use]
    pub fn route(&self, name: &Name, limits: &[Name]) -> RouteMetrics {
        let cells = Arc::clone(write(&self.routes).entry(Arc::clone(name)).or_default());
        let mut known = write(&self.limits);
        let limit_cells = limits
            .iter()
            .map(|limit| {
                Arc::clone(
                    known
                        .entry((Arc::clone(name), Arc::clone(limit)))
                        .or_default(),
                )
            })
            .collect();
        let mut logged_name = Vec::new();
        escape(&mut logged_name, name.as_bytes());
        RouteMetrics {
            name: Arc::clone(name),
            logged_name: logged_name.into(),
            limits: limits.into(),
            cells,
            limit_cells,
        }
    }

    /// Forgets every route, and every limit of a route, that is not among `routes`. Call it after a reload with the routes
    /// of the snapshot in use; what requests of older snapshots still count is then not shown.
    pub fn retain_routes<'a>(&self, routes: impl IntoIterator<Item = &'a RouteMetrics>) {
        let mut names = BTreeSet::new();
        let mut pairs = BTreeSet::new();
        for route in routes {
            names.insert(&*route.name);
            pairs.extend(route.limits.iter().map(|limit| (&*route.name, &**limit)));
        }
        write(&self.routes).retain(|name, _| names.contains(&**name));
        write(&self.limits).retain(|(route, limit), _| pairs.contains(&(&**route, &**limit)));
    }

    /// Counts a request that begins.
    pub fn in_flight(&self) -> InFlight {
        let cell = &self.in_flight[per_thread::stripe()];
        // Relaxed, here and below: counts for the scrape, each on its own.
        cell.0.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(cell))
    }

    /// Returns the number of requests that began and did not end. May miss one that begins or ends meanwhile.
    #[must_use]
    pub fn requests_in_flight(&self) -> u64 {
        let sum: i64 = self
            .in_flight
            .iter()
            .map(|cell| cell.0.load(Ordering::Relaxed))
            .sum();
        sum.try_into().unwrap_or(0)
    }

    /// Counts a request that ended.
    pub fn record(&self, outcome: &Outcome<'_>) {
        self.geo_lookups.record(outcome);
        self.crawler_requests.record(outcome);
        let cells = outcome
            .route
            .map_or(&self.unmatched, |route| &*route.cells)
            .mine();
        let code = code_class(outcome.status);
        let result = RequestResult::new(outcome.disposition, code);
        cells.requests[outcome.disposition.index()][code].fetch_add(1, Ordering::Relaxed);
        if let Some(cache) = outcome.cache {
            cells.cache[cache.index()].fetch_add(1, Ordering::Relaxed);
        }
        cells.durations[usize::from(result == RequestResult::Rejected)]
            .observe(&DURATION_BOUNDS, micros(outcome.total));
        let limits = outcome.route.map_or(&[][..], |route| &*route.limit_cells);
        for limit in outcome
            .missing_keys
            .iter()
            .filter_map(|missing| limits.get(missing.limit))
        {
            limit.mine().add(LimitCounter::KeyMissing, 1);
        }
        if outcome.verdict.is_none() && outcome.rejection.is_none() {
            return;
        }
        let nanos = u64::try_from(outcome.decision.as_nanos()).unwrap_or(u64::MAX);
        self.decisions.mine().observe(&DECISION_BOUNDS, nanos);
        if let Some(rejection) = outcome.rejection
            && let Some(limit) = limits.get(usize::from(rejection.limit))
        {
            limit.mine().reject(rejection.reason);
        }
        let Some(verdict) = outcome.verdict else {
            return;
        };
        if verdict.outcome() == Answer::Admitted {
            for (ask, decision) in verdict.decisions().iter().enumerate() {
                let limit = outcome.limit_of(ask);
                let Some(cells) = limit.and_then(|limit| limits.get(limit)) else {
                    continue;
                };
                let cells = cells.mine();
                cells.add(LimitCounter::Admitted, 1);
                if !decision.delay().is_zero() {
                    cells.add(LimitCounter::Delayed, 1);
                }
            }
        }
        for (limit, _, event) in outcome.notes() {
            if let Some(limit) = limits.get(limit) {
                limit.mine().note(event);
            }
        }
    }

    /// Returns the counts of every route, the one without a name first.
    pub(super) fn read_routes(&self) -> Vec<RouteCounts> {
        let unmatched = RouteCounts::sum(&Arc::from(""), &self.unmatched);
        let routes = read(&self.routes);
        std::iter::once(unmatched)
            .chain(
                routes
                    .iter()
                    .map(|(name, cells)| RouteCounts::sum(name, cells)),
            )
            .collect()
    }

    /// Returns the counts of every limit of every route.
    pub(super) fn read_limits(&self) -> Vec<LimitCounts> {
        let limits = read(&self.limits);
        let counts = limits.iter().map(|((route, limit), cells)| {
            let mut sums = LimitSums::default();
            cells.cells().for_each(|cells| sums.add(cells));
            LimitCounts {
                route: Arc::clone(route),
                limit: Arc::clone(limit),
                sums,
            }
        });
        counts.collect()
    }

    /// Returns the requests of all routes since the start by their result. Those of routes that a reload removed are not among them.
    #[must_use]
    pub fn request_totals(&self) -> RequestTotals {
        totals(self.request_counts())
    }

    /// Returns the results of every route since its counters began, and those of requests without a route under an empty name.
    pub fn route_results(&self) -> BTreeMap<Name, RouteResults> {
        let unmatched = (Arc::from(""), RouteCells::results(&self.unmatched));
        let routes = read(&self.routes);
        let named =
            (routes.iter()).map(|(name, cells)| (Arc::clone(name), RouteCells::results(cells)));
        std::iter::once(unmatched).chain(named).collect()
    }

    /// Returns the requests of all routes since the start, by disposition and code.
    pub fn request_counts(&self) -> RequestCounts {
        let mut sums = [[0; CODES.len()]; DISPOSITIONS];
        let routes = read(&self.routes);
        let cells = routes.values().flat_map(|cells| cells.cells());
        for cells in cells.chain(self.unmatched.cells()) {
            cells.add_requests(&mut sums);
        }
        sums
    }

    /// Reads what the requests of the last seconds came to, if a second has passed since the last reading.
    pub fn look(&self, now: Timestamp) {
        self.recent.look(now, || {
            let routes = read(&self.routes);
            let routes = routes.values().flat_map(|cells| cells.cells());
            let cells = routes.chain(self.unmatched.cells());
            let durations = HistogramSum::sum(cells.map(|cells| &cells.durations[0]));
            (self.request_totals(), durations)
        });
    }

    /// Returns what the requests of the last seconds came to.
    #[must_use]
    pub fn recent_requests(&self) -> RequestFigures {
        self.recent.figures()
    }

    /// Returns, for each limit of some route, a number that grows with everything that happens to the limit.
    #[must_use]
    pub fn events_by_limit(&self) -> BTreeMap<Name, u64> {
        let mut events = BTreeMap::new();
        for counts in self.read_limits() {
            let sums = counts.sums.counts.iter().chain(&counts.sums.decided);
            *events.entry(counts.limit).or_default() += sums.sum::<u64>();
        }
        events
    }

    /// Returns the requests that a limit rejected on any route, with a challenge or without.
    #[must_use]
    pub fn rejections_of(&self, limit: &Name) -> u64 {
        let limits = read(&self.limits);
        let routes = limits.iter().filter(|((_, name), _)| name == limit);
        let cells = routes.flat_map(|(_, cells)| cells.cells());
        cells.map(LimitCells::rejections).sum()
    }

    /// Returns the durations of all verdicts.
    pub(super) fn read_decisions(&self) -> HistogramSum<{ DECISION_BOUNDS.len() }> {
        HistogramSum::sum(self.decisions.cells())
    }
}

/// Connections that the gateway closed because their clients were abusive.
#[derive(Debug, Default)]
pub struct AbuseCount(AtomicU64);

impl AbuseCount {
    /// Counts a connection.
    pub fn ended(&self) {
        // Relaxed: a count for the scrape, publishes nothing.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the count.
    pub(super) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl ReloadCounts {
    /// Counts a configuration that is now in use. The first one, at start, is not a reload.
    pub fn succeeded(&self) {
        self.succeeded.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a configuration that was refused.
    pub fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the reloads that succeeded and those that failed.
    pub fn read(&self) -> [(&'static str, u64); 2] {
        [
            ("ok", self.succeeded.load(Ordering::Relaxed)),
            ("failed", self.failed.load(Ordering::Relaxed)),
        ]
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the index into [`CODES`].
fn code_class(status: u16) -> usize {
    match status / 100 {
        class @ 1..=5 => usize::from(class),
        _ => 0,
    }
}

/// Poison is ignored: the maps only hold handles, which a panic elsewhere leaves whole.
fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
