//! One server of a pool: its address, its settings, and the permit that an attempt holds there.

use std::fmt;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use pingora::Error;
use pingora::connectors::TransportConnector;
use pingora::protocols::Stream;
use pingora::upstreams::peer::HttpPeer;
use sluicegate_limiter::{Seed, Timestamp};

use super::adaptive_limit::{LimitPermit, LimitRefusal, ServerLimit};
use super::client_counts::ClientTag;
use super::connections::{ConnectionClosing, ConnectionSearch, Connections, Group, Use};
use super::failure::{AttemptFailure, AttemptOutcome};
use super::idle::IdleLocation;
use super::pending_queue::{AttemptWait, OriginQueues, PendingQueue};
use super::pick_request::PickRequest;
use super::server_state::{AttemptStage, HealthChecking, ServerState, ShareMille};
use super::server_status::ServerStatus;
use super::unverified_tls::UnverifiedTls;
use sluicegate_config::rules::{OriginAddress, Protocol, Role, Weight};

/// One server of a pool.
pub struct OriginServer {
    /// Its address.
    pub address: OriginAddress,
    /// Its state, which survives reloads.
    pub server_state: Arc<ServerState>,
    /// Primary or backup.
    pub role: Role,
    /// Its weight among servers of the same role.
    pub weight: Weight,
    /// The index of its entry in `servers`.
    pub entry: usize,
    /// Its point among the hashed values of `hash_key`.
    pub(super) point: u64,
    /// Its tag in sticky cookies; `None` where the origin has none.
    pub(super) tag: Option<u64>,
    pub(super) queue: Option<Arc<PendingQueue>>,
    /// All queues of requests that can wait for this server.
    pub(super) queues: Arc<OriginQueues>,
    /// Maximum number of requests in flight.
    pub(super) max_in_flight: u32,
    /// Its adaptive limit, where its origin has one.
    pub(super) adaptive: Option<ServerLimit>,
    /// Its connections, where they have a bound.
    pub(super) connections: Option<Arc<Connections>>,
    pub(super) slow_start: Option<Duration>,
    pub(super) checking: HealthChecking,
    pub(super) peer: HttpPeer,
    /// The settings of TLS without verification; `None` where certificates are verified, or there is no TLS.
    pub(super) unverified_tls: Option<UnverifiedTls>,
    /// The protocol that it is asked for.
    pub(super) protocol: Protocol,
    /// The configured window of its streams of HTTP/2.
    pub(super) stream_window: Option<u32>,
    /// The `reuse_hash` of the peer.
    pub(super) reuse_key: u64,
}

impl OriginServer {
    /// Opens a connection with these settings, which are those of its peer but for protocols and waits.
    ///
    /// # Errors
    /// There is no connection.
    pub(super) async fn open_stream(
        &self,
        transport: &TransportConnector,
        peer: &HttpPeer,
    ) -> Result<Stream, Box<Error>> {
        match &self.unverified_tls {
            None => transport.new_stream(peer).await,
            Some(tls) => tls.open(transport, peer).await,
        }
    }

    /// Returns how long a new connection may take, its TLS handshake included.
    pub(super) fn connect_timeout(&self) -> Duration {
        let timeout = self.peer.options.total_connection_timeout;
        timeout.unwrap_or(Duration::MAX)
    }

    /// Returns how long a connection to it may be idle; `None` without a bound.
    #[must_use]
    pub fn idle_timeout(&self) -> Option<Duration> {
        self.peer.options.idle_timeout
    }

    /// Returns whether it may receive requests at `now`.
    #[must_use]
    pub fn is_usable(&self, now: Timestamp) -> bool {
        self.server_state.is_usable(now)
    }

    /// Returns its status at `now`.
    #[must_use]
    pub fn state(&self, now: Timestamp) -> ServerStatus {
        self.server_state.state(now, self.slow_start, self.checking)
    }

    /// Returns whether it has room for one more request of `client`.
    pub(super) fn has_room(&self, client: ClientTag) -> bool {
        self.server_state.in_flight() < self.max_in_flight
            && self
                .connections
                .as_ref()
                .is_none_or(|connections| !connections.is_exhausted())
            && self.limit_refusal(client).is_none()
    }

    /// Returns why its adaptive limit lets no further request of `client` in; `None` where it does, or there is none.
    pub(super) fn limit_refusal(&self, client: ClientTag) -> Option<LimitRefusal> {
        self.adaptive.as_ref()?.refusal(client)
    }

    /// Returns its adaptive limit; `None` where its origin has none.
    #[must_use]
    pub fn concurrency_limit(&self) -> Option<u32> {
        self.adaptive.as_ref().map(ServerLimit::most)
    }

    /// Returns the least that its adaptive limit can become; `None` where its origin has none.
    #[must_use]
    pub fn least_limit(&self) -> Option<u32> {
        self.adaptive.as_ref().map(|adaptive| adaptive.rules.min)
    }

    /// Returns the number of requests that wait for the head of their response; `None` without an adaptive limit.
    #[must_use]
    pub fn waiting(&self) -> Option<u32> {
        self.adaptive.as_ref().map(ServerLimit::waiting)
    }

    /// Returns its latency without a queue; `None` without an adaptive limit, or before its first window.
    #[must_use]
    pub fn baseline(&self) -> Option<Duration> {
        self.adaptive.as_ref()?.baseline()
    }

    /// Returns the number of open connections for requests; `None` where they have no bound and are not counted.
    #[must_use]
    pub fn open_connections(&self) -> Option<u32> {
        self.connections
            .as_ref()
            .map(|connections| connections.open())
    }

    /// Returns the place where its idle connections are kept.
    pub(super) fn idle_location(&self) -> IdleLocation {
        match &self.connections {
            None => IdleLocation::Thread,
            Some(_) => IdleLocation::List,
        }
    }

    /// Closes an idle connection for a request that can use none of them, unless another request may be about to take it.
    pub(super) fn close_one_idle(&self) {
        if let Some(connections) = &self.connections {
            connections.close_one_idle();
        }
    }

    /// Closes connections that no request can use any more.
    pub(super) fn sweep(&self) {
        if let Some(connections) = &self.connections {
            connections.sweep(Group(self.peer.group_key));
        }
    }

    pub(super) fn share(&self, now: Timestamp) -> ShareMille {
        self.server_state.share(now, self.slow_start)
    }

    /// Takes a permit for a request that is sent again; `None` where it is out of service by now, or has no place.
    #[must_use]
    pub fn hold_again(self: &Arc<Self>, pick: &PickRequest) -> Option<ServerPermit> {
        self.is_usable(pick.now)
            .then(|| self.hold(pick.client, pick.now))
            .flatten()
    }

    /// Takes a permit for a request of `client` at `now`; `None` when another request took the last one meanwhile.
    pub(super) fn hold(
        self: &Arc<Self>,
        client: ClientTag,
        now: Timestamp,
    ) -> Option<ServerPermit> {
        let limit_permit = match &self.adaptive {
            Some(adaptive) => Some(Box::new(adaptive.enter(client, now)?)),
            None => None,
        };
        self.server_state
            .enter(self.max_in_flight)
            .then(|| ServerPermit {
                server: Arc::clone(self),
                outcome: Some(AttemptOutcome::Abandoned),
                connection: None,
                search: self.connections.as_ref().map(Connections::begin_search),
                limit_permit,
                stage: AttemptStage::Waiting,
            })
    }
}

impl fmt::Debug for OriginServer {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(into, "Server({})", self.address)
    }
}

/// A part of a body that a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadPart {
    /// More is to come.
    Begun,
    /// The server has all of it.
    Last,
}

/// A permit for one attempt at a server, which counts the attempt there. Dropping it releases the place, however the attempt ended.
#[derive(Debug)]
pub struct ServerPermit {
    /// The server.
    pub server: Arc<OriginServer>,
    /// The outcome of the attempt so far; `None` where there was no attempt.
    pub(super) outcome: Option<AttemptOutcome>,
    /// The connection that it uses, where those have a bound.
    connection: Option<Use>,
    /// The attempt's wait for a connection.
    search: Option<ConnectionSearch>,
    /// The place of the attempt in the adaptive limit, until the head of the response. Boxed, since most origins have no such limit.
    limit_permit: Option<Box<LimitPermit>>,
    /// Its stage, which the server counts.
    stage: AttemptStage,
}

impl ServerPermit {
    /// Records the connection of the attempt.
    ///
    /// # Errors
    /// The connection is being closed, and the attempt is to look for another one.
    pub fn connected(&mut self, socket: RawFd) -> Result<(), ConnectionClosing> {
        let Some(connections) = &self.server.connections else {
            return Ok(());
        };
        self.connection = connections.begin_use(socket)?;
        self.search = None;
        // Another waiting request may find room too. A request that finds none ends the chain.
        self.server.queues.wake();
        Ok(())
    }

    /// Records that connecting failed, for another reason than the bound on connections.
    pub fn unconnected(&mut self) {
        self.search = None;
    }

    /// Waits until another search may find a connection; returns false where the server has none, or the wait has ended.
    pub async fn search_again(&mut self, wait: &mut AttemptWait) -> bool {
        self.enter_stage(AttemptStage::Unsent);
        let found = self.wait_for_connection(wait).await;
        self.enter_stage(AttemptStage::Waiting);
        found
    }

    async fn wait_for_connection(&mut self, wait: &mut AttemptWait) -> bool {
        let (Some(connections), Some(queue), Some(search)) = (
            &self.server.connections,
            &self.server.queue,
            self.search.take(),
        ) else {
            return false;
        };
        let Some(most) = queue.rules.max_connections else {
            return false;
        };
        let end = wait.end(queue);
        if let Some(limit_permit) = &mut self.limit_permit {
            limit_permit.pause();
        }
        self.search = connections.search_again(search, most, wait, end).await;
        if let Some(limit_permit) = &mut self.limit_permit {
            limit_permit.resume();
        }
        self.search.is_some()
    }

    /// Records whether the client has still to send a part of the request's body.
    pub fn uploads(&mut self, part: UploadPart) {
        if self.stage != AttemptStage::Answering {
            self.enter_stage(match part {
                UploadPart::Begun => AttemptStage::Unsent,
                UploadPart::Last => AttemptStage::Waiting,
            });
        }
        let Some(limit_permit) = &mut self.limit_permit else {
            return;
        };
        match part {
            UploadPart::Begun => {
                limit_permit.pause();
                self.server.queues.wake();
            }
            UploadPart::Last => limit_permit.resume(),
        }
    }

    /// Records the stage of the attempt.
    fn enter_stage(&mut self, stage: AttemptStage) {
        if self.stage != stage {
            self.server.server_state.move_stage(self.stage, stage);
            self.stage = stage;
        }
    }

    /// Records that the head of the answer has come.
    pub(super) fn begin_answer(&mut self) {
        self.enter_stage(AttemptStage::Answering);
    }

    /// Records the outcome of the attempt at `now`: the place in the adaptive limit is left.
    pub(super) fn end_wait(&mut self, outcome: AttemptFailure, now: impl Fn() -> Timestamp) {
        let Some(mut limit_permit) = self.limit_permit.take() else {
            return;
        };
        match outcome {
            // What fails fast is not what the server can do.
            AttemptFailure::Status(503) => limit_permit.failed(now()),
            AttemptFailure::Status(500..) => limit_permit.leave(),
            AttemptFailure::Status(_) => limit_permit.answered(now()),
            AttemptFailure::Connect | AttemptFailure::Timeout | AttemptFailure::Reset => {
                limit_permit.failed(now());
            }
        }
        self.server.queues.wake();
    }

    /// Releases the permit without an outcome: the server has no connection for this attempt, nor for others.
    pub fn give_back(mut self) {
        self.outcome = None;
    }
}

impl Drop for ServerPermit {
    fn drop(&mut self) {
        let is_taken = self.connection.take().is_some_and(Use::end);
        self.search = None;
        self.limit_permit = None;
        self.enter_stage(AttemptStage::Waiting);
        self.server.server_state.leave(self.outcome);
        // No other request is woken if this one sent nothing, or if another took its connection, which wakes the next in turn.
        if self.outcome.is_some() && !is_taken {
            self.server.queues.wake();
        }
    }
}

/// Returns the point of a server among hashed values. It is not secret: every gateway of a fleet must send a value to the same
/// server, and a client that chooses the value chooses the server anyway.
pub(super) fn point(address: &OriginAddress) -> u64 {
    let mut hasher = Seed::from_bytes(*b"sluicegate point").hasher();
    hasher.part(address.to_string().as_bytes());
    hasher.finish().bits()
}
