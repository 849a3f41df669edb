//! Bounds the HTTP/2 work that one connection of a client may cause, and closes connections that only cause work.
//!
//! The h2 crate parses and bounds frames. It answers at most one PING and one SETTINGS before it reads
//! on, counts CONTINUATION frames and empty DATA, and closes a connection whose client resets streams faster than they are
//! accepted, which [`super::outgoing`] detects in the frames that it sends. It does not detect a client whose every stream is
//! accepted, sent to an origin and cancelled (CVE-2023-44487, "rapid reset"): [`CancelledStreams`] counts those by the outcome
//! of the requests. Nor does it bound how many frames come that carry nothing: [`crate::http2_frames`] counts those.
//!
//! # Limits
//! A connection holds at most `max_streams` requests, and all connections of a client as many as [`ClientStreams`] admits, each with a
//! window and a send buffer of fixed size ([`bounds`]). An answer
//! that fits into the send buffer counts as sent everywhere else before the client has read it, so the buffer is small, and the
//! connection ends when the client reads nothing of it, or reads too slowly ([`super::guarded_stream`]).
//!
//! [`ClientStreams`]: crate::budgets::ClientStreams

use std::borrow::Cow;
use std::fmt::Display;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request};
use pingora::protocols::Stream;
use pingora::server::ShutdownWatch;
use sluicegate_base::bounds;
use sluicegate_base::clock;
use sluicegate_base::received::{ReceivedFields, ReceivedHead};
use sluicegate_decide::client::{PeerAddress, TlsFacts, identify, identify_in_map};
use sluicegate_decide::request_id::RequestId;
use sluicegate_decide::response::{GatewayProblem, HttpViolation};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::connection::read_pace;
use super::grpc;
use super::guarded_stream::{GatheredFrames, GuardedStream};
use super::http2_stream::Http2Stream;
use super::incoming::{IncomingFrames, ReceiveWatch};
use super::outgoing::{ENHANCE_YOUR_CALM, FrameWatch, NO_ERROR, OutgoingFrames};
use super::receive_window::{BodyWindow, ConnectionWindow};
use super::sent_bytes::SentBytes;
use crate::budgets::cancelled_streams::CancelledStreams;
use crate::budgets::{
    BudgetCap, ClientAccount, ClientConnectionPermit, ClientStreams, StreamCaps, StreamPermit,
};
use crate::config::rules::{ListenerProtocol, ServerRules};
use crate::gateway::{ConnectionFacts, Gateway};
use crate::process::SharedState;
use crate::record::Outcome;

/// Serves a connection that speaks HTTP/2 until it ends.
pub(super) async fn serve(
    shared: &Arc<SharedState>,
    address: SocketAddr,
    stream: Stream,
    permit: ClientConnectionPermit,
    facts: ConnectionFacts,
    shutdown: &ShutdownWatch,
) {
    let (options, caps, patience, pace, received, block_bytes) = {
        let rules = &shared.snapshot().rules.server;
        let caps = StreamCaps::of(rules);
        let patience = rules.client_read_timeout;
        let received = rules.defence.max_received_bytes;
        let block_bytes = rules.max_header_bytes;
        let pace = read_pace(rules);
        (options(rules), caps, patience, pace, received, block_bytes)
    };
    let client = facts.account.clone();
    let budget = || Arc::clone(&shared.received);
    let window = Arc::new(ConnectionWindow::new(budget(), client.clone(), received));
    let cancelled = Arc::new(CancelledStreams::default());
    let report = Arc::new(ConnectionReport {
        shared: Arc::clone(shared),
        peer: super::peer_address(&*stream),
        secured: facts.secured.clone(),
        permit,
        cancelled: Arc::clone(&cancelled),
        is_reported: AtomicBool::new(false),
        flooded: Notify::new(),
    });
    let sent = Arc::new(SentBytes::default());
    let frames = OutgoingFrames::new(Box::new(Arc::clone(&report)), Arc::clone(&sent));
    let gathered = match facts.protocol {
        ListenerProtocol::RateLimitService => GatheredFrames::Small,
        ListenerProtocol::Http | ListenerProtocol::ForwardAuth { .. } => GatheredFrames::Tiny,
    };
    let watch = Box::new(Arc::clone(&report));
    let incoming = IncomingFrames::new((budget(), received), client, block_bytes, watch);
    let stream: Stream = GuardedStream::with_frames(stream, frames, incoming, gathered, pace);
    let streams = Arc::new(ConnectionStreams {
        gateway: Gateway(Arc::clone(shared), address),
        facts,
        caps,
        window,
        cancelled: Arc::clone(&cancelled),
        sent,
        shutdown: shutdown.clone(),
    });
    let preface_patience = shared.snapshot().rules.server.defence.client_header_timeout;
    let served = async {
        let handshake = tokio::select! {
            handshake = timeout(preface_patience, options.handshake(stream)) => handshake,
            () = report.permit.reclaimed() => return,
        };
        // The error of a handshake is the client's, and ends the connection.
        if let Ok(Ok(mut connection)) = handshake {
            accept(&mut connection, &streams, &report).await;
        }
    };
    tokio::select! {
        // The first frames have no bound of their own. Dropping the other branch closes the connection.
        () = cancelled.silence(patience) => {}
        () = served => {}
    }
}

/// Accepts streams until the connection ends, and serves each in a task of its own.
///
/// A drain tells the client to open no more (RFC 9113 §6.8), and ends the connection with its last stream. A connection without a stream
/// ends with `NO_ERROR` after `keepalive_timeout`, which is read when its last stream has ended, or where it is closed for another one.
/// One whose client only causes work ends with `ENHANCE_YOUR_CALM`.
async fn accept(
    connection: &mut Connection<Stream, Bytes>,
    streams: &Arc<ConnectionStreams>,
    report: &ConnectionReport,
) {
    let mut shutdown = streams.shutdown.clone();
    let mut abused = pin!(report.abused(&streams.cancelled));
    let mut is_draining = false;
    loop {
        let accepted = tokio::select! {
            biased;
            _ = shutdown.changed(), if !is_draining => {
                is_draining = true;
                connection.graceful_shutdown();
                continue;
            }
            // Before the streams, which such a client opens without a pause.
            () = &mut abused => return close(connection, Reason::ENHANCE_YOUR_CALM).await,
            accepted = connection.accept() => accepted,
            // Behind the streams, so that it has written what it can.
            () = report.permit.reclaimed() => {
                return close(connection, Reason::NO_ERROR).await;
            }
            () = streams.cancelled.idle(|| streams.keepalive_timeout()), if !is_draining => {
                return close(connection, Reason::NO_ERROR).await;
            }
        };
        let Some(Ok((request, mut respond))) = accepted else {
            return;
        };
        if !report.permit.begin() {
            respond.send_reset(Reason::REFUSED_STREAM);
            return close(connection, Reason::NO_ERROR).await;
        }
        let account = streams.account(request.headers());
        let window = || streams.reserve(request.body(), request.headers(), &account);
        let permit = streams.enter(&account);
        let Some((permit, window)) = permit.and_then(|permit| Some((permit, window()?))) else {
            respond.send_reset(Reason::REFUSED_STREAM);
            continue;
        };
        let account = account.into_owned();
        let cancelled = Arc::clone(&streams.cancelled);
        let serving = cancelled.begin();
        let shared = Arc::clone(&streams.gateway.0);
        let streams = Arc::clone(streams);
        // Boxed: a task, which is copied several times, is as large as its largest state.
        let served: Pin<Box<dyn Future<Output = ()> + Send>> = match streams.facts.protocol {
            ListenerProtocol::RateLimitService => Box::pin(async move {
                streams.serve_call(request, respond, window).await;
            }),
            ListenerProtocol::Http | ListenerProtocol::ForwardAuth { .. } => {
                let client = (account, window);
                Box::pin(async move { streams.serve(request, respond, client).await })
            }
        };
        tokio::spawn(async move {
            let mut served = served;
            let served = shared.cut_off.stream(served.as_mut());
            CancelledStreams::scope(&cancelled, served).await;
            drop((serving, permit));
        });
    }
}

/// Ends a connection with GOAWAY for this reason, which names the last stream that was served: the client may repeat what it sent meanwhile
/// on a later one (RFC 9113 §6.8).
async fn close(connection: &mut Connection<Stream, Bytes>, reason: Reason) {
    connection.abrupt_shutdown(reason);
    // A client that reads nothing any more gets no reason.
    let closed = poll_fn(|context| connection.poll_closed(context));
    let _ = timeout(bounds::LINGER_TIME, closed).await;
}

/// The report on one connection: why it ends, and the requests that the h2 crate rejects.
struct ConnectionReport {
    shared: Arc<SharedState>,
    peer: Option<IpAddr>,
    secured: Option<Arc<TlsFacts>>,
    permit: ClientConnectionPermit,
    cancelled: Arc<CancelledStreams>,
    /// True if the reason of its end was logged.
    is_reported: AtomicBool,
    /// Notified when its client has sent too many frames that only make work.
    flooded: Notify,
}

impl ConnectionReport {
    /// Completes when the client has only caused work, and reports that: it has sent too many frames, or cancelled most requests.
    async fn abused(&self, cancelled: &CancelledStreams) {
        tokio::select! {
            () = self.flooded.notified() => {}
            () = cancelled.exceeded() => self.close_as_abusive("it cancelled most of its requests"),
        }
    }

    /// Reports that the connection is closed because its client only causes work.
    fn close_as_abusive(&self, why: &str) {
        if self.report_once(why) {
            self.shared.recorder.metrics.abuse.ended();
        }
    }

    /// Logs once why the connection is closed. Returns whether this call did.
    fn report_once(&self, why: &str) -> bool {
        // Relaxed: the first caller logs, and nothing else is published by it.
        let is_first = !self.is_reported.swap(true, Ordering::Relaxed);
        if is_first {
            let why = format_args!("its HTTP/2 connection is ended: {why}");
            self.shared.recorder.notices.tell(self.peer, &why);
        }
        is_first
    }
}

impl ReceiveWatch for Arc<ConnectionReport> {
    fn exceeds(&self, cap: BudgetCap, most: u64) {
        self.report_once(&format!(
            "frames of {} are not whole; max_received_bytes = {most}",
            cap.clients()
        ));
    }

    fn floods(&self) {
        self.close_as_abusive("it sends frames that carry neither requests nor data");
        self.flooded.notify_one();
    }
}

impl FrameWatch for Arc<ConnectionReport> {
    fn ends(&self, reason: u32) {
        match reason {
            NO_ERROR => {}
            ENHANCE_YOUR_CALM => {
                self.close_as_abusive("it resets streams or sends frames that only make work")
            }
            _ => {
                self.report_once("it broke the protocol");
            }
        }
    }

    fn record_malformed(&self) -> String {
        let arrived = clock::now();
        let request_id = RequestId::next();
        let snapshot = self.shared.snapshot();
        let client = |peer| identify(peer, &ReceivedFields::new(), &snapshot.rules.client);
        // The h2 crate keeps nothing of a request that it rejects.
        self.shared.record(&Outcome {
            client: self.peer.map(|peer| client(peer).address),
            client_places: snapshot.client_places.as_ref(),
            peer: self.peer,
            secured: self.secured.as_deref(),
            status: GatewayProblem::BadRequest(HttpViolation::Http2)
                .status()
                .as_u16(),
            reason: Some(HttpViolation::Http2.detail()),
            ..Outcome::rejected(arrived, request_id, "HTTP/2")
        });
        request_id.text().to_string()
    }

    fn flushed(&self) {
        // Its answers have left too.
        if self.cancelled.is_idle() {
            self.permit.wait();
        }
    }

    fn blocked(&self) {
        // One that is closed for another one ends anyway.
        let _ = self.permit.begin();
    }
}

/// The facts that the streams of a connection share.
struct ConnectionStreams {
    gateway: Gateway,
    facts: ConnectionFacts,
    caps: StreamCaps,
    window: Arc<ConnectionWindow>,
    cancelled: Arc<CancelledStreams>,
    sent: Arc<SentBytes>,
    shutdown: ShutdownWatch,
}

impl ConnectionStreams {
    /// Returns how long the connection may be without a stream.
    fn keepalive_timeout(&self) -> Duration {
        self.gateway.0.snapshot().rules.server.keepalive_timeout
    }

    /// Returns the account of the client of a stream with these fields: that of the connection, or of the client that a trusted proxy
    /// names.
    fn account(&self, fields: &HeaderMap) -> Cow<'_, ClientAccount> {
        let of_connection = &self.facts.account;
        let (true, Some(peer)) = (of_connection.is_exempt(), &self.facts.peer) else {
            return Cow::Borrowed(of_connection);
        };
        let shared = &self.gateway.0;
        let rules = &shared.snapshot().rules.client;
        let client = identify_in_map(peer.ip(), fields, rules).address;
        if of_connection.is_of(client) {
            return Cow::Borrowed(of_connection);
        }
        Cow::Owned(shared.accounts.find(client, rules))
    }

    /// Returns a permit for one more stream; `None` where its client, or all, have as many as may be.
    fn enter(&self, account: &ClientAccount) -> Option<StreamPermit> {
        let shared = &self.gateway.0;
        let entered = (shared.client_streams).enter(account, self.caps);
        let log = |cap: &BudgetCap| {
            let name = ClientStreams::KEYS[*cap as usize];
            let most = self.caps.value(*cap);
            self.log_refused(&format_args!("{name} = {most}"), account);
        };
        entered.inspect_err(log).ok()
    }

    /// Serves the call of one stream, whose message has this window.
    async fn serve_call(
        &self,
        request: Request<RecvStream>,
        respond: SendResponse<Bytes>,
        window: Option<BodyWindow>,
    ) {
        let call = (request, respond, window);
        grpc::serve(&self.gateway, &self.facts, &self.shutdown, call).await;
    }

    /// Reserves memory for what the client may send ahead of this body, if any; `None` where there is no room.
    fn reserve(
        &self,
        body: &RecvStream,
        fields: &HeaderMap,
        account: &ClientAccount,
    ) -> Option<Option<BodyWindow>> {
        if body.is_end_stream() {
            return Some(None);
        }
        // The h2 crate rejects other bytes than the announced ones.
        let announced = fields.get(CONTENT_LENGTH);
        let announced = announced.and_then(|length| length.to_str().ok()?.parse().ok());
        let is_named = !std::ptr::eq(account, &self.facts.account);
        let named = is_named.then_some(account);
        let reserved = self.window.reserve(announced, named);
        let log = |cap: &BudgetCap| {
            let whose = cap.clients();
            let most = self.window.most();
            let why = format_args!("bodies of {whose} are sent ahead; max_received_bytes = {most}");
            self.log_refused(&why, account);
        };
        reserved.inspect_err(log).ok()
    }

    /// Reports in the process log why a stream of the client with this account is refused.
    fn log_refused(&self, why: &dyn Display, account: &ClientAccount) {
        let peer = self.facts.peer.as_ref().map(PeerAddress::ip);
        let notices = &self.gateway.0.recorder.notices;
        if self.facts.account.is_exempt() {
            let why = format_args!("its HTTP/2 stream for client {account} is refused: {why}");
            notices.tell(peer, &why);
        } else {
            notices.tell(peer, &format_args!("its HTTP/2 stream is refused: {why}"));
        }
    }

    /// Serves the request of one stream of the client with this account, whose body has this window.
    async fn serve(
        &self,
        request: Request<RecvStream>,
        respond: SendResponse<Bytes>,
        (account, window): (ClientAccount, Option<BodyWindow>),
    ) {
        let (head, body) = request.into_parts();
        let head = ReceivedHead::from(head);
        let decided = self
            .gateway
            .decide_stream(head, body.is_end_stream(), &self.facts);
        let patience = decided.server_rules().client_write_timeout;
        let announced = decided.body_length();
        let mut client = Http2Stream::new((body, respond, window), account, announced, patience);
        client.sent = Some(Arc::clone(&self.sent));
        self.gateway
            .serve_request(decided, &mut client, &self.shutdown)
            .await;
    }
}

/// Returns the settings and bounds of a new connection.
fn options(rules: &ServerRules) -> Builder {
    let mut options = Builder::new();
    options
        .max_concurrent_streams(rules.http2.max_streams)
        // A longer head is answered with 431 without being kept.
        .max_header_list_size(u32::try_from(rules.max_header_bytes).unwrap_or(u32::MAX))
        .initial_window_size(bounds::CLIENT_STREAM_WINDOW)
        .initial_connection_window_size(bounds::CLIENT_CONNECTION_WINDOW)
        .max_send_buffer_size(bounds::CLIENT_SEND_BUFFER)
        .max_concurrent_reset_streams(bounds::ENDED_STREAMS)
        .max_pending_accept_reset_streams(bounds::CLIENT_RESET_STREAMS)
        .max_local_error_reset_streams(Some(bounds::CLIENT_BROKEN_STREAMS));
    options
}
