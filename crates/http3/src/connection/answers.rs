//! Writes answers, RFC 9114 §4.1: heads into a buffer of their stream, heads of DATA before bytes that the caller writes itself.
//!
//! The caller gives QUIC the [output](ServerConnection::output) of a stream, then bytes of the body as far as
//! [`begin_data`](ServerConnection::begin_data) says, and tells how many QUIC has taken. So a body is copied once, into QUIC.

use sluicegate_http2::StreamGone;

use super::ServerConnection;
use super::action::StreamAction;
use super::field_writer::FieldWriter;
use super::request_stream::{ReceiveState, RequestStream, SendState};
use crate::error_code::ErrorCode;
use crate::frame::{FrameHead, FrameKind, write_head};
use crate::qpack::{write_prefix, write_status};
use crate::stream_id::StreamId;
use crate::varint;

/// The bytes of a short length of a frame, and what they hold.
const SHORT_LENGTH: usize = 2;
const LONGEST_SHORT: u64 = 0x3fff;

impl ServerConnection {
    /// Sends the head of an answer, interim or final. Names are in lower case, and no field is about the connection.
    ///
    /// # Errors
    /// The stream is over, or a final head was sent.
    pub fn send_head<'f>(
        &mut self,
        stream: StreamId,
        status: u16,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Result<(), StreamGone> {
        self.send_written_head(stream, status, |into| into.write_all(fields))
    }

    /// Sends the head of an answer, as [`Self::send_head`] does, with the fields that `write` writes.
    ///
    /// # Errors
    /// The stream is over, or a final head was sent.
    pub fn send_written_head(
        &mut self,
        stream: StreamId,
        status: u16,
        write: impl FnOnce(&mut FieldWriter<'_>),
    ) -> Result<(), StreamGone> {
        let state = self.sending(stream, SendState::Head)?;
        // RFC 9114 §4.1: interim answers precede the final one.
        if !(100..200).contains(&status) {
            state.sending = SendState::Body;
        }
        let start = begin_section(&mut state.output);
        write_status(status, &mut state.output);
        write(&mut FieldWriter::new(&mut state.output));
        end_section(start, &mut state.output);
        Ok(())
    }

    /// Begins a DATA frame for these bytes of a body, unless one is open. Returns how many of them QUIC may take behind the
    /// [output](Self::output).
    ///
    /// # Errors
    /// The stream is over, or its answer has no body that is open.
    pub fn begin_data(&mut self, stream: StreamId, bytes: usize) -> Result<usize, StreamGone> {
        let state = self.sending(stream, SendState::Body)?;
        if state.data_left == 0 && bytes > 0 {
            state.data_left = bytes as u64;
            let kind = FrameKind::DATA;
            let length = state.data_left;
            write_head(FrameHead { kind, length }, &mut state.output);
        }
        Ok(usize::try_from(state.data_left)
            .unwrap_or(usize::MAX)
            .min(bytes))
    }

    /// Removes bytes of a body that QUIC has taken from the DATA frame that is open.
    pub fn advance_data(&mut self, stream: StreamId, bytes: usize) {
        if let Some(state) = self.requests.get_mut(&stream) {
            state.data_left = state.data_left.saturating_sub(bytes as u64);
        }
    }

    /// Sends trailers, which end the answer, RFC 9114 §4.1.
    ///
    /// # Errors
    /// The stream is over, or its answer has no body that is open, or a DATA frame is not whole.
    pub fn send_trailers<'f>(
        &mut self,
        stream: StreamId,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Result<(), StreamGone> {
        self.end_answer(stream)?;
        if let Some(state) = self.requests.get_mut(&stream) {
            let start = begin_section(&mut state.output);
            FieldWriter::new(&mut state.output).write_all(fields);
            end_section(start, &mut state.output);
        }
        Ok(())
    }

    /// Ends an answer behind its body.
    ///
    /// # Errors
    /// The stream is over, or its answer has no body that is open, or a DATA frame is not whole.
    pub fn end_answer(&mut self, stream: StreamId) -> Result<(), StreamGone> {
        let state = self.sending(stream, SendState::Body)?;
        match state.data_left {
            0 => state.sending = SendState::Ended,
            _ => return Err(StreamGone),
        }
        Ok(())
    }

    /// Returns the bytes of a stream that wait for QUIC: heads of answers and of frames.
    #[must_use]
    pub fn output(&self, stream: StreamId) -> &[u8] {
        let state = self.requests.get(&stream);
        state.map_or(&[], |state| &state.output)
    }

    /// Removes bytes of [`output`](Self::output) that QUIC has taken.
    pub fn advance_output(&mut self, stream: StreamId, bytes: usize) {
        if let Some(state) = self.requests.get_mut(&stream) {
            state.output.drain(..bytes.min(state.output.len()));
        }
    }

    /// Returns whether QUIC has taken all of an answer, so that the caller now ends the server's side of the stream. It returns true once.
    pub fn take_finish(&mut self, stream: StreamId) -> bool {
        let Some(state) = self.requests.get_mut(&stream) else {
            return false;
        };
        if state.sending != SendState::Ended || !state.output.is_empty() {
            return false;
        }
        state.sending = SendState::Finished;
        if state.is_over() {
            self.requests.remove(&stream);
        }
        true
    }

    /// Returns whether an answer is whole, whether or not QUIC has taken all of it; true of a stream that is over.
    #[must_use]
    pub fn is_answered(&self, stream: StreamId) -> bool {
        let state = self.requests.get(&stream);
        state.is_none_or(|state| !matches!(state.sending, SendState::Head | SendState::Body))
    }

    /// Ends a stream whose request or answer is of no use any more. Where the answer is whole, QUIC takes the rest of it, and the client is
    /// asked with `H3_NO_ERROR` to send no more of its request, RFC 9114 §4.1; or else both sides end with this code.
    pub fn abandon(&mut self, stream: StreamId, code: ErrorCode) {
        let Some(state) = self.requests.get_mut(&stream) else {
            return;
        };
        if let SendState::Head | SendState::Body = state.sending {
            return self.reset(stream, code);
        }
        if state.receiving != ReceiveState::Ended {
            let code = ErrorCode::NO_ERROR;
            self.actions.push_back(StreamAction::Stop { stream, code });
        }
        self.end_receiving(stream);
    }

    /// Ends a stream with this code, whether or not its answer is whole.
    pub fn give_up(&mut self, stream: StreamId, code: ErrorCode) {
        self.reset(stream, code);
    }

    /// Ends both sides of a stream with this code, as far as they have not ended.
    pub(super) fn reset(&mut self, stream: StreamId, code: ErrorCode) {
        let Some(state) = self.requests.remove(&stream) else {
            return;
        };
        if state.receiving != ReceiveState::Ended {
            self.actions.push_back(StreamAction::Stop { stream, code });
        }
        if state.sending != SendState::Finished {
            self.actions.push_back(StreamAction::Reset { stream, code });
        }
    }

    /// Returns the state of a stream whose answer is at this part.
    fn sending(
        &mut self,
        stream: StreamId,
        part: SendState,
    ) -> Result<&mut RequestStream, StreamGone> {
        let state = self.requests.get_mut(&stream);
        let state = state.filter(|state| state.sending == part);
        state.ok_or(StreamGone)
    }
}

/// Begins HEADERS. Returns where the length of the frame lies.
fn begin_section(out: &mut Vec<u8>) -> usize {
    varint::write(FrameKind::HEADERS.0, out);
    let start = out.len();
    out.extend_from_slice(&[0; SHORT_LENGTH]);
    write_prefix(out);
    start
}

/// Writes the length of a section's frame, which lies at `start`.
fn end_section(start: usize, out: &mut Vec<u8>) {
    let length = (out.len() - start - SHORT_LENGTH) as u64;
    let place = start..start + SHORT_LENGTH;
    if length <= LONGEST_SHORT {
        // RFC 9000 §16: the two highest bits say that there are two bytes.
        let bytes = (length as u16 | 0x4000).to_be_bytes();
        out.splice(place, bytes);
    } else {
        let mut bytes = Vec::new();
        varint::write(length, &mut bytes);
        out.splice(place, bytes);
    }
}
