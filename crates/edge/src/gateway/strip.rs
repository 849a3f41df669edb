//! Removes the fields that only a proxy or the gateway may write, before any other stage reads the request.
//!
//! Route, limits, cache and origin then see the same fields. Refresh requests of the cache are copies of such requests.

use std::net::IpAddr;

use sluicegate_base::proxy_fields::X_FORWARDED_PROTO;
use sluicegate_base::received::ReceivedHead;

use sluicegate_process::SharedState;
use sluicegate_process::snapshot::Snapshot;

/// The result of a review: whether an untrusted peer sent fields about forwarding.
#[must_use]
pub(super) struct ForwardingClaim(bool);

impl ForwardingClaim {
    /// Counts a request of `peer` with such fields.
    pub(super) fn count(self, peer: IpAddr, shared: &SharedState) {
        if self.0 {
            shared.recorder.metrics.untrusted_forwarding.count(peer);
        }
    }
}

/// Removes the fields from a request of `peer`.
pub(super) fn untrusted_fields(
    head: &mut ReceivedHead,
    peer: IpAddr,
    snapshot: &Snapshot,
) -> ForwardingClaim {
    let review = (snapshot.compiled.field_policy).review(
        &head.headers,
        peer,
        &snapshot.compiled.rules.client,
    );
    if review.is_empty() {
        return ForwardingClaim(false);
    }
    head.headers.remove_all(review.remove);
    if let Some(scheme) = review.scheme {
        head.headers.insert(X_FORWARDED_PROTO, scheme);
    }
    ForwardingClaim(review.is_untrusted_forwarding)
}
