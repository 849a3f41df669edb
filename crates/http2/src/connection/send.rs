//! Writes answers into the output: heads and trailers at once, DATA as far as there is room.

use super::ServerConnection;
use super::event::StreamEnd;
use super::stream::{ReceiveState, SendState};
use super::stream_gone::StreamGone;
use crate::error_code::ErrorCode;
use crate::frame::{
    DEFAULT_FRAME_SIZE, FRAME_HEAD_BYTES, FrameFlags, FrameHead, FrameKind, write_head,
};
use crate::hpack::write_status;
use crate::stream_id::StreamId;

/// Bytes of DATA that a stream sends in one turn.
const TURN_BYTES: usize = DEFAULT_FRAME_SIZE as usize;
/// Bytes of a DATA frame that is not small.
const SMALL_DATA: usize = 256;

impl ServerConnection {
    /// Sends the head of an answer, interim or final. Names are in lower case, and no field is about the connection.
    ///
    /// An interim answer, 100 to 199, ends nothing, RFC 9113 §8.1.
    ///
    /// # Errors
    /// The stream is over, or a final head was sent.
    pub fn send_head<'f>(
        &mut self,
        stream: StreamId,
        status: u16,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        end: StreamEnd,
    ) -> Result<(), StreamGone> {
        let is_interim = (100..200).contains(&status);
        let end = match is_interim {
            true => StreamEnd::NotYet,
            false => end,
        };
        let after = match is_interim {
            true => SendState::Head,
            false => SendState::Body,
        };
        self.begin_answer(stream, after)?;
        let start = self.begin_block();
        write_status(status, self.output.writer());
        for (name, value) in fields {
            self.encoder.write(name, value, self.output.writer());
        }
        self.end_block(stream, start, end);
        Ok(())
    }

    /// Sends the head of a final answer from a block that [`write_status`] and [`write_field`](crate::hpack::write_field) have written, as
    /// for an answer that many requests get.
    ///
    /// # Errors
    /// The stream is over, or a final head was sent.
    pub fn send_encoded_head(
        &mut self,
        stream: StreamId,
        block: &[&[u8]],
        end: StreamEnd,
    ) -> Result<(), StreamGone> {
        self.begin_answer(stream, SendState::Body)?;
        let start = self.begin_block();
        for part in block {
            self.output.writer().extend_from_slice(part);
        }
        self.end_block(stream, start, end);
        Ok(())
    }

    /// Sends trailers, which end the answer, RFC 9113 §8.1.
    ///
    /// # Errors
    /// The stream is over, or its answer has no body that is open.
    pub fn send_trailers<'f>(
        &mut self,
        stream: StreamId,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Result<(), StreamGone> {
        let state = self.streams.get(stream).ok_or(StreamGone)?;
        if state.sending != SendState::Body {
            return Err(StreamGone);
        }
        let start = self.begin_block();
        for (name, value) in fields {
            self.encoder.write(name, value, self.output.writer());
        }
        self.end_block(stream, start, StreamEnd::Here);
        Ok(())
    }

    /// Sends DATA as far as the windows of the client and the output have room, and no stream that goes first waits. Returns how many bytes
    /// were taken; where these are not all, the stream waits until [`next_ready`](Self::next_ready) names it, and the caller then sends the
    /// rest. The end is sent with the last byte.
    ///
    /// # Errors
    /// The stream is over, or its answer has no body that is open.
    pub fn send_data(
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
        // A frame that the client's window cuts short may be one of very many.
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

    /// Returns the next stream that waits to send DATA and can: the most urgent one, RFC 9218 §10. Room is kept for it until it sends, so
    /// that the caller may call this until it returns `None`, and only then let the streams send, in this order.
    pub fn next_ready(&mut self) -> Option<StreamId> {
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
        let state = self.streams.get_mut(stream)?;
        state.reserved = match self.schedule.is_empty() {
            true => room,
            false => room.min(TURN_BYTES),
        };
        self.reserved += state.reserved;
        if state.priority.incremental {
            state.turn = turn;
        }
        Some(stream)
    }

    /// Ends a stream whose request or answer is of no use any more: with `NO_ERROR` where the answer is whole, RFC 9113 §8.1, or else with
    /// this code.
    pub fn abandon(&mut self, stream: StreamId, code: ErrorCode) {
        let state = self.streams.get(stream);
        let is_answered = state.is_some_and(|state| state.sending == SendState::Ended);
        let code = match is_answered {
            true => ErrorCode::NO_ERROR,
            false => code,
        };
        self.reset(stream, code);
    }

    /// Begins an answer with a head, which leaves the stream in the state `after`.
    fn begin_answer(&mut self, stream: StreamId, after: SendState) -> Result<(), StreamGone> {
        let state = self.streams.get_mut(stream).ok_or(StreamGone)?;
        if state.sending != SendState::Head {
            return Err(StreamGone);
        }
        state.sending = after;
        Ok(())
    }

    /// Begins a block of fields. Returns where its frame starts.
    fn begin_block(&mut self) -> usize {
        let out = self.output.writer();
        let start = out.len();
        out.extend_from_slice(&[0; FRAME_HEAD_BYTES]);
        self.encoder.begin(out);
        start
    }

    /// Ends the block whose frame starts at `start`, which becomes several frames where it is longer than one may be.
    fn end_block(&mut self, stream: StreamId, start: usize, end: StreamEnd) {
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

    /// Ends the server's side of a stream, and the stream if the other side has ended.
    fn end_sending(&mut self, stream: StreamId) {
        let Some(state) = self.streams.get_mut(stream) else {
            return;
        };
        state.sending = SendState::Ended;
        match state.receiving {
            ReceiveState::Body => {}
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

    /// Returns whether the windows of the client are open for a stream.
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
