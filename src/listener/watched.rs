//! Owns the stream of an HTTP/1 connection on its way through the proxy: it looks at what the proxy reads of a chunked body, and ends
//! writes that make no progress.
//!
//! Both are the connection's own affair and cannot be told from inside the proxy. Its parser of chunks is lenient ([`super::chunks`]);
//! and it bounds the writing of a body, but not that of a head: a client that pipelines and never reads would hold its request, and the
//! connection to the origin behind it, for ever.
//!
//! A wait costs nothing until there is one: the timer is made at the first write that the kernel does not take at once.

use std::fmt;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::tls::SslDigest;
use pingora::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl,
    Stream, TimingDigest, UniqueID, UniqueIDType,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::chunks::Chunks;
use crate::clock;

/// A stream with a look at its chunks and a bound for its writes.
pub(super) struct Watched {
    inner: Stream,
    /// How far the chunked body of the request in flight was read; `None` where it has none.
    chunks: Option<Chunks>,
    /// How long a write may make no progress.
    patience: Duration,
    stalled: Stalled,
}

/// Whether a write waits, and the timer, which is kept from wait to wait.
#[derive(Default)]
struct Stalled {
    waits: bool,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Watched {
    /// A stream that nobody has read from or written to.
    pub(super) fn new(inner: Stream) -> Box<Self> {
        Box::new(Self {
            inner,
            chunks: None,
            patience: Duration::MAX,
            stalled: Stalled::default(),
        })
    }

    /// Begins a request: what is known of its chunks, and how long its answer may wait for the client.
    pub(super) fn begin(&mut self, chunks: Option<Chunks>, patience: Duration) {
        self.chunks = chunks;
        self.patience = patience;
    }

    /// The stream that the proxy gives back; `None` when it is another one, which it never is.
    pub(super) fn again(stream: Stream) -> Option<Box<Self>> {
        stream.into_any().downcast().ok()
    }

    /// Gives `result`, or ends a wait that takes too long.
    fn unless_stalled<T>(
        &mut self,
        result: Poll<Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<Result<T>> {
        if result.is_ready() {
            self.stalled.waits = false;
            return result;
        }
        if self.stalled.is_over(self.patience, context) {
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }
}

impl Stalled {
    fn is_over(&mut self, patience: Duration, context: &mut Context<'_>) -> bool {
        let timer = match &mut self.timer {
            Some(timer) => timer,
            none => none.insert(Box::pin(tokio::time::sleep_until(clock::deadline(
                patience,
            )))),
        };
        if !self.waits {
            self.waits = true;
            timer.as_mut().reset(clock::deadline(patience));
        }
        timer.as_mut().poll(context).is_ready()
    }
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
        let written = Pin::new(&mut *self.inner).poll_write(context, bytes);
        self.unless_stalled(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let flushed = Pin::new(&mut *self.inner).poll_flush(context);
        self.unless_stalled(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let shut = Pin::new(&mut *self.inner).poll_shutdown(context);
        self.unless_stalled(shut, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut *self.inner).poll_write_vectored(context, bytes);
        self.unless_stalled(written, context)
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
