//! Owns the server's side of a connection: the requests of one client, and the answers to them.
//!
//! - `requests` opens streams, `answers` writes the heads of answers, `priorities` changes whose DATA goes first.
//! - `shutdown` ends the connection.

mod answers;
mod event;
mod priorities;
mod requests;
mod shutdown;
mod shutdown_phase;

use std::time::Duration;

pub use event::ConnectionEvent;

use event::EventResult;
use shutdown_phase::ShutdownPhase;

use super::connection_core::ConnectionCore;
use super::field_blocks::BlockStart;
use super::limits::ConnectionLimits;
use super::methods::shared_methods;
use super::receive::ConnectionSide;
use super::stream::{ReceiveState, SendState};
use super::stream_event::StreamEvent;
use crate::error_code::ErrorCode;
use crate::frame::{FrameHead, ReceivedFrame, SettingId};
use crate::priority::StreamPriority;
use crate::request_head::ExtendedConnect;
use crate::stream_id::StreamId;
use crate::violation::RuleViolation;

/// The server's side of one connection.
#[derive(Debug)]
pub struct ServerConnection {
    core: ConnectionCore,
    early_priorities: Vec<(StreamId, StreamPriority)>,
    shutdown: ShutdownPhase,
}

shared_methods!(ServerConnection, ConnectionEvent);

impl ServerConnection {
    /// Returns a connection that begins at `now`, a time since any fixed moment. Its settings wait for the socket.
    #[must_use]
    pub fn new(limits: ConnectionLimits, now: Duration) -> Self {
        let mut connection = Self {
            core: ConnectionCore::new(limits, now),
            early_priorities: Vec::new(),
            shutdown: ShutdownPhase::Open,
        };
        connection.write_preface();
        connection
    }

    /// Writes the preface of a server, RFC 9113 §3.4.
    fn write_preface(&mut self) {
        let limits = self.core.limits;
        let settings = [
            (SettingId::MAX_CONCURRENT_STREAMS, limits.max_streams),
            (SettingId::INITIAL_WINDOW_SIZE, limits.stream_window),
            (SettingId::MAX_HEADER_LIST_SIZE, limits.max_field_list),
            (SettingId::NO_RFC7540_PRIORITIES, 1),
            (SettingId::ENABLE_CONNECT_PROTOCOL, 1),
        ];
        // RFC 8441 §3: the setting is sent where it allows something.
        let count = match limits.extended_connect {
            ExtendedConnect::Allowed => settings.len(),
            ExtendedConnect::Refused => settings.len() - 1,
        };
        self.core.write_first_settings(&settings[..count]);
    }

    /// Returns whether the preface of the client has come, with its SETTINGS, RFC 9113 §3.4.
    #[must_use]
    pub fn has_received_preface(&self) -> bool {
        self.core.input.has_begun
    }

    /// Returns whether the client has begun a stream.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        !self.core.last_stream.is_connection()
    }

    /// Removes a stream that the client resets.
    fn receive_reset(&mut self, stream: StreamId, code: ErrorCode) -> EventResult<'static> {
        let Some(state) = self.core.receive_reset(stream)? else {
            return Ok(None);
        };
        if state.sending == SendState::Head {
            self.core.floods.cancel_request()?;
        }
        self.pass_on(StreamEvent::Reset {
            stream,
            code,
            violation: None,
        })
    }

    /// Rejects the rest of a request that breaks a rule: the caller may answer it, if it has not begun to.
    fn reject(&mut self, stream: StreamId, violation: RuleViolation) -> EventResult<'static> {
        let Some(state) = self.core.streams.get_mut(stream) else {
            return Ok(None);
        };
        if state.sending != SendState::Head {
            let event = self.core.break_stream(stream, violation)?;
            return event.map_or(Ok(None), |event| self.pass_on(event));
        }
        if violation == RuleViolation::FieldListSize {
            // It breaks no rule of the protocol; where the request is whole, nothing has to be reset behind the answer.
            if state.receiving == ReceiveState::Body {
                state.receiving = ReceiveState::Malformed(violation.code());
            }
        } else {
            state.receiving = ReceiveState::Malformed(violation.code());
            self.core.floods.break_stream()?;
        }
        Ok(Some(ConnectionEvent::Malformed { stream, violation }))
    }
}

impl ConnectionSide for ServerConnection {
    type SideEvent<'a> = ConnectionEvent<'a>;

    #[inline]
    fn core(&mut self) -> &mut ConnectionCore {
        &mut self.core
    }

    fn receive_block<'a>(&mut self, start: BlockStart, block: &[u8]) -> EventResult<'a> {
        if start.stream > self.core.last_stream {
            return match start.stream.is_of_client() {
                true => self.receive_request(start, block),
                false => Err(RuleViolation::StreamNumber),
            };
        }
        let event = self.core.receive_later_block(start, block)?;
        event.map_or(Ok(None), |event| self.pass_on(event))
    }

    fn receive_signal<'a>(&mut self, head: FrameHead, frame: ReceivedFrame<'_>) -> EventResult<'a> {
        match frame {
            ReceivedFrame::Reset(code) => return self.receive_reset(head.stream, code),
            ReceivedFrame::PingAck(opaque) => self.receive_pong(opaque),
            ReceivedFrame::PriorityUpdate { stream, value } => self.receive_priority(stream, value),
            // After GOAWAY the client opens no more streams; those that are open go on, RFC 9113 §6.8.
            _ => {}
        }
        Ok(None)
    }

    #[inline]
    fn pass_on<'a>(&mut self, event: StreamEvent<'a>) -> EventResult<'a> {
        Ok(Some(match event {
            StreamEvent::Data { stream, data, end } => ConnectionEvent::Data { stream, data, end },
            StreamEvent::Trailers { stream, fields } => {
                ConnectionEvent::Trailers { stream, fields }
            }
            StreamEvent::Malformed { stream, violation } => return self.reject(stream, violation),
            StreamEvent::Reset {
                stream,
                code,
                violation,
            } => ConnectionEvent::Reset {
                stream,
                code,
                violation,
            },
        }))
    }

    fn fail<'a>(&mut self, violation: RuleViolation) -> ConnectionEvent<'a> {
        self.close(violation.code());
        ConnectionEvent::Closed(violation)
    }
}
