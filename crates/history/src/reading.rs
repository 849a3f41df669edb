//! Reads the counters that the history follows.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluicegate_limiter::Timestamp;

use sluicegate_config::rules::Name;
use sluicegate_origin::{AttemptCounts, ServerPool};
use sluicegate_record::live_counts::{LimitAnswers, limit_answers};
use sluicegate_record::{RequestMetrics, RouteResults};

/// The counters of the gateway at one moment. They are kept apart by route and by server, since a reload that removes one of these takes
/// its counts out of every sum.
#[derive(Clone, Debug, Default)]
pub struct CounterReading {
    /// The time.
    pub at: Timestamp,
    /// Requests, by route.
    pub routes: BTreeMap<Name, RouteResults>,
    /// The answers of limits, by route and limit.
    pub limits: BTreeMap<(Name, Name), LimitAnswers>,
    /// Attempts, by origin and the address of the server.
    pub attempts: BTreeMap<(Name, String), AttemptCounts>,
    /// Connections of clients.
    pub connections: u64,
    /// Requests in flight.
    pub in_flight: u64,
}

impl CounterReading {
    /// Reads the counters at `at`.
    #[must_use]
    pub fn new(
        metrics: &RequestMetrics,
        pools: &BTreeMap<Name, Arc<ServerPool>>,
        connections: u64,
        at: Timestamp,
    ) -> Self {
        let servers = pools.iter().flat_map(|(origin, pool)| {
            let servers = pool.servers().into_iter();
            servers.map(|server| {
                let address = server.address.to_string();
                (
                    (Arc::clone(origin), address),
                    server.server_state.attempt_counts(),
                )
            })
        });
        Self {
            at,
            routes: metrics.route_results(),
            limits: limit_answers(metrics),
            attempts: servers.collect(),
            connections,
            in_flight: metrics.requests_in_flight(),
        }
    }
}
