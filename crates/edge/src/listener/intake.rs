//! Owns a connection from its first byte to its last: HTTP/2 is served stream by stream, HTTP/1 request by request.
//!
//! The protocols below HTTP come first: the PROXY protocol ([`super::proxy_protocol`]), then TLS ([`sluicegate_tls`]). Heads are
//! read here, so that they have a deadline and a size, and so that none is served that two parsers could read in two ways
//! ([`sluicegate_http1`]). The answers of the gateway's own to pipelined requests leave in one write.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use pingora::prelude::timeout;
use pingora::server::ShutdownWatch;
use sluicegate_base::{bounds, clock};
use sluicegate_decide::response::{GatewayProblem, HttpViolation};

use super::accept::ConnectionApp;
use super::client_stream::ClientStream;
use super::connection::{BegunHead, Http1Connection, NextHead};
use super::{http2, proxy_protocol, timer_keepalive};
use crate::gateway::{ConnectionFacts, ConnectionState, Gateway, ServingCourse, UnreadableHead};
use sluicegate_budgets::{ClientAccount, ClientConnectionPermit, RefusedHandshake, TlsHandshakes};
use sluicegate_config::rules::{Http2, ListenerProtocol};
use sluicegate_process::SharedState;
use sluicegate_process::snapshot::Snapshot;
use sluicegate_record::HandshakeFailure;
use sluicegate_tls::client_socket::ClientSocket;
use sluicegate_tls::{self as tls, ActiveListener, HandshakeTimes};
use sluicegate_transport::thread_buffer::read_through;

/// The first bytes of every HTTP/2 connection, RFC 9113 §3.4.
const HTTP2_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection whose protocol is known.
struct AcceptedConnection {
    stream: ClientStream,
    first_bytes: FirstBytes,
    protocol: ListenerProtocol,
    account: ClientAccount,
}

/// The permit of a connection, which counts from its acceptance.
pub struct IntakePermit {
    permit: ClientConnectionPermit,
    /// The account that it is charged to; `None` while a PROXY header may name another client.
    account: Option<ClientAccount>,
}

/// The protocol of a connection.
#[derive(Debug)]
enum FirstBytes {
    /// HTTP/1, with what was read of its first head.
    Http1(Option<BegunHead>),
    /// HTTP/2: its preface, or its name in the TLS handshake.
    Http2,
}

/// The application of one of the gateway's listeners.
pub struct Intake {
    shared: Arc<SharedState>,
    address: SocketAddr,
    gateway: Gateway,
}

impl Intake {
    /// Returns an intake for connections that are accepted at `address`.
    #[must_use]
    pub fn new(shared: Arc<SharedState>, address: SocketAddr) -> Self {
        Self {
            gateway: Gateway(Arc::clone(&shared), address),
            shared,
            address,
        }
    }

    /// Returns the configuration of its listener.
    fn listener(&self, snapshot: &Snapshot) -> Option<Arc<ActiveListener>> {
        snapshot.listeners.get(&self.address).cloned()
    }

    /// Reads the first bytes of a connection in clear text, which tell HTTP/2 from HTTP/1; `None` when it broke. The client may take
    /// `patience` for its first byte, and as long from there to the end of HTTP/2's preface.
    async fn first_bytes(
        mut socket: ClientSocket,
        permit: &ClientConnectionPermit,
        patience: Duration,
    ) -> Option<(ClientSocket, FirstBytes)> {
        let mut bytes = BytesMut::new();
        let read = read_through(&mut socket, &mut bytes, bounds::BODY_READ);
        if timeout(patience, read).await.ok()?.ok()? == 0 {
            return None;
        }
        let since = clock::now();
        permit.wait_for_rest(since);
        let read_preface = async {
            while bytes.len() < HTTP2_PREFACE.len() && HTTP2_PREFACE.starts_with(&bytes) {
                let read = read_through(&mut socket, &mut bytes, bounds::BODY_READ);
                if read.await.ok()? == 0 {
                    return None;
                }
            }
            Some(())
        };
        // A head that stops in what could be the preface is answered as one of HTTP/1.
        if let Ok(read) = timeout(patience, read_preface).await {
            read?;
        }
        if !bytes.starts_with(HTTP2_PREFACE) {
            let begun = BegunHead { since, bytes };
            return Some((socket, FirstBytes::Http1(Some(begun))));
        }
        socket.put_back(bytes);
        Some((socket, FirstBytes::Http2))
    }

    /// Serves a connection to its end; `None` where it ends before its first request.
    async fn serve_connection(
        &self,
        socket: ClientSocket,
        permit: IntakePermit,
        shutdown: &ShutdownWatch,
    ) -> Option<()> {
        let IntakePermit { permit, account } = permit;
        let accepted = {
            // Boxed, like the calls below: a connection that idles should not hold the room for its beginning.
            let mut accepting = Box::pin(self.accept(socket, &permit, account));
            poll_fn(|context| match accepting.as_mut().poll(context) {
                Poll::Pending => permit.poll_reclaimed(context).map(|()| None),
                accepted => accepted,
            })
            .await?
        };
        let stream = accepted.stream;
        let facts = super::facts(&stream, accepted.protocol, accepted.account);
        match accepted.first_bytes {
            FirstBytes::Http2 => {
                let shared = &self.shared;
                let served = http2::serve(shared, self.address, stream, permit, facts, shutdown);
                Box::pin(served).await;
                None
            }
            FirstBytes::Http1(begun) => {
                self.serve_http1(stream, permit, begun, facts, shutdown)
                    .await
            }
        }
    }

    /// Takes a connection through the protocols below HTTP; `None` where it ends before its first request.
    async fn accept(
        &self,
        mut socket: ClientSocket,
        permit: &ClientConnectionPermit,
        account: Option<ClientAccount>,
    ) -> Option<AcceptedConnection> {
        // A connection may stay open for days, and should not keep the configuration of its beginning alive.
        let snapshot = self.shared.snapshot();
        let listener = self.listener(&snapshot)?;
        let patience = snapshot.compiled.rules.server.client_read_timeout;
        let head_patience = snapshot.compiled.rules.server.defence.client_header_timeout;
        let metrics = &self.shared.recorder.metrics;
        let announced = &listener.rules.proxy_protocol;
        let notices = &self.shared.recorder.notices;
        let peer = socket.peer().ip().to_canonical();
        let counts = &metrics.proxy_headers;
        let read = proxy_protocol::read(socket, announced, counts, head_patience);
        let read = Box::pin(read).await;
        socket = read
            .inspect_err(|why| {
                if let Some(text) = why.log_text() {
                    notices.tell(Some(peer), &text);
                }
            })
            .ok()?;
        let peer = socket.peer().ip().to_canonical();
        let rules = &snapshot.compiled.rules;
        let account = match account.filter(|account| account.is_of(peer)) {
            Some(account) => account,
            None => {
                let account = self.shared.accounts.find(peer, &rules.client);
                permit.belongs_to(&account, &rules.server.defence).ok()?;
                permit.wait();
                account
            }
        };
        let most_handshakes = TlsHandshakes::most(&rules.server.defence);
        drop(snapshot);
        let (stream, first_bytes) = if let Some(termination) = &listener.tls {
            let installed = &self.shared.certificates;
            let counts = &metrics.handshakes;
            let handshakes = &self.shared.tls_handshakes;
            let enter = || {
                permit.wait_for_rest(clock::now());
                Ok(handshakes.enter(&account, most_handshakes)?)
            };
            let times = HandshakeTimes {
                first_byte: head_patience,
                whole: patience,
            };
            let shaken = tls::shake_hands(socket, termination, installed, counts, times, enter);
            // Boxed: a connection in clear text should not pay for the size of a handshake.
            let shaken = Box::pin(shaken).await;
            let stream = shaken
                .inspect_err(|failure| self.log_handshake(failure, peer, most_handshakes))
                .ok()??;
            let first_bytes = match stream.is_http2() {
                true => FirstBytes::Http2,
                false => FirstBytes::Http1(None),
            };
            (ClientStream::Secured(Box::new(stream)), first_bytes)
        } else if listener.rules.http2() == Http2::Accepted {
            let (socket, first_bytes) = Self::first_bytes(socket, permit, head_patience).await?;
            (ClientStream::Clear(socket), first_bytes)
        } else {
            (ClientStream::Clear(socket), FirstBytes::Http1(None))
        };
        Some(AcceptedConnection {
            stream,
            first_bytes,
            protocol: listener.rules.protocol,
            account,
        })
    }

    /// Logs a TLS handshake that failed, of which there may be `most` at a time.
    fn log_handshake(&self, failure: &HandshakeFailure, peer: IpAddr, most: u64) {
        let Some(text) = failure.log_text() else {
            return;
        };
        let notices = &self.shared.recorder.notices;
        match failure {
            HandshakeFailure::LimitReached | HandshakeFailure::ClientLimitReached => {
                let refused = RefusedHandshake {
                    accounts: &self.shared.accounts,
                    most,
                };
                let text = format_args!("its TLS handshake failed: {text}; {refused}");
                notices.tell(Some(peer), &text);
            }
            _ => notices.tell(
                Some(peer),
                &format_args!("its TLS handshake failed: {text}"),
            ),
        }
    }

    /// Serves HTTP/1 requests until the connection ends.
    async fn serve_http1(
        &self,
        stream: ClientStream,
        permit: ClientConnectionPermit,
        begun: Option<BegunHead>,
        facts: ConnectionFacts,
        shutdown: &ShutdownWatch,
    ) -> Option<()> {
        let shared = Arc::clone(&self.shared);
        let mut connection = Http1Connection::new(stream, permit, begun, &facts, shared);
        loop {
            // Boxed, so that an idle connection does not hold the room for a request. Requests in close succession use the same room.
            let served = Box::pin(self.serve_requests(&mut connection, &facts, shutdown)).await?;
            match served {
                RequestsEnd::Idle => {
                    let patience =
                        connection.idle_patience(&self.shared.snapshot().compiled.rules.server);
                    if !connection.await_request(patience).await {
                        Box::pin(connection.end()).await;
                        return None;
                    }
                }
                RequestsEnd::Problem(problem) => {
                    // The answers to requests that came before it come first.
                    let mut answers = connection.take_answers();
                    let head = connection.read.split();
                    let client = (&mut connection, &facts);
                    (self.gateway).answer_unreadable(
                        problem,
                        UnreadableHead::Http1(&head),
                        client,
                        shutdown,
                        &mut answers,
                    );
                    connection.queue_answers(answers);
                    drop(head);
                    connection.send_answers().await.ok()?;
                    Box::pin(connection.linger()).await;
                    return None;
                }
                RequestsEnd::Ended => {
                    connection.send_answers().await.ok()?;
                    Box::pin(connection.end()).await;
                    return None;
                }
                RequestsEnd::Lingering => {
                    connection.send_answers().await.ok()?;
                    Box::pin(connection.linger()).await;
                    return None;
                }
            }
        }
    }

    /// Serves requests that follow each other closely. `None` where the connection broke.
    async fn serve_requests(
        &self,
        connection: &mut Http1Connection,
        facts: &ConnectionFacts,
        shutdown: &ShutdownWatch,
    ) -> Option<RequestsEnd> {
        loop {
            let snapshot = self.shared.snapshot();
            let next =
                (connection.next(&snapshot.compiled.rules.server, &self.shared.received)).await;
            drop(snapshot);
            let head_bytes = match next {
                NextHead::Head(bytes) => bytes,
                NextHead::Problem(problem) => return Some(RequestsEnd::Problem(problem)),
                NextHead::Idle => return Some(RequestsEnd::Idle),
                NextHead::End => return Some(RequestsEnd::Ended),
            };
            let reject = |violation| {
                let problem = GatewayProblem::BadRequest(violation);
                Some(RequestsEnd::Problem(problem))
            };
            if facts.protocol == ListenerProtocol::RateLimitService {
                // Calls are streams of HTTP/2.
                return reject(HttpViolation::NotGrpc);
            }
            let head = connection.split_head(head_bytes);
            let decided = (self.gateway).decide_request(&connection.head, head, facts);
            let Some(decided) = decided else {
                // What follows the head says nothing of it.
                connection.read.clear();
                return reject(HttpViolation::Other);
            };
            connection.begin_body(decided.server_rules());
            let state = match decided.course(&connection.read) {
                ServingCourse::AtOnce(request) => {
                    let mut answers = connection.take_answers();
                    let gateway = &self.gateway;
                    let state = gateway.answer_at_once(request, connection, shutdown, &mut answers);
                    connection.queue_answers(answers);
                    if connection.is_queue_full() {
                        connection.send_answers().await.ok()?;
                    }
                    state
                }
                ServingCourse::Waits(request) => {
                    connection.send_answers().await.ok()?;
                    (self.gateway)
                        .serve_request(request, connection, shutdown)
                        .await
                }
            };
            match state {
                ConnectionState::Reusable => {}
                ConnectionState::Ended => return Some(RequestsEnd::Ended),
                ConnectionState::Lingering => return Some(RequestsEnd::Lingering),
            }
        }
    }
}

/// The state of a connection of HTTP/1 after requests that followed each other closely.
enum RequestsEnd {
    /// It waits for its next request.
    Idle,
    /// It ends with this answer to a head that cannot be served.
    Problem(GatewayProblem),
    /// It ends.
    Ended,
    /// It ends after unread bytes of the client are dropped.
    Lingering,
}

impl ConnectionApp for Intake {
    type Permit = IntakePermit;

    fn admit(&self, peer: SocketAddr) -> Option<IntakePermit> {
        let snapshot = self.shared.snapshot();
        let rules = &snapshot.compiled.rules;
        let announced = &self.listener(&snapshot)?.rules.proxy_protocol;
        let peer = peer.ip().to_canonical();
        let account = match proxy_protocol::may_send_header(announced, peer) {
            true => None,
            false => Some(self.shared.accounts.find(peer, &rules.client)),
        };
        let permit = (self.shared.connection_limiter)
            .enter(account.as_ref(), &rules.server.defence)
            .ok()?;
        Some(IntakePermit { permit, account })
    }

    fn note_accept_error(&self, error: &io::Error) {
        self.shared.recorder.note_accept_error(error);
    }

    async fn serve(
        self: Arc<Self>,
        socket: ClientSocket,
        permit: IntakePermit,
        shutdown: ShutdownWatch,
    ) {
        timer_keepalive::keep();
        let served = pin!(self.serve_connection(socket, permit, &shutdown));
        self.shared.cut_off.connection(served).await;
    }
}
