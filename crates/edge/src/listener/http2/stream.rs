//! Owns one stream of HTTP/2 or HTTP/3 while its request is served: the bytes of its body, and its answer.
//!
//! RFC 9113 §8.1.1: a body of another length than the announced one makes a request malformed, and only the end of its stream shows that.
//! An origin of HTTP/1.1 takes a request for whole with the last announced byte, so this byte is received with the end of the stream.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::BytesMut;
use http::{HeaderMap, StatusCode};
use sluicegate_http2::StreamEnd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;

use super::receive_window::BodyWindow;
use super::stream_handle::StreamHandle;
use super::stream_io::{BodyRead, StreamIo};
use crate::gateway::{AnswerHead, FieldSink, RequestClient};
use sluicegate_budgets::ClientAccount;
use sluicegate_origin::request_failure::ClientFailure;
use sluicegate_transport::body_end::BodyEnd;

/// A stream whose head was taken.
pub(crate) struct Http2Stream<S: StreamIo = StreamHandle> {
    handle: S,
    account: ClientAccount,
    /// The memory for what comes ahead, until the body was read.
    window: Option<BodyWindow>,
    /// The time for each write.
    write_timeout: Duration,
    /// Bytes of the body that were received and not consumed.
    received: BytesMut,
    /// Bytes of the body that may be received before the end of the stream.
    before_end: u64,
    /// The last announced byte, until the stream ends.
    last: Option<u8>,
    /// True once the body was read to its end.
    is_read: bool,
    /// True once the end of the answer was sent.
    is_ended: bool,
    /// True if the end of the answer is withheld until the rest has left.
    withholds_end: bool,
    /// True once the stream carries another protocol.
    is_tunnel: bool,
}

impl<S: StreamIo> Http2Stream<S> {
    /// Returns the stream of this client, whose body has the `announced` length, if any, and each of whose writes has this time.
    pub(super) fn new(
        handle: S,
        window: Option<BodyWindow>,
        account: ClientAccount,
        announced: Option<u64>,
        write_timeout: Duration,
    ) -> Self {
        Self {
            is_read: handle.is_body_whole(),
            handle,
            account,
            window,
            write_timeout,
            received: BytesMut::new(),
            before_end: announced.map_or(u64::MAX, |bytes| bytes.saturating_sub(1)),
            last: None,
            is_ended: false,
            withholds_end: false,
            is_tunnel: false,
        }
    }

    /// Begins the final answer with this status and these fields, and a body unless `end` is here.
    pub(crate) fn begin(
        &mut self,
        status: StatusCode,
        fields: &HeaderMap,
        end: BodyEnd,
    ) -> io::Result<()> {
        self.is_ended = end.is_here();
        let write = |into: &mut dyn FieldSink| {
            for (name, value) in lines(fields) {
                into.write(name, value);
            }
        };
        (self.handle).send_head(status.as_u16(), write, end.into())
    }

    /// Sends bytes with which the answer ends, as far as there is room. Returns the rest; `None` where the answer is whole.
    pub(super) fn end_now<'b>(&mut self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        if self.is_ended {
            return None;
        }
        let context = Context::from_waker(Waker::noop());
        match self.handle.poll_send(&context, bytes, StreamEnd::Here) {
            Poll::Ready(Ok(taken)) if taken == bytes.len() => {
                self.is_ended = true;
                None
            }
            Poll::Ready(Ok(taken)) => bytes.get(taken..),
            // The client has left.
            Poll::Ready(Err(_)) => None,
            Poll::Pending => Some(bytes),
        }
    }

    async fn read(&mut self) -> Result<usize, ClientFailure> {
        if self.is_read {
            self.left().await;
            return Err(io::Error::from(ErrorKind::ConnectionReset).into());
        }
        poll_fn(|context| self.poll_read(context)).await
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Result<usize, ClientFailure>> {
        loop {
            if self.before_end == u64::MAX {
                // Most bodies are announced, or have no length at all: then each byte may be passed on.
                let read = ready!(self.handle.poll_read(context, &mut self.received))?;
                match read {
                    BodyRead::Bytes(bytes) => return Poll::Ready(Ok(bytes)),
                    BodyRead::End => return Poll::Ready(Ok(self.end_body())),
                }
            }
            let mut bytes = BytesMut::new();
            match ready!(self.handle.poll_read(context, &mut bytes))? {
                BodyRead::Bytes(_) => match self.receive(bytes) {
                    0 => {}
                    received => return Poll::Ready(Ok(received)),
                },
                BodyRead::End => return Poll::Ready(Ok(self.end_body())),
            }
        }
    }

    /// Ends the body. Returns how many bytes of it were held back.
    fn end_body(&mut self) -> usize {
        self.is_read = true;
        self.window = None;
        let last = self.last.take();
        self.received.extend(last);
        usize::from(last.is_some())
    }

    /// Receives bytes of the body, but not the last announced one before the end of the stream. Returns how many were received.
    fn receive(&mut self, mut bytes: BytesMut) -> usize {
        let mut received = bytes.len();
        self.before_end = match self.before_end.checked_sub(received as u64) {
            Some(left) => left,
            None if self.handle.is_body_whole() => 0,
            None => {
                // Bytes beyond the announced ones are rejected, so this is one byte.
                received = usize::try_from(self.before_end).unwrap_or(received);
                self.last = bytes.last().copied();
                0
            }
        };
        bytes.truncate(received);
        if self.received.is_empty() {
            self.received = bytes;
        } else {
            self.received.extend_from_slice(&bytes);
        }
        received
    }

    /// Sends bytes of the body as the windows of the client and the output of the connection allow.
    async fn send(&mut self, mut bytes: &[u8], end: BodyEnd) -> io::Result<()> {
        loop {
            let sent =
                |context: &mut Context<'_>| self.handle.poll_send(context, bytes, end.into());
            let taken = poll_fn(sent).await?;
            bytes = bytes.get(taken..).unwrap_or_default();
            if bytes.is_empty() {
                self.is_ended = end.is_here();
                return Ok(());
            }
        }
    }
}

impl<S: StreamIo> RequestClient for Http2Stream<S> {
    fn account(&self) -> &ClientAccount {
        &self.account
    }

    fn received(&mut self) -> &mut BytesMut {
        &mut self.received
    }

    async fn read_more(&mut self, patience: Option<Duration>) -> Result<usize, ClientFailure> {
        match patience {
            Some(patience) => {
                let read = timeout(patience, self.read()).await;
                read.unwrap_or(Err(ClientFailure::Stalled))
            }
            None => self.read().await,
        }
    }

    fn begin_answer(&mut self, _: &mut Vec<u8>, head: AnswerHead<'_>) -> io::Result<()> {
        let end = BodyEnd::here_if(head.is_whole());
        self.is_ended = end.is_here();
        if head.is_switch() {
            self.is_tunnel = true;
            self.handle.become_tunnel();
        }
        (self.handle).send_head(
            head.http2_status(),
            |into| head.write_http2(into),
            end.into(),
        )
    }

    async fn write(&mut self, pieces: [&[u8]; 2], end: BodyEnd) -> Result<(), ClientFailure> {
        let end = match self.withholds_end {
            true => BodyEnd::NotYet,
            false => end,
        };
        if self.is_ended || pieces == [b"", b""] && end == BodyEnd::NotYet {
            return Ok(());
        }
        let [first, second] = pieces;
        let patience = self.write_timeout;
        let sent = timeout(patience, async {
            if second.is_empty() {
                return self.send(first, end).await;
            }
            if !first.is_empty() {
                self.send(first, BodyEnd::NotYet).await?;
            }
            self.send(second, end).await
        });
        match sent.await {
            Ok(sent) => Ok(sent?),
            Err(_) => Err(ClientFailure::Unread),
        }
    }

    fn withhold_end(&mut self) {
        self.withholds_end = true;
    }

    async fn sent(&mut self) -> Result<(), ClientFailure> {
        // A head that ends its answer has no bytes behind it: the client that has it may ask again at once.
        if !self.withholds_end || self.is_ended {
            return Ok(());
        }
        let left = poll_fn(|context| self.handle.poll_left(context));
        match timeout(self.write_timeout, left).await {
            Ok(left) => Ok(left?),
            Err(_) => Err(ClientFailure::Unread),
        }
    }

    async fn end_answer(&mut self, trailers: Option<HeaderMap>) -> Result<(), ClientFailure> {
        self.withholds_end = false;
        if self.is_ended {
            return Ok(());
        }
        match trailers {
            Some(trailers) => self.handle.send_trailers(lines(&trailers))?,
            None => self.send(b"", BodyEnd::Here).await?,
        }
        self.is_ended = true;
        Ok(())
    }

    async fn left(&mut self) {
        poll_fn(|context| self.handle.poll_gone(context)).await;
    }

    fn stream(&mut self) -> Option<&mut (impl AsyncRead + AsyncWrite + Send + Unpin)> {
        self.is_tunnel.then_some(self)
    }
}

impl<S: StreamIo> AsyncRead for Http2Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.received.is_empty() {
            // 0 bytes are the end.
            let read = ready!(this.handle.poll_read(context, &mut this.received));
            read.map_err(|_| io::Error::from(ErrorKind::ConnectionReset))?;
        }
        let bytes = this.received.len().min(into.remaining());
        into.put_slice(&this.received.split_to(bytes));
        Poll::Ready(Ok(()))
    }
}

impl<S: StreamIo> AsyncWrite for Http2Stream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.handle.poll_send(context, bytes, StreamEnd::NotYet)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The task of the connection writes what was taken.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_ended {
            ready!(self.handle.poll_send(context, b"", StreamEnd::Here))?;
            self.is_ended = true;
        }
        Poll::Ready(Ok(()))
    }
}

/// Returns the fields as names and values.
fn lines(fields: &HeaderMap) -> impl Iterator<Item = (&[u8], &[u8])> {
    let fields = fields.iter();
    fields.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
}
