//! Owns one connection of a client, the server's side, without I/O.
//!
//! The caller passes bytes of the client to [`ServerConnection::receive`] and gets events; it answers by the methods that send, and writes
//! [`ServerConnection::output`] to the socket. No method waits, and none keeps a byte of a body: DATA is lent to the caller, and bodies of
//! answers are copied once, into the output, when there is room for them.
//!
//! - `receive` finds frames in any split of the input, `frames` acts on them, `blocks` on heads and trailers, `data` on bodies.
//! - `send` writes answers, `schedule` decides whose DATA goes first.
//! - `grants` opens windows as the caller takes bodies, `flood` bounds what makes work and asks for nothing.
//! - `shutdown` ends the connection.
//!
//! Each of these acts on the one state here, and keeps what is its own in a type of its own.

mod blocks;
mod body_frame;
mod data;
mod ended_streams;
mod event;
mod field_blocks;
mod flood;
mod frame_input;
mod frames;
mod grants;
mod limits;
mod output;
mod receive;
mod receive_window;
mod schedule;
mod send;
mod shutdown;
mod shutdown_phase;
mod stream;
mod stream_gone;

use std::time::Duration;

pub use event::{ConnectionEvent, StreamEnd};
pub use limits::{ConnectionLimits, FloodLimits};
pub use stream_gone::StreamGone;

use ended_streams::EndedStreams;
use event::EventResult;
use field_blocks::FieldBlocks;
use flood::FloodCounters;
use frame_input::FrameInput;
use output::OutputBuffer;
use receive_window::ReceiveWindow;
use schedule::SendSchedule;
use shutdown_phase::ShutdownPhase;
use stream::{ReceiveState, SendState, StreamSlab, StreamState};

use crate::error_code::ErrorCode;
use crate::frame::{
    DEFAULT_WINDOW, PeerSettings, SettingId, write_reset, write_settings, write_window_update,
};
use crate::hpack::FieldEncoder;
use crate::priority::StreamPriority;
use crate::request_head::ExtendedConnect;
use crate::stream_id::StreamId;
use crate::violation::RuleViolation;

/// Priorities that come before their requests and are kept for them, RFC 9218 §7.1.
const EARLY_PRIORITIES: usize = 16;

/// The server's side of one connection.
#[derive(Debug)]
pub struct ServerConnection {
    limits: ConnectionLimits,
    input: FrameInput,
    blocks: FieldBlocks,
    encoder: FieldEncoder,
    output: OutputBuffer,
    streams: StreamSlab,
    ended: EndedStreams,
    schedule: SendSchedule,
    /// Bytes of output that are kept free for streams whose turn it is.
    reserved: usize,
    early_priorities: Vec<(StreamId, StreamPriority)>,
    peer: PeerSettings,
    are_settings_acknowledged: bool,
    /// The greatest stream that the client has begun.
    last_stream: StreamId,
    window: ReceiveWindow,
    /// Bytes of DATA that may be sent on all streams.
    send_window: i64,
    floods: FloodCounters,
    shutdown: ShutdownPhase,
}

impl ServerConnection {
    /// Returns a connection that begins at `now`, a time since any fixed moment. Its settings wait for the socket.
    #[must_use]
    pub fn new(limits: ConnectionLimits, now: Duration) -> Self {
        let mut connection = Self {
            limits,
            input: FrameInput::default(),
            blocks: FieldBlocks::new(limits.max_field_list),
            encoder: FieldEncoder::new(),
            output: OutputBuffer::default(),
            streams: StreamSlab::default(),
            ended: EndedStreams::new(limits.floods.remembered_resets),
            schedule: SendSchedule::default(),
            reserved: 0,
            early_priorities: Vec::new(),
            peer: PeerSettings::default(),
            are_settings_acknowledged: false,
            last_stream: StreamId::CONNECTION,
            window: ReceiveWindow::new(limits.connection_window),
            send_window: DEFAULT_WINDOW.into(),
            floods: FloodCounters::new(limits.floods, now),
            shutdown: ShutdownPhase::Open,
        };
        connection.write_preface();
        connection
    }

    /// Writes the preface of a server, RFC 9113 §3.4: SETTINGS, here with the window of the connection.
    fn write_preface(&mut self) {
        let limits = self.limits;
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
        let out = self.output.writer();
        write_settings(out, &settings[..count]);
        let more = limits.connection_window.saturating_sub(DEFAULT_WINDOW);
        if more > 0 {
            write_window_update(out, StreamId::CONNECTION, more);
        }
    }

    /// Returns the bytes that wait for the socket.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        self.output.waiting()
    }

    /// Removes bytes of [`output`](Self::output) that the socket has taken.
    pub fn advance_output(&mut self, bytes: usize) {
        self.output.advance(bytes);
    }

    /// Returns how many bytes will have gone to the socket when those that wait have. An answer has left when
    /// [`sent_bytes`](Self::sent_bytes) has reached the number that this was behind its last byte.
    #[must_use]
    pub fn queued_bytes(&self) -> u64 {
        self.output.end()
    }

    /// Returns how many bytes have gone to the socket since the connection began.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        self.output.sent()
    }

    /// Returns whether the caller should read. While much output waits it should not: what it reads makes more.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        !self.is_closed() && self.output.len() <= self.limits.output_bytes.saturating_mul(2)
    }

    /// Returns the bytes that are kept of a frame or a block of fields whose end has not come.
    #[must_use]
    pub fn held_back(&self) -> usize {
        self.input.held_back() + self.blocks.held_back()
    }

    /// Returns the number of streams that are not over.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Returns whether the client has begun a stream.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        !self.last_stream.is_connection()
    }

    /// Releases memory that an idle connection does not need. The caller calls it before it waits without a stream.
    pub fn shrink(&mut self) {
        self.output.shrink();
        if self.streams.is_empty() {
            self.streams.clear();
        }
    }

    /// Resets a stream with this code, RFC 9113 §6.4. One that is over stays so.
    ///
    /// `NO_ERROR` behind a whole answer asks the client to send no more of its request, §8.1.
    pub fn reset(&mut self, stream: StreamId, code: ErrorCode) {
        if self.remove(stream).is_some() {
            write_reset(self.output.writer(), stream, code);
            self.ended.add_reset(stream);
        }
    }

    /// Changes the priority of a stream, as where the answer of an origin has a field `priority`, RFC 9218 §8.
    pub fn set_priority(&mut self, stream: StreamId, priority: StreamPriority) {
        let Some(state) = self.streams.get_mut(stream) else {
            return;
        };
        state.priority = priority;
        let turn = state.turn;
        if self.schedule.is_waiting(stream) {
            self.schedule.wait(stream, priority, turn);
        }
    }

    /// Returns the priority of a stream.
    #[must_use]
    pub fn priority(&self, stream: StreamId) -> Option<StreamPriority> {
        self.streams.get(stream).map(|state| state.priority)
    }

    /// Removes a stream, and releases what is kept for it.
    fn remove(&mut self, stream: StreamId) -> Option<StreamState> {
        let state = self.streams.remove(stream)?;
        self.reserved -= state.reserved;
        self.schedule.remove(stream);
        self.release_of_connection(state.unreleased);
        Some(state)
    }

    /// Removes a stream that has ended in both directions.
    fn end_stream(&mut self, stream: StreamId) {
        self.remove(stream);
        self.ended.add_ended(stream);
    }

    /// Ends a stream since the client broke a rule on it.
    ///
    /// # Errors
    /// The connection has to end: there were too many, or the stream has not begun or is over, so that it cannot end for the rule.
    fn break_stream(&mut self, stream: StreamId, violation: RuleViolation) -> EventResult<'static> {
        if self.streams.get(stream).is_none() {
            return Err(violation);
        }
        self.floods.break_stream()?;
        let code = violation.code();
        self.reset(stream, code);
        let violation = Some(violation);
        Ok(Some(ConnectionEvent::Reset {
            stream,
            code,
            violation,
        }))
    }

    /// Rejects the rest of a request that breaks a rule: the caller may answer it, if it has not begun to.
    fn reject(&mut self, stream: StreamId, violation: RuleViolation) -> EventResult<'static> {
        let Some(state) = self.streams.get_mut(stream) else {
            return Ok(None);
        };
        if state.sending != SendState::Head {
            return self.break_stream(stream, violation);
        }
        if violation == RuleViolation::FieldListSize {
            // It breaks no rule of the protocol; where the request is whole, nothing has to be reset behind the answer.
            if state.receiving == ReceiveState::Body {
                state.receiving = ReceiveState::Malformed(violation.code());
            }
        } else {
            state.receiving = ReceiveState::Malformed(violation.code());
            self.floods.break_stream()?;
        }
        Ok(Some(ConnectionEvent::Malformed { stream, violation }))
    }
}
