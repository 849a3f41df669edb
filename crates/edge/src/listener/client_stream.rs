//! Names the two streams of a client's connection: its socket in clear text, or TLS over it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sluicegate_decide::client::TlsFacts;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use sluicegate_tls::SecuredStream;
use sluicegate_tls::client_socket::ClientSocket;

/// The stream of a client's connection.
#[derive(Debug)]
pub(super) enum ClientStream {
    /// In clear text.
    Clear(ClientSocket),
    /// Under TLS. Boxed: a connection in clear text should not pay for its size.
    Secured(Box<SecuredStream>),
}

impl ClientStream {
    /// Returns the address of the client.
    pub(super) fn peer(&self) -> SocketAddr {
        self.socket().peer()
    }

    /// Returns the facts of the TLS handshake; `None` in clear text.
    pub(super) fn secured(&self) -> Option<&Arc<TlsFacts>> {
        match self {
            Self::Clear(_) => None,
            Self::Secured(stream) => Some(stream.facts()),
        }
    }

    /// Returns the socket.
    pub(super) fn socket(&self) -> &ClientSocket {
        match self {
            Self::Clear(socket) => socket,
            Self::Secured(stream) => stream.socket(),
        }
    }
}

impl AsyncRead for ClientStream {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Clear(socket) => Pin::new(socket).poll_read(context, into),
            Self::Secured(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for ClientStream {
    #[inline]
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Clear(socket) => Pin::new(socket).poll_write(context, bytes),
            Self::Secured(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Clear(socket) => Pin::new(socket).poll_flush(context),
            Self::Secured(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Clear(socket) => Pin::new(socket).poll_shutdown(context),
            Self::Secured(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Clear(socket) => Pin::new(socket).poll_write_vectored(context, pieces),
            Self::Secured(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
