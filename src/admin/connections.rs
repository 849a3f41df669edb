//! Shows the connections of clients in `/metrics`: how many there are, may be, and were one too many.

use crate::listener::{ConnectionCaps, ConnectionTallies, Crowd};
use crate::record::exposition::Family;

/// Connections of clients, as an operator sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionsView {
    /// What was counted.
    pub tallies: ConnectionTallies,
    /// How many there may be.
    pub caps: ConnectionCaps,
}

/// Nothing where nobody can connect.
pub(super) fn families(view: Option<ConnectionsView>) -> Vec<Family> {
    let Some(ConnectionsView { tallies, caps }) = view else {
        return Vec::new();
    };
    let mut refused = Family::counter(
        "sluicegate_connections_refused_total",
        "Connections that were closed at once, by the cap that they met.",
    );
    for (crowd, count) in Crowd::ALL.iter().zip(tallies.refused) {
        refused.push(&[("cap", crowd.as_str())], count);
    }
    let mut most = Family::gauge(
        "sluicegate_connections_max",
        "Connections that may be open, by cap.",
    );
    for (crowd, cap) in Crowd::ALL.iter().zip([caps.all, caps.of_client]) {
        most.push(&[("cap", crowd.as_str())], u64::from(cap.get()));
    }
    vec![
        Family::gauge(
            "sluicegate_connections",
            "Connections of clients that are open.",
        )
        .series(&[], tallies.open),
        most,
        refused,
    ]
}
