//! Owns the client's side of a connection: requests to one server, and the responses to them.
//!
//! - `requests` opens streams, `responses` reads the heads of responses.
//!
//! # Invariants
//! 1. A stream behind the last one of GOAWAY is reported before more input is read.

mod event;
mod limits;
mod request_refused;
mod requests;
mod responses;

use std::time::Duration;

pub use event::ClientEvent;
pub use limits::ClientLimits;
pub use request_refused::RequestRefused;
pub use requests::RequestPseudoFields;

use event::ClientResult;

use super::connection_core::{ConnectionCore, LateFrames};
use super::field_blocks::BlockStart;
use super::methods::shared_methods;
use super::receive::ConnectionSide;
use super::stream::{ReceiveState, StreamState};
use super::stream_event::StreamEvent;
use crate::error_code::ErrorCode;
use crate::frame::{FrameHead, PREFACE, PeerSettings, ReceivedFrame, SettingId, write_goaway};
use crate::stream_id::StreamId;
use crate::violation::RuleViolation;

/// The client's side of one connection.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use sluicegate_http2::frame::write_settings;
/// use sluicegate_http2::{ClientConnection, ClientEvent, RequestPseudoFields, StreamEnd};
/// # use sluicegate_http2::{ClientLimits, FloodLimits};
/// # let limits = ClientLimits {
/// #     max_streams: 100, first_streams: 1, max_field_list: 16384, stream_window: 65536, connection_window: 1 << 20, output_bytes: 65536,
/// #     floods: FloodLimits {
/// #         control_frames: 10_000, control_frames_per_second: 330, control_frames_per_request: 10,
/// #         control_frames_per_data_frame: 3, cancelled_streams: 200, broken_streams: 128, remembered_resets: 1024,
/// #     },
/// # };
///
/// let now = Duration::ZERO;
/// let mut connection = ClientConnection::new(limits, now);
/// let pseudo = RequestPseudoFields {
///     method: b"GET", scheme: Some(b"http"), authority: Some(b"a.test"), path: Some(b"/"),
/// };
/// let fields = [(&b"accept"[..], &b"*/*"[..])];
/// let sent = connection.send_request(pseudo, fields, StreamEnd::Here)?;
/// // The socket takes the preface, SETTINGS, WINDOW_UPDATE and HEADERS. Then the server answers: SETTINGS, HEADERS of 204.
/// connection.advance_output(connection.output().len());
/// let mut read = Vec::new();
/// write_settings(&mut read, &[]);
/// read.extend([0, 0, 1, 1, 5, 0, 0, 0, 1, 0x89]);
///
/// let mut input = &read[..];
/// while let Some(event) = connection.receive(&mut input, now) {
///     let ClientEvent::Response { stream, head, end } = event else { continue };
///     assert_eq!((stream, head.status(), end), (sent, 204, StreamEnd::Here));
/// }
/// assert_eq!(connection.open_streams(), 0);
/// # Ok::<(), sluicegate_http2::RequestRefused>(())
/// ```
#[derive(Debug)]
pub struct ClientConnection {
    core: ConnectionCore,
    /// Streams that may be open until the settings of the server have come.
    first_streams: u32,
    /// The last stream of the latest GOAWAY.
    last_processed: Option<StreamId>,
}

shared_methods!(ClientConnection, ClientEvent);

impl ClientConnection {
    /// Returns a connection that begins at `now`, a time since any fixed moment. Its preface waits for the socket.
    #[must_use]
    pub fn new(limits: ClientLimits, now: Duration) -> Self {
        let mut core = ConnectionCore::new(limits.shared(), now);
        core.input.expect_no_preface();
        core.peer = PeerSettings::from_server();
        core.late_frames = LateFrames::Ignored;
        // RFC 9113 §3.4: the preface of a client.
        core.output.writer().extend_from_slice(PREFACE);
        core.write_first_settings(&[
            (SettingId::ENABLE_PUSH, 0),
            (SettingId::INITIAL_WINDOW_SIZE, limits.stream_window),
            (SettingId::MAX_HEADER_LIST_SIZE, limits.max_field_list),
            (SettingId::NO_RFC7540_PRIORITIES, 1),
        ]);
        Self {
            core,
            first_streams: limits.first_streams,
            last_processed: None,
        }
    }

    /// Ends the connection and all its streams with this code. Nothing more is read. GOAWAY waits for the socket.
    pub fn close(&mut self, code: ErrorCode) {
        if !self.is_closed() {
            // RFC 9113 §6.8: the server has opened no stream.
            write_goaway(self.core.output.writer(), StreamId::CONNECTION, code);
            self.core.close();
        }
    }

    /// Removes a stream that the server resets.
    fn receive_reset<'a>(&mut self, stream: StreamId, code: ErrorCode) -> ClientResult<'a> {
        let Some(state) = self.core.receive_reset(stream)? else {
            return Ok(None);
        };
        Ok(Some(ended_by_server(&state, code)))
    }

    /// Opens no more streams, RFC 9113 §6.8.
    fn receive_goaway<'a>(&mut self, last: StreamId, code: ErrorCode) -> ClientResult<'a> {
        // RFC 9113 §6.8: the last stream of a later GOAWAY is no greater.
        if self.last_processed.is_some_and(|before| last > before) {
            return Err(RuleViolation::GoAwayStream);
        }
        self.last_processed = Some(last);
        Ok(Some(ClientEvent::GoAway { last, code }))
    }

    /// Resets a stream whose response breaks a rule.
    fn reject<'a>(&mut self, stream: StreamId, violation: RuleViolation) -> ClientResult<'a> {
        if violation != RuleViolation::FieldListSize {
            // RFC 9113 §8.1.1: a malformed response is an error of its stream.
            let event = self.core.break_stream(stream, violation)?;
            return event.map_or(Ok(None), |event| self.pass_on(event));
        }
        // RFC 9113 §10.5.1: it breaks no rule of the protocol, and is of no use.
        let code = ErrorCode::CANCEL;
        self.core.reset(stream, code);
        let violation = Some(violation);
        Ok(Some(ClientEvent::Reset {
            stream,
            code,
            violation,
        }))
    }
}

impl ConnectionSide for ClientConnection {
    type SideEvent<'a> = ClientEvent<'a>;

    #[inline]
    fn core(&mut self) -> &mut ConnectionCore {
        &mut self.core
    }

    /// Removes a stream behind the last one of GOAWAY.
    fn take_waiting_event<'a>(&mut self) -> Option<ClientEvent<'a>> {
        let last = self.last_processed?;
        let stream = self.core.streams.greatest().filter(|id| *id > last)?;
        let state = self.core.remove(stream)?;
        self.core.ended.add_reset(stream);
        Some(ended_by_server(&state, ErrorCode::REFUSED_STREAM))
    }

    fn receive_block<'a>(&mut self, start: BlockStart, block: &[u8]) -> ClientResult<'a> {
        // RFC 9113 §5.1: a server opens no stream.
        if self.core.is_idle(start.stream) {
            return Err(RuleViolation::IdleStream);
        }
        let state = self.core.streams.get(start.stream);
        if let Some(ReceiveState::Head(requested)) = state.map(|state| state.receiving)
            && !start.depends_on_itself
        {
            return self.receive_head(start, block, requested);
        }
        let event = self.core.receive_later_block(start, block)?;
        event.map_or(Ok(None), |event| self.pass_on(event))
    }

    fn receive_signal<'a>(
        &mut self,
        head: FrameHead,
        frame: ReceivedFrame<'_>,
    ) -> ClientResult<'a> {
        match frame {
            ReceivedFrame::Reset(code) => self.receive_reset(head.stream, code),
            ReceivedFrame::GoAway(last, code) => self.receive_goaway(last, code),
            // RFC 9218 §7.1: a server sends none.
            ReceivedFrame::PriorityUpdate { .. } => Err(RuleViolation::PriorityUpdate),
            _ => Ok(None),
        }
    }

    #[inline]
    fn pass_on<'a>(&mut self, event: StreamEvent<'a>) -> ClientResult<'a> {
        Ok(Some(match event {
            StreamEvent::Data { stream, data, end } => ClientEvent::Data { stream, data, end },
            StreamEvent::Trailers { stream, fields } => ClientEvent::Trailers { stream, fields },
            StreamEvent::Malformed { stream, violation } => return self.reject(stream, violation),
            StreamEvent::Reset {
                stream,
                code,
                violation,
            } => ClientEvent::Reset {
                stream,
                code,
                violation,
            },
        }))
    }

    fn fail<'a>(&mut self, violation: RuleViolation) -> ClientEvent<'a> {
        self.close(violation.code());
        ClientEvent::Closed(violation)
    }
}

/// Returns the event of a stream that the server has ended with this code.
fn ended_by_server<'a>(state: &StreamState, code: ErrorCode) -> ClientEvent<'a> {
    let stream = state.id;
    match state.receiving {
        // RFC 9113 §8.7. A server that has begun to answer has acted on the request.
        ReceiveState::Head(_) if code == ErrorCode::REFUSED_STREAM => {
            ClientEvent::Unprocessed { stream }
        }
        _ => ClientEvent::Reset {
            stream,
            code,
            violation: None,
        },
    }
}
