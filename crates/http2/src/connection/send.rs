//! Writes messages into the output: blocks of fields at once, DATA as far as there is room.

use super::connection_core::ConnectionCore;
use super::field_writer::FieldWriter;
use super::stream::{ReceiveState, SendState};
use super::stream_end::StreamEnd;
use super::stream_gone::StreamGone;
use crate::frame::{
    DEFAULT_FRAME_SIZE, FRAME_HEAD_BYTES, FrameFlags, FrameHead, FrameKind, write_head,
};
use crate::stream_id::StreamId;

/// Bytes of DATA that a stream sends in one turn.
const TURN_BYTES: usize = DEFAULT_FRAME_SIZE as usize;
/// Bytes of a DATA frame that is not small.
const SMALL_DATA: usize = 256;

impl ConnectionCore {
    pub(super) fn send_trailers<'f>(
        &mut self,
        stream: StreamId,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Result<(), StreamGone> {
        let state = self.streams.get(stream).ok_or(StreamGone)?;
        if state.sending != SendState::Body {
            return Err(StreamGone);
        }
        let start = self.begin_block();
        self.field_writer().write_all(fields);
        self.end_block(stream, start, StreamEnd::Here);
        Ok(())
    }

    pub(super) fn send_data(
        &mut self,
        stream: StreamId,
        data: &[u8],
        end: StreamEnd,
    ) -> Result<usize, StreamGone> {
        let room = self.room_of(stream)?;
        let state = self.streams.get_mut(stream).ok_or(StreamGone)?;
        let window =
            (state.send_window + i64::from(self.peer.initial_window)).min(self.send_window);
        let window = usize::try_from(window).unwrap_or(0);
        let taken = data.len().min(room).min(window);
        state.send_window -= taken as i64;
        let waiting = (state.priority, state.turn);
        self.send_window -= taken as i64;
        let is_whole = taken == data.len();
        let last = match is_whole {
            true => end,
            false => StreamEnd::NotYet,
        };
        let data = data.get(..taken).unwrap_or_default();
        self.write_data(stream, data, last);
        // A frame that the peer's window cuts short may be one of very many.
        if taken >= SMALL_DATA || is_whole && taken > 0 {
            self.floods.send_data_frames(taken.div_ceil(TURN_BYTES));
        }
        if !is_whole {
            let (priority, turn) = waiting;
            self.schedule.wait(stream, priority, turn);
        } else {
            self.schedule.remove(stream);
            if end.is_here() {
                self.end_sending(stream);
            }
        }
        Ok(taken)
    }

    pub(super) fn next_ready(&mut self) -> Option<StreamId> {
        if self.schedule.is_empty() || self.is_closed() {
            return None;
        }
        let room = self.free_output();
        if room == 0 {
            return None;
        }
        let stream = self.schedule.first(|stream| self.has_window(stream))?;
        self.schedule.remove(stream);
        let turn = self.schedule.next_turn();
        let priority = self.streams.get(stream)?.priority;
        // RFC 9218 §10: less urgent streams wait, and so do those that follow one that is not incremental.
        let shares = priority.incremental
            && (self.schedule).has_urgency(priority.urgency, |other| self.has_window(other));
        let state = self.streams.get_mut(stream)?;
        state.reserved = match shares {
            true => room.min(TURN_BYTES),
            false => room,
        };
        self.reserved += state.reserved;
        if priority.incremental {
            state.turn = turn;
        }
        Some(stream)
    }

    /// Begins a block of fields. Returns where its frame starts.
    pub(super) fn begin_block(&mut self) -> usize {
        let out = self.output.writer();
        let start = out.len();
        out.extend_from_slice(&[0; FRAME_HEAD_BYTES]);
        self.encoder.begin(out);
        start
    }

    /// Returns the writer of the block that was begun.
    pub(super) fn field_writer(&mut self) -> FieldWriter<'_> {
        FieldWriter::new(&mut self.encoder, self.output.writer())
    }

    /// Ends the block whose frame starts at `start`, which becomes several frames where it is longer than one may be.
    pub(super) fn end_block(&mut self, stream: StreamId, start: usize, end: StreamEnd) {
        let most = self.peer.max_frame_size as usize;
        let out = self.output.writer();
        let length = out.len().saturating_sub(start + FRAME_HEAD_BYTES);
        let flags = match end {
            StreamEnd::Here => FrameFlags::END_STREAM,
            StreamEnd::NotYet => FrameFlags::NONE,
        };
        let mut head = FrameHead {
            length: length as u32,
            kind: FrameKind::HEADERS,
            flags,
            stream,
        };
        let mut rest = Vec::new();
        if length > most {
            // RFC 9113 §6.10.
            rest = out.split_off(start + FRAME_HEAD_BYTES + most);
            head.length = most as u32;
        } else {
            head.flags = flags.with(FrameFlags::END_HEADERS);
        }
        if let Some(place) = out.get_mut(start..start + FRAME_HEAD_BYTES) {
            place.copy_from_slice(&head.to_bytes());
        }
        let mut parts = rest.chunks(most).peekable();
        while let Some(part) = parts.next() {
            head.kind = FrameKind::CONTINUATION;
            head.length = part.len() as u32;
            head.flags = match parts.peek() {
                Some(_) => FrameFlags::NONE,
                None => FrameFlags::END_HEADERS,
            };
            write_head(out, head);
            out.extend_from_slice(part);
        }
        if end.is_here() {
            self.end_sending(stream);
        }
    }

    /// Writes DATA frames, RFC 9113 §6.1; one without a byte where only the end is sent.
    fn write_data(&mut self, stream: StreamId, data: &[u8], end: StreamEnd) {
        let out = self.output.writer();
        let mut rest = data;
        if rest.is_empty() && !end.is_here() {
            return;
        }
        loop {
            let (part, behind) = rest.split_at(rest.len().min(TURN_BYTES));
            rest = behind;
            let flags = match end.is_here() && rest.is_empty() {
                true => FrameFlags::END_STREAM,
                false => FrameFlags::NONE,
            };
            let head = FrameHead {
                length: part.len() as u32,
                kind: FrameKind::DATA,
                flags,
                stream,
            };
            write_head(out, head);
            out.extend_from_slice(part);
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Ends the own side of a stream, and the stream if the other side has ended.
    fn end_sending(&mut self, stream: StreamId) {
        let Some(state) = self.streams.get_mut(stream) else {
            return;
        };
        state.sending = SendState::Ended;
        match state.receiving {
            ReceiveState::Head(_) | ReceiveState::Body => {}
            ReceiveState::Ended => self.end_stream(stream),
            ReceiveState::Malformed(code) => self.reset(stream, code),
        }
    }

    /// Returns the bytes of output that a stream may use, and ends their reservation.
    fn room_of(&mut self, stream: StreamId) -> Result<usize, StreamGone> {
        let state = self.streams.get_mut(stream).ok_or(StreamGone)?;
        if state.sending != SendState::Body {
            return Err(StreamGone);
        }
        let reserved = std::mem::take(&mut state.reserved);
        self.reserved -= reserved;
        if reserved > 0 {
            return Ok(reserved);
        }
        let priority = state.priority;
        let turn = state.turn;
        let is_later = !self.schedule.is_empty()
            && (self.schedule).precedes(priority, turn, |other| self.has_window(other));
        Ok(match is_later {
            true => 0,
            false => self.free_output(),
        })
    }

    /// Returns whether the windows of the peer are open for a stream.
    fn has_window(&self, stream: StreamId) -> bool {
        let initial = i64::from(self.peer.initial_window);
        let state = self.streams.get(stream);
        self.send_window > 0 && state.is_some_and(|state| state.send_window + initial > 0)
    }

    fn free_output(&self) -> usize {
        let used = self.output.len() + self.reserved;
        self.limits.output_bytes.saturating_sub(used)
    }
}
