//! Counts the bytes of answers over one connection of HTTP/2 that have not left, for the requests that count until they have.
//!
//! The h2 crate takes what the windows of the client allow into its buffers, and does not report when it has written it. The frames are
//! seen where they go to the socket ([`super::outgoing`]); they have left when the stream was flushed behind them.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The bytes of the streams that are counted on one connection.
#[derive(Debug, Default)]
pub(super) struct SentBytes {
    /// The number of streams, so that the others cost no lock.
    counted: AtomicUsize,
    streams: Mutex<Vec<UnsentStream>>,
}

/// One stream that is counted, until this is dropped.
#[derive(Debug)]
pub(super) struct UnsentBytes {
    connection: Arc<SentBytes>,
    stream: u32,
}

#[derive(Debug)]
struct UnsentStream {
    stream: u32,
    /// Bytes of its body that have not left.
    unsent: usize,
    /// Bytes of those that were written since the last flush.
    written: usize,
    waker: Option<Waker>,
}

impl SentBytes {
    /// Counts the bytes of this stream from now on.
    pub(super) fn count(self: &Arc<Self>, stream: u32) -> UnsentBytes {
        self.streams().push(UnsentStream {
            stream,
            unsent: 0,
            written: 0,
            waker: None,
        });
        // Relaxed, here and below: a stream is counted before it has bytes, which pass to the connection under a lock.
        self.counted.fetch_add(1, Ordering::Relaxed);
        UnsentBytes {
            connection: Arc::clone(self),
            stream,
        }
    }

    /// Returns whether some stream is counted.
    pub(super) fn is_counting(&self) -> bool {
        self.counted.load(Ordering::Relaxed) > 0
    }

    /// Notes that so many bytes of the body on this stream were written.
    pub(super) fn write(&self, stream: u32, bytes: usize) {
        let mut streams = self.streams();
        if let Some(counted) = find(&mut streams, stream) {
            counted.written += bytes;
        }
    }

    /// Notes that everything that was written has left.
    pub(super) fn flush(&self) {
        if !self.is_counting() {
            return;
        }
        for counted in &mut *self.streams() {
            counted.unsent = counted.unsent.saturating_sub(counted.written);
            counted.written = 0;
            if counted.unsent == 0
                && let Some(waker) = counted.waker.take()
            {
                waker.wake();
            }
        }
    }

    fn streams(&self) -> MutexGuard<'_, Vec<UnsentStream>> {
        // Nothing panics under the lock.
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnsentBytes {
    /// Adds bytes that are to be written.
    pub(super) fn add(&self, bytes: usize) {
        if let Some(counted) = find(&mut self.connection.streams(), self.stream) {
            counted.unsent += bytes;
        }
    }

    /// Completes when all its bytes have left.
    pub(super) async fn sent(&self) {
        poll_fn(|context| self.poll_sent(context)).await;
    }

    fn poll_sent(&self, context: &Context<'_>) -> Poll<()> {
        match find(&mut self.connection.streams(), self.stream) {
            Some(counted) if counted.unsent > 0 => {
                counted.waker = Some(context.waker().clone());
                Poll::Pending
            }
            Some(_) | None => Poll::Ready(()),
        }
    }
}

impl Drop for UnsentBytes {
    fn drop(&mut self) {
        let mut streams = self.connection.streams();
        streams.retain(|counted| counted.stream != self.stream);
        self.connection.counted.fetch_sub(1, Ordering::Relaxed);
    }
}

fn find(streams: &mut [UnsentStream], stream: u32) -> Option<&mut UnsentStream> {
    streams.iter_mut().find(|counted| counted.stream == stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_sent(bytes: &UnsentBytes) -> bool {
        bytes
            .poll_sent(&Context::from_waker(Waker::noop()))
            .is_ready()
    }

    /// Goal: bytes have left when they were written and flushed, each stream by itself. Method: two streams whose bytes are written in
    /// pieces, with flushes between them.
    #[test]
    fn bytes_have_left_when_they_were_flushed() {
        let all = Arc::new(SentBytes::default());
        assert!(!all.is_counting());
        let one = all.count(1);
        let other = all.count(3);
        assert!(is_sent(&one));
        one.add(5);
        other.add(7);
        all.write(1, 3);
        all.flush();
        assert!(!is_sent(&one));
        all.write(1, 2);
        all.write(3, 7);
        all.write(5, 9);
        assert!(!is_sent(&one) && !is_sent(&other));
        all.flush();
        assert!(is_sent(&one) && is_sent(&other));
        one.add(1);
        assert!(!is_sent(&one) && is_sent(&other));
        drop((one, other));
        assert!(!all.is_counting());
    }
}
