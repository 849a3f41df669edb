//! Delays a request for as long as its limits say, and detects a client that leaves meanwhile.
//!
//! The request of a client that left should not keep its place in the queue: its charge is refunded, and another request takes
//! the place. HTTP/2 reports the end of a stream. HTTP/1 does not without reading on, and the bytes could be a body that belongs
//! to the origin or a next request on the connection. So the kernel is polled instead: a connection that the client has closed
//! is no longer in the established state.
//!
//! When a request leaves, those behind it move up: [`sluicegate_budgets::delay_queue`] keeps the order.
//!
//! # Concurrency
//! One lock for all delayed requests, held for a few instructions when one enters, leaves, or has its turn. A request leaves by
//! being dropped, so none stays behind, whichever way it ends.

use std::time::Duration;

use sluicegate_base::address::AddressPrefix;
use sluicegate_base::bounds;

use sluicegate_budgets::DelayedRequests;
use sluicegate_budgets::delay_queue::{Delayed, Departure};
use sluicegate_decide::admission::QueuePlace;
use sluicegate_transport::timer;

/// One delayed request.
struct QueueWaiter<'a> {
    delayed: &'a DelayedRequests,
    request: Delayed,
    departure: Departure,
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitEnd {
    /// The delay is over.
    Over,
    /// The client left.
    ClientGone,
    /// The queue was full, so the request was not queued.
    QueueFull,
}

/// Delays a request of `client` until its turn has come in all of these queues, or `client_left` returns.
pub(super) async fn hold(
    delayed: &DelayedRequests,
    client: AddressPrefix,
    places: Vec<QueuePlace>,
    client_left: impl Future<Output = ()>,
) -> WaitEnd {
    let now = timer::deadline(Duration::ZERO);
    let Some(request) = delayed.queues().enter(client, places, now) else {
        return WaitEnd::QueueFull;
    };
    let mut waiter = QueueWaiter {
        delayed,
        request,
        departure: Departure::Withdrawn,
    };
    let waited = tokio::select! {
        () = waiter.turn() => WaitEnd::Over,
        () = client_left => WaitEnd::ClientGone,
    };
    if waited == WaitEnd::Over {
        waiter.departure = Departure::Admitted;
    }
    waited
}

impl QueueWaiter<'_> {
    /// Returns when the request's turn has come.
    async fn turn(&self) {
        loop {
            let turn = self.delayed.queues().turn(&self.request);
            let Some(turn) = turn.filter(|turn| *turn > timer::deadline(Duration::ZERO)) else {
                return;
            };
            tokio::select! {
                () = tokio::time::sleep_until(turn) => {}
                () = self.request.moved.notified() => {}
            }
        }
    }
}

impl Drop for QueueWaiter<'_> {
    fn drop(&mut self) {
        self.delayed.queues().leave(&self.request, self.departure);
    }
}

/// Returns once the client has closed its connection.
pub async fn closed(is_closed: impl Fn() -> bool) {
    let mut looks = tokio::time::interval(bounds::WAITER_LOOKS);
    loop {
        looks.tick().await;
        if is_closed() {
            return;
        }
    }
}
