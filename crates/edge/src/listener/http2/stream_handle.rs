//! Owns one stream of a connection: reads its body, and sends its answer. Dropping it ends the stream.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use sluicegate_http2::{ErrorCode, StreamEnd, StreamGone, StreamId};

use super::body_input::{ReceivedBody, gone};
use super::stream_io::{BodyRead, StreamIo};
use super::streams::ConnectionStreams;
use crate::gateway::FieldSink;
use sluicegate_origin::request_failure::ClientFailure;

/// A stream that is not over.
#[derive(Debug)]
pub(crate) struct StreamHandle {
    streams: Arc<ConnectionStreams>,
    id: StreamId,
    /// The code with which the stream ends, where its answer is not whole.
    end: ErrorCode,
}

impl StreamHandle {
    /// Returns the handle of a stream that is among the open ones.
    pub(super) fn new(streams: &Arc<ConnectionStreams>, id: StreamId) -> Self {
        Self {
            streams: Arc::clone(streams),
            id,
            end: ErrorCode::INTERNAL_ERROR,
        }
    }
}

impl StreamIo for StreamHandle {
    fn refuse(mut self) {
        self.end = ErrorCode::REFUSED_STREAM;
    }

    fn become_tunnel(&mut self) {
        self.end = ErrorCode::CANCEL;
    }

    fn poll_read(
        &self,
        context: &Context<'_>,
        into: &mut BytesMut,
    ) -> Poll<Result<BodyRead, ClientFailure>> {
        let mut state = self.streams.lock();
        let Some(open) = state.stream(self.id) else {
            return Poll::Ready(Err(gone().into()));
        };
        let read = ready!(open.input.poll_take(context, into));
        if let Ok(BodyRead::Bytes(bytes)) = read {
            state.connection.release(self.id, bytes);
            if !state.connection.output().is_empty() {
                state.wake_driver();
            }
        }
        Poll::Ready(read)
    }

    fn is_body_whole(&self) -> bool {
        let mut state = self.streams.lock();
        (state.stream(self.id)).is_none_or(|open| open.input.state() == ReceivedBody::Whole)
    }

    fn send_head(
        &self,
        status: u16,
        write: impl FnOnce(&mut dyn FieldSink),
        end: StreamEnd,
    ) -> io::Result<()> {
        let mut state = self.streams.lock();
        let sent = (state.connection).send_written_head(self.id, status, |into| write(into), end);
        state.wake_driver();
        sent.map_err(|StreamGone| gone())
    }

    fn poll_send(
        &self,
        context: &Context<'_>,
        bytes: &[u8],
        end: StreamEnd,
    ) -> Poll<io::Result<usize>> {
        let mut state = self.streams.lock();
        let taken = match state.connection.send_data(self.id, bytes, end) {
            Ok(taken) => taken,
            Err(StreamGone) => return Poll::Ready(Err(gone())),
        };
        state.wake_driver();
        if taken == 0 && !bytes.is_empty() {
            if let Some(open) = state.stream(self.id) {
                open.input.wait(context);
            }
            return Poll::Pending;
        }
        Poll::Ready(Ok(taken))
    }

    fn send_trailers<'f>(
        &self,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> io::Result<()> {
        let mut state = self.streams.lock();
        let sent = state.connection.send_trailers(self.id, fields);
        state.wake_driver();
        sent.map_err(|StreamGone| gone())
    }

    fn poll_left(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.streams.lock();
        let queued = state.connection.queued_bytes();
        let Some(open) = state.stream(self.id) else {
            return Poll::Ready(Err(gone()));
        };
        let sent_at = *open.sent_at.get_or_insert(queued);
        if open.input.state() == ReceivedBody::Gone {
            return Poll::Ready(Err(gone()));
        }
        open.input.wait(context);
        match state.has_left(sent_at) {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    fn poll_gone(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.streams.lock();
        let open = state.stream(self.id);
        open.map_or(Poll::Ready(()), |open| open.input.poll_gone(context))
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        let mut state = self.streams.lock();
        state.connection.abandon(self.id, self.end);
        state.remove(self.id);
        // Its last bytes wait, or the connection has no stream any more.
        state.wake_driver();
    }
}
