//! Connects to a server for a request with an upgrade, so that the answer is not read before the request's end is written.
//!
//! Pingora polls for both in random order, and takes the end of a request that it sees after a 101 for the end of the tunnel: a
//! server that answers at once then loses its clients now and then. Here the first read after a write returns nothing, so the
//! end of the request, which is available by then, comes first.
//!
//! Pingora does not know the socket number of such a connection. It is therefore never kept for another request, and
//! [`TunnelSocket`] passes the number to the code that counts connections.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use pingora::Result;
use pingora::connectors::L4Connect;
use pingora::protocols::TcpKeepalive;
use pingora::protocols::l4::socket::SocketAddr;
use pingora::protocols::l4::stream::Stream;
use pingora::protocols::l4::virt::{VirtualSockOpt, VirtualSocket, VirtualSocketStream};
use pingora::upstreams::peer::HttpPeer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::dialer::dial;

/// The group of such connections, which separates them from those that are kept.
const GROUP: u64 = 0x7475_6e6e_656c;

/// The number of a tunnel's socket, once there is one.
#[derive(Clone, Debug)]
pub struct TunnelSocket(Arc<AtomicI32>);

/// The connector of one tunnel.
#[derive(Debug)]
struct TunnelDialer {
    /// The connector of a server that bounds its connections.
    bounded: Option<Arc<dyn L4Connect + Send + Sync>>,
    keepalive: Option<TcpKeepalive>,
    socket: TunnelSocket,
}

/// A connection that is not read in the same turn in which it was written.
#[derive(Debug)]
struct Paced {
    stream: Stream,
    written: bool,
}

/// Makes `peer` open a tunnel.
pub(super) fn lead(peer: &mut HttpPeer) -> TunnelSocket {
    let socket = TunnelSocket(Arc::new(AtomicI32::new(-1)));
    let bounded = peer.options.custom_l4.take();
    peer.options.custom_l4 = Some(Arc::new(TunnelDialer {
        bounded,
        keepalive: peer.options.tcp_keepalive.clone(),
        socket: socket.clone(),
    }));
    peer.group_key ^= GROUP;
    peer.options.idle_timeout = Some(Duration::ZERO);
    socket
}

impl TunnelSocket {
    /// Returns the number; -1 before there is a connection.
    #[must_use]
    pub fn number(&self) -> RawFd {
        // Relaxed: the same task connects and reads.
        self.0.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl L4Connect for TunnelDialer {
    async fn connect(&self, address: &SocketAddr) -> Result<Stream> {
        let mut stream = match &self.bounded {
            Some(bounded) => bounded.connect(address).await?,
            None => Stream::from(dial(address).await?),
        };
        if let Some(keepalive) = &self.keepalive {
            stream.set_keepalive(keepalive)?;
        }
        stream.set_nodelay()?;
        self.socket.0.store(stream.as_raw_fd(), Ordering::Relaxed);
        let paced = Paced {
            stream,
            written: false,
        };
        Ok(Stream::from(VirtualSocketStream::new(Box::new(paced))))
    }
}

impl VirtualSocket for Paced {
    fn set_socket_option(&self, _: VirtualSockOpt) -> io::Result<()> {
        // The two options that exist were set when it was made.
        Ok(())
    }
}

impl AsyncRead for Paced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.written) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Paced {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.written = true;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.written = true;
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
