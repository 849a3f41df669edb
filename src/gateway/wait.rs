//! Holds a request back for as long as its limits say, and notices when its client leaves meanwhile.
//!
//! A client that is gone should not keep its place: the charge goes back, and a newcomer finds room. HTTP/2 tells of the end of a
//! stream. HTTP/1 does not without reading on, and what could be read is a body that belongs to the origin or a next request that
//! belongs to the connection. So the kernel is asked instead, now and then: a connection that the client has closed is not
//! established any more.
//!
//! # Concurrency
//! The number of waiters is one atomic. A waiter takes its place by adding itself and leaves by being dropped, so that none is lost
//! whichever way its request ends.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pingora::proxy::Session;

use crate::bounds;

/// What Linux calls an established TCP connection, `include/net/tcp_states.h`.
const ESTABLISHED: u8 = 1;

/// The requests of the process that are held back.
#[derive(Debug, Default)]
pub struct Waiting(AtomicUsize);

/// One of them.
struct Waiter<'a>(&'a Waiting);

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

impl Waiting {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn enter(&self) -> Option<Waiter<'_>> {
        // Relaxed, here and below: the count bounds memory and publishes nothing.
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        let waiter = Waiter(self);
        (before < bounds::WAITERS).then_some(waiter)
    }

    /// Holds a request back for `delay`.
    pub(super) async fn hold(&self, session: &mut Session, delay: Duration) -> Waited {
        let Some(_waiter) = self.enter() else {
            return Waited::Crowded;
        };
        let sleep = tokio::time::sleep(delay);
        if let Some(closed) = session.as_downstream_mut().watch_h2_stream_close() {
            return tokio::select! {
                () = sleep => Waited::Over,
                _ = closed => Waited::ClientGone,
            };
        }
        tokio::select! {
            () = sleep => Waited::Over,
            () = closed(session) => Waited::ClientGone,
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no more waiters than the cap, and a place that is left is free. Method: fill it, then leave once.
    #[test]
    fn waiters_are_bounded_and_leave_their_place() {
        let waiting = Waiting::default();
        let mut inside: Vec<_> = (0..bounds::WAITERS)
            .filter_map(|_| waiting.enter())
            .collect();
        assert_eq!(
            (inside.len(), waiting.count()),
            (bounds::WAITERS, bounds::WAITERS)
        );
        assert!(waiting.enter().is_none());
        drop(inside.pop());
        assert!(waiting.enter().is_some());
        drop(inside);
        assert_eq!(waiting.count(), 0);
    }
}
