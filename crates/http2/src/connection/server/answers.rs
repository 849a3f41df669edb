//! Writes heads of answers, and ends streams whose answers are of no use.

use super::ServerConnection;
use crate::connection::field_writer::FieldWriter;
use crate::connection::stream::SendState;
use crate::connection::stream_end::StreamEnd;
use crate::connection::stream_gone::StreamGone;
use crate::error_code::ErrorCode;
use crate::hpack::write_status;
use crate::stream_id::StreamId;

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
        self.send_written_head(stream, status, |into| into.write_all(fields), end)
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
        let start = self.core.begin_block();
        write_status(status, self.core.output.writer());
        write(&mut self.core.field_writer());
        self.core.end_block(stream, start, end);
        Ok(())
    }

    /// Ends a stream whose request or answer is of no use any more: with `NO_ERROR` where the answer is whole, RFC 9113 §8.1, or else with
    /// this code.
    pub fn abandon(&mut self, stream: StreamId, code: ErrorCode) {
        let state = self.core.streams.get(stream);
        let is_answered = state.is_some_and(|state| state.sending == SendState::Ended);
        let code = match is_answered {
            true => ErrorCode::NO_ERROR,
            false => code,
        };
        self.core.reset(stream, code);
    }

    /// Begins an answer with a head, which leaves the stream in the state `after`.
    fn begin_answer(&mut self, stream: StreamId, after: SendState) -> Result<(), StreamGone> {
        let state = self.core.streams.get_mut(stream).ok_or(StreamGone)?;
        if state.sending != SendState::Head {
            return Err(StreamGone);
        }
        state.sending = after;
        Ok(())
    }
}
