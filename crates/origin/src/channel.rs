//! Carries one request to a server and its response back: over a connection of HTTP/1.1, or on a stream of HTTP/2.
//!
//! Writing never waits for the server alone: bytes that it does not take at once wait here, while its response is read. A server that
//! answers a large body before it has read it, and reads no more of it, is heard.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use http::header::HeaderMap;
use pingora::protocols::{Stream, UniqueIDType};
use sluicegate_http2::{RequestPseudoFields, ResponseHead};
use tokio::io::AsyncWrite;
use tokio::time::Instant;

use super::idle::{ConnectionHome, IdleCheck, IdleConnection};
use super::origin_stream::{OriginStream, Received};
use crate::request_failure::{OriginFailure, OriginTimeout, RequestFailure, Result};
use sluicegate_transport::body_end::BodyEnd;
use sluicegate_transport::reusable_timeout::ReusableTimeout;
use sluicegate_transport::thread_buffer::{
    THREAD_BUFFER, give_read_buffer, poll_read_through, take_read_buffer,
};
use sluicegate_transport::timer;

/// Bytes asked for in one read of a response.
const RESPONSE_READ: usize = THREAD_BUFFER;

/// The way to a server for one request.
pub struct OriginChannel {
    wire: OriginWire,
    /// The bytes that were received and not consumed: of HTTP/1.1 all, of HTTP/2 the content of the response.
    pub read: BytesMut,
    /// The bytes of the request that the server has not taken.
    unsent: BytesMut,
    /// True if the request ends behind the unsent bytes.
    is_complete: bool,
    /// True while written bytes may be in a buffer of the stream.
    needs_flush: bool,
    /// The error after which nothing more was written.
    write_error: Option<io::Error>,
    timeout: ReusableTimeout,
    /// The end of the wait for the head of the response, which neither interim heads nor a part of the head prolong; `None` before the
    /// wait, and once more of the request was sent.
    head_deadline: Option<(Instant, OriginTimeout)>,
    /// True once bytes of a response came.
    is_answered: bool,
    /// True if the request was sent whole before the latest bytes of the response were read.
    is_answer_to_whole: bool,
    /// The way in which bytes are found that come once its connection is idle.
    pub idle_check: IdleCheck,
    /// The time for which its server keeps the connection idle, as the latest response announces.
    pub announced_idle: Option<Duration>,
    is_reused: bool,
}

enum OriginWire {
    Http1 {
        stream: Stream,
        home: ConnectionHome,
    },
    Http2(Box<OriginStream>),
}

/// An event of a channel.
pub enum OriginEvent {
    /// The server sent so many bytes, 0 at the end: of the connection of HTTP/1.1, or of the response of HTTP/2.
    Bytes(usize),
    /// The server sent a head of HTTP/2, interim or final.
    Head(ResponseHead),
    /// The server took the bytes that waited.
    Sent,
}

/// The longest waits for a server.
#[derive(Clone, Copy, Debug)]
pub struct OriginPatience {
    /// For the next bytes of the response.
    pub read: OriginWait,
    /// While bytes of the request wait.
    pub write: OriginWait,
}

/// The longest wait for an event.
#[derive(Clone, Copy, Debug)]
pub struct OriginWait {
    /// Its duration.
    pub most: Duration,
    /// The failure at its end.
    pub timeout: OriginTimeout,
}

impl OriginWait {
    /// Returns a wait of at most this time, whose failure does not matter.
    #[must_use]
    pub fn within(self, most: Duration) -> Self {
        let most = self.most.min(most);
        Self { most, ..self }
    }

    /// Returns this wait or the other one, whichever is shorter.
    #[must_use]
    pub fn or_shorter(self, other: Self) -> Self {
        if other.most <= self.most { other } else { self }
    }
}

impl OriginChannel {
    /// Returns the channel of a connection that carried no request before.
    fn new(wire: OriginWire) -> Self {
        Self {
            wire,
            read: take_read_buffer(),
            unsent: BytesMut::new(),
            is_complete: false,
            needs_flush: false,
            write_error: None,
            timeout: ReusableTimeout::default(),
            head_deadline: None,
            is_answered: false,
            is_answer_to_whole: false,
            idle_check: IdleCheck::Readiness,
            announced_idle: None,
            is_reused: false,
        }
    }

    /// Returns the channel of a new connection of HTTP/1.1.
    pub(super) fn of_connection(stream: Stream, home: ConnectionHome) -> Self {
        Self::new(OriginWire::Http1 { stream, home })
    }

    /// Returns the channel of a stream of HTTP/2.
    pub(super) fn of_stream(stream: OriginStream) -> Self {
        Self {
            is_reused: stream.place().is_reused,
            ..Self::new(OriginWire::Http2(Box::new(stream)))
        }
    }

    /// Returns the connection as an idle one, for at most `idle_timeout`, and for less than its server announced; `None` for a stream,
    /// which ends.
    pub(super) fn into_idle(self, idle_timeout: Option<Duration>) -> Option<IdleConnection> {
        give_read_buffer(self.read);
        let announced = self.announced_idle.map(before_end);
        let idle_timeout = [idle_timeout, announced].into_iter().flatten().min();
        match self.wire {
            OriginWire::Http1 { stream, home } => Some(IdleConnection::new(
                (stream, self.idle_check),
                self.timeout,
                home,
                idle_timeout,
            )),
            OriginWire::Http2(_) => None,
        }
    }

    /// Returns whether its connection carried requests before.
    #[must_use]
    pub fn is_reused(&self) -> bool {
        self.is_reused
    }

    /// Returns whether its connection was idle before and has carried nothing of a response since: its server may have closed it.
    #[must_use]
    pub fn may_be_stale(&self) -> bool {
        self.is_reused && !self.is_answered
    }

    /// Returns whether the whole request was sent before the last bytes of the response were read. A server that answers earlier may take
    /// the rest for another request, or answer again once it has read it: RFC 9112 §9.5 and §9.6.
    #[must_use]
    pub fn is_answer_to_whole(&self) -> bool {
        self.is_answer_to_whole
    }

    /// Returns whether it is a stream of HTTP/2.
    #[must_use]
    pub fn is_http2(&self) -> bool {
        matches!(self.wire, OriginWire::Http2(_))
    }

    /// Gives its connection of HTTP/2 no more requests if that has received nothing since the request was sent: it may be dead. Requests
    /// that it carries go on.
    pub fn retire_if_silent(&self) {
        if let OriginWire::Http2(stream) = &self.wire
            && stream.place().is_silent()
        {
            stream.place().close_connection();
        }
    }

    /// Returns the number of its socket.
    #[must_use]
    pub fn socket(&self) -> UniqueIDType {
        match &self.wire {
            OriginWire::Http1 { stream, .. } => stream.id(),
            OriginWire::Http2(stream) => stream.place().socket,
        }
    }

    /// Returns the connection for a protocol other than HTTP; a stream has none.
    pub fn stream(&mut self) -> Option<&mut Stream> {
        match &mut self.wire {
            OriginWire::Http1 { stream, .. } => Some(stream),
            OriginWire::Http2(_) => None,
        }
    }

    /// Sends the head of a request on a stream, which has a body unless `end` is here. Names are in lower case, and no field is about the
    /// connection.
    ///
    /// # Errors
    /// The connection is closing, or has no streams.
    pub fn send_head<'f>(
        &mut self,
        pseudo: RequestPseudoFields<'f>,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        end: BodyEnd,
    ) -> Result<()> {
        match &mut self.wire {
            OriginWire::Http1 { .. } => Err(RequestFailure::internal(
                "a connection of HTTP/1.1 has no heads of streams",
            )),
            OriginWire::Http2(stream) => stream.send_head(pseudo, fields, end),
        }
    }

    /// Writes bytes of the request. Those that the server does not take at once wait.
    pub async fn send(&mut self, bytes: &[u8], end: BodyEnd) {
        self.is_complete |= end.is_here();
        self.head_deadline = None;
        if self.write_error.is_some() {
            return;
        }
        let mut bytes = bytes;
        poll_fn(|context| {
            if self.unsent.is_empty()
                && let OriginWire::Http1 { stream, .. } = &mut self.wire
            {
                while !bytes.is_empty() {
                    match Pin::new(&mut *stream).poll_write(context, bytes) {
                        Poll::Ready(Ok(written)) if written > 0 => bytes = &bytes[written..],
                        Poll::Ready(written) => {
                            self.write_error = Some(unwritten(written));
                            return Poll::Ready(());
                        }
                        Poll::Pending => break,
                    }
                }
                self.needs_flush = true;
            }
            self.unsent.extend_from_slice(bytes);
            // What is left is written while the response is awaited.
            let _ = self.poll_send(context);
            Poll::Ready(())
        })
        .await;
    }

    /// Returns whether bytes of the request wait for the server.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() || self.needs_flush
    }

    /// Returns whether it takes more of the request.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.write_error.is_none() && !self.has_unsent()
    }

    /// Returns whether the response of HTTP/2 has ended behind the bytes that were read.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        match &self.wire {
            OriginWire::Http1 { .. } => false,
            OriginWire::Http2(stream) => stream.is_ended(),
        }
    }

    /// Returns how many bytes of memory the content may take that comes before [`Self::next`] is called again: one read of HTTP/1.1, and
    /// the window of a stream, in buffers that grow by doubling.
    #[must_use]
    pub fn ahead(&self) -> u32 {
        match &self.wire {
            OriginWire::Http1 { .. } => RESPONSE_READ as u32,
            OriginWire::Http2(stream) => 2 * stream.place().window,
        }
    }

    /// Returns how many bytes of content may come into memory while those that were read wait for the client: of HTTP/1.1 none, which
    /// waits in the kernel.
    #[must_use]
    pub fn behind(&self) -> usize {
        match &self.wire {
            OriginWire::Http1 { .. } => 0,
            OriginWire::Http2(stream) if stream.is_ended() => 0,
            OriginWire::Http2(stream) => stream.place().window as usize,
        }
    }

    /// Gives the memory of the bytes that were read back to the thread, once they are consumed: those of a large read wait for the client
    /// elsewhere.
    pub fn release_read(&mut self) {
        if self.read.is_empty() {
            give_read_buffer(mem::take(&mut self.read));
        }
    }

    /// Takes the trailers of a response of HTTP/2 that has ended.
    pub fn take_trailers(&mut self) -> Option<HeaderMap> {
        match &mut self.wire {
            OriginWire::Http1 { .. } => None,
            OriginWire::Http2(stream) => stream.take_trailers(),
        }
    }

    /// Waits for the next event. Of HTTP/2 it lets the server send as much as was received before, so that has to be used by then. Dropping
    /// the future loses nothing.
    ///
    /// # Errors
    /// The connection or the stream failed, or the wait took too long.
    pub async fn next(&mut self, patience: OriginPatience) -> Result<OriginEvent> {
        let wait = if self.has_unsent() {
            patience.write
        } else {
            patience.read
        };
        let mut timeout = std::mem::take(&mut self.timeout);
        let mut deadline = None;
        let event = {
            let event = pin!(poll_fn(|context| self.poll_next(context)));
            timeout.wait_until(event, wait.most, &mut deadline).await
        };
        self.timeout = timeout;
        if matches!(event, Some(Ok(OriginEvent::Sent))) {
            self.head_deadline = None;
        } else if let (OriginTimeout::FirstByte(_), None) = (wait.timeout, self.head_deadline) {
            self.head_deadline = deadline.map(|deadline| (deadline, wait.timeout));
        }
        event.unwrap_or_else(|| Err(OriginFailure::Timeout(wait.timeout).into()))
    }

    /// Returns what is left of the wait for the head of the response, once it began.
    #[must_use]
    pub fn rest_of_head_wait(&self) -> Option<OriginWait> {
        self.head_deadline.map(|(deadline, timeout)| OriginWait {
            most: deadline.saturating_duration_since(timer::deadline(Duration::ZERO)),
            timeout,
        })
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<OriginEvent>> {
        if self.has_unsent() && self.poll_send(context).is_ready() && self.write_error.is_none() {
            return Poll::Ready(Ok(OriginEvent::Sent));
        }
        let received = ready!(self.poll_receive(context));
        let is_end = matches!(received, Ok(OriginEvent::Bytes(0)) | Err(_));
        if !is_end {
            self.is_answered = true;
        } else if !self.is_answered
            && !self.is_http2()
            && let Some(error) = self.write_error.take()
        {
            // The cause comes before its effect. The error of a stream says more than that nothing could be written.
            return Poll::Ready(Err(OriginFailure::Broken(error).into()));
        }
        Poll::Ready(received)
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Result<OriginEvent>> {
        match &mut self.wire {
            OriginWire::Http1 { stream, .. } => {
                let read = ready!(poll_read_through(
                    stream,
                    context,
                    &mut self.read,
                    RESPONSE_READ
                ));
                let read = read.map_err(OriginFailure::Broken)?;
                self.is_answer_to_whole = self.is_complete && self.is_writable();
                Poll::Ready(Ok(OriginEvent::Bytes(read)))
            }
            OriginWire::Http2(stream) => {
                let received = ready!(stream.poll_receive(context, &mut self.read, RESPONSE_READ))?;
                Poll::Ready(Ok(match received {
                    Received::Head(head) => OriginEvent::Head(head),
                    Received::Content(bytes) => OriginEvent::Bytes(bytes),
                }))
            }
        }
    }

    /// Writes the bytes that wait. An error is kept, and nothing waits any more.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let sent = match &mut self.wire {
            OriginWire::Http1 { stream, .. } => {
                ready!(poll_write_all(stream, context, &mut self.unsent))
            }
            OriginWire::Http2(stream) => {
                let end = BodyEnd::here_if(self.is_complete);
                ready!(stream.poll_send(context, &mut self.unsent, end))
            }
        };
        self.needs_flush = false;
        if let Err(error) = sent {
            self.unsent = BytesMut::new();
            self.write_error = Some(error);
        }
        Poll::Ready(())
    }
}

/// Returns the time for which a connection is idle whose server closes it after `announced`: a second less, for the way of the response and
/// of the next request, but at least half of it.
fn before_end(announced: Duration) -> Duration {
    const MARGIN: Duration = Duration::from_secs(1);
    announced.saturating_sub(MARGIN).max(announced / 2)
}

impl From<IdleConnection> for OriginChannel {
    fn from(idle: IdleConnection) -> Self {
        let wire = OriginWire::Http1 {
            stream: idle.stream,
            home: idle.home,
        };
        Self {
            timeout: idle.timeout,
            is_reused: true,
            ..Self::new(wire)
        }
    }
}

/// Writes `bytes` to the end, through the buffer of the stream.
fn poll_write_all(
    stream: &mut Stream,
    context: &mut Context<'_>,
    bytes: &mut BytesMut,
) -> Poll<io::Result<()>> {
    while !bytes.is_empty() {
        match ready!(Pin::new(&mut *stream).poll_write(context, bytes))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            written => bytes.advance(written),
        }
    }
    Pin::new(stream).poll_flush(context)
}

/// Returns the error of a write of no bytes.
fn unwritten(written: io::Result<usize>) -> io::Error {
    written
        .err()
        .unwrap_or_else(|| io::ErrorKind::WriteZero.into())
}
