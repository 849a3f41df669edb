//! A connection to a server that counts the reads that brought bytes, so that a dead connection is told from one whose server is slow.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use pingora::protocols::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The number of reads that brought bytes.
#[derive(Debug, Default)]
pub(super) struct ReadCount(AtomicU64);

impl ReadCount {
    /// Returns the number so far.
    pub(super) fn reads(&self) -> u64 {
        // Relaxed, as where it is counted: the number publishes nothing.
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection whose reads are counted.
pub(super) struct CountedStream {
    inner: Stream,
    count: Arc<ReadCount>,
}

impl CountedStream {
    /// Returns the connection from which nothing was read, and its count.
    pub(super) fn new(inner: Stream) -> (Self, Arc<ReadCount>) {
        let count = Arc::<ReadCount>::default();
        let counted = Self {
            inner,
            count: Arc::clone(&count),
        };
        (counted, count)
    }
}

impl AsyncRead for CountedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, into);
        if into.filled().len() > before {
            self.count.0.fetch_add(1, Ordering::Relaxed);
        }
        read
    }
}

impl AsyncWrite for CountedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
