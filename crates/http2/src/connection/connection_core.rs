//! Owns the state of a connection that both of its sides have: frames in both directions, streams and windows.

use std::time::Duration;

use super::ended_streams::EndedStreams;
use super::field_blocks::FieldBlocks;
use super::flood::FloodCounters;
use super::frame_input::FrameInput;
use super::limits::ConnectionLimits;
use super::output::OutputBuffer;
use super::receive_window::ReceiveWindow;
use super::schedule::SendSchedule;
use super::stream::{ReceiveState, SendState, StreamSlab, StreamState};
use super::stream_event::{StreamEvent, StreamResult};
use crate::error_code::ErrorCode;
use crate::frame::{
    DEFAULT_WINDOW, PeerSettings, SettingId, write_reset, write_settings, write_window_update,
};
use crate::hpack::FieldEncoder;
use crate::priority::StreamPriority;
use crate::stream_id::StreamId;
use crate::violation::RuleViolation;

/// The state of a connection without what only one of its sides does.
#[derive(Debug)]
pub(super) struct ConnectionCore {
    pub(super) limits: ConnectionLimits,
    pub(super) input: FrameInput,
    pub(super) blocks: FieldBlocks,
    pub(super) encoder: FieldEncoder,
    pub(super) output: OutputBuffer,
    pub(super) streams: StreamSlab,
    pub(super) ended: EndedStreams,
    pub(super) schedule: SendSchedule,
    /// Bytes of output that are kept free for streams whose turn it is.
    pub(super) reserved: usize,
    pub(super) peer: PeerSettings,
    pub(super) are_settings_acknowledged: bool,
    /// The greatest stream that has begun.
    pub(super) last_stream: StreamId,
    pub(super) window: ReceiveWindow,
    /// Bytes of DATA that may be sent on all streams.
    pub(super) send_window: i64,
    pub(super) floods: FloodCounters,
    pub(super) late_frames: LateFrames,
}

/// The rule for DATA with bytes of a stream that this side has reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LateFrames {
    /// It counts as a frame that only makes work.
    Counted,
    /// It is ignored: what a server has under way are windows of many frames, and this side resets many streams.
    Ignored,
}

impl ConnectionCore {
    /// Returns the state of a connection that begins at `now`.
    pub(super) fn new(limits: ConnectionLimits, now: Duration) -> Self {
        Self {
            limits,
            input: FrameInput::default(),
            blocks: FieldBlocks::new(limits.max_field_list),
            encoder: FieldEncoder::new(),
            output: OutputBuffer::default(),
            streams: StreamSlab::default(),
            ended: EndedStreams::new(limits.floods.remembered_resets),
            schedule: SendSchedule::default(),
            reserved: 0,
            peer: PeerSettings::default(),
            are_settings_acknowledged: false,
            last_stream: StreamId::CONNECTION,
            window: ReceiveWindow::new(limits.connection_window),
            send_window: DEFAULT_WINDOW.into(),
            floods: FloodCounters::new(limits.floods, now),
            late_frames: LateFrames::Counted,
        }
    }

    /// Writes SETTINGS, with which each side begins, RFC 9113 §3.4, here with the window of the connection.
    pub(super) fn write_first_settings(&mut self, settings: &[(SettingId, u32)]) {
        let out = self.output.writer();
        write_settings(out, settings);
        let more = self.limits.connection_window.saturating_sub(DEFAULT_WINDOW);
        if more > 0 {
            write_window_update(out, StreamId::CONNECTION, more);
        }
    }

    pub(super) fn wants_input(&self) -> bool {
        !self.is_closed() && self.output.len() <= self.limits.output_bytes.saturating_mul(2)
    }

    pub(super) fn held_back(&self) -> usize {
        self.input.held_back() + self.blocks.held_back()
    }

    pub(super) fn shrink(&mut self) {
        self.output.shrink();
        if self.streams.is_empty() {
            self.streams.clear();
        }
    }

    /// Stops reading, and removes all streams.
    pub(super) fn close(&mut self) {
        self.input.close();
        self.streams.clear();
        self.schedule.clear();
        self.reserved = 0;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.input.is_closed()
    }

    /// Returns the state of a new stream on which nothing but its first HEADERS has come or gone.
    pub(super) fn new_stream(&mut self, id: StreamId) -> StreamState {
        let window = match self.are_settings_acknowledged {
            true => self.limits.stream_window,
            // RFC 9113 §6.9.2: a peer that has not read the settings sends up to the default.
            false => self.limits.stream_window.max(DEFAULT_WINDOW),
        };
        StreamState {
            id,
            receiving: ReceiveState::Body,
            sending: SendState::Head,
            announced: None,
            receive_window: window.into(),
            unreleased: 0,
            released: 0,
            send_window: 0,
            reserved: 0,
            priority: StreamPriority::UNSIGNALED,
            turn: self.schedule.next_turn(),
        }
    }

    /// Returns whether a stream has not begun, RFC 9113 §5.1. None of a server does: nothing is pushed.
    pub(super) fn is_idle(&self, stream: StreamId) -> bool {
        stream > self.last_stream || !stream.is_of_client()
    }

    pub(super) fn reset(&mut self, stream: StreamId, code: ErrorCode) {
        if self.remove(stream).is_some() {
            write_reset(self.output.writer(), stream, code);
            self.ended.add_reset(stream);
        }
    }

    /// Removes a stream, and releases what is kept for it.
    pub(super) fn remove(&mut self, stream: StreamId) -> Option<StreamState> {
        let state = self.streams.remove(stream)?;
        self.reserved -= state.reserved;
        self.schedule.remove(stream);
        self.release_of_connection(state.unreleased);
        Some(state)
    }

    /// Removes a stream that has ended in both directions.
    pub(super) fn end_stream(&mut self, stream: StreamId) {
        self.remove(stream);
        self.ended.add_ended(stream);
    }

    /// Ends a stream since the peer broke a rule on it.
    ///
    /// # Errors
    /// The connection has to end: there were too many, or the stream has not begun or is over, so that it cannot end for the rule.
    pub(super) fn break_stream(
        &mut self,
        stream: StreamId,
        violation: RuleViolation,
    ) -> StreamResult<'static> {
        if self.streams.get(stream).is_none() {
            return Err(violation);
        }
        self.floods.break_stream()?;
        let code = violation.code();
        self.reset(stream, code);
        let violation = Some(violation);
        Ok(Some(StreamEvent::Reset {
            stream,
            code,
            violation,
        }))
    }
}
