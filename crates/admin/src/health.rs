//! Serves the probes of load balancers.
//!
//! `/healthz` says that the process lives, and nothing else: a failing origin is no reason to restart a gateway. `/readyz`
//! waits for the store where the configuration says so, and turns to 503 as soon as the process drains, so that a load
//! balancer leaves before the listeners close.

use http::StatusCode;

use super::page::{AdminPage, TEXT};
use sluicegate_process::{GatewayProcess, Phase};

/// The readiness of the gateway for new requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadyState {
    /// New requests are welcome.
    Ready,
    /// No configuration is in use yet.
    Starting,
    /// The store was not reached yet, and is required.
    StoreNotReached,
    /// The process is about to end.
    Draining,
}

impl ReadyState {
    pub(super) fn from_process(process: &GatewayProcess) -> Self {
        match process.lifecycle.phase() {
            Phase::Starting => Self::Starting,
            Phase::Serving if !process.lifecycle.is_store_ready(&process.shared.snapshot()) => {
                Self::StoreNotReached
            }
            Phase::Serving => Self::Ready,
            Phase::Draining => Self::Draining,
        }
    }
}

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
            &b"starting: the store, or a master of its Cluster, was not reached yet, and [store] required_for_ready asks for it"
                [..],
        ),
        ReadyState::Draining => AdminPage::new(
            StatusCode::SERVICE_UNAVAILABLE,
            TEXT,
            &b"draining: requests in flight end, new ones go elsewhere"[..],
        ),
    }
}
