//! One server of a pool: where it is, what its rules give it, and the place that a request takes there.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pingora::upstreams::peer::HttpPeer;
use sluicegate_limiter::{Seed, Timestamp};

use super::circuit::Queue;
use super::failure::TryOutcome;
use super::standing::{ServerState, Share, Standing};
use crate::config::rules::{Role, Weight};

/// One server of a pool.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// What is known of it, whatever its rules.
    pub standing: Arc<Standing>,
    /// When it is asked.
    pub role: Role,
    /// Its share among those.
    pub weight: Weight,
    /// Which entry of `servers` it comes from, from 0.
    pub(super) entry: usize,
    /// Where it stands among the values of `hash_key`.
    pub(super) point: u64,
    /// What stands for it in the cookie of a client that stays with it; `None` where none does.
    pub(super) tag: Option<u64>,
    pub(super) queue: Option<Arc<Queue>>,
    pub(super) slow_start: Option<Duration>,
    pub(super) peer: HttpPeer,
}

impl Server {
    /// What Pingora needs to connect.
    #[must_use]
    pub fn peer(&self) -> Box<HttpPeer> {
        Box::new(self.peer.clone())
    }

    /// Whether it may be asked at `now`.
    #[must_use]
    pub fn is_usable(&self, now: Timestamp) -> bool {
        self.standing.is_usable(now)
    }

    /// Whether requests are sent to it at `now`, in a word.
    #[must_use]
    pub fn state(&self, now: Timestamp) -> ServerState {
        self.standing.state(now, self.slow_start)
    }

    /// Whether it may have one more request.
    pub(super) fn has_room(&self) -> bool {
        self.queue
            .as_ref()
            .is_none_or(|queue| self.standing.in_flight() < queue.rules.in_flight)
    }

    pub(super) fn share(&self, now: Timestamp) -> Share {
        self.standing.share(now, self.slow_start)
    }

    /// Takes a place; `None` when the last one was taken since somebody looked.
    pub(super) fn hold(self: &Arc<Self>) -> Option<Held> {
        let most = self.queue.as_ref().map(|queue| queue.rules.in_flight);
        self.standing.enter(most).then(|| Held {
            server: Arc::clone(self),
            outcome: TryOutcome::Abandoned,
        })
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(into, "Server({})", self.address)
    }
}

/// A place at a server: the evidence that a try is counted there. Dropping it leaves the place, whichever way the try ended.
#[derive(Debug)]
pub struct Held {
    /// Whose.
    pub server: Arc<Server>,
    /// What came of the try so far.
    pub(super) outcome: TryOutcome,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.server.standing.leave(self.outcome);
        if let Some(queue) = &self.server.queue {
            queue.ring();
        }
    }
}

/// Where a server stands among the values of a hash. Not secret: every gateway of a fleet must send a value to the same server, and
/// who may choose the value may choose the server either way.
pub(super) fn point(address: SocketAddr) -> u64 {
    let mut hasher = Seed::from_bytes(*b"sluicegate point").hasher();
    hasher.part(address.to_string().as_bytes());
    hasher.finish().bits()
}
