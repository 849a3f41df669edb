//! Drives one connection: passes what QUIC says to HTTP/3, begins the requests that come, and sends what is ready.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use pingora::server::ShutdownWatch;
use quinn_proto::{
    ConnectionError, ConnectionHandle, Dir, Event, StreamEvent as QuicEvent, Transmit,
};
use sluicegate_base::{bounds, clock};
use sluicegate_decide::client::PeerAddress;
use sluicegate_decide::response::GatewayProblem;
use sluicegate_http3::{ErrorCode, RequestHead, RuleViolation, StreamEnd, StreamId};
use tokio::time::Instant;

use super::connection_deadlines::{ConnectionDeadlines, LateAnswer};
use super::connection_wait::ConnectionWait;
use super::endpoint::{HandshakePlace, Http3Endpoint};
use super::socket::{DatagramSocket, SendOutcome, WritableWait, poll_wait};
use super::stream_handle::Http3Handle;
use super::streams::{QuicStreams, RequestEvent, stream_id};
use super::{quic_now, report};
use crate::gateway::UnreadableHead;
use crate::listener::http2::{MALFORMED, StreamContext, StreamIo, received_head};
use sluicegate_budgets::{BytesPermit, ClientConnectionPermit};
use sluicegate_record::{HandshakeFailure, HandshakeKind, InFlight, TlsVersion};
use sluicegate_transport::reusable_timeout::ReusableTimeout;
use sluicegate_transport::timer;

/// Transmissions after which other tasks of the thread have their turn.
const TRANSMISSIONS_A_TURN: usize = 32;
/// The round trips after which a client has read GOAWAY: its way, and twice as much for a loss.
const DRAIN_ROUND_TRIPS: u32 = 3;

/// The task of one connection.
pub(super) struct QuicDriver {
    endpoint: Arc<Http3Endpoint>,
    handle: ConnectionHandle,
    streams: Arc<QuicStreams>,
    /// The address that the handshake proves, whatever packets say later.
    peer: SocketAddr,
    /// Its place among the handshakes, until that is complete; where it fails, until the task ends.
    handshake: Option<HandshakePlace>,
    /// The state behind the handshake; `None` before it is complete, and when the connection has ended.
    established: Option<ProvenConnection>,
    /// The state of a connection that has ended, until the task ends and with it the memory of QUIC.
    closing: Option<ProvenConnection>,
    deadlines: ConnectionDeadlines,
    timeout: ReusableTimeout,
    transmit: PendingTransmit,
    /// The PATH_RESPONSE frames that had come when the client was first seen elsewhere.
    moved: Option<u64>,
    is_draining: bool,
    shutdown: ShutdownWatch,
}

/// The state of a connection whose handshake is complete.
struct ProvenConnection {
    permit: ClientConnectionPermit,
    context: Arc<StreamContext>,
    /// The server's control stream; `None` before the client has granted one.
    control: Option<quinn_proto::StreamId>,
    /// The reservation for heads that are not whole.
    held: Option<BytesPermit>,
    /// The reservation for what the client may send ahead, once it has sent a body.
    window: Option<BytesPermit>,
    /// The count by which the end of the process waits for answers that were not acknowledged.
    in_flight: Option<InFlight>,
}

/// The transmission that the system had no room for.
#[derive(Default)]
struct PendingTransmit {
    bytes: Vec<u8>,
    transmit: Option<Transmit>,
    wait: Option<WritableWait>,
}

impl QuicDriver {
    /// Returns the task of a connection whose handshake begins.
    pub(super) fn new(
        endpoint: Arc<Http3Endpoint>,
        handle: ConnectionHandle,
        streams: Arc<QuicStreams>,
        peer: SocketAddr,
        handshake: HandshakePlace,
        shutdown: ShutdownWatch,
    ) -> Self {
        let mut deadlines = ConnectionDeadlines::default();
        deadlines.handshake = Some(timer::deadline(bounds::HANDSHAKE_TIME));
        Self {
            endpoint,
            handle,
            streams,
            peer,
            handshake: Some(handshake),
            established: None,
            closing: None,
            deadlines,
            timeout: ReusableTimeout::default(),
            transmit: PendingTransmit::default(),
            moved: None,
            is_draining: false,
            shutdown,
        }
    }

    /// Serves until the connection ends.
    pub(super) async fn serve(mut self) {
        let mut shutdown = self.shutdown.clone();
        loop {
            tokio::select! {
                biased;
                () = std::future::poll_fn(|context| self.poll_serve(context)) => break,
                changed = shutdown.changed(), if !self.is_draining => match changed {
                    Ok(()) => self.drain(),
                    // The process has ended.
                    Err(_) => break,
                },
            }
        }
    }

    fn poll_serve(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let streams = Arc::clone(&self.streams);
        streams.lock().set_driver(context);
        if let Some(established) = &self.established
            && established.permit.poll_reclaimed(context).is_ready()
        {
            self.close_at_once();
        }
        self.pass_timers();
        while let Some(event) = streams.take_quic_event() {
            self.act(event);
        }
        self.act_on_streams();
        self.follow_path();
        self.charge_held_back();
        self.update_wait();
        self.write_control();
        self.exchange_with_endpoint();
        self.poll_transmit(context);
        if self.is_over() {
            return Poll::Ready(());
        }
        self.wait_for_timers(context);
        Poll::Pending
    }

    /// Returns whether nothing more of the connection is to come, or has had the time to.
    fn is_over(&self) -> bool {
        let now = timer::deadline(Duration::ZERO);
        let is_closed = self.deadlines.closed.is_some_and(|at| at <= now);
        is_closed || self.streams.lock().quic.is_drained()
    }

    /// Acts on the times that have passed.
    fn pass_timers(&mut self) {
        let now = timer::deadline(Duration::ZERO);
        let mut state = self.streams.lock();
        if state
            .quic
            .poll_timeout()
            .is_some_and(|at| at <= now.into_std())
        {
            state.quic.handle_timeout(now.into_std());
        }
        state.end_waits_for_credit(now);
        drop(state);
        if self.deadlines.next().is_some_and(|at| at <= now) {
            self.pass_deadlines(now);
        }
    }

    /// Wakes the task at the next of its times.
    fn wait_for_timers(&mut self, context: &mut Context<'_>) {
        let mut state = self.streams.lock();
        let quic = state.quic.poll_timeout().map(Instant::from_std);
        let credit = state.next_wait_for_credit();
        drop(state);
        let times = [quic, credit, self.deadlines.next()];
        let next = times.into_iter().flatten().min();
        if let Some(next) = next
            && self.timeout.is_over(next, context)
        {
            context.waker().wake_by_ref();
        }
    }

    fn pass_deadlines(&mut self, now: Instant) {
        let is_over = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
        if is_over(self.deadlines.handshake) {
            self.deadlines.handshake = None;
            self.fail_handshake(HandshakeFailure::TimedOut);
            self.close(ErrorCode::NO_ERROR);
        }
        if is_over(self.deadlines.idle) {
            self.deadlines.idle = None;
            match self.is_draining {
                true => self.close(ErrorCode::NO_ERROR),
                // A request may be on its way.
                false => self.drain(),
            }
        }
        if is_over(self.deadlines.ping) {
            self.deadlines.ping = None;
            self.streams.lock().quic.ping();
        }
        match self.take_late_answer(now) {
            None => {}
            Some(LateAnswer::Slow(stream)) => self.streams.lock().give_up(stream),
            Some(LateAnswer::Silent) => self.close(ErrorCode::NO_ERROR),
        }
        if is_over(self.deadlines.drain) {
            self.deadlines.drain = None;
            let mut state = self.streams.lock();
            state.http.finish_drain();
            // Once GOAWAY has gone, the connection is looked at again.
            state.wake_driver();
        }
        while let Some(stream) = self.deadlines.take_late_stream(now) {
            self.streams.lock().end_late(stream);
        }
    }

    fn take_late_answer(&mut self, now: Instant) -> Option<LateAnswer> {
        let patience = self.endpoint.write_patience();
        let mut state = self.streams.lock();
        let acknowledgments = state.acknowledgments();
        let is_kept = |stream| state.is_kept(stream);
        (self.deadlines).take_late_answer(now, patience, acknowledgments, is_kept)
    }

    /// Acts on an event of QUIC.
    fn act(&mut self, event: Event) {
        match event {
            Event::Connected => self.establish(),
            Event::ConnectionLost { reason } => self.lose(&reason),
            Event::Stream(event) => self.act_on_stream(event),
            // Datagrams of RFC 9221 are not offered.
            Event::HandshakeDataReady | Event::DatagramReceived | Event::DatagramsUnblocked => {}
        }
    }

    fn act_on_stream(&mut self, event: QuicEvent) {
        let mut state = self.streams.lock();
        match event {
            QuicEvent::Opened { dir } => {
                let patience = self.endpoint.head_patience();
                while let Some(id) = state.quic.streams().accept(dir) {
                    let stream = stream_id(id);
                    state.open(stream);
                    if state.http.awaits_beginning(stream) {
                        self.deadlines.await_beginning(stream, patience);
                    }
                }
            }
            QuicEvent::Readable { id } => state.become_readable(stream_id(id)),
            QuicEvent::Writable { id } => state.become_writable(stream_id(id)),
            QuicEvent::Stopped { id, error_code } => {
                state.become_stopped(stream_id(id), error_code.into_inner());
            }
            QuicEvent::Finished { id } => self.deadlines.forget_answer(stream_id(id)),
            // Another stream of the server is not needed.
            QuicEvent::Available { .. } => {}
        }
    }

    /// Begins HTTP/3: the client has proved its address.
    fn establish(&mut self) {
        self.deadlines.handshake = None;
        (self.endpoint.handshakes()).succeeded(HandshakeKind::Quic, TlsVersion::Tls13);
        let session = {
            let state = self.streams.lock();
            self.endpoint.tls_facts(state.quic.crypto_session())
        };
        let Some(established) = session.and_then(|secured| {
            let peer = Some(PeerAddress::new(self.peer));
            (self.endpoint).establish(peer, secured, &self.shutdown)
        }) else {
            return self.close(ErrorCode::EXCESSIVE_LOAD);
        };
        self.handshake = None;
        let (permit, context) = established;
        permit.wait();
        self.established = Some(ProvenConnection {
            permit,
            context,
            control: None,
            held: None,
            window: None,
            in_flight: None,
        });
    }

    /// Ends what the connection holds when it is lost.
    fn lose(&mut self, reason: &ConnectionError) {
        self.fail_handshake(report::handshake_failure(reason));
        self.end();
    }

    /// Counts the handshake as failed, if it was not complete, once. Its place stays taken as long as QUIC holds memory for it, so that a
    /// client that breaks handshakes off gets no more of them than one that lets them wait.
    fn fail_handshake(&self, failure: HandshakeFailure) {
        if self.handshake.is_some() && self.deadlines.closed.is_none() {
            self.endpoint.handshakes().failed(failure);
        }
    }

    /// Ends the connection but for its place, or permit: QUIC answers what still comes of it, RFC 9000 §10.2, for a time that depends on
    /// no round trip, since a client can make those as long as it likes.
    fn end(&mut self) {
        if self.deadlines.closed.is_some() {
            return;
        }
        self.streams.lock().end_requests();
        if let Some(established) = self.established.take() {
            // It ends by itself, whether or not it was closed for another one.
            let _ = established.permit.begin();
            self.closing = Some(ProvenConnection {
                in_flight: None,
                ..established
            });
        }
        self.deadlines = ConnectionDeadlines::default();
        self.deadlines.closed = Some(timer::deadline(bounds::LINGER_TIME));
    }

    /// Ends a connection that is closed for another one, and its memory as soon as the reason was sent.
    fn close_at_once(&mut self) {
        self.close(ErrorCode::NO_ERROR);
        self.deadlines.closed = Some(timer::deadline(Duration::ZERO));
    }

    /// Ends the connection with this code.
    fn close(&mut self, code: ErrorCode) {
        self.streams.lock().close(code);
        self.end();
    }

    /// Asks the client to begin no more requests here, RFC 9114 §5.2.
    fn drain(&mut self) {
        self.is_draining = true;
        let mut state = self.streams.lock();
        state.http.drain();
        let round_trips = state.quic.rtt().saturating_mul(DRAIN_ROUND_TRIPS);
        let notice = round_trips.clamp(bounds::HTTP3_LEAST_GOAWAY_TIME, bounds::HTTP3_GOAWAY_TIME);
        self.deadlines.drain = Some(timer::deadline(notice));
        self.deadlines.idle = None;
        state.wake_driver();
    }

    /// Acts on what came on streams.
    fn act_on_streams(&mut self) {
        while let Some(event) = self.streams.take_event() {
            match event {
                RequestEvent::Request { stream, head } => self.begin(stream, head),
                RequestEvent::Malformed(stream, RuleViolation::FieldListSize) => {
                    self.answer_malformed(stream, GatewayProblem::HeadTooLarge);
                }
                RequestEvent::Malformed(stream, _) => self.answer_malformed(stream, MALFORMED),
                RequestEvent::Closed(rule) => {
                    report::broke(self.endpoint.shared(), self.peer_ip(), rule);
                    self.close(rule.code());
                }
            }
        }
    }

    /// Begins a request.
    fn begin(&mut self, stream: StreamId, head: RequestHead) {
        // One that is answered at once is over before the connection is looked at again.
        self.deadlines.idle = None;
        let handle = Http3Handle::new(&self.streams, stream);
        let Some(established) = &mut self.established else {
            return handle.refuse();
        };
        if !established.permit.begin() {
            handle.refuse();
            return self.close_at_once();
        }
        let context = &established.context;
        let Some(head) = received_head(head, http::Version::HTTP_3) else {
            return context.answer_malformed(handle, MALFORMED, UnreadableHead::Http3);
        };
        // The end may have come behind the head, as behind a frame of an unknown kind.
        let end = match self.streams.lock().expects_body(stream) {
            true => StreamEnd::NotYet,
            false => StreamEnd::Here,
        };
        if let Some(entered) = context.enter_stream(handle, &head, end) {
            if entered.has_window() && established.window.is_none() {
                let account = &context.facts.account;
                established.window = self.endpoint.reserve_window(account);
                if established.window.is_some() {
                    self.streams.lock().widen_window();
                }
            }
            context.serve(entered, head, end);
        }
    }

    fn answer_malformed(&self, stream: StreamId, problem: GatewayProblem) {
        let handle = Http3Handle::new(&self.streams, stream);
        match &self.established {
            Some(established) => {
                let context = &established.context;
                context.answer_malformed(handle, problem, UnreadableHead::Http3);
            }
            None => handle.refuse(),
        }
    }

    /// Asks the client to go on over a new connection where it answers at another IP address than that of its handshake.
    fn follow_path(&mut self) {
        let state = self.streams.lock();
        if state.quic.remote_address().ip() == self.peer.ip() {
            self.moved = None;
            return;
        }
        // RFC 9000 §8.2: the answer to a challenge comes from a client that reads there. Any other answer is counted too, and a client that
        // makes one up asks itself to come again.
        let answers = state.quic.stats().frame_rx.path_response;
        let before = *self.moved.get_or_insert(answers);
        drop(state);
        if answers > before && !self.is_draining {
            self.drain();
        }
    }

    /// Charges the heads that are not whole.
    fn charge_held_back(&mut self) {
        let Some(established) = &mut self.established else {
            return;
        };
        let held = self.streams.lock().http.held_back() as u64;
        if held <= bounds::UNCHARGED_BODY {
            established.held = None;
            return;
        }
        if let Some(permit) = &mut established.held {
            permit.shrink(held);
        }
        let shared = self.endpoint.shared();
        let configured = shared
            .snapshot()
            .compiled
            .rules
            .server
            .defence
            .max_received_bytes;
        let account = &established.context.facts.account;
        let charged = (shared.received).extend(&mut established.held, account, held, configured);
        if charged.is_err() {
            report::exceeds(shared, self.peer_ip());
            self.close(ErrorCode::EXCESSIVE_LOAD);
        }
    }

    /// Sets the times by which the client has to act next, and ends a connection that has drained.
    fn update_wait(&mut self) {
        let Some(established) = &mut self.established else {
            return;
        };
        let mut state = self.streams.lock();
        let http = &state.http;
        self.deadlines
            .forget_begun(|stream| !http.awaits_beginning(stream));
        // The last GOAWAY was given to QUIC by an earlier poll, so it was sent.
        let is_drained = http.is_drained() && http.control_output().is_empty();
        let wait = state.wait(usize::from(established.control.is_some()));
        for stream in state.take_answered() {
            let patience = self.endpoint.write_patience();
            let acknowledgments = state.acknowledgments();
            let is_kept = |stream| state.is_kept(stream);
            (self.deadlines).await_acknowledgment(stream, patience, acknowledgments, is_kept);
        }
        drop(state);
        let endpoint = &self.endpoint;
        let deadlines = &mut self.deadlines;
        if wait != ConnectionWait::Request {
            deadlines.idle = None;
        }
        if wait != ConnectionWait::Answer {
            deadlines.ping = None;
        } else if deadlines.ping.is_none() {
            deadlines.ping = Some(timer::deadline(endpoint.ping_interval()));
        }
        // The end of the process waits for requests alone, and these are over.
        let is_awaited = self.is_draining && wait == ConnectionWait::Acknowledgment;
        established.in_flight = match (is_awaited, established.in_flight.take()) {
            (true, None) => Some(endpoint.shared().recorder.metrics.in_flight()),
            (true, in_flight) => in_flight,
            (false, _) => None,
        };
        match wait {
            ConnectionWait::Answer | ConnectionWait::Acknowledgment => {}
            ConnectionWait::Head => established.permit.wait_for_rest(clock::now()),
            ConnectionWait::Request => {
                established.permit.wait();
                if is_drained {
                    return self.close(ErrorCode::NO_ERROR);
                }
                // A client that was asked to begin no more requests has the time to read that first.
                if deadlines.idle.is_none() && deadlines.drain.is_none() {
                    let patience = match self.is_draining {
                        true => bounds::LINGER_TIME,
                        false => endpoint.idle_patience(),
                    };
                    deadlines.idle = Some(timer::deadline(patience));
                }
            }
        }
    }

    /// Gives QUIC what waits for the control stream.
    fn write_control(&mut self) {
        let Some(established) = &mut self.established else {
            return;
        };
        let mut state = self.streams.lock();
        let state = &mut *state;
        if established.control.is_none() {
            established.control = state.quic.streams().open(Dir::Uni);
        }
        let Some(control) = established.control else {
            return;
        };
        let waiting = state.http.control_output();
        if !waiting.is_empty() {
            let written = state.quic.send_stream(control).write(waiting);
            state
                .http
                .advance_control_output(written.unwrap_or_default());
        }
    }

    /// Passes on what QUIC's connection says to its endpoint, and back.
    fn exchange_with_endpoint(&mut self) {
        let mut state = self.streams.lock();
        while let Some(event) = state.quic.poll_endpoint_events() {
            // The end of the task says so, once, whichever way it ends.
            if event.is_drained() {
                continue;
            }
            if let Some(answer) = self.endpoint.handle_event(self.handle, event) {
                state.quic.handle_event(answer);
            }
        }
    }

    /// Sends what is ready, as far as the system has room.
    fn poll_transmit(&mut self, context: &mut Context<'_>) {
        let socket = Arc::clone(self.endpoint.socket());
        let most = socket.sent_at_once();
        for _ in 0..TRANSMISSIONS_A_TURN {
            let pending = &mut self.transmit;
            if poll_wait(&mut pending.wait, context).is_pending() {
                return;
            }
            if pending.transmit.is_none() {
                pending.bytes.clear();
                let mut state = self.streams.lock();
                let quic = &mut state.quic;
                pending.transmit = quic.poll_transmit(quic_now(), most, &mut pending.bytes);
            }
            let Some(transmit) = &pending.transmit else {
                return;
            };
            match socket.try_send(transmit, &pending.bytes) {
                SendOutcome::Gone => pending.transmit = None,
                SendOutcome::Waits => pending.wait = Some(DatagramSocket::writable(&socket)),
            }
        }
        context.waker().wake_by_ref();
    }

    fn peer_ip(&self) -> IpAddr {
        self.peer.ip().to_canonical()
    }
}

impl Drop for QuicDriver {
    fn drop(&mut self) {
        let mut state = self.streams.lock();
        // The tasks of its requests learn that the client has left, and a client that is cut off learns the reason.
        state.close(ErrorCode::NO_ERROR);
        let mut bytes = Vec::new();
        if let Some(transmit) = state.quic.poll_transmit(quic_now(), 1, &mut bytes) {
            self.endpoint.socket().try_send(&transmit, &bytes);
        }
        drop(state);
        self.endpoint.forget(self.handle);
    }
}
