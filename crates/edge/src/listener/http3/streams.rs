//! Owns what the task of a connection shares with those of its requests: the state machines of QUIC and HTTP/3, and for each request the
//! bytes that came for it and the task that waits for them.
//!
//! A body is read from QUIC when its request takes it, and QUIC grants the client as many bytes as were read. So a few pieces are kept
//! here.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::Duration;

use bytes::Bytes;
use quinn_proto::{ConnectionEvent as QuicConnectionEvent, ReadError, WriteError};
use sluicegate_base::{bounds, clock};
use sluicegate_http3::{
    ConnectionEvent, ErrorCode, RequestHead, RuleViolation, ServerConnection, StreamAction,
    StreamEnd, StreamId, StreamKind,
};
use tokio::time::Instant;

use super::foreign_datagrams::ForeignDatagrams;
use super::quic_now;
use super::small_credits::SmallCredits;
use super::transport::error_code;
use crate::listener::http2::{BodyInput, ReceivedBody};
use sluicegate_transport::task_waker::TaskWaker;
use sluicegate_transport::timer;

/// Bytes that are read from QUIC at once: half of [`bounds::HTTP3_BODY_AHEAD`].
const PIECE: usize = 16 * 1024;
/// Bytes of an answer that QUIC takes at once, unless its client grants few.
const LEAST_CREDIT: usize = 1024;

/// The streams of one connection.
pub(super) struct QuicStreams(Mutex<QuicState>);

/// The state behind the lock.
pub(super) struct QuicState {
    pub(super) quic: quinn_proto::Connection,
    pub(super) http: ServerConnection,
    /// The address of the handshake.
    peer: IpAddr,
    foreign: ForeignDatagrams,
    /// The requests that are served, with what came of their bodies.
    open: BTreeMap<StreamId, BodyInput>,
    /// The answers that go on later, since the client grants few bytes at once.
    small_credits: SmallCredits,
    /// The events that the task of the connection acts on.
    events: VecDeque<RequestEvent>,
    /// The task of the connection.
    driver: TaskWaker,
    /// The streams whose answers QUIC was given whole, or broke off, since the driver looked.
    answered: Vec<StreamId>,
}

/// An event of a client that its connection acts on.
pub(super) enum RequestEvent {
    /// A request begins.
    Request { stream: StreamId, head: RequestHead },
    /// The head of a request breaks a rule.
    Malformed(StreamId, RuleViolation),
    /// The connection ends, since the client broke a rule.
    Closed(RuleViolation),
}

/// The room that QUIC has for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputRoom {
    /// It has taken all that waited.
    Some,
    /// It takes no more for now.
    None,
}

impl QuicStreams {
    /// Returns the streams of a connection that has none.
    pub(super) fn new(
        peer: IpAddr,
        quic: quinn_proto::Connection,
        http: ServerConnection,
    ) -> Arc<Self> {
        Arc::new(Self(Mutex::new(QuicState {
            quic,
            http,
            peer,
            foreign: ForeignDatagrams::new(timer::deadline(Duration::ZERO)),
            open: BTreeMap::new(),
            small_credits: SmallCredits::default(),
            events: VecDeque::new(),
            driver: TaskWaker::default(),
            answered: Vec::new(),
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, QuicState> {
        // Nothing panics under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next event of QUIC.
    pub(super) fn take_quic_event(&self) -> Option<quinn_proto::Event> {
        self.lock().quic.poll()
    }

    /// Takes the next event of a request.
    pub(super) fn take_event(&self) -> Option<RequestEvent> {
        self.lock().events.pop_front()
    }
}

impl QuicState {
    /// Passes on a datagram of so many bytes, unless QUIC would send its source much more than that, which did not ask.
    pub(super) fn receive(&mut self, event: QuicConnectionEvent, source: SocketAddr, bytes: usize) {
        // Another port of an address that the connection has moved to is as unknown as any.
        let is_known = source.ip() == self.peer || source == self.quic.remote_address();
        let now = timer::deadline(Duration::ZERO);
        if is_known || self.foreign.admits(bytes, now) {
            self.quic.handle_event(event);
            self.wake_driver();
        }
    }

    /// Notes the task of the connection, which streams and datagrams wake.
    pub(super) fn set_driver(&mut self, context: &Context<'_>) {
        self.driver.wait(context);
    }

    /// Wakes the task of the connection.
    pub(super) fn wake_driver(&self) {
        self.driver.wake_again();
    }

    /// Returns the number of requests that are served.
    pub(super) fn served(&self) -> usize {
        self.open.len()
    }

    /// Takes the streams whose answers QUIC was given whole, or broke off.
    pub(super) fn take_answered(&mut self) -> Vec<StreamId> {
        mem::take(&mut self.answered)
    }

    /// Returns whether QUIC keeps some of an answer, since the client has not acknowledged all of it.
    pub(super) fn is_kept(&mut self, stream: StreamId) -> bool {
        self.quic.send_stream(quic_id(stream)).priority().is_ok()
    }

    /// Gives up an answer that the client does not acknowledge.
    pub(super) fn give_up(&mut self, stream: StreamId) {
        let code = ErrorCode::REQUEST_CANCELLED;
        self.http.give_up(stream, code);
        self.apply_actions();
        // HTTP/3 may have forgotten it.
        let code = error_code(code.number());
        let _ = self.quic.send_stream(quic_id(stream)).reset(code);
    }

    /// Returns the number of acknowledgments that have come.
    pub(super) fn acknowledgments(&self) -> u64 {
        self.quic.stats().frame_rx.acks
    }

    /// Returns whether bytes of a request's body are there, or follow.
    pub(super) fn expects_body(&self, stream: StreamId) -> bool {
        let open = self.open.get(&stream);
        open.is_some_and(|open| match open.state() {
            ReceivedBody::Open | ReceivedBody::Malformed => true,
            ReceivedBody::Whole => open.untaken() > 0,
            ReceivedBody::Gone => false,
        })
    }

    /// Returns a request that is served.
    pub(super) fn stream(&mut self, stream: StreamId) -> Option<&mut BodyInput> {
        self.open.get_mut(&stream)
    }

    /// Grants the client more bytes ahead, which are reserved for it.
    pub(super) fn widen_window(&mut self) {
        (self.quic).set_receive_window(bounds::HTTP3_WINDOW.into());
    }

    /// Ends a stream whose beginning did not come in time.
    pub(super) fn end_late(&mut self, stream: StreamId) {
        self.http.end_late(stream);
        self.apply_actions();
    }

    /// Goes on with answers that have waited for more credit.
    pub(super) fn end_waits_for_credit(&mut self, now: Instant) {
        for stream in self.small_credits.take_over(now) {
            self.become_writable(stream);
        }
    }

    /// Returns the time at which an answer goes on that waits for more credit.
    pub(super) fn next_wait_for_credit(&self) -> Option<Instant> {
        self.small_credits.next()
    }

    /// Removes a request, whose task has ended, and ends its stream with this code where its answer is not whole.
    pub(super) fn remove(&mut self, stream: StreamId, code: ErrorCode) {
        let is_answered = self.http.is_answered(stream);
        self.http.abandon(stream, code);
        let removed = self.open.remove(&stream);
        if is_answered && removed.is_some_and(|open| open.state() != ReceivedBody::Gone) {
            self.answered.push(stream);
        }
        self.write(stream);
        self.apply_actions();
        // Its last bytes wait, or the connection has no request any more.
        self.wake_driver();
    }

    /// Begins a stream that the client has opened.
    pub(super) fn open(&mut self, stream: StreamId) {
        if let Some(ConnectionEvent::Closed(violation)) =
            self.http.open(stream, clock::now_since_epoch())
        {
            self.events.push_back(RequestEvent::Closed(violation));
        }
        self.read(stream);
        self.apply_actions();
    }

    /// Acts on bytes, or the end, that QUIC has for a stream. Those of a body wait for its request.
    pub(super) fn become_readable(&mut self, stream: StreamId) {
        let Some(open) = self.open.get_mut(&stream) else {
            self.read(stream);
            self.apply_actions();
            return;
        };
        open.wake();
        // A client that leaves is noticed before its body is read.
        let id = quic_id(stream);
        if let Ok(Some(code)) = self.quic.recv_stream(id).received_reset() {
            self.note_reset(stream, code.into_inner());
        }
        self.apply_actions();
    }

    /// Acts on the wish of the client that a stream sends no more.
    pub(super) fn become_stopped(&mut self, stream: StreamId, code: u64) {
        let event = self.http.receive_stop(stream, ErrorCode::from_number(code));
        if let Some(event) = event {
            note(event, &mut self.open, &mut self.events);
        }
        self.apply_actions();
    }

    /// Reads what QUIC has of a stream, up to a few pieces of a body that nobody has taken.
    fn read(&mut self, stream: StreamId) {
        let mut received = self.quic.recv_stream(quic_id(stream));
        // One that is over there has nothing more.
        let Ok(mut chunks) = received.read(true) else {
            return;
        };
        let mut reader = StreamReader {
            http: &mut self.http,
            open: &mut self.open,
            events: &mut self.events,
            stream,
            now: clock::now_since_epoch(),
        };
        let mut next = chunks.next(PIECE);
        while let Ok(Some(chunk)) = next {
            // The piece behind it shows whether the stream ends with this one, so that a request without a body is known for it.
            let following = match reader.is_full() {
                true => Err(ReadError::Blocked),
                false => chunks.next(PIECE),
            };
            let end = match following {
                Ok(None) => StreamEnd::Here,
                _ => StreamEnd::NotYet,
            };
            reader.deliver(&chunk.bytes, end);
            next = following;
        }
        if let Ok(None) = next {
            // Once more is the same: it has ended.
            reader.deliver(&[], StreamEnd::Here);
        }
        let grants = chunks.finalize().should_transmit();
        if let Err(ReadError::Reset(code)) = next {
            self.note_reset(stream, code.into_inner());
        }
        if grants {
            self.wake_driver();
        }
    }

    /// Reads what QUIC has of a stream, as the task of its request asks for. What the connection acts on, or sends, wakes its task.
    pub(super) fn read_for_request(&mut self, stream: StreamId) {
        self.read(stream);
        let applied = self.apply_actions();
        if applied > 0 || !self.events.is_empty() {
            self.wake_driver();
        }
    }

    fn note_reset(&mut self, stream: StreamId, code: u64) {
        let event = self
            .http
            .receive_reset(stream, ErrorCode::from_number(code));
        if let Some(event) = event {
            note(event, &mut self.open, &mut self.events);
        }
    }

    /// Gives QUIC the heads of an answer that wait, and the end.
    pub(super) fn write(&mut self, stream: StreamId) -> OutputRoom {
        let id = quic_id(stream);
        loop {
            let output = self.http.output(stream);
            if output.is_empty() {
                break;
            }
            if self.small_credits.has(stream) {
                return OutputRoom::None;
            }
            match self.quic.send_stream(id).write(output) {
                Ok(bytes) => {
                    let offered = output.len();
                    self.http.advance_output(stream, bytes);
                    self.note_written(stream, bytes, offered);
                }
                Err(WriteError::Blocked) => return OutputRoom::None,
                // QUIC reports it as an event, too.
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => return OutputRoom::None,
            }
        }
        if self.http.take_finish(stream) && self.quic.send_stream(id).finish().is_err() {
            // The client has stopped it, and HTTP/3 has forgotten the stream. QUIC keeps it until it ends.
            let code = error_code(ErrorCode::REQUEST_CANCELLED.number());
            let _ = self.quic.send_stream(id).reset(code);
            self.answered.push(stream);
        }
        OutputRoom::Some
    }

    /// Gives QUIC bytes of a body. Returns how many it has taken.
    pub(super) fn write_body(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        // QUIC would send a frame without a byte.
        if bytes.is_empty() || self.small_credits.has(stream) {
            return 0;
        }
        let written = self.quic.send_stream(quic_id(stream)).write(bytes);
        // Where it is blocked, QUIC says when it is not.
        let Ok(taken) = written else {
            return 0;
        };
        self.http.advance_data(stream, taken);
        self.note_written(stream, taken, bytes.len());
        taken
    }

    /// Notes how many of the bytes of an answer QUIC took, which were `offered` to it.
    fn note_written(&mut self, stream: StreamId, taken: usize, offered: usize) {
        if taken < offered.min(LEAST_CREDIT) {
            self.small_credits.wait(stream);
            // Its timers have changed.
            self.wake_driver();
        }
    }

    /// Goes on with an answer for which QUIC has room again.
    pub(super) fn become_writable(&mut self, stream: StreamId) {
        if stream.kind() == StreamKind::Request && !self.small_credits.has(stream) {
            self.write(stream);
            if let Some(open) = self.open.get_mut(&stream) {
                open.wake();
            }
        }
    }

    /// Does with the streams of QUIC as HTTP/3 demands. Returns the number of these acts.
    fn apply_actions(&mut self) -> usize {
        let mut applied = 0;
        while let Some(action) = self.http.take_action() {
            // What is over already needs nothing.
            let _ = match action {
                StreamAction::Stop { stream, code } => {
                    let code = error_code(code.number());
                    self.quic.recv_stream(quic_id(stream)).stop(code)
                }
                StreamAction::Reset { stream, code } => {
                    // QUIC keeps the stream until the client has acknowledged its end.
                    self.answered.push(stream);
                    let code = error_code(code.number());
                    self.quic.send_stream(quic_id(stream)).reset(code)
                }
                StreamAction::Prioritize { stream, priority } => {
                    let urgency = -i32::from(priority.urgency);
                    self.quic.send_stream(quic_id(stream)).set_priority(urgency)
                }
            };
            applied += 1;
        }
        applied
    }

    /// Closes the connection with this code, which ends all requests.
    pub(super) fn close(&mut self, code: ErrorCode) {
        let code = error_code(code.number());
        self.quic.close(quic_now(), code, Bytes::new());
        self.end_requests();
    }

    /// Ends all requests: their tasks learn that the client has left.
    pub(super) fn end_requests(&mut self) {
        self.http.close();
        for open in self.open.values_mut() {
            open.become_state(ReceivedBody::Gone);
        }
    }
}

/// The parts of the state that act on bytes of one stream.
struct StreamReader<'a> {
    http: &'a mut ServerConnection,
    open: &'a mut BTreeMap<StreamId, BodyInput>,
    events: &'a mut VecDeque<RequestEvent>,
    stream: StreamId,
    now: Duration,
}

impl StreamReader<'_> {
    /// Acts on bytes that came on the stream.
    fn deliver(&mut self, mut bytes: &[u8], end: StreamEnd) {
        while let Some(event) = self.http.receive(self.stream, &mut bytes, end, self.now) {
            note(event, self.open, self.events);
        }
    }

    /// Returns whether the request has a piece that its task has not taken.
    fn is_full(&self) -> bool {
        let open = self.open.get(&self.stream);
        open.is_some_and(|open| open.untaken() >= PIECE)
    }
}

/// Notes an event: with its request, or for the task of the connection.
fn note(
    event: ConnectionEvent<'_>,
    open: &mut BTreeMap<StreamId, BodyInput>,
    events: &mut VecDeque<RequestEvent>,
) {
    match event {
        ConnectionEvent::Request { stream, head, end } => {
            open.insert(stream, BodyInput::new(ReceivedBody::until(end)));
            events.push_back(RequestEvent::Request { stream, head });
        }
        ConnectionEvent::Data { stream, data, end } => {
            if let Some(open) = open.get_mut(&stream) {
                open.push(data, end);
            }
        }
        // The fields of trailers stay here: an origin could take them for those of the head, which were judged.
        ConnectionEvent::Trailers { stream, .. } => {
            if let Some(open) = open.get_mut(&stream) {
                open.become_state(ReceivedBody::Whole);
            }
        }
        ConnectionEvent::Malformed { stream, violation } => match open.get_mut(&stream) {
            Some(open) => open.become_state(ReceivedBody::Malformed),
            None => {
                open.insert(stream, BodyInput::new(ReceivedBody::Malformed));
                events.push_back(RequestEvent::Malformed(stream, violation));
            }
        },
        ConnectionEvent::Reset { stream, .. } => {
            if let Some(open) = open.get_mut(&stream) {
                open.become_state(ReceivedBody::Gone);
            }
        }
        ConnectionEvent::Closed(violation) => events.push_back(RequestEvent::Closed(violation)),
    }
}

/// Returns the number of a stream as QUIC has it.
pub(super) fn quic_id(stream: StreamId) -> quinn_proto::StreamId {
    error_code(stream.number()).into()
}

/// Returns the number of a stream of QUIC.
pub(super) fn stream_id(id: quinn_proto::StreamId) -> StreamId {
    StreamId::new(quinn_proto::VarInt::from(id).into_inner())
}
