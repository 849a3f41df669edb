//! Restricts protocol upgrades to WebSocket.
//!
//! After an upgrade the gateway passes bytes without judging them. A WebSocket is one conversation that was admitted. `Upgrade:
//! h2c` (RFC 7540 §3.2, withdrawn by RFC 9113) would open a connection to the origin with any number of requests that no limit
//! counts. RFC 9110 §7.8 lets a server ignore the field, so it is removed and the request goes on without it.

use http::Method;
use http::header::{HeaderName, UPGRADE};
use sluicegate_base::received::ReceivedHead;

const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// Returns whether the head asks for an upgrade to WebSocket alone, by a GET without a body (RFC 6455 §4.1).
pub(super) fn is_to_websocket(head: &ReceivedHead, has_body: bool) -> bool {
    let mut asked = head.headers.get_all(UPGRADE);
    let is_alone = asked
        .next()
        .is_some_and(|first| first.as_bytes().eq_ignore_ascii_case(b"websocket"))
        && asked.next().is_none();
    is_alone && head.method == Method::GET && !has_body
}

/// Removes the fields of an upgrade.
pub(super) fn remove(head: &mut ReceivedHead) {
    head.headers.remove(&UPGRADE);
    head.headers.remove(&HTTP2_SETTINGS);
}
