//! Names what serving a request needs of its stream, whichever version of HTTP its connection speaks.

use std::io;
use std::task::{Context, Poll};

use bytes::BytesMut;
use sluicegate_http2::StreamEnd;

use crate::gateway::FieldSink;
use sluicegate_origin::request_failure::ClientFailure;

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyRead {
    /// So many bytes came.
    Bytes(usize),
    /// The body has ended.
    End,
}

/// A stream that is not over. Dropping it ends the stream.
pub(crate) trait StreamIo: Send + Sync + Unpin + 'static {
    /// Ends the stream without an answer: its request may be repeated, RFC 9113 §8.7.
    fn refuse(self);

    /// Carries another protocol from now on: an end without its end is like a closed connection, RFC 8441 §5.
    fn become_tunnel(&mut self);

    /// Takes the bytes of the body that came, and lets the client send as many more.
    ///
    /// # Errors
    /// The stream is over, or what came on it breaks a rule.
    fn poll_read(
        &self,
        context: &Context<'_>,
        into: &mut BytesMut,
    ) -> Poll<Result<BodyRead, ClientFailure>>;

    /// Returns whether the client has sent the whole body, and it was taken.
    fn is_body_whole(&self) -> bool;

    /// Sends the head of an answer with the fields that `write` writes.
    ///
    /// # Errors
    /// The stream is over.
    fn send_head(
        &self,
        status: u16,
        write: impl FnOnce(&mut dyn FieldSink),
        end: StreamEnd,
    ) -> io::Result<()>;

    /// Sends bytes of the body of an answer as far as there is room. Returns how many were taken, which is none only where none are there.
    ///
    /// # Errors
    /// The stream is over.
    fn poll_send(
        &self,
        context: &Context<'_>,
        bytes: &[u8],
        end: StreamEnd,
    ) -> Poll<io::Result<usize>>;

    /// Sends the trailers of an answer, which end it.
    ///
    /// # Errors
    /// The stream is over.
    fn send_trailers<'f>(
        &self,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> io::Result<()>;

    /// Completes when what was sent so far has left.
    ///
    /// # Errors
    /// The stream is over: what the client did not take is dropped.
    fn poll_left(&self, context: &Context<'_>) -> Poll<io::Result<()>>;

    /// Completes when the stream is over.
    fn poll_gone(&self, context: &Context<'_>) -> Poll<()>;
}
