//! One server of a pool: where it is, what its rules give it, and the place that a request takes there.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use pingora::upstreams::peer::HttpPeer;
use sluicegate_limiter::{Seed, Timestamp};

use super::connections::{Connections, Group, Look, Use};
use super::failure::AttemptOutcome;
use super::pending_queue::{AttemptWait, OriginQueues, PendingQueue};
use super::server_state::{ServerState, ServerStatus, ShareMille};
use crate::config::rules::{Role, Weight};

/// One server of a pool.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its state, which no change of rules resets.
    pub standing: Arc<ServerState>,
    /// When it is asked.
    pub role: Role,
    /// Its share among those.
    pub weight: Weight,
    /// Which entry of `servers` it comes from, from 0.
    pub entry: usize,
    /// Where it stands among the values of `hash_key`.
    pub(super) point: u64,
    /// Its tag in sticky cookies; `None` where the origin has none.
    pub(super) tag: Option<u64>,
    pub(super) queue: Option<Arc<PendingQueue>>,
    /// All queues of requests that may want a place here.
    pub(super) queues: Arc<OriginQueues>,
    /// Maximum number of requests in flight.
    pub(super) places: u32,
    /// Its connections, where they have a bound.
    pub(super) connections: Option<Arc<Connections>>,
    pub(super) slow_start: Option<Duration>,
    pub(super) peer: HttpPeer,
}

impl Server {
    /// Returns the peer that Pingora connects to.
    #[must_use]
    pub fn peer(&self) -> Box<HttpPeer> {
        Box::new(self.peer.clone())
    }

    /// Returns whether it may receive requests at `now`.
    #[must_use]
    pub fn is_usable(&self, now: Timestamp) -> bool {
        self.standing.is_usable(now)
    }

    /// Returns its status at `now`.
    #[must_use]
    pub fn state(&self, now: Timestamp) -> ServerStatus {
        self.standing.state(now, self.slow_start)
    }

    /// Returns whether it has room for one more request.
    pub(super) fn has_room(&self) -> bool {
        self.standing.in_flight() < self.places
            && self
                .connections
                .as_ref()
                .is_none_or(|connections| !connections.is_exhausted())
    }

    /// Returns the number of open connections for requests; `None` where they have no bound and are not counted.
    #[must_use]
    pub fn open_connections(&self) -> Option<u32> {
        self.connections
            .as_ref()
            .map(|connections| connections.open())
    }

    /// Closes connections that no request can use any more.
    pub(super) fn sweep(&self) {
        if let Some(connections) = &self.connections {
            connections.sweep(Group(self.peer.group_key));
        }
    }

    pub(super) fn share(&self, now: Timestamp) -> ShareMille {
        self.standing.share(now, self.slow_start)
    }

    /// Takes a place; `None` when the last one was taken since somebody looked.
    pub(super) fn hold(self: &Arc<Self>) -> Option<ServerPermit> {
        self.standing.enter(self.places).then(|| ServerPermit {
            server: Arc::clone(self),
            outcome: Some(AttemptOutcome::Abandoned),
            connection: None,
            look: self.connections.as_ref().map(Connections::begin_look),
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
pub struct ServerPermit {
    /// Whose.
    pub server: Arc<Server>,
    /// The outcome of the attempt so far; `None` where there was no attempt.
    pub(super) outcome: Option<AttemptOutcome>,
    /// The connection that it uses, where those have a bound.
    connection: Option<Use>,
    /// It is on its way to one.
    look: Option<Look>,
}

impl ServerPermit {
    /// The try has this connection.
    pub fn connected(&mut self, socket: RawFd) {
        let Some(connections) = &self.server.connections else {
            return;
        };
        self.connection = connections.begin_use(socket);
        self.look = None;
        // There may be room for one that waits too. A request that gets none stops the chain.
        self.server.queues.wake();
    }

    /// The try gets no connection, for another reason than that there is none to be had.
    pub fn unconnected(&mut self) {
        self.look = None;
    }

    /// Waits until another look may find a connection; false where the server has none, or the wait has ended.
    pub async fn another_look(&mut self, wait: &mut AttemptWait) -> bool {
        let (Some(connections), Some(queue), Some(look)) = (
            &self.server.connections,
            &self.server.queue,
            self.look.take(),
        ) else {
            return false;
        };
        let Some(most) = queue.rules.connections else {
            return false;
        };
        let end = wait.end(queue);
        self.look = connections.another_look(look, most, wait, end).await;
        self.look.is_some()
    }

    /// Leaves the place as if nobody had been there: the server has no connection for it, nor for others.
    pub fn give_back(mut self) {
        self.outcome = None;
    }
}

impl Drop for ServerPermit {
    fn drop(&mut self) {
        let is_taken = self.connection.take().is_some_and(Use::end);
        self.look = None;
        self.server.standing.leave(self.outcome);
        // Others would fare no better where this one tried nothing, nor where another has its connection, which wakes them in turn.
        if self.outcome.is_some() && !is_taken {
            self.server.queues.wake();
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
