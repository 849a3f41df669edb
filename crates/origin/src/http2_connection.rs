//! Owns one connection of HTTP/2 to a server: the state machine that its requests share with the task that reads and writes it.
//!
//! # Concurrency
//! One lock, held while bytes are decoded or encoded, and never during a system call: the task takes the output out before it writes, and
//! reads before it takes the lock. Requests of all threads send on it; the task runs in the runtime that opened it.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use pingora::protocols::Stream;
use sluicegate_base::{bounds, clock};
use sluicegate_http2::{
    ClientConnection, ClientEvent, ClientLimits, ErrorCode, RuleViolation, StreamEnd,
};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::origin_streams::ResponseStreams;
use crate::request_failure::{HeadFailure, OriginFailure, StreamFailure};
use sluicegate_transport::http2_floods::flood_limits;
use sluicegate_transport::socket_poll::SocketPoll;
use sluicegate_transport::task_waker::TaskWaker;
use sluicegate_transport::thread_buffer::{
    THREAD_BUFFER, give_read_buffer, poll_read_through, take_read_buffer,
};

/// Bytes of requests that wait for the socket.
const OUTPUT_BYTES: usize = 64 * 1024;

/// A connection to one server.
#[derive(Debug)]
pub(super) struct Http2Connection(Mutex<Http2State>);

/// The state behind the lock.
#[derive(Debug)]
pub(super) struct Http2State {
    pub(super) connection: ClientConnection,
    pub(super) streams: ResponseStreams,
    /// The task of the connection.
    driver: TaskWaker,
    /// Reads that brought bytes.
    reads: u64,
    /// Requests that have a place.
    places: usize,
    /// True if it gets no more requests.
    is_retired: bool,
    /// The code of the server's latest GOAWAY.
    goaway: Option<ErrorCode>,
}

/// The task of one connection.
pub(super) struct OriginDriver {
    connection: Arc<Http2Connection>,
    stream: Stream,
    /// Bytes that are being written.
    output: BytesMut,
    /// True while written bytes may be in a buffer of the stream.
    needs_flush: bool,
}

impl Http2Connection {
    /// Returns a connection of which nothing was read, whose server takes `known` streams, if an earlier one has said so. One request has a
    /// place.
    pub(super) fn new(window: u32, known: Option<u32>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Http2State {
            connection: ClientConnection::new(limits(window, known), clock::now_since_epoch()),
            streams: ResponseStreams::default(),
            driver: TaskWaker::default(),
            reads: 0,
            places: 1,
            is_retired: false,
            goaway: None,
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Http2State> {
        // Nothing panics under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for one more request, if the server takes one more.
    pub(super) fn enter(&self) -> bool {
        let mut state = self.lock();
        let opened = state.connection.open_streams();
        let most = state.connection.free_streams() + opened;
        let has_room = state.places < most && !state.connection.is_going_away();
        state.places += usize::from(has_room);
        has_room
    }

    /// Gives a place back. Returns whether no request has one.
    pub(super) fn leave(&self) -> bool {
        let mut state = self.lock();
        state.places -= 1;
        let is_empty = state.places == 0;
        if is_empty && state.is_retired {
            state.wake_driver();
        }
        is_empty
    }

    /// Gives the connection no more requests. It ends with its last one.
    pub(super) fn retire(&self) {
        let mut state = self.lock();
        state.is_retired = true;
        state.wake_driver();
    }

    /// Returns the number of reads that brought bytes.
    pub(super) fn reads(&self) -> u64 {
        self.lock().reads
    }

    /// Returns whether the server takes no more requests.
    pub(super) fn is_going_away(&self) -> bool {
        self.lock().connection.is_going_away()
    }

    /// Returns how many streams the server takes at the same time; `None` until its settings have come.
    pub(super) fn max_streams(&self) -> Option<u32> {
        self.lock().connection.max_streams()
    }

    /// Releases memory that a connection without a request does not need.
    pub(super) fn shrink(&self) {
        let mut state = self.lock();
        if state.places == 0 {
            state.connection.shrink();
            state.streams.shrink();
        }
    }
}

impl Http2State {
    /// Wakes the task of the connection.
    pub(super) fn wake_driver(&self) {
        self.driver.wake_again();
    }

    /// Acts on bytes that were read.
    fn receive(&mut self, mut input: &[u8]) {
        self.reads += 1;
        let now = clock::now_since_epoch();
        while let Some(event) = self.connection.receive(&mut input, now) {
            self.act(event);
        }
    }

    /// Acts on what the server does.
    fn act(&mut self, event: ClientEvent<'_>) {
        let streams = &mut self.streams;
        match event {
            ClientEvent::Response { stream, head, end } => {
                let Some(open) = streams.find(stream) else {
                    return;
                };
                if let Err(failure) = open.receive_head(head, end) {
                    open.fail(failure.into());
                    self.connection.reset(stream, ErrorCode::CANCEL);
                }
            }
            ClientEvent::Data { stream, data, end } => match streams.find(stream) {
                Some(open) => open.receive_content(data, end),
                None => self.connection.release(stream, data.len()),
            },
            ClientEvent::Trailers { stream, fields } => {
                if let Some(open) = streams.find(stream) {
                    open.trailers = Some(fields);
                    open.receive_content(b"", StreamEnd::Here);
                }
            }
            ClientEvent::Unprocessed { stream } => {
                let code = self.goaway.unwrap_or(ErrorCode::REFUSED_STREAM);
                let failure = match code {
                    // RFC 9113 §7.
                    ErrorCode::HTTP_1_1_REQUIRED => StreamFailure::NotHttp2,
                    _ => StreamFailure::Unprocessed(code),
                };
                streams.fail(stream, failure.into());
            }
            ClientEvent::Reset {
                stream,
                code,
                violation,
            } => {
                let failure = match violation {
                    Some(RuleViolation::FieldListSize) => HeadFailure::TooLarge.into(),
                    Some(RuleViolation::ContentLength) => HeadFailure::TwoLengths.into(),
                    Some(rule) => StreamFailure::BrokenRule(rule).into(),
                    // RFC 9113 §7.
                    None if code == ErrorCode::HTTP_1_1_REQUIRED => StreamFailure::NotHttp2.into(),
                    None => StreamFailure::Reset(code).into(),
                };
                streams.fail(stream, failure);
            }
            ClientEvent::GoAway { code, .. } => self.goaway = Some(code),
            ClientEvent::Closed(rule) => {
                // The first bytes of a server of HTTP/1 are no SETTINGS.
                let failure = match self.connection.max_streams() {
                    None => StreamFailure::NotHttp2,
                    Some(_) => StreamFailure::BrokenRule(rule),
                };
                streams.fail_all(|| failure.into());
            }
        }
    }

    /// Ends all streams since the connection failed.
    fn fail(&mut self, error: &io::Error) {
        self.connection.close(ErrorCode::NO_ERROR);
        let failure = || OriginFailure::Broken(io::Error::new(error.kind(), error.to_string()));
        self.streams.fail_all(failure);
    }

    /// Returns whether no request can use the connection any more.
    fn is_over(&self) -> bool {
        let takes_none = self.is_retired || self.connection.is_going_away();
        self.connection.is_closed() || takes_none && self.places == 0
    }
}

impl OriginDriver {
    /// Returns the task of a connection, which reads and writes this stream.
    pub(super) fn new(connection: Arc<Http2Connection>, stream: Stream) -> Self {
        Self {
            connection,
            stream,
            output: BytesMut::new(),
            needs_flush: false,
        }
    }

    /// Returns the connection.
    pub(super) fn connection(&self) -> &Http2Connection {
        &self.connection
    }

    /// Reads and writes until the connection ends.
    pub(super) fn poll_drive(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.connection.lock().driver.wait(context);
        let written = self.poll_write(context);
        let read = self.poll_read(context);
        if written == SocketPoll::Broken || read == SocketPoll::Broken {
            return Poll::Ready(());
        }
        let mut state = self.connection.lock();
        let state = &mut *state;
        while let Some(stream) = state.connection.next_ready() {
            if let Some(open) = state.streams.find(stream) {
                open.waker.wake();
            }
        }
        if state.is_over() {
            return Poll::Ready(());
        }
        let may_write = written == SocketPoll::Progressed && !state.connection.output().is_empty();
        if read == SocketPoll::Progressed || may_write {
            // Behind the tasks that it woke: what they have ready leaves in one write.
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> SocketPoll {
        match self.poll_write_all(context) {
            Poll::Ready(Ok(())) => SocketPoll::Progressed,
            Poll::Ready(Err(error)) => {
                // What the server sent before it closed is still there.
                while self.poll_read(context) == SocketPoll::Progressed {}
                self.fail(&error)
            }
            Poll::Pending => SocketPoll::Waits,
        }
    }

    fn poll_write_all(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.output.is_empty() {
                let connection = &mut self.connection.lock().connection;
                let output = connection.output();
                self.output.extend_from_slice(output);
                let taken = output.len();
                connection.advance_output(taken);
            }
            if self.output.is_empty() {
                break;
            }
            let stream = Pin::new(&mut self.stream);
            match std::task::ready!(stream.poll_write(context, &self.output))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                written => self.output.advance(written),
            }
            self.needs_flush = true;
        }
        if self.needs_flush {
            std::task::ready!(Pin::new(&mut self.stream).poll_flush(context))?;
            self.needs_flush = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Reads once, and acts on what came.
    fn poll_read(&mut self, context: &mut Context<'_>) -> SocketPoll {
        if !self.connection.lock().connection.wants_input() {
            // The next write that makes room wakes the task.
            return SocketPoll::Waits;
        }
        let mut read = take_read_buffer();
        let polled = poll_read_through(&mut self.stream, context, &mut read, THREAD_BUFFER);
        let polled = match polled {
            Poll::Ready(Ok(0)) => self.fail(&closed()),
            Poll::Ready(Ok(_)) => {
                self.connection.lock().receive(&read);
                SocketPoll::Progressed
            }
            Poll::Ready(Err(error)) => self.fail(&error),
            Poll::Pending => SocketPoll::Waits,
        };
        give_read_buffer(read);
        polled
    }

    fn fail(&self, error: &io::Error) -> SocketPoll {
        self.connection.lock().fail(error);
        SocketPoll::Broken
    }

    /// Tells the server why the connection ends, and ends it.
    pub(super) async fn finish(mut self) {
        self.connection.lock().connection.close(ErrorCode::NO_ERROR);
        let written = poll_fn(|context| self.poll_write_all(context));
        // A server that reads nothing any more gets no reason.
        if let Ok(Ok(())) = timeout(bounds::LINGER_TIME, written).await {
            let _ = timeout(bounds::LINGER_TIME, self.stream.shutdown()).await;
        }
    }
}

impl Drop for OriginDriver {
    fn drop(&mut self) {
        // Where its runtime ends.
        self.connection.lock().fail(&closed());
    }
}

/// Returns the bounds of a new connection.
fn limits(window: u32, known: Option<u32>) -> ClientLimits {
    ClientLimits {
        max_streams: bounds::ORIGIN_STREAMS as u32,
        first_streams: known.unwrap_or(1),
        max_field_list: bounds::RESPONSE_HEAD as u32,
        stream_window: window,
        // Enough for all streams, so that clients that do not read delay no others.
        connection_window: bounds::ORIGIN_STREAMS as u32 * window,
        output_bytes: OUTPUT_BYTES,
        // A client cancels requests; a server has none to cancel.
        floods: flood_limits(u32::MAX),
    }
}

/// Returns the error of a connection that its server closed.
fn closed() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "connection closed")
}
