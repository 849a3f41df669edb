//! Shows the connections of clients in `/metrics`: their number, their caps, and those that a cap rejected.

use sluicegate_telemetry::exposition::SampledFamily;

use sluicegate_budgets::{
    BudgetCap, BudgetTallies, ClientStreams, ConnectionCaps, ConnectionLimiter, ReclaimedWait,
    RequestCap, RequestCaps, StreamCaps, TlsHandshakes,
};
use sluicegate_config::rules::Rules;
use sluicegate_process::SharedState;

/// Connections of clients, as an operator sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionsView {
    /// The counts of connections.
    pub tallies: BudgetTallies,
    /// The connections that were closed for new ones, by their wait.
    pub reclaimed: [u64; ReclaimedWait::ALL.len()],
    /// The caps on connections.
    pub caps: ConnectionCaps,
    /// The TLS handshakes in progress.
    pub handshakes: u64,
    /// The cap on TLS handshakes in progress.
    pub most_handshakes: u64,
    /// The counts of streams of HTTP/2.
    pub streams: BudgetTallies,
    /// The caps on streams of HTTP/2.
    pub stream_caps: StreamCaps,
    /// The descriptors that requests on their way to origins may need.
    pub requests: u64,
    /// The requests that a cap on them refused, by cap.
    pub refused_requests: [u64; RequestCap::ALL.len()],
    /// The caps on requests on their way to origins.
    pub request_caps: RequestCaps,
    /// The counts of response bytes that wait for clients.
    pub unread: BudgetTallies,
    /// The cap on those bytes.
    pub most_unread: u64,
    /// The answers that were sent uncompressed for want of room among those bytes, by cap.
    pub uncompressed: [u64; BudgetCap::ALL.len()],
    /// The counts of bytes of bodies that are read for keys.
    pub key_bodies: BudgetTallies,
    /// The cap on those bytes.
    pub most_key_bodies: u64,
    /// The counts of bytes of bodies that are kept for another attempt.
    pub replays: BudgetTallies,
    /// The cap on those bytes.
    pub most_replays: u64,
    /// The counts of bytes of heads that are not whole, and of bodies that were sent ahead.
    pub received: BudgetTallies,
    /// The cap on those bytes.
    pub most_received: u64,
}

impl ConnectionsView {
    /// Samples the budgets of `shared`, whose caps follow `rules`.
    pub(super) fn new(shared: &SharedState, rules: &Rules) -> Self {
        Self {
            tallies: shared.connection_limiter.tallies(),
            reclaimed: shared.connection_limiter.reclaimed(),
            caps: shared.connection_limiter.caps(&rules.server.defence),
            handshakes: shared.tls_handshakes.tallies().held,
            most_handshakes: TlsHandshakes::most(&rules.server.defence),
            streams: shared.client_streams.tallies(),
            stream_caps: StreamCaps::new(&rules.server),
            requests: shared.origin_requests.held(),
            refused_requests: shared.origin_requests.refused(),
            request_caps: shared.origin_requests.caps(rules),
            unread: shared.unread_answers.tallies(),
            most_unread: (shared.unread_answers).most(rules.server.defence.max_unread_bytes),
            uncompressed: shared.uncompressed.read(),
            key_bodies: shared.key_bodies.tallies(),
            most_key_bodies: (shared.key_bodies).most(rules.server.defence.max_key_bodies_bytes),
            replays: shared.replays.tallies(),
            most_replays: (shared.replays).most(rules.server.defence.max_replay_bytes),
            received: shared.received.tallies(),
            most_received: (shared.received).most(rules.server.defence.max_received_bytes),
        }
    }
}

/// Returns the metrics of connections.
pub(super) fn families(view: &ConnectionsView) -> impl Iterator<Item = SampledFamily> {
    let families = of_connections(view).into_iter();
    let families = families.chain(of_requests(view)).chain(of_unread(view));
    let families = families.chain(of_key_bodies(view)).chain(of_replays(view));
    let families = families.chain(of_received(view)).chain(of_streams(view));
    families.chain(of_handshakes(view))
}

fn of_connections(view: &ConnectionsView) -> [SampledFamily; 4] {
    let caps = ConnectionLimiter::KEYS;
    let max = [view.caps.all, view.caps.of_one_alone()].map(|cap| cap.get().into());
    [
        SampledFamily::gauge(
            "sluicegate_connections",
            "Connections of clients that are open.",
        )
        .series(&[], view.tallies.held),
        by_cap(
            SampledFamily::gauge(
                "sluicegate_connections_max",
                "Connections that may be open, by cap.",
            ),
            caps,
            max,
        ),
        by_cap(
            SampledFamily::counter(
                "sluicegate_connections_refused_total",
                "Connections that were closed at once, by the cap that they met.",
            ),
            caps,
            view.tallies.refused,
        ),
        of_reclaimed(view),
    ]
}

fn of_reclaimed(view: &ConnectionsView) -> SampledFamily {
    let mut family = SampledFamily::counter(
        "sluicegate_connections_reclaimed_total",
        "Connections that were closed for new ones, by what they waited for.",
    );
    for wait in ReclaimedWait::ALL {
        family.push(&[("state", wait.as_str())], view.reclaimed[wait as usize]);
    }
    family
}

fn of_requests(view: &ConnectionsView) -> [SampledFamily; 3] {
    let caps = RequestCap::ALL.map(RequestCap::key);
    let max = RequestCap::ALL.map(|cap| view.request_caps.value(cap));
    [
        SampledFamily::gauge(
            "sluicegate_origin_requests",
            "Files that requests on their way to origins may need.",
        )
        .series(&[], view.requests),
        by_cap(
            SampledFamily::gauge(
                "sluicegate_origin_requests_max",
                "Requests that may be on their way to origins, by cap.",
            ),
            caps,
            max,
        ),
        by_cap(
            SampledFamily::counter(
                "sluicegate_origin_requests_refused_total",
                "Requests that were answered with 503 since as many were on their way to origins as may be, by the cap that they met.",
            ),
            caps,
            view.refused_requests,
        ),
    ]
}

fn of_unread(view: &ConnectionsView) -> [SampledFamily; 4] {
    [
        SampledFamily::gauge(
            "sluicegate_unread_bytes",
            "Bytes of memory that answers under way may come to hold for their clients.",
        )
        .series(&[], view.unread.held),
        SampledFamily::gauge(
            "sluicegate_unread_max_bytes",
            "Bytes of memory that they may hold.",
        )
        .series(&[], view.most_unread),
        by_cap(
            SampledFamily::counter(
                "sluicegate_unread_refused_total",
                "Answers in whose place clients got 503 since as much waited for clients as may, by cap.",
            ),
            BudgetCap::ALL.map(BudgetCap::as_str),
            view.unread.refused,
        ),
        by_cap(
            SampledFamily::counter(
                "sluicegate_uncompressed_total",
                "Answers that were sent uncompressed since there was no room for an encoder, by cap.",
            ),
            BudgetCap::ALL.map(BudgetCap::as_str),
            view.uncompressed,
        ),
    ]
}

fn of_key_bodies(view: &ConnectionsView) -> [SampledFamily; 3] {
    [
        SampledFamily::gauge(
            "sluicegate_key_body_bytes",
            "Bytes of memory that bodies which are read for keys may come to hold.",
        )
        .series(&[], view.key_bodies.held),
        SampledFamily::gauge(
            "sluicegate_key_body_max_bytes",
            "Bytes of memory that they may hold.",
        )
        .series(&[], view.most_key_bodies),
        by_cap(
            SampledFamily::counter(
                "sluicegate_key_body_refused_total",
                "Requests that were answered with 503 since there was no room for a body that is read for keys, by cap.",
            ),
            BudgetCap::ALL.map(BudgetCap::as_str),
            view.key_bodies.refused,
        ),
    ]
}

fn of_replays(view: &ConnectionsView) -> [SampledFamily; 3] {
    [
        SampledFamily::gauge(
            "sluicegate_replay_bytes",
            "Bytes of memory that bodies which are kept for another attempt may come to hold.",
        )
        .series(&[], view.replays.held),
        SampledFamily::gauge(
            "sluicegate_replay_max_bytes",
            "Bytes of memory that they may hold.",
        )
        .series(&[], view.most_replays),
        by_cap(
            SampledFamily::counter(
                "sluicegate_replay_refused_total",
                "Requests with a body that were sent once since there was no room to keep it for another attempt, by cap.",
            ),
            BudgetCap::ALL.map(BudgetCap::as_str),
            view.replays.refused,
        ),
    ]
}

fn of_received(view: &ConnectionsView) -> [SampledFamily; 3] {
    [
        SampledFamily::gauge(
            "sluicegate_received_bytes",
            "Bytes of memory that heads and frames which are not whole, large heads, and bodies that are sent ahead, may come to hold.",
        )
        .series(&[], view.received.held),
        SampledFamily::gauge(
            "sluicegate_received_max_bytes",
            "Bytes of memory that they may hold.",
        )
        .series(&[], view.most_received),
        by_cap(
            SampledFamily::counter(
                "sluicegate_received_refused_total",
                "Heads, streams and connections that were refused since there was no room for what their client sends ahead, by cap.",
            ),
            BudgetCap::ALL.map(BudgetCap::as_str),
            view.received.refused,
        ),
    ]
}

fn of_streams(view: &ConnectionsView) -> [SampledFamily; 3] {
    let caps = ClientStreams::KEYS;
    [
        SampledFamily::gauge(
            "sluicegate_http2_streams",
            "Streams of HTTP/2 that clients have open.",
        )
        .series(&[], view.streams.held),
        by_cap(
            SampledFamily::gauge(
                "sluicegate_http2_streams_max",
                "Streams of HTTP/2 that may be open, by cap.",
            ),
            caps,
            BudgetCap::ALL.map(|cap| view.stream_caps.value(cap)),
        ),
        by_cap(
            SampledFamily::counter(
                "sluicegate_http2_streams_refused_total",
                "Streams that were reset with REFUSED_STREAM, by the cap that they met.",
            ),
            caps,
            view.streams.refused,
        ),
    ]
}

fn of_handshakes(view: &ConnectionsView) -> [SampledFamily; 2] {
    [
        SampledFamily::gauge(
            "sluicegate_tls_handshakes_in_flight",
            "TLS handshakes in progress.",
        )
        .series(&[], view.handshakes),
        SampledFamily::gauge(
            "sluicegate_tls_handshakes_max",
            "TLS handshakes that may be in progress.",
        )
        .series(&[], view.most_handshakes),
    ]
}

/// Adds a sample for each cap to `family`.
fn by_cap<const N: usize>(
    mut family: SampledFamily,
    caps: [&'static str; N],
    values: [u64; N],
) -> SampledFamily {
    for (cap, value) in caps.into_iter().zip(values) {
        family.push(&[("cap", cap)], value);
    }
    family
}
