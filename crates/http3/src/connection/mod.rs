//! Owns a connection without I/O: the requests of one client, and the answers to them.
//!
//! - `receive` finds the frames of a request in any split of its bytes, `requests` acts on its head, its trailers and its end.
//! - `from_client` reads the streams that only the client writes, `control` acts on the frames of the control stream.
//! - `answers` writes answers, `priorities` keeps whose DATA goes first, `shutdown` ends the connection.
//! - `request_stream`, `client_streams`, `control_input`, `early_priorities` and `shutdown_phase` are the state on which these act; `event`
//!   and `action` are what the caller learns and does.

mod action;
mod answers;
mod client_streams;
mod control;
mod control_input;
mod early_priorities;
mod event;
mod field_writer;
mod from_client;
mod limits;
mod priorities;
mod receive;
mod request_stream;
mod requests;
mod shutdown;
mod shutdown_phase;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use sluicegate_http2::{ExtendedConnect, FloodCounters, StreamEnd};

pub use action::StreamAction;
pub use event::ConnectionEvent;
pub use field_writer::FieldWriter;
pub use limits::ConnectionLimits;

use client_streams::{ClientStream, ClientStreams};
use control_input::ControlInput;
use early_priorities::EarlyPriorities;
use request_stream::{ReceiveState, RequestStream};
use shutdown_phase::ShutdownPhase;

use crate::error_code::ErrorCode;
use crate::frame::{PeerSettings, SettingId, write_settings};
use crate::qpack::DecoderInstructions;
use crate::stream_id::{StreamId, StreamKind};
use crate::varint;
use crate::violation::RuleViolation;

/// The type of a control stream, RFC 9114 §6.2.1.
const CONTROL_STREAM: u64 = 0x00;

/// The server's side of one connection.
#[derive(Debug)]
pub struct ServerConnection {
    limits: ConnectionLimits,
    requests: BTreeMap<StreamId, RequestStream>,
    /// The first request that has not begun.
    next_request: StreamId,
    client_streams: ClientStreams,
    control: ControlInput,
    decoder: DecoderInstructions,
    peer: Option<PeerSettings>,
    /// The bytes of the server's control stream that QUIC has not taken.
    control_output: Vec<u8>,
    actions: VecDeque<StreamAction>,
    early_priorities: EarlyPriorities,
    floods: FloodCounters,
    /// Bytes of unknown frames.
    skipped: u64,
    shutdown: ShutdownPhase,
}

impl ServerConnection {
    /// Returns a connection that begins at `now`, a time since any fixed moment. Its settings wait for the control stream.
    #[must_use]
    pub fn new(limits: ConnectionLimits, now: Duration) -> Self {
        Self {
            limits,
            requests: BTreeMap::new(),
            next_request: StreamId::new(0),
            client_streams: ClientStreams::default(),
            control: ControlInput::default(),
            decoder: DecoderInstructions::default(),
            peer: None,
            control_output: first_control_bytes(limits),
            actions: VecDeque::new(),
            early_priorities: EarlyPriorities::default(),
            floods: FloodCounters::new(limits.floods, now),
            skipped: 0,
            shutdown: ShutdownPhase::Open,
        }
    }

    /// Returns the bytes that wait for the server's control stream, RFC 9114 §6.2.1. The caller opens it, and never ends it.
    #[must_use]
    pub fn control_output(&self) -> &[u8] {
        &self.control_output
    }

    /// Removes bytes of [`control_output`](Self::control_output) that QUIC has taken.
    pub fn advance_control_output(&mut self, bytes: usize) {
        self.control_output
            .drain(..bytes.min(self.control_output.len()));
    }

    /// Returns what the caller does next with a stream of QUIC.
    pub fn take_action(&mut self) -> Option<StreamAction> {
        self.actions.pop_front()
    }

    /// Returns the settings of the client; `None` before they have come.
    #[must_use]
    pub fn peer_settings(&self) -> Option<PeerSettings> {
        self.peer
    }

    /// Returns the number of requests that are not over.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        self.requests.len()
    }

    /// Returns whether a stream is open, and the head of its request has not come.
    #[must_use]
    pub fn awaits_head(&self, stream: StreamId) -> bool {
        let state = self.requests.get(&stream);
        state.is_some_and(|state| state.receiving == ReceiveState::Head)
    }

    /// Returns whether a stream is open, and its beginning has not come: the head of a request, or the type of another stream.
    #[must_use]
    pub fn awaits_beginning(&self, stream: StreamId) -> bool {
        self.awaits_head(stream) || self.awaits_type(stream)
    }

    fn awaits_type(&self, stream: StreamId) -> bool {
        let found = self.client_streams.find(stream);
        matches!(found, Some(ClientStream::Undetermined(..)))
    }

    /// Ends a stream if its beginning has not come.
    pub fn end_late(&mut self, stream: StreamId) {
        if self.awaits_head(stream) {
            self.abandon(stream, ErrorCode::REQUEST_INCOMPLETE);
        } else if self.awaits_type(stream) {
            // RFC 9114 §6.2: one that ends before its type breaks no rule.
            let _ = self.client_streams.end(stream);
            let code = ErrorCode::STREAM_CREATION_ERROR;
            self.actions.push_back(StreamAction::Stop { stream, code });
        }
    }

    /// Returns the number of streams that are open, and whose heads have not come.
    #[must_use]
    pub fn awaited_heads(&self) -> usize {
        let receiving = self.requests.values().map(|state| state.receiving);
        receiving
            .filter(|state| *state == ReceiveState::Head)
            .count()
    }

    /// Returns whether the client has begun a request.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.next_request != StreamId::new(0)
    }

    /// Returns the bytes that are kept of fields whose end has not come.
    #[must_use]
    pub fn held_back(&self) -> usize {
        self.requests
            .values()
            .map(|state| state.section.len())
            .sum()
    }

    /// Begins a stream that the client has opened, in the order of their numbers.
    pub fn open(&mut self, stream: StreamId, now: Duration) -> Option<ConnectionEvent<'static>> {
        if self.is_closed() {
            return None;
        }
        match stream.kind() {
            StreamKind::Request => {
                self.open_request(stream);
                None
            }
            StreamKind::FromClient => {
                self.client_streams.open(stream);
                let counted = self.count_control_frame(now);
                counted.err().map(|violation| self.fail(violation))
            }
            StreamKind::FromServer | StreamKind::Undefined => None,
        }
    }

    /// Reads bytes of a stream up to the next event, and removes those that were read from `input`. Returns `None` when all were read.
    ///
    /// `end` says that the stream ends behind these bytes, `now` is the time since the same moment as that of [`new`](Self::new). The
    /// caller calls it until it returns `None`. Bytes of a stream that is over are dropped.
    pub fn receive<'a>(
        &mut self,
        stream: StreamId,
        input: &mut &'a [u8],
        end: StreamEnd,
        now: Duration,
    ) -> Option<ConnectionEvent<'a>> {
        let event = match (self.is_closed(), stream.kind()) {
            (false, StreamKind::Request) => self.receive_request(stream, input, end, now),
            (false, StreamKind::FromClient) => self
                .receive_from_client(stream, input, end, now)
                .map(|()| None),
            _ => {
                *input = &[];
                Ok(None)
            }
        };
        event.unwrap_or_else(|violation| Some(self.fail(violation)))
    }

    /// Takes the reset of a stream by the client, RFC 9000 §19.4.
    pub fn receive_reset(
        &mut self,
        stream: StreamId,
        code: ErrorCode,
    ) -> Option<ConnectionEvent<'static>> {
        let event = match stream.kind() {
            _ if self.is_closed() => Ok(None),
            StreamKind::Request => self.reset_by_client(stream, code),
            StreamKind::FromClient => self.client_streams.end(stream).map(|()| None),
            StreamKind::FromServer | StreamKind::Undefined => Ok(None),
        };
        event.unwrap_or_else(|violation| Some(self.fail(violation)))
    }

    /// Takes the client's wish that the server sends no more on a stream, RFC 9000 §19.5.
    pub fn receive_stop(
        &mut self,
        stream: StreamId,
        code: ErrorCode,
    ) -> Option<ConnectionEvent<'static>> {
        let event = match stream.kind() {
            _ if self.is_closed() => Ok(None),
            StreamKind::Request => self.stop_by_client(stream, code),
            // RFC 9114 §6.2.1: the control stream, which is the only one, lasts.
            StreamKind::FromServer => Err(RuleViolation::ClosedCriticalStream),
            StreamKind::FromClient | StreamKind::Undefined => Ok(None),
        };
        event.unwrap_or_else(|violation| Some(self.fail(violation)))
    }

    /// Counts a frame or a stream that carries neither a request nor data.
    fn count_control_frame(&mut self, now: Duration) -> Result<(), RuleViolation> {
        let counted = self.floods.count_control_frame(now);
        counted.map_err(|_| RuleViolation::ControlFlood)
    }

    /// Counts a stream that has to end since the client broke a rule on it.
    fn count_broken_stream(&mut self) -> Result<(), RuleViolation> {
        let counted = self.floods.break_stream();
        counted.map_err(|_| RuleViolation::ResetFlood)
    }

    /// Ends the connection since the client broke a rule.
    fn fail(&mut self, violation: RuleViolation) -> ConnectionEvent<'static> {
        self.close();
        ConnectionEvent::Closed(violation)
    }
}

/// Returns the bytes with which the server's control stream begins.
fn first_control_bytes(limits: ConnectionLimits) -> Vec<u8> {
    let settings = [
        (SettingId::QPACK_MAX_TABLE_CAPACITY, 0),
        (SettingId::QPACK_BLOCKED_STREAMS, 0),
        (
            SettingId::MAX_FIELD_SECTION_SIZE,
            limits.max_field_list as u64,
        ),
        (SettingId::ENABLE_CONNECT_PROTOCOL, 1),
    ];
    // RFC 9220 §3: the setting is sent where it allows something.
    let count = match limits.extended_connect {
        ExtendedConnect::Allowed => settings.len(),
        ExtendedConnect::Refused => settings.len() - 1,
    };
    let mut out = Vec::new();
    varint::write(CONTROL_STREAM, &mut out);
    write_settings(&settings[..count], &mut out);
    out
}
