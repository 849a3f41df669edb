//! Shows the connections of clients in `/metrics`: how many there are, may be, and were one too many.

use sluicegate_telemetry::exposition::SampledFamily;

use crate::budgets::{
    ConnectionCaps, ConnectionLimitExceeded, ConnectionTallies, RequestCap, RequestCaps,
    RequestTallies, UnreadCap, UnreadTallies,
};

/// Connections of clients, as an operator sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionsView {
    /// The counts of connections.
    pub tallies: ConnectionTallies,
    /// The caps on connections.
    pub caps: ConnectionCaps,
    /// The counts of requests on their way to origins.
    pub requests: RequestTallies,
    /// The caps on requests on their way to origins.
    pub request_caps: RequestCaps,
    /// The counts of response bytes that wait for clients.
    pub unread: UnreadTallies,
    /// The cap on those bytes.
    pub most_unread: u64,
}

/// Nothing where nobody can connect.
pub(super) fn families(view: Option<ConnectionsView>) -> Vec<SampledFamily> {
    let Some(ConnectionsView {
        tallies,
        caps,
        requests,
        request_caps,
        unread,
        most_unread,
    }) = view
    else {
        return Vec::new();
    };
    let mut refused = SampledFamily::counter(
        "sluicegate_connections_refused_total",
        "Connections that were closed at once, by the cap that they met.",
    );
    for (crowd, count) in ConnectionLimitExceeded::ALL.iter().zip(tallies.refused) {
        refused.push(&[("cap", crowd.as_str())], count);
    }
    let mut most = SampledFamily::gauge(
        "sluicegate_connections_max",
        "Connections that may be open, by cap.",
    );
    for (crowd, cap) in ConnectionLimitExceeded::ALL
        .iter()
        .zip([caps.all, caps.of_client])
    {
        most.push(&[("cap", crowd.as_str())], u64::from(cap.get()));
    }
    let mut requests_refused = SampledFamily::counter(
        "sluicegate_origin_requests_refused_total",
        "Requests that were answered with 503 since as many were on their way to origins as may be, by the cap that they met.",
    );
    for (cap, count) in RequestCap::ALL.iter().zip(requests.refused) {
        requests_refused.push(&[("cap", cap.as_str())], count);
    }
    let mut most_requests = SampledFamily::gauge(
        "sluicegate_origin_requests_max",
        "Requests that may be on their way to origins, by cap.",
    );
    let caps = [request_caps.all, request_caps.of_client.get().into()];
    for (cap, most) in RequestCap::ALL.iter().zip(caps) {
        most_requests.push(&[("cap", cap.as_str())], most);
    }
    let mut unread_refused = SampledFamily::counter(
        "sluicegate_unread_refused_total",
        "Answers in whose place clients got 503 since as much waited for clients as may, by cap.",
    );
    for (cap, count) in UnreadCap::ALL.iter().zip(unread.refused) {
        unread_refused.push(&[("cap", cap.as_str())], count);
    }
    vec![
        SampledFamily::gauge(
            "sluicegate_connections",
            "Connections of clients that are open.",
        )
        .series(&[], tallies.open),
        most,
        refused,
        SampledFamily::gauge(
            "sluicegate_origin_requests",
            "Files that requests on their way to origins may need.",
        )
        .series(&[], requests.open),
        most_requests,
        requests_refused,
        SampledFamily::gauge(
            "sluicegate_unread_bytes",
            "Bytes of memory that answers under way may come to hold for their clients.",
        )
        .series(&[], unread.held),
        SampledFamily::gauge(
            "sluicegate_unread_max_bytes",
            "Bytes of memory that they may hold.",
        )
        .series(&[], most_unread),
        unread_refused,
    ]
}
