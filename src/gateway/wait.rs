//! Delays a request for as long as its limits say, and detects a client that leaves meanwhile.
//!
//! The request of a client that left should not keep its place in the queue: its charge is refunded, and another request takes
//! the place. HTTP/2 reports the end of a stream. HTTP/1 does not without reading on, and the bytes could be a body that belongs
//! to the origin or a next request on the connection. So the kernel is polled instead: a connection that the client has closed
//! is no longer in the established state.
//!
//! When a request leaves, those behind it move up: [`crate::budgets::delay_queue`] keeps the order.
//!
//! # Concurrency
//! One lock for all delayed requests, held for a few instructions when one enters, leaves, or has its turn. A request leaves by
//! being dropped, so none stays behind, whichever way it ends.

use std::time::Duration;

use pingora::proxy::Session;
use sluicegate_base::address::AddressPrefix;
use sluicegate_base::bounds;
use sluicegate_base::clock;

use crate::admission::QueuePlace;
use crate::budgets::DelayedRequests;
use crate::budgets::delay_queue::{Delayed, Departure};

/// Linux's value for an established TCP connection, `include/net/tcp_states.h`.
const ESTABLISHED: u8 = 1;

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
    Crowded,
}

/// Delays a request of `client` until its turn has come in all of these queues.
pub(super) async fn hold(
    delayed: &DelayedRequests,
    session: &mut Session,
    client: AddressPrefix,
    places: Vec<QueuePlace>,
) -> WaitEnd {
    let now = clock::deadline(Duration::ZERO);
    let Some(request) = delayed.queues().enter(client, places, now) else {
        return WaitEnd::Crowded;
    };
    let mut waiter = QueueWaiter {
        delayed,
        request,
        departure: Departure::Withdrawn,
    };
    let waited = waiter.turn_or_end(session).await;
    if waited == WaitEnd::Over {
        waiter.departure = Departure::Admitted;
    }
    waited
}

impl QueueWaiter<'_> {
    /// Returns when the request's turn has come, or the client has left.
    async fn turn_or_end(&self, session: &mut Session) -> WaitEnd {
        if let Some(closed) = session.as_downstream_mut().watch_h2_stream_close() {
            return tokio::select! {
                () = self.turn() => WaitEnd::Over,
                _ = closed => WaitEnd::ClientGone,
            };
        }
        tokio::select! {
            () = self.turn() => WaitEnd::Over,
            () = closed(session) => WaitEnd::ClientGone,
        }
    }

    /// Returns when the request's turn has come.
    async fn turn(&self) {
        loop {
            let turn = self.delayed.queues().turn(&self.request);
            let Some(turn) = turn.filter(|turn| *turn > clock::deadline(Duration::ZERO)) else {
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

/// Returns once the client has closed the connection.
async fn closed(session: &mut Session) {
    let mut looks = tokio::time::interval(bounds::WAITER_LOOKS);
    loop {
        looks.tick().await;
        let digest = session
            .digest()
            .and_then(|digest| digest.socket_digest.as_ref());
        let state = digest
            .and_then(|socket| socket.tcp_info())
            .map(|info| info.tcpi_state);
        if state.is_some_and(|state| state != ESTABLISHED) {
            return;
        }
    }
}
