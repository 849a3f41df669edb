//! Records a request when it ends, whichever way that is: answered, failed, cut off with its task, or by a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use super::Gateway;
use super::client::RequestClient;
use super::connection_state::ConnectionState;
use super::exchange::ClientExchange;
use crate::gateway::context::Context;
use crate::gateway::forwarded::ForwardedRequest;
use sluicegate_origin::request_failure::{GatewayFailure, RequestFailure};

/// A request that is served. It is recorded at [`end`](Self::end), or where it is dropped before.
pub(super) struct ServedRequest<'a, C: RequestClient> {
    gateway: &'a Gateway,
    pub(super) exchange: ClientExchange<'a, C>,
    pub(super) context: Box<Context>,
    /// The request on its way to an origin, once it is forwarded.
    pub(super) forwarded: Option<ForwardedRequest>,
    is_recorded: bool,
}

impl<'a, C: RequestClient> ServedRequest<'a, C> {
    /// Returns the request before its first step.
    pub(super) fn new(
        gateway: &'a Gateway,
        exchange: ClientExchange<'a, C>,
        context: Box<Context>,
    ) -> Self {
        Self {
            gateway,
            exchange,
            context,
            forwarded: None,
            is_recorded: false,
        }
    }

    /// Records the request. Returns the state of the connection.
    pub(super) fn end(&mut self) -> ConnectionState {
        self.is_recorded = true;
        let forwarded = self.forwarded.as_mut();
        (self.gateway).end_request(&mut self.exchange, forwarded, &mut self.context)
    }

    /// Records a request that no step ended.
    fn end_dropped(&mut self, failure: GatewayFailure) {
        let failure = RequestFailure::Gateway(failure);
        self.gateway.note_failure(&failure, &mut self.context);
        // The connection ends with its task.
        let _ = self.end();
    }
}

impl<C: RequestClient> Drop for ServedRequest<'_, C> {
    fn drop(&mut self) {
        if self.is_recorded {
            return;
        }
        if !thread::panicking() {
            self.end_dropped(GatewayFailure::CutOff);
            return;
        }
        // A second panic, over a state that the first one left, would end the process.
        let panicked = || self.end_dropped(GatewayFailure::Internal("its task panicked".into()));
        let _ = catch_unwind(AssertUnwindSafe(panicked));
    }
}

#[cfg(test)]
#[path = "served_tests.rs"]
mod tests;
