//! Owns the stream of a client's connection, and ends writes that make no progress.
//!
//! A client that never reads would hold its request, and the connection to the origin, forever.
//!
//! The remaining time of a client that reads is a bucket, like that of a client that sends (`crate::gateway::min_body_rate`): waiting
//! empties it, and every byte that the client reads adds the time that it takes at the minimum rate. So a client that reads a
//! little now and then does not hold an answer, and its buffers, forever. With HTTP/2 this applies to the connection, which all
//! of its streams wait for; each stream has a timeout too (`super::http2_stream`).
//!
//! Bytes count as read when the client acknowledges them. The kernel wakes a writer when there is room for many bytes, so a slow
//! client would seem to read nothing; at the timeout, the kernel is asked how much was acknowledged since.
//!
//! A write that does not wait costs little: the timer is made at the first write that the kernel does not take at once.

use std::fmt;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::client_stream::ClientStream;
use crate::gateway::worth;
use sluicegate_tls::client_socket::ClientSocket;
use sluicegate_transport::timer;

/// A stream that bounds writes.
pub(super) struct GuardedStream {
    inner: ClientStream,
    stalled: WriteStall,
}

/// The minimum rate and the timeout for a client that reads an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadPace {
    /// The longest wait for it.
    pub(super) patience: Duration,
    /// Bytes per second; 0 for no minimum.
    pub(super) rate: u64,
}

/// The wait of a write, if it waits, and the timer, which is kept from wait to wait.
struct WriteStall {
    pace: ReadPace,
    /// The time that is left.
    left: Duration,
    since: Option<Instant>,
    /// Bytes that were acknowledged by then.
    acknowledged: u64,
    /// Bytes acknowledged since that refilled the bucket before they are reported as written.
    credited: usize,
    timer: Option<Pin<Box<Sleep>>>,
}

impl GuardedStream {
    /// Returns a stream that was neither read from nor written to.
    pub(super) fn new(inner: ClientStream) -> Box<Self> {
        Box::new(Self {
            inner,
            stalled: WriteStall::new(ReadPace {
                patience: Duration::MAX,
                rate: 0,
            }),
        })
    }

    /// Returns whether TLS is between the socket and HTTP.
    pub(super) fn is_secured(&self) -> bool {
        self.inner.secured().is_some()
    }

    /// Returns the socket.
    pub(super) fn socket(&self) -> &ClientSocket {
        self.inner.socket()
    }

    /// Begins a request: sets the rate and timeout of its answer.
    pub(super) fn begin(&mut self, pace: ReadPace) {
        self.stalled.pace = pace;
        self.stalled.left = pace.patience;
    }

    /// Returns `result`, by which the client took so many bytes, or ends a wait that takes too long.
    fn unless_stalled<T>(
        &mut self,
        result: Poll<Result<T>>,
        bytes: impl Fn(&T) -> usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<T>> {
        let socket = self.inner.socket();
        match &result {
            Poll::Pending if self.stalled.is_over(context, || socket.acknowledged()) => {
                return Poll::Ready(Err(self.stalled.error()));
            }
            Poll::Ready(Ok(written)) => self.stalled.went_on(bytes(written)),
            Poll::Pending | Poll::Ready(Err(_)) => {}
        }
        result
    }
}

impl WriteStall {
    fn new(pace: ReadPace) -> Self {
        Self {
            pace,
            left: pace.patience,
            since: None,
            acknowledged: 0,
            credited: 0,
            timer: None,
        }
    }

    /// Records that the client took so many bytes.
    fn went_on(&mut self, bytes: usize) {
        let since = self.since.take();
        if self.pace.rate == 0 {
            return;
        }
        let known = bytes.min(self.credited);
        self.credited -= known;
        self.weigh(bytes - known, since);
    }

    /// Refills the bucket by the bytes that the client took, and empties it by the time of the wait.
    fn weigh(&mut self, bytes: usize, since: Option<Instant>) {
        if since.is_none() && self.left == self.pace.patience {
            return;
        }
        let now = timer::deadline(Duration::ZERO);
        let waited = since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let filled = self.left.saturating_add(worth(bytes, self.pace.rate));
        self.left = filled.saturating_sub(waited).min(self.pace.patience);
    }

    /// Returns the error of a wait that took too long.
    fn error(&self) -> Error {
        let ReadPace { patience, rate } = self.pace;
        let told = if self.left < patience {
            format!("the client reads less than {rate} bytes a second")
        } else {
            format!("the client read nothing for {patience:?}")
        };
        Error::new(ErrorKind::TimedOut, told)
    }

    /// Returns whether the time is used up; `acknowledged` is the number of bytes acknowledged since the connection began.
    fn is_over(&mut self, context: &mut Context<'_>, acknowledged: impl Fn() -> u64) -> bool {
        let begin = self.left;
        let mut timer = match self.timer.take() {
            Some(timer) => timer,
            None => Box::pin(tokio::time::sleep_until(timer::deadline(begin))),
        };
        if self.since.is_none() {
            self.since = Some(timer::deadline(Duration::ZERO));
            self.acknowledged = acknowledged();
            timer.as_mut().reset(timer::deadline(begin));
        }
        let mut is_over = false;
        while !is_over && timer.as_mut().poll(context).is_ready() {
            is_over = self.took_nothing(acknowledged());
            timer.as_mut().reset(timer::deadline(self.left));
        }
        self.timer = Some(timer);
        is_over
    }

    /// Handles the timeout with so many bytes acknowledged. Returns whether none of them refills the bucket.
    fn took_nothing(&mut self, acknowledged: u64) -> bool {
        let taken = acknowledged.saturating_sub(self.acknowledged);
        let taken = usize::try_from(taken).unwrap_or(usize::MAX);
        if taken == 0 {
            return true;
        }
        self.acknowledged = acknowledged;
        self.credited = self.credited.saturating_add(taken);
        let since = self.since.replace(timer::deadline(Duration::ZERO));
        if self.pace.rate == 0 {
            self.left = self.pace.patience;
        } else {
            self.weigh(taken, since);
        }
        self.left.is_zero()
    }
}

impl AsyncRead for GuardedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, into)
    }
}

impl AsyncWrite for GuardedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.unless_stalled(written, |bytes| *bytes, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(context);
        self.unless_stalled(flushed, |()| 0, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let shut = Pin::new(&mut self.inner).poll_shutdown(context);
        self.unless_stalled(shut, |()| 0, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, bytes);
        self.unless_stalled(written, |bytes| *bytes, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

impl fmt::Debug for GuardedStream {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.debug_struct("Watched")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Returns for how many seconds, up to an hour, an answer waits for a client that reads `bytes` a second. A write proceeds
    /// every `wakes` seconds.
    async fn endured(bytes: usize, rate: u64, wakes: u64) -> u64 {
        let mut context = Context::from_waker(Waker::noop());
        let mut stalled = WriteStall::new(ReadPace {
            patience: Duration::from_secs(10),
            rate,
        });
        for second in 0..3600 {
            let acknowledged = || second * bytes as u64;
            if stalled.is_over(&mut context, acknowledged) {
                return second;
            }
            tokio::time::advance(Duration::from_secs(1)).await;
            if stalled.is_over(&mut context, || acknowledged() + bytes as u64) {
                return second;
            }
            if second % wakes == wakes - 1 {
                stalled.went_on(bytes * wakes as usize);
            }
        }
        3600
    }

    /// Goal: an answer that is read a little at a time ends after about one timeout, one that is read fast enough never, also
    /// where the kernel accepts no write for longer than the timeout. Method: a byte a second, a little less than the rate, the
    /// rate; and no minimum rate; a write that proceeds every second, and every half minute.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_drips_ends() {
        for wakes in [1, 30] {
            assert!(endured(1, 240, wakes).await <= 12, "{wakes}");
            assert!(endured(200, 240, wakes).await <= 80, "{wakes}");
            assert_eq!(endured(240, 240, wakes).await, 3600, "{wakes}");
            assert_eq!(endured(1, 0, wakes).await, 3600, "{wakes}");
            assert!(endured(0, 0, wakes).await <= 11 || wakes == 1, "{wakes}");
        }
    }
}
