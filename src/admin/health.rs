//! Serves the probes of load balancers.
//!
//! `/healthz` says that the process lives, and nothing else: a failing origin is no reason to restart a gateway. `/readyz`
//! waits for the store where the configuration says so, and turns to 503 as soon as the process drains, so that a load
//! balancer leaves before the listeners close.

use http::StatusCode;

use super::view::ReadyState;
use super::{AdminPage, TEXT};

/// Returns the page of `/readyz`.
pub(super) fn ready(readiness: ReadyState) -> AdminPage {
    match readiness {
        ReadyState::Ready => AdminPage::new(StatusCode::OK, TEXT, &b"ready"[..]),
        ReadyState::Starting => AdminPage::new(
            StatusCode::SERVICE_UNAVAILABLE,
            TEXT,
            &b"starting: no configuration is in use yet"[..],
        ),
        ReadyState::StoreNotReached => AdminPage::new(
            StatusCode::SERVICE_UNAVAILABLE,
            TEXT,
            &b"starting: the store was not reached yet, and [store] required_for_ready asks for it"
                [..],
        ),
        ReadyState::Draining => AdminPage::new(
            StatusCode::SERVICE_UNAVAILABLE,
            TEXT,
            &b"draining: requests in flight end, new ones go elsewhere"[..],
        ),
    }
}
