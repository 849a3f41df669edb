//! Owns what came of the body of a request, and the task that waits for more of it.

use std::io::{self, ErrorKind};
use std::mem;
use std::task::{Context, Poll};

use bytes::BytesMut;
use sluicegate_http2::StreamEnd;

use super::stream_io::BodyRead;
use sluicegate_origin::request_failure::ClientFailure;
use sluicegate_transport::task_waker::TaskWaker;

/// The body of a request, as far as it came.
#[derive(Debug)]
pub(crate) struct BodyInput {
    /// The bytes that the task of the request has not taken.
    received: BytesMut,
    body: ReceivedBody,
    /// The task that waits for an event of the stream.
    waker: TaskWaker,
}

/// The state of what a client sends on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceivedBody {
    /// More may come.
    Open,
    /// It has ended.
    Whole,
    /// It breaks a rule, and nothing more comes of it. An answer can be sent.
    Malformed,
    /// The stream is over in both directions.
    Gone,
}

impl ReceivedBody {
    pub(crate) fn until(end: StreamEnd) -> Self {
        match end {
            StreamEnd::Here => Self::Whole,
            StreamEnd::NotYet => Self::Open,
        }
    }
}

impl BodyInput {
    /// Returns a body in this state, of which no byte came.
    pub(crate) fn new(body: ReceivedBody) -> Self {
        Self {
            received: BytesMut::new(),
            body,
            waker: TaskWaker::default(),
        }
    }

    /// Returns the state of the body.
    pub(crate) fn state(&self) -> ReceivedBody {
        self.body
    }

    /// Returns the number of bytes that were not taken.
    pub(crate) fn untaken(&self) -> usize {
        self.received.len()
    }

    /// Notes bytes that came, and wakes the task.
    pub(crate) fn push(&mut self, bytes: &[u8], end: StreamEnd) {
        self.received.extend_from_slice(bytes);
        self.become_state(ReceivedBody::until(end));
    }

    /// Changes the state, and wakes the task.
    pub(crate) fn become_state(&mut self, body: ReceivedBody) {
        self.body = body;
        self.waker.wake();
    }

    /// Notes the task, which waits for an event of the stream.
    pub(crate) fn wait(&mut self, context: &Context<'_>) {
        self.waker.wait(context);
    }

    /// Wakes the task.
    pub(crate) fn wake(&mut self) {
        self.waker.wake();
    }

    /// Takes the bytes that came, or waits for some.
    ///
    /// # Errors
    /// The stream is over, or what came on it breaks a rule.
    pub(crate) fn poll_take(
        &mut self,
        context: &Context<'_>,
        into: &mut BytesMut,
    ) -> Poll<Result<BodyRead, ClientFailure>> {
        match self.body {
            ReceivedBody::Gone => return Poll::Ready(Err(gone().into())),
            ReceivedBody::Malformed => return Poll::Ready(Err(ClientFailure::MalformedStream)),
            ReceivedBody::Whole if self.received.is_empty() => {
                return Poll::Ready(Ok(BodyRead::End));
            }
            ReceivedBody::Open if self.received.is_empty() => {
                self.waker.wait(context);
                return Poll::Pending;
            }
            ReceivedBody::Whole | ReceivedBody::Open => {}
        }
        let bytes = self.received.len();
        if into.is_empty() {
            mem::swap(into, &mut self.received);
        } else {
            into.extend_from_slice(&self.received);
            self.received.clear();
        }
        Poll::Ready(Ok(BodyRead::Bytes(bytes)))
    }

    /// Waits until the stream is over.
    pub(crate) fn poll_gone(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.body == ReceivedBody::Gone {
            return Poll::Ready(());
        }
        self.waker.wait(context);
        Poll::Pending
    }
}

/// Returns the error of a stream that is over.
pub(crate) fn gone() -> io::Error {
    ErrorKind::ConnectionReset.into()
}
