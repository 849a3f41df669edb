//! Owns what the task of a connection shares with those of its streams: the state machine of the connection, and for each stream the bytes
//! that came for it and the task that waits for them.
//!
//! # Concurrency
//! All these tasks run on one thread, so the lock is free whenever one of them takes it: it makes the state `Sync`, and nobody waits for
//! it. A stream that writes wakes the task of the connection, which runs behind the tasks that are already awake: what they have ready
//! leaves in one write.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::{io, time::Duration};

use sluicegate_http2::{
    ConnectionEvent, ErrorCode, RequestHead, RuleViolation, ServerConnection, StreamEnd, StreamId,
};
use tokio::io::AsyncWrite;

use super::body_input::{BodyInput, ReceivedBody};
use super::stream_handle::StreamHandle;
use sluicegate_transport::task_waker::TaskWaker;

/// The streams of one connection.
#[derive(Debug)]
pub(super) struct ConnectionStreams(Mutex<StreamsState>);

/// The state behind the lock.
#[derive(Debug)]
pub(super) struct StreamsState {
    pub(super) connection: ServerConnection,
    /// The streams that a [`StreamHandle`] belongs to, by their numbers.
    open: Vec<OpenStream>,
    /// The task of the connection.
    driver: TaskWaker,
    /// Bytes of output that have left, through all buffers in front of the socket.
    flushed: u64,
}

/// The standing of a connection behind its events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// True if nothing more is to be read.
    pub(super) is_over: bool,
    /// True if bytes wait for the socket.
    pub(super) has_output: bool,
    /// The number of streams that are served.
    pub(super) served: usize,
}

/// A stream that is served.
#[derive(Debug)]
pub(super) struct OpenStream {
    id: StreamId,
    pub(super) input: BodyInput,
    /// The output that has to leave before the answer is whole, in bytes since the connection began.
    pub(super) sent_at: Option<u64>,
}

/// An event of a client that its connection acts on.
pub(super) enum StreamEvent {
    /// A request begins.
    Request {
        handle: StreamHandle,
        head: RequestHead,
        end: StreamEnd,
    },
    /// The head of a request breaks a rule.
    Malformed(StreamHandle, RuleViolation),
    /// The connection ends, since the client broke a rule.
    Closed(RuleViolation),
}

impl ConnectionStreams {
    /// Returns the streams of a connection that has none.
    pub(super) fn new(connection: ServerConnection) -> Arc<Self> {
        Arc::new(Self(Mutex::new(StreamsState {
            connection,
            open: Vec::new(),
            driver: TaskWaker::default(),
            flushed: 0,
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, StreamsState> {
        // Nothing panics under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the task of the connection, which streams wake.
    pub(super) fn set_driver(&self, context: &Context<'_>) {
        self.lock().driver.wait(context);
    }

    /// Reads bytes of the client up to the next event for the connection, and removes those that were read from `input`. Returns `None`
    /// when all were read.
    pub(super) fn receive(
        self: &Arc<Self>,
        input: &mut &[u8],
        now: Duration,
    ) -> Option<StreamEvent> {
        let mut state = self.lock();
        let StreamsState {
            connection, open, ..
        } = &mut *state;
        loop {
            match connection.receive(input, now)? {
                ConnectionEvent::Request { stream, head, end } => {
                    open.push(OpenStream::new(stream, ReceivedBody::until(end)));
                    let handle = StreamHandle::new(self, stream);
                    return Some(StreamEvent::Request { handle, head, end });
                }
                ConnectionEvent::Data { stream, data, end } => match find(open, stream) {
                    Some(open) => open.input.push(data, end),
                    None => connection.release(stream, data.len()),
                },
                // The fields of trailers stay here: an origin could take them for those of the head, which were judged.
                ConnectionEvent::Trailers { stream, .. } => {
                    if let Some(open) = find(open, stream) {
                        open.input.become_state(ReceivedBody::Whole);
                    }
                }
                ConnectionEvent::Malformed { stream, violation } => match find(open, stream) {
                    Some(open) => open.input.become_state(ReceivedBody::Malformed),
                    None => {
                        open.push(OpenStream::new(stream, ReceivedBody::Malformed));
                        let handle = StreamHandle::new(self, stream);
                        return Some(StreamEvent::Malformed(handle, violation));
                    }
                },
                ConnectionEvent::Reset { stream, .. } => {
                    if let Some(open) = find(open, stream) {
                        open.input.become_state(ReceivedBody::Gone);
                    }
                }
                ConnectionEvent::Closed(violation) => return Some(StreamEvent::Closed(violation)),
            }
        }
    }

    /// Writes what waits for the socket.
    pub(super) fn poll_write(
        &self,
        mut stream: Pin<&mut (impl AsyncWrite + ?Sized)>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.lock();
        let state = &mut *state;
        loop {
            let output = state.connection.output();
            if output.is_empty() {
                break;
            }
            match ready!(stream.as_mut().poll_write(context, output))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                bytes => state.connection.advance_output(bytes),
            }
        }
        if state.flushed < state.connection.sent_bytes() {
            ready!(stream.poll_flush(context))?;
            state.flush();
        }
        Poll::Ready(Ok(()))
    }

    /// Wakes the streams that may send, in their order. Returns how the connection stands.
    pub(super) fn wake_ready(&self) -> Standing {
        let mut state = self.lock();
        let StreamsState {
            connection, open, ..
        } = &mut *state;
        while let Some(stream) = connection.next_ready() {
            if let Some(open) = find(open, stream) {
                open.input.wake();
            }
        }
        let has_output = !connection.output().is_empty();
        Standing {
            is_over: connection.is_closed() || connection.is_drained() && !has_output,
            has_output,
            served: open.len(),
        }
    }

    /// Releases memory that a connection without a stream does not need.
    pub(super) fn shrink(&self) {
        let mut state = self.lock();
        state.connection.shrink();
        state.open.shrink_to_fit();
    }

    /// Ends the connection and its streams with this code. What waits for the socket says so.
    pub(super) fn close(&self, code: ErrorCode) {
        let mut state = self.lock();
        state.connection.close(code);
        for open in &mut state.open {
            open.input.become_state(ReceivedBody::Gone);
        }
    }

    /// Returns the number of streams that are served.
    pub(super) fn served(&self) -> usize {
        self.lock().open.len()
    }
}

impl StreamsState {
    /// Returns a stream that is served.
    pub(super) fn stream(&mut self, stream: StreamId) -> Option<&mut OpenStream> {
        find(&mut self.open, stream)
    }

    /// Removes a stream, whose task has ended.
    pub(super) fn remove(&mut self, stream: StreamId) {
        if let Ok(at) = self.open.binary_search_by_key(&stream, |open| open.id) {
            self.open.remove(at);
        }
    }

    /// Returns whether the output that was there has left.
    pub(super) fn has_left(&self, sent_at: u64) -> bool {
        self.flushed >= sent_at
    }

    /// Wakes the task of the connection.
    pub(super) fn wake_driver(&self) {
        self.driver.wake_again();
    }

    /// Notes that the output that was written has left.
    fn flush(&mut self) {
        self.flushed = self.connection.sent_bytes();
        for open in &mut self.open {
            if open.sent_at.is_some_and(|bytes| bytes <= self.flushed) {
                open.input.wake();
            }
        }
    }
}

impl OpenStream {
    fn new(id: StreamId, body: ReceivedBody) -> Self {
        Self {
            id,
            input: BodyInput::new(body),
            sent_at: None,
        }
    }
}

/// Finds a stream: each new one has a greater number, RFC 9113 §5.1.1.
fn find(open: &mut [OpenStream], stream: StreamId) -> Option<&mut OpenStream> {
    let at = open.binary_search_by_key(&stream, |open| open.id).ok()?;
    open.get_mut(at)
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use sluicegate_http2::frame::{PREFACE, write_settings};
    use sluicegate_http2::{ConnectionLimits, ExtendedConnect, FloodLimits};

    use super::super::stream_io::StreamIo;
    use super::*;

    /// A socket that counts writes.
    #[derive(Default)]
    struct CountedWrites {
        writes: usize,
        written: Vec<u8>,
    }

    impl AsyncWrite for CountedWrites {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.writes += 1;
            self.written.extend_from_slice(bytes);
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Returns a connection whose client has sent requests on these streams, and their handles.
    fn requests(streams: &[u32]) -> (Arc<ConnectionStreams>, Vec<StreamHandle>) {
        let limits = ConnectionLimits {
            max_streams: 100,
            max_field_list: 16 * 1024,
            stream_window: 64 * 1024,
            connection_window: 1 << 20,
            output_bytes: 32 * 1024,
            extended_connect: ExtendedConnect::Refused,
            floods: FloodLimits {
                control_frames: 1_000,
                control_frames_per_second: 330,
                control_frames_per_request: 10,
                control_frames_per_data_frame: 3,
                cancelled_streams: 200,
                broken_streams: 128,
                remembered_resets: 1_024,
            },
        };
        let connection = ConnectionStreams::new(ServerConnection::new(limits, Duration::ZERO));
        let mut read = PREFACE.to_vec();
        write_settings(&mut read, &[]);
        for stream in streams {
            // HEADERS of `GET http://a/`, from the static table of HPACK.
            read.extend([0, 0, 6, 1, 5]);
            read.extend(stream.to_be_bytes());
            read.extend([0x82, 0x86, 0x84, 0x41, 1, b'a']);
        }
        let mut input = &read[..];
        let mut handles = Vec::new();
        while let Some(event) = connection.receive(&mut input, Duration::ZERO) {
            match event {
                StreamEvent::Request { handle, .. } => handles.push(handle),
                StreamEvent::Malformed(..) | StreamEvent::Closed(_) => panic!("a whole request"),
            }
        }
        (connection, handles)
    }

    fn write(connection: &ConnectionStreams, socket: &mut CountedWrites) {
        let mut context = Context::from_waker(Waker::noop());
        let written = connection.poll_write(Pin::new(socket), &mut context);
        assert!(matches!(written, Poll::Ready(Ok(()))));
    }

    /// Goal: what all streams have ready leaves in one write. Method: three answers with a body each.
    #[test]
    fn answers_of_several_streams_leave_in_one_write() {
        let (connection, handles) = requests(&[1, 3, 5]);
        let context = Context::from_waker(Waker::noop());
        let mut socket = CountedWrites::default();
        for handle in &handles {
            handle.send_head(200, |_| {}, StreamEnd::NotYet).unwrap();
            let sent = handle.poll_send(&context, b"body", StreamEnd::Here);
            assert!(matches!(sent, Poll::Ready(Ok(4))));
        }
        write(&connection, &mut socket);
        assert_eq!(socket.writes, 1);
        let bodies = socket.written.windows(4).filter(|bytes| *bytes == b"body");
        assert_eq!(bodies.count(), 3);
        assert_eq!(connection.served(), 3);
        drop(handles);
        assert_eq!(connection.served(), 0);
        // Whole streams are not reset.
        write(&connection, &mut socket);
        assert_eq!(socket.writes, 1);
    }

    /// Goal: a stream has left when the socket took its bytes, and is over when its connection is. Method: an answer before and behind a
    /// write, then the end of the connection.
    #[test]
    fn an_answer_has_left_when_the_socket_took_it() {
        let (connection, handles) = requests(&[1]);
        let context = Context::from_waker(Waker::noop());
        let handle = &handles[0];
        handle.send_head(200, |_| {}, StreamEnd::NotYet).unwrap();
        assert!(handle.poll_left(&context).is_pending());
        assert!(handle.poll_gone(&context).is_pending());
        write(&connection, &mut CountedWrites::default());
        assert!(matches!(handle.poll_left(&context), Poll::Ready(Ok(()))));
        connection.close(ErrorCode::NO_ERROR);
        assert!(handle.poll_gone(&context).is_ready());
        let sent = handle.poll_send(&context, b"body", StreamEnd::Here);
        assert!(matches!(sent, Poll::Ready(Err(_))));
    }
}
