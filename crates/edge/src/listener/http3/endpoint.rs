//! Owns the QUIC endpoint of a thread: reads datagrams, passes each to its connection, and admits new ones.

use std::collections::HashMap;
use std::io;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use pingora::server::ShutdownWatch;
use quinn_proto::crypto::Session;
use quinn_proto::{
    ConnectionEvent, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, EndpointEvent,
    Incoming,
};
use quinn_udp::RecvMeta;
use sluicegate_base::{bounds, clock};
use sluicegate_decide::client::{PeerAddress, TlsFacts};
use sluicegate_http3::{ConnectionLimits, ServerConnection};
use tracing::error;

use super::address::Http3Address;
use super::connection_ids::ThreadPlace;
use super::datagram_routes::{DatagramOrigin, DatagramRoute, RelayReceiver};
use super::driver::QuicDriver;
use super::quic_now;
use super::socket::DatagramSocket;
use super::streams::QuicStreams;
use super::transport::{idle_timeout, server_config};
use crate::gateway::{ConnectionFacts, Gateway};
use crate::listener::http2::{StreamContext, StreamProtocol};
use crate::listener::timer_keepalive;
use sluicegate_budgets::{BytesPermit, ClientAccount, ClientConnectionPermit, ClientHandshake};
use sluicegate_config::rules::ListenerProtocol;
use sluicegate_process::SharedState;
use sluicegate_process::snapshot::Snapshot;
use sluicegate_record::HandshakeCounts;
use sluicegate_tls::{self as tls, ActiveListener};
use sluicegate_transport::http2_floods::flood_limits;

/// Errors of the socket behind one another that are taken for one that lasts.
const ERRORS_IN_A_ROW: u32 = 16;

/// The endpoint of one thread of an address.
pub struct Http3Endpoint {
    shared: Arc<SharedState>,
    address: Arc<Http3Address>,
    place: ThreadPlace,
    socket: Arc<DatagramSocket>,
    state: Mutex<EndpointState>,
}

/// The sockets of one thread.
pub struct ThreadSockets {
    /// The place of its connections.
    pub place: ThreadPlace,
    /// The one that the kernel gives datagrams of clients.
    pub udp: UdpSocket,
    /// The one by which other threads pass on what is for it.
    pub relay: UnixDatagram,
}

/// The state behind the lock.
struct EndpointState {
    quic: Endpoint,
    connections: HashMap<ConnectionHandle, Arc<QuicStreams>>,
}

/// A place among the handshakes that are not complete. Dropping it leaves it.
pub(super) struct HandshakePlace {
    handshakes: Arc<AtomicUsize>,
    /// The charge to a client that has proved its address.
    _of_client: Option<ClientHandshake>,
}

impl HandshakePlace {
    fn take(handshakes: &Arc<AtomicUsize>, of_client: Option<ClientHandshake>) -> Self {
        // Relaxed, here and below: a count on its own.
        handshakes.fetch_add(1, Ordering::Relaxed);
        Self {
            handshakes: Arc::clone(handshakes),
            _of_client: of_client,
        }
    }
}

impl Drop for HandshakePlace {
    fn drop(&mut self) {
        self.handshakes.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The treatment of a client whose first datagram came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    /// Its handshake begins.
    Accepted,
    /// It proves its address first.
    Proof,
    /// It gets no answer.
    Ignored,
    /// It is told that it is not served.
    Refused,
}

impl Http3Endpoint {
    /// Returns the endpoint of a thread, with what others pass on to it; `None` where the system does not allow it, which is logged.
    pub fn new(
        shared: &Arc<SharedState>,
        address: &Arc<Http3Address>,
        sockets: ThreadSockets,
    ) -> Option<(Arc<Self>, RelayReceiver)> {
        let at = address.address;
        let ThreadSockets { place, udp, relay } = sockets;
        let socket = DatagramSocket::new(udp)
            .inspect_err(|why| error!("{at}: the UDP socket cannot be used: {why}"))
            .ok()?;
        let relay = RelayReceiver::new(relay)
            .inspect_err(|why| error!("{at}: a socket for HTTP/3 cannot be used: {why}"))
            .ok()?;
        let rules = shared.snapshot();
        let active = rules.listeners.get(&at);
        let crypto = active.and_then(|active| active.tls.as_ref()?.quic());
        let Some(crypto) = crypto else {
            error!("{at}: HTTP/3 cannot be spoken with the TLS of this listener");
            return None;
        };
        let config = Arc::new(address.endpoint_config(place));
        let first = server_config(&rules.compiled.rules.server, crypto, &address.tokens);
        // Datagrams are never split on their way: quinn-udp forbids it where the system can.
        let quic = Endpoint::new(config, Some(first), true, None);
        let endpoint = Arc::new(Self {
            shared: Arc::clone(shared),
            address: Arc::clone(address),
            place,
            socket: Arc::new(socket),
            state: Mutex::new(EndpointState {
                quic,
                connections: HashMap::new(),
            }),
        });
        Some((endpoint, relay))
    }

    /// Serves until the process ends. New connections are refused from the shutdown on, and belong to the process that takes over from
    /// then on.
    pub async fn serve(self: Arc<Self>, relay: RelayReceiver, shutdown: ShutdownWatch) {
        timer_keepalive::keep();
        let received = async {
            tokio::select! {
                biased;
                () = self.address.wait_for_handover() => {}
                () = self.receive(&shutdown) => {}
            }
        };
        tokio::join!(received, self.receive_relayed(relay, &shutdown));
    }

    /// Acts on what clients send to the address.
    async fn receive(self: &Arc<Self>, shutdown: &ShutdownWatch) {
        let mut batch = self.socket.batch();
        let mut errors = 0;
        loop {
            let take = |meta: &RecvMeta, datagram| self.take(meta, datagram, shutdown);
            let received = self.socket.receive(&mut batch, take).await;
            self.pass_error(received, &mut errors).await;
        }
    }

    /// Acts on what other threads received.
    async fn receive_relayed(self: &Arc<Self>, mut relay: RelayReceiver, shutdown: &ShutdownWatch) {
        let mut errors = 0;
        loop {
            let received = match relay.receive().await {
                Ok(Some((origin, datagram))) => {
                    self.handle(&origin, BytesMut::from(datagram), shutdown);
                    Ok(())
                }
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            self.pass_error(received, &mut errors).await;
        }
    }

    /// Goes on after an error of a socket; with a pause after several, since one that lasts would take the thread.
    async fn pass_error(&self, received: io::Result<()>, errors: &mut u32) {
        let Err(error) = received else {
            *errors = 0;
            return;
        };
        // ICMP messages about earlier datagrams show here, one a call.
        tracing::debug!("{}: UDP: {error}", self.address.address);
        *errors += 1;
        if *errors >= ERRORS_IN_A_ROW {
            tokio::time::sleep(bounds::ACCEPT_PAUSE).await;
        }
    }

    /// Acts on a datagram from the socket, or passes it on.
    fn take(self: &Arc<Self>, meta: &RecvMeta, datagram: BytesMut, shutdown: &ShutdownWatch) {
        let origin = DatagramOrigin {
            source: meta.addr,
            destination: meta.dst_ip,
            congestion: meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8)),
        };
        let routes = &self.address.routes;
        if routes.pass_on(self.place, &origin, &datagram) == DatagramRoute::Here {
            self.handle(&origin, datagram, shutdown);
        }
    }

    /// Acts on a datagram for this thread.
    fn handle(
        self: &Arc<Self>,
        origin: &DatagramOrigin,
        datagram: BytesMut,
        shutdown: &ShutdownWatch,
    ) {
        let mut answer = Vec::new();
        let bytes = datagram.len();
        let mut state = self.lock();
        let event = (state.quic).handle(
            quic_now(),
            origin.source,
            origin.destination,
            origin.congestion,
            datagram,
            &mut answer,
        );
        match event {
            None => {}
            Some(DatagramEvent::Response(transmit)) => {
                self.socket.try_send(&transmit, &answer);
            }
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let connection = state.connections.get(&handle).cloned();
                drop(state);
                if let Some(connection) = connection {
                    connection.lock().receive(event, origin.source, bytes);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                drop(state);
                self.admit(incoming, shutdown);
            }
        }
    }

    /// Decides about a client whose first datagram came, and does it.
    fn admit(self: &Arc<Self>, incoming: Incoming, shutdown: &ShutdownWatch) {
        let mut answer = Vec::new();
        let admission = self.admission(&incoming, shutdown);
        let mut state = self.lock();
        let transmit = match admission {
            Admission::Accepted => {
                drop(state);
                return self.accept(incoming, shutdown);
            }
            Admission::Ignored => return state.quic.ignore(incoming),
            Admission::Refused => state.quic.refuse(incoming, &mut answer),
            Admission::Proof => match state.quic.retry(incoming, &mut answer) {
                Ok(transmit) => transmit,
                Err(error) => return state.quic.ignore(error.into_incoming()),
            },
        };
        self.socket.try_send(&transmit, &answer);
    }

    fn admission(&self, incoming: &Incoming, shutdown: &ShutdownWatch) -> Admission {
        let handshakes = self.address.handshakes.load(Ordering::Relaxed);
        if self.address.is_handed_over() {
            // The process that reads here now is asked again.
            Admission::Ignored
        } else if *shutdown.borrow() {
            Admission::Refused
        } else if handshakes >= bounds::HTTP3_HANDSHAKES {
            Admission::Ignored
        } else if handshakes >= bounds::HTTP3_HANDSHAKES / 2 && !incoming.remote_address_validated()
        {
            Admission::Proof
        } else {
            Admission::Accepted
        }
    }

    /// Begins the handshake of a client.
    fn accept(self: &Arc<Self>, incoming: Incoming, shutdown: &ShutdownWatch) {
        let peer = incoming.remote_address();
        let mut answer = Vec::new();
        let snapshot = self.shared.snapshot();
        let listener = self.listener();
        let crypto = listener
            .as_ref()
            .and_then(|active| active.tls.as_ref()?.quic());
        let mut state = self.lock();
        let charge = self.charge_handshake(&incoming, &snapshot);
        let (Some(crypto), Some(charge)) = (crypto, charge) else {
            // A reload has turned HTTP/3 off, or the client has its share.
            let transmit = state.quic.refuse(incoming, &mut answer);
            self.socket.try_send(&transmit, &answer);
            return;
        };
        let config = server_config(
            &snapshot.compiled.rules.server,
            crypto,
            &self.address.tokens,
        );
        let accepted = (state.quic).accept(incoming, quic_now(), &mut answer, Some(config));
        let (handle, quic) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(transmit) = error.response {
                    self.socket.try_send(&transmit, &answer);
                }
                return;
            }
        };
        let server = &snapshot.compiled.rules.server;
        let limits = ConnectionLimits {
            // A longer head is answered with 431 without being kept.
            max_field_list: server.max_header_bytes,
            extended_connect: sluicegate_http3::ExtendedConnect::Allowed,
            floods: flood_limits(bounds::CLIENT_GIVEN_UP),
        };
        let streams = QuicStreams::new(
            peer.ip(),
            quic,
            ServerConnection::new(limits, clock::now_since_epoch()),
        );
        state.connections.insert(handle, Arc::clone(&streams));
        drop(state);
        let place = HandshakePlace::take(&self.address.handshakes, charge);
        let driver = QuicDriver::new(
            Arc::clone(self),
            handle,
            streams,
            peer,
            place,
            shutdown.clone(),
        );
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let served = pin!(driver.serve());
            shared.cut_off.connection(served).await;
        });
    }

    /// Charges a handshake to a client that has proved its address; none is charged to one that has not. `None` where the client has its
    /// share.
    fn charge_handshake(
        &self,
        incoming: &Incoming,
        snapshot: &Snapshot,
    ) -> Option<Option<ClientHandshake>> {
        if !incoming.remote_address_validated() {
            return Some(None);
        }
        let address = incoming.remote_address().ip().to_canonical();
        let account = self
            .shared
            .accounts
            .find(address, &snapshot.compiled.rules.client);
        let held = self.address.handshakes.load(Ordering::Relaxed);
        let left = bounds::HTTP3_HANDSHAKES.saturating_sub(held);
        ClientHandshake::enter(&account, left as u64).map(Some)
    }

    /// Charges a connection whose handshake is complete to its client; `None` where that, or all, have as many as may be.
    pub(super) fn establish(
        &self,
        peer: Option<PeerAddress>,
        secured: TlsFacts,
        shutdown: &ShutdownWatch,
    ) -> Option<(ClientConnectionPermit, Arc<StreamContext>)> {
        let shared = &self.shared;
        let snapshot = shared.snapshot();
        let address = peer.as_ref()?.ip();
        let account = shared
            .accounts
            .find(address, &snapshot.compiled.rules.client);
        let defence = &snapshot.compiled.rules.server.defence;
        let permit = (shared.connection_limiter).enter(Some(&account), defence);
        let facts = ConnectionFacts {
            peer,
            secured: Some(Arc::new(secured)),
            protocol: ListenerProtocol::Http,
            account,
        };
        let gateway = Gateway(Arc::clone(shared), self.address.address);
        let context = StreamContext::new(StreamProtocol::Http3, gateway, facts, shutdown);
        Some((permit.ok()?, Arc::new(context)))
    }

    /// Reserves what a connection of this client may send ahead beyond what each may; `None` where that would leave less than half of the
    /// budget for bodies.
    pub(super) fn reserve_window(&self, account: &ClientAccount) -> Option<BytesPermit> {
        let received = &self.shared.received;
        let snapshot = self.shared.snapshot();
        let half = received.most(snapshot.compiled.rules.server.defence.max_received_bytes) / 2;
        let more = bounds::HTTP3_WINDOW - bounds::HTTP3_UNRESERVED;
        received.try_enter(account, more.into(), Some(half)).ok()
    }

    /// Returns the facts of a handshake; `None` where the listener has no TLS any more.
    pub(super) fn tls_facts(&self, session: &dyn Session) -> Option<TlsFacts> {
        let listener = self.listener()?;
        Some(tls::quic_facts(session, listener.tls.as_ref()?))
    }

    /// Passes an event of a connection to QUIC.
    pub(super) fn handle_event(
        &self,
        handle: ConnectionHandle,
        event: EndpointEvent,
    ) -> Option<ConnectionEvent> {
        self.lock().quic.handle_event(handle, event)
    }

    /// Forgets a connection whose task has ended, and its identifiers. Called once for each.
    pub(super) fn forget(&self, handle: ConnectionHandle) {
        let mut state = self.lock();
        state.connections.remove(&handle);
        // The answer is for a connection that goes on.
        let _ = state.quic.handle_event(handle, EndpointEvent::drained());
    }

    /// Returns the time that a client has for a head.
    pub(super) fn head_patience(&self) -> Duration {
        let snapshot = self.shared.snapshot();
        snapshot.compiled.rules.server.defence.client_header_timeout
    }

    /// Returns the time for which a connection may be without a request.
    pub(super) fn idle_patience(&self) -> Duration {
        self.shared
            .snapshot()
            .compiled
            .rules
            .server
            .keepalive_timeout
    }

    /// Returns the time for which a client may acknowledge none of its answers.
    pub(super) fn write_patience(&self) -> Duration {
        let patience = self
            .shared
            .snapshot()
            .compiled
            .rules
            .server
            .client_write_timeout;
        patience.max(bounds::LEAST_UNACKNOWLEDGED)
    }

    /// Returns the time after which a client whose request is served is asked for a sign of life: nothing else may come of it meanwhile.
    pub(super) fn ping_interval(&self) -> Duration {
        let idle = idle_timeout(&self.shared.snapshot().compiled.rules.server);
        (idle / 2).min(bounds::HTTP3_PING)
    }

    pub(super) fn handshakes(&self) -> &HandshakeCounts {
        &self.shared.recorder.metrics.handshakes
    }

    pub(super) fn socket(&self) -> &Arc<DatagramSocket> {
        &self.socket
    }

    pub(super) fn shared(&self) -> &Arc<SharedState> {
        &self.shared
    }

    fn listener(&self) -> Option<Arc<ActiveListener>> {
        let snapshot = self.shared.snapshot();
        snapshot.listeners.get(&self.address.address).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, EndpointState> {
        // Nothing panics under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
