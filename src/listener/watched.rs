//! Owns the stream of an HTTP/1 connection on its way through the proxy: it looks at what the proxy reads of a chunked body, and ends
//! writes that make no progress.
//!
//! Both are the connection's own affair and cannot be told from inside the proxy. Its parser of chunks is lenient ([`super::chunks`]);
//! and it bounds the writing of a body, but not that of a head: a client that pipelines and never reads would hold its request, and the
//! connection to the origin behind it, for ever.
//!
//! Patience with a client that reads is a bucket, as it is with one that sends (`crate::gateway::pace`): waiting empties it, and every byte
//! that the client takes fills in what it takes at the least rate that is asked for. So a client that reads a little now and then does not
//! hold an answer, and the buffers of it, for ever. Of HTTP/2 this holds for the connection, which all of its streams wait for; each stream
//! has a timeout besides (`crate::gateway::body`).
//!
//! What a client takes is what it acknowledges. The kernel wakes a writer when there is room for many bytes, so one that reads slowly would
//! seem to read nothing; when the patience is over, the kernel is asked how much was acknowledged since.
//!
//! A wait costs little until there is one: the timer is made at the first write that the kernel does not take at once.

use std::fmt;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use pingora::prelude::timeout;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::tls::SslDigest;
use pingora::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, IO, Peek, Shutdown, SocketDigest, Ssl,
    Stream, TimingDigest, UniqueID, UniqueIDType,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::chunks::Chunks;
use super::outgoing::OutgoingFrames;
use crate::clock;
use crate::gateway::worth;

/// A stream with a look at its chunks and a bound for its writes.
pub(super) struct Watched {
    inner: Stream,
    /// How far the chunked body of the request in flight was read; `None` where it has none.
    chunks: Option<Chunks>,
    stalled: Stalled,
    /// What is read along of its answers; `None` in HTTP/1.
    frames: Option<Box<OutgoingFrames>>,
}

/// What is asked of a client that reads an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadPace {
    /// The longest wait for it.
    pub(super) patience: Duration,
    /// Bytes a second; 0 asks for none.
    pub(super) rate: u64,
}

/// The wait of a write, if it waits, and the timer, which is kept from wait to wait.
struct Stalled {
    pace: ReadPace,
    /// The patience that is left.
    left: Duration,
    since: Option<Instant>,
    /// Bytes that were acknowledged by then.
    acknowledged: u64,
    /// Bytes acknowledged since that filled the patience, and will be told as written.
    credited: usize,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Watched {
    /// A stream that nobody has read from or written to.
    pub(super) fn new(inner: Stream) -> Box<Self> {
        Box::new(Self {
            inner,
            chunks: None,
            stalled: Stalled::new(ReadPace {
                patience: Duration::MAX,
                rate: 0,
            }),
            frames: None,
        })
    }

    /// A stream for HTTP/2, whose h2 crate bounds what it reads.
    pub(super) fn with_frames(inner: Stream, frames: OutgoingFrames, pace: ReadPace) -> Box<Self> {
        let mut watched = Self::new(inner);
        watched.frames = Some(Box::new(frames));
        watched.begin(None, pace);
        watched
    }

    /// Writes some of `pieces`.
    fn poll_pieces(
        &mut self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = match &mut self.frames {
            Some(frames) => frames.poll_write(&mut self.inner, context, pieces),
            None => Pin::new(&mut *self.inner).poll_write_vectored(context, pieces),
        };
        self.unless_stalled(written, |bytes| *bytes, context)
    }

    /// Begins a request: what is known of its chunks, and how its answer waits for the client.
    pub(super) fn begin(&mut self, chunks: Option<Chunks>, pace: ReadPace) {
        self.chunks = chunks;
        self.stalled.pace = pace;
        self.stalled.left = pace.patience;
    }

    /// Writes everything, within `patience`.
    pub(super) async fn write_within(&mut self, bytes: &[u8], patience: Duration) -> Result<()> {
        let write = async {
            self.write_all(bytes).await?;
            self.flush().await
        };
        timeout(patience, write)
            .await
            .unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
    }

    /// The stream that the proxy gives back; `None` when it is another one, which it never is.
    pub(super) fn again(stream: Stream) -> Option<Box<Self>> {
        stream.into_any().downcast().ok()
    }

    /// Gives `result`, by which the client took so many bytes, or ends a wait that takes too long.
    fn unless_stalled<T>(
        &mut self,
        result: Poll<Result<T>>,
        bytes: impl Fn(&T) -> usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<T>> {
        let inner = &self.inner;
        match &result {
            Poll::Pending if self.stalled.is_over(context, || acknowledged(&**inner)) => {
                return Poll::Ready(Err(self.stalled.error()));
            }
            Poll::Ready(Ok(written)) => self.stalled.went_on(bytes(written)),
            Poll::Pending | Poll::Ready(Err(_)) => {}
        }
        result
    }
}

impl Stalled {
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

    /// The client took so many bytes.
    fn went_on(&mut self, bytes: usize) {
        let since = self.since.take();
        if self.pace.rate == 0 {
            return;
        }
        let known = bytes.min(self.credited);
        self.credited -= known;
        self.weigh(bytes - known, since);
    }

    /// Sets what the client took against the time that it was waited for.
    fn weigh(&mut self, bytes: usize, since: Option<Instant>) {
        if since.is_none() && self.left == self.pace.patience {
            return;
        }
        let now = clock::deadline(Duration::ZERO);
        let waited = since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let filled = self.left.saturating_add(worth(bytes, self.pace.rate));
        self.left = filled.saturating_sub(waited).min(self.pace.patience);
    }

    /// What is told of a wait that is over.
    fn error(&self) -> Error {
        let ReadPace { patience, rate } = self.pace;
        let told = if self.left < patience {
            format!("the client reads less than {rate} bytes a second")
        } else {
            format!("the client read nothing for {patience:?}")
        };
        Error::new(ErrorKind::TimedOut, told)
    }

    /// Whether the patience is over; `acknowledged` is how many bytes were since the connection began.
    fn is_over(&mut self, context: &mut Context<'_>, acknowledged: impl Fn() -> u64) -> bool {
        let begin = self.left;
        let mut timer = match self.timer.take() {
            Some(timer) => timer,
            None => Box::pin(tokio::time::sleep_until(clock::deadline(begin))),
        };
        if self.since.is_none() {
            self.since = Some(clock::deadline(Duration::ZERO));
            self.acknowledged = acknowledged();
            timer.as_mut().reset(clock::deadline(begin));
        }
        let mut is_over = false;
        while !is_over && timer.as_mut().poll(context).is_ready() {
            is_over = self.took_nothing(acknowledged());
            timer.as_mut().reset(clock::deadline(self.left));
        }
        self.timer = Some(timer);
        is_over
    }

    /// The patience is over, and so many bytes are acknowledged. Whether none of them fills it again.
    fn took_nothing(&mut self, acknowledged: u64) -> bool {
        let taken = acknowledged.saturating_sub(self.acknowledged);
        let taken = usize::try_from(taken).unwrap_or(usize::MAX);
        if taken == 0 {
            return true;
        }
        self.acknowledged = acknowledged;
        self.credited = self.credited.saturating_add(taken);
        let since = self.since.replace(clock::deadline(Duration::ZERO));
        if self.pace.rate == 0 {
            self.left = self.pace.patience;
        } else {
            self.weigh(taken, since);
        }
        self.left.is_zero()
    }
}

/// Bytes that the other end has acknowledged; 0 where the system does not say.
fn acknowledged(stream: &dyn IO) -> u64 {
    let info = stream
        .get_socket_digest()
        .and_then(|digest| digest.tcp_info());
    info.map_or(0, |info| info.tcpi_bytes_acked)
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut *self.inner).poll_read(context, into);
        if let Some(chunks) = &mut self.chunks
            && matches!(read, Poll::Ready(Ok(())))
            && chunks.take(&into.filled()[before..]).is_err()
        {
            into.set_filled(before);
            let what = "the chunks of the body can be read in two ways";
            return Poll::Ready(Err(Error::new(ErrorKind::InvalidData, what)));
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        if self.frames.is_some() {
            return self.poll_pieces(context, &[IoSlice::new(bytes)]);
        }
        let written = Pin::new(&mut *self.inner).poll_write(context, bytes);
        self.unless_stalled(written, |bytes| *bytes, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let flushed = Pin::new(&mut *self.inner).poll_flush(context);
        self.unless_stalled(flushed, |()| 0, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let shut = Pin::new(&mut *self.inner).poll_shutdown(context);
        self.unless_stalled(shut, |()| 0, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.poll_pieces(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.debug_struct("Watched")
            .field("inner", &self.inner)
            .field("chunks", &self.chunks)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Shutdown for Watched {
    async fn shutdown(&mut self) {
        Shutdown::shutdown(&mut *self.inner).await;
    }
}

#[async_trait]
impl Peek for Watched {
    async fn try_peek(&mut self, into: &mut [u8]) -> Result<bool> {
        self.inner.try_peek(into).await
    }
}

impl UniqueID for Watched {
    fn id(&self) -> UniqueIDType {
        self.inner.id()
    }
}

impl Ssl for Watched {
    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.inner.get_ssl_digest()
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        self.inner.selected_alpn_proto()
    }
}

impl GetTimingDigest for Watched {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.inner.get_timing_digest()
    }

    fn get_read_pending_time(&self) -> Duration {
        self.inner.get_read_pending_time()
    }

    fn get_write_pending_time(&self) -> Duration {
        self.inner.get_write_pending_time()
    }
}

impl GetProxyDigest for Watched {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.inner.get_proxy_digest()
    }

    fn set_proxy_digest(&mut self, digest: ProxyDigest) {
        self.inner.set_proxy_digest(digest);
    }
}

impl GetSocketDigest for Watched {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.inner.get_socket_digest()
    }

    fn set_socket_digest(&mut self, digest: SocketDigest) {
        self.inner.set_socket_digest(digest);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// For how many seconds, up to an hour, an answer waits for a client that takes `bytes` a second. A write goes on every `wakes`
    /// seconds.
    async fn endured(bytes: usize, rate: u64, wakes: u64) -> u64 {
        let mut context = Context::from_waker(Waker::noop());
        let mut stalled = Stalled::new(ReadPace {
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

    /// Goal: an answer that is taken a little at a time ends after about one patience, one that is taken fast enough never, also where the
    /// kernel lets nothing be written for longer than the patience. Method: a byte a second, a little less than the rate, the rate; and
    /// where no rate is asked; a write that goes on every second, and every half minute.
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
