//! Removes the fields that only a proxy or the gateway may write, before any other stage reads the request.
//!
//! Route, limits, cache and origin then see the same fields. Refresh requests of the cache are copies of such requests.

use std::net::{IpAddr, Ipv4Addr};

use pingora::proxy::Session;
use sluicegate_base::proxy_fields::X_FORWARDED_PROTO;

use crate::process::SharedState;
use crate::snapshot::Snapshot;

/// Removes the fields from the request.
pub(super) fn untrusted_fields(session: &mut Session, snapshot: &Snapshot, shared: &SharedState) {
    let address = session.client_addr().and_then(|address| address.as_inet());
    // No rule trusts a connection without an address.
    let peer = address.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| {
        peer.ip().to_canonical()
    });
    let fields = &session.req_header().headers;
    let review = (snapshot.field_policy).review(fields, peer, &snapshot.rules.client);
    if review.is_empty() {
        return;
    }
    let head = session.req_header_mut();
    for name in &review.remove {
        head.remove_header(name);
    }
    if let Some(scheme) = review.scheme {
        // A field of this name exists, so there is room for one.
        let _ = head.insert_header(X_FORWARDED_PROTO, scheme);
    }
    if review.is_untrusted_forwarding {
        shared.recorder.metrics.untrusted_forwarding.count(peer);
    }
}
