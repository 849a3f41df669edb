//! A connection of HTTP/2 to a server whose incoming bytes are inspected, in front of the h2 crate: reads are counted, so that a dead
//! connection is told from one whose server is slow, and frames that only make work are bounded.
//!
//! The h2 crate answers or ignores PING, SETTINGS, WINDOW_UPDATE, PRIORITY, frames of unknown types and others without a bound on their
//! number. [`ControlFrameBudget`] bounds them as those of a client; requests and the DATA frames of their bodies make room.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};

use pingora::protocols::Stream;
use sluicegate_base::bounds::LARGEST_FRAME;
use sluicegate_base::clock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http2_frames::{ControlFrameBudget, FrameReader, FrameSink, IncomingFrame};

/// The error of a connection whose server sends too many frames that only make work.
const FLOODED: &str = "the server sends frames that carry neither responses nor data";

/// The counts of one connection, which its requests share with the task that drives it.
#[derive(Debug, Default)]
pub(super) struct ConnectionCounts {
    reads: AtomicU64,
    requests: AtomicU32,
    data_frames: AtomicU32,
    is_flooded: AtomicBool,
}

// Relaxed in all of it: the counts publish nothing. A request that finds a connection broken finds it flooded too, since the h2 crate
// passes on the error under a lock behind the store.
impl ConnectionCounts {
    /// Returns the number of reads that brought bytes.
    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Counts a request that is sent.
    pub(super) fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the frames of so many bytes of a request's body.
    pub(super) fn count_data(&self, bytes: usize) {
        let frames = u32::try_from(bytes.div_ceil(LARGEST_FRAME)).unwrap_or(u32::MAX);
        self.data_frames.fetch_add(frames, Ordering::Relaxed);
    }

    /// Returns whether the connection ended since its server sent too many frames that only make work.
    pub(super) fn is_flooded(&self) -> bool {
        self.is_flooded.load(Ordering::Relaxed)
    }
}

/// A connection whose incoming bytes are inspected.
pub(super) struct CountedStream {
    inner: Stream,
    counts: Arc<ConnectionCounts>,
    reader: FrameReader,
    budget: SentBudget,
}

/// The bucket of a connection, and what filled it.
struct SentBudget {
    control: ControlFrameBudget,
    /// The requests and DATA frames by which the bucket was filled.
    requests: u32,
    data_frames: u32,
}

impl CountedStream {
    /// Returns the connection from which nothing was read, and its counts.
    pub(super) fn new(inner: Stream) -> (Self, Arc<ConnectionCounts>) {
        let counts = Arc::<ConnectionCounts>::default();
        let counted = Self {
            inner,
            counts: Arc::clone(&counts),
            reader: FrameReader::of_server(),
            budget: SentBudget {
                control: ControlFrameBudget::new(clock::now()),
                requests: 0,
                data_frames: 0,
            },
        };
        (counted, counts)
    }

    /// Takes note of bytes that came.
    ///
    /// # Errors
    /// The server sent too many frames that only make work.
    fn receive(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.counts.reads.fetch_add(1, Ordering::Relaxed);
        self.budget.fill(&self.counts);
        self.reader.receive(bytes, &mut self.budget);
        if self.budget.control.is_exceeded() {
            self.counts.is_flooded.store(true, Ordering::Relaxed);
            return Err(io::Error::other(FLOODED));
        }
        Ok(())
    }
}

impl SentBudget {
    /// Makes room for what answers the requests and DATA frames that were sent since the last call.
    fn fill(&mut self, sent: &ConnectionCounts) {
        let requests = sent.requests.load(Ordering::Relaxed);
        let data_frames = sent.data_frames.load(Ordering::Relaxed);
        // The counts may wrap around.
        (self.control).begin_requests(requests.wrapping_sub(self.requests));
        (self.control).sent(data_frames.wrapping_sub(self.data_frames));
        (self.requests, self.data_frames) = (requests, data_frames);
    }
}

impl FrameSink for SentBudget {
    fn begin(&mut self, frame: IncomingFrame) {
        self.control.receive(frame, clock::now);
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
        let bytes = into.filled().get(before..).unwrap_or_default();
        if !bytes.is_empty()
            && let Err(error) = self.receive(bytes)
        {
            into.set_filled(before);
            return Poll::Ready(Err(error));
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
