//! Holds a request back for as long as its limits say, and notices when its client leaves meanwhile.
//!
//! A client that is gone should not keep its place: the charge goes back, and a newcomer finds room. HTTP/2 tells of the end of a
//! stream. HTTP/1 does not without reading on, and what could be read is a body that belongs to the origin or a next request that
//! belongs to the connection. So the kernel is asked instead, now and then: a connection that the client has closed is not
//! established any more.
//!
//! When one leaves, those behind it move up: [`crate::budgets::delay_queue`] keeps the order.
//!
//! # Concurrency
//! One lock for all that wait, held for some words when one comes, leaves, or has its turn. A request leaves by being dropped, so that none
//! is lost whichever way it ends.

use std::time::Duration;

use pingora::proxy::Session;

use crate::address::AddressPrefix;
use crate::admission::QueuePlace;
use crate::bounds;
use crate::budgets::DelayedRequests;
use crate::budgets::delay_queue::{Delayed, Departure};
use crate::clock;

/// What Linux calls an established TCP connection, `include/net/tcp_states.h`.
const ESTABLISHED: u8 = 1;

/// One request that is held back.
struct QueueWaiter<'a> {
    delayed: &'a DelayedRequests,
    request: Delayed,
    departure: Departure,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// The request may go on.
    Over,
    /// The client left.
    ClientGone,
    /// So many wait already that it was not let in.
    Crowded,
}

/// Holds a request of `client` back until it is its turn in all of these queues.
pub(super) async fn hold(
    delayed: &DelayedRequests,
    session: &mut Session,
    client: AddressPrefix,
    places: Vec<QueuePlace>,
) -> Waited {
    let now = clock::deadline(Duration::ZERO);
    let Some(request) = delayed.queues().enter(client, places, now) else {
        return Waited::Crowded;
    };
    let mut waiter = QueueWaiter {
        delayed,
        request,
        departure: Departure::Withdrawn,
    };
    let waited = waiter.turn_or_end(session).await;
    if waited == Waited::Over {
        waiter.departure = Departure::Admitted;
    }
    waited
}

impl QueueWaiter<'_> {
    /// Returns when it is its turn, or the client has left.
    async fn turn_or_end(&self, session: &mut Session) -> Waited {
        if let Some(closed) = session.as_downstream_mut().watch_h2_stream_close() {
            return tokio::select! {
                () = self.turn() => Waited::Over,
                _ = closed => Waited::ClientGone,
            };
        }
        tokio::select! {
            () = self.turn() => Waited::Over,
            () = closed(session) => Waited::ClientGone,
        }
    }

    /// Returns when it is its turn.
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
