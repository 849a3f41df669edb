//! Owns one stream of a connection: reads its body, and sends its answer. Dropping it ends the stream.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use sluicegate_base::bounds;
use sluicegate_http3::{ErrorCode, StreamEnd, StreamGone, StreamId};

use super::streams::{OutputRoom, QuicState, QuicStreams};
use crate::gateway::FieldSink;
use crate::listener::http2::{BodyRead, ReceivedBody, StreamIo, gone};
use sluicegate_origin::request_failure::ClientFailure;

/// A stream of HTTP/3 that is not over.
pub(super) struct Http3Handle {
    streams: Arc<QuicStreams>,
    id: StreamId,
    /// The code with which the stream ends, where its answer is not whole.
    end: ErrorCode,
}

impl Http3Handle {
    /// Returns the handle of a stream that is among the open ones.
    pub(super) fn new(streams: &Arc<QuicStreams>, id: StreamId) -> Self {
        Self {
            streams: Arc::clone(streams),
            id,
            end: ErrorCode::INTERNAL_ERROR,
        }
    }

    /// Sends heads by `send`, and gives them to QUIC as far as it has room.
    fn send(&self, send: impl FnOnce(&mut QuicState) -> Result<(), StreamGone>) -> io::Result<()> {
        let mut state = self.streams.lock();
        send(&mut state).map_err(|StreamGone| gone())?;
        state.write(self.id);
        state.wake_driver();
        Ok(())
    }
}

impl StreamIo for Http3Handle {
    fn refuse(mut self) {
        self.end = ErrorCode::REQUEST_REJECTED;
    }

    fn become_tunnel(&mut self) {
        self.end = ErrorCode::CONNECT_ERROR;
    }

    fn poll_read(
        &self,
        context: &Context<'_>,
        into: &mut BytesMut,
    ) -> Poll<Result<BodyRead, ClientFailure>> {
        let mut state = self.streams.lock();
        let is_waiting = |state: &mut QuicState| {
            let open = state.stream(self.id);
            open.is_some_and(|open| open.untaken() == 0 && open.state() == ReceivedBody::Open)
        };
        if is_waiting(&mut state) {
            state.read_for_request(self.id);
        }
        let Some(open) = state.stream(self.id) else {
            return Poll::Ready(Err(gone().into()));
        };
        open.poll_take(context, into)
    }

    fn is_body_whole(&self) -> bool {
        let mut state = self.streams.lock();
        let open = state.stream(self.id);
        // A body may have come with its head.
        open.is_none_or(|open| open.state() == ReceivedBody::Whole && open.untaken() == 0)
    }

    fn send_head(
        &self,
        status: u16,
        write: impl FnOnce(&mut dyn FieldSink),
        end: StreamEnd,
    ) -> io::Result<()> {
        self.send(|state| {
            // RFC 8297 §2: such a head is a hint. An origin may send as many as it likes, and the client takes none.
            if status < 200 && state.http.output(self.id).len() > bounds::CLIENT_OUTPUT {
                return Ok(());
            }
            (state.http).send_written_head(self.id, status, |into| write(into))?;
            // RFC 9114 §4.1: an interim answer ends nothing.
            match end.is_here() && status >= 200 {
                true => state.http.end_answer(self.id),
                false => Ok(()),
            }
        })
    }

    fn poll_send(
        &self,
        context: &Context<'_>,
        bytes: &[u8],
        end: StreamEnd,
    ) -> Poll<io::Result<usize>> {
        let mut state = self.streams.lock();
        let Ok(allowed) = state.http.begin_data(self.id, bytes.len()) else {
            return Poll::Ready(Err(gone()));
        };
        let taken = match state.write(self.id) {
            OutputRoom::Some => {
                let piece = bytes.get(..allowed).unwrap_or_default();
                state.write_body(self.id, piece)
            }
            OutputRoom::None => 0,
        };
        if taken == bytes.len() && end.is_here() {
            // The frame is whole: all of its bytes were taken.
            let _ = state.http.end_answer(self.id);
            state.write(self.id);
        }
        state.wake_driver();
        if taken == 0 && !bytes.is_empty() {
            if let Some(open) = state.stream(self.id) {
                open.wait(context);
            }
            return Poll::Pending;
        }
        Poll::Ready(Ok(taken))
    }

    fn send_trailers<'f>(
        &self,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> io::Result<()> {
        self.send(|state| state.http.send_trailers(self.id, fields))
    }

    /// Completes when QUIC has all of it, which keeps it until the client has acknowledged it.
    fn poll_left(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.streams.lock();
        let room = state.write(self.id);
        let Some(open) = state.stream(self.id) else {
            return Poll::Ready(Err(gone()));
        };
        if open.state() == ReceivedBody::Gone {
            return Poll::Ready(Err(gone()));
        }
        match room {
            OutputRoom::Some => Poll::Ready(Ok(())),
            OutputRoom::None => {
                open.wait(context);
                Poll::Pending
            }
        }
    }

    fn poll_gone(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.streams.lock();
        let open = state.stream(self.id);
        open.map_or(Poll::Ready(()), |open| open.poll_gone(context))
    }
}

impl Drop for Http3Handle {
    fn drop(&mut self) {
        self.streams.lock().remove(self.id, self.end);
    }
}
