//! Shows the link to the store, in `/status` and `/metrics`.

use serde::Serialize;
use sluicegate_base::clock;
use sluicegate_decide::rfc3339;
use sluicegate_redis_link::{ConnectionState, LinkStatus, ServerStatus};
use sluicegate_telemetry::exposition::SampledFamily;

use sluicegate_store::timestamp;

/// The state of a server that decides.
const CONNECTED: &str = "connected";
/// The state of a server that answers too late to decide.
const SLOW: &str = "slow";

/// The `store` of `/status`.
#[derive(Serialize)]
pub(super) struct StoreSection {
    topology: &'static str,
    nodes: u32,
    seed_known: bool,
    servers: Vec<StoreServerSection>,
}

#[derive(Serialize)]
struct StoreServerSection {
    address: String,
    state: &'static str,
    since: String,
    last_error: Option<StoreErrorSection>,
    clock_ahead_seconds: Option<f64>,
    round_trip_seconds: Option<f64>,
    unreached_seconds: Option<f64>,
}

#[derive(Serialize)]
struct StoreErrorSection {
    at: String,
    error: String,
}

impl StoreSection {
    pub(super) fn new(view: LinkStatus) -> Self {
        Self {
            topology: view.topology,
            nodes: view.nodes.get(),
            seed_known: view.has_seed,
            servers: view
                .servers
                .into_iter()
                .map(StoreServerSection::new)
                .collect(),
        }
    }
}

impl StoreServerSection {
    fn new(condition: ServerStatus) -> Self {
        Self {
            state: state_of(&condition),
            unreached_seconds: unreached_seconds(&condition),
            since: rfc3339::format(timestamp(condition.since)),
            last_error: condition.error.map(|(at, error)| StoreErrorSection {
                at: rfc3339::format(timestamp(at)),
                error,
            }),
            round_trip_seconds: condition.round_trip.map(|time| time.as_secs_f64()),
            // A millionth of a second is finer than what is measured.
            clock_ahead_seconds: condition.ahead_micros.map(|micros| micros as f64 / 1e6),
            address: condition.address,
        }
    }
}

/// Returns for how long the server is tried, if it was never reached.
fn unreached_seconds(server: &ServerStatus) -> Option<f64> {
    let since = timestamp(server.unreached_since?);
    Some(clock::since(since).as_secs_f64())
}

/// Returns the state of a server: `connected` where it decides, so that a strict limit is strict.
fn state_of(server: &ServerStatus) -> &'static str {
    match server.state {
        ConnectionState::Connecting => "starting",
        ConnectionState::Connected | ConnectionState::Slow if server.is_in_recovery => "recovering",
        ConnectionState::Connected => CONNECTED,
        ConnectionState::Slow => SLOW,
        ConnectionState::Unavailable => "unavailable",
    }
}

/// Returns the metrics that are sampled from the link at a scrape; [`sluicegate_record`] has its counters.
pub(super) fn families(view: Option<LinkStatus>) -> Vec<SampledFamily> {
    let Some(view) = view else {
        return Vec::new();
    };
    let mut up = SampledFamily::gauge(
        "sluicegate_store_up",
        "Whether counts are exchanged with a server of the store: 0 while its breaker is open, and while counts are being restored.",
    );
    let mut decides = SampledFamily::gauge(
        "sluicegate_store_decides",
        "Whether a server of the store decides strict limits: 0 while it is not up, and while its answers come too late.",
    );
    let mut unreached = SampledFamily::gauge(
        "sluicegate_store_unreached_seconds",
        "How long a server of the store is tried without ever having been reached; 0 once it was.",
    );
    let mut ahead = SampledFamily::gauge(
        "sluicegate_store_clock_ahead_seconds",
        "How far the clock of a server of the store is ahead of this machine's; behind where negative.",
    );
    for server in &view.servers {
        let labels = [("server", &*server.address)];
        let state = state_of(server);
        up.push(&labels, state == CONNECTED || state == SLOW);
        decides.push(&labels, state == CONNECTED);
        unreached.push(&labels, unreached_seconds(server).unwrap_or(0.0));
        if let Some(micros) = server.ahead_micros {
            ahead.push(&labels, micros as f64 / 1e6);
        }
    }
    let nodes = SampledFamily::gauge(
        "sluicegate_store_nodes",
        "Gateways that share the store, this one included; the last number while it is away.",
    );
    vec![
        up,
        decides,
        unreached,
        ahead,
        nodes.series(&[], u64::from(view.nodes.get())),
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use sluicegate_limiter::Timestamp;
    use sluicegate_redis_link::Moment;

    use super::*;

    /// A link whose server was away and is back, since `at`.
    pub(crate) fn back(at: Timestamp) -> LinkStatus {
        let at = Moment::from_nanos(at.as_nanos());
        LinkStatus {
            topology: "single",
            servers: vec![ServerStatus {
                address: "10.0.0.9:6379".to_owned(),
                state: ConnectionState::Connected,
                is_in_recovery: false,
                unreached_since: None,
                round_trip: Some(Duration::from_millis(3)),
                since: at,
                error: Some((at, "it did not answer in time".to_owned())),
                ahead_micros: Some(-1_500),
            }],
            nodes: NonZeroU32::new(3).expect("three"),
            has_seed: true,
        }
    }
}
