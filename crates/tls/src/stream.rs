//! Owns a connection whose TLS handshake has ended, and the facts of the handshake.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sluicegate_decide::client::TlsFacts;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use crate::client_socket::ClientSocket;

/// The name of HTTP/2 in a handshake, RFC 9113 §3.2.
const HTTP2: &[u8] = b"h2";

/// A connection whose handshake has ended.
#[derive(Debug)]
pub struct SecuredStream {
    tls: TlsStream<ClientSocket>,
    facts: Arc<TlsFacts>,
}

impl SecuredStream {
    /// Returns the connection with the facts of its handshake.
    pub(super) fn new(tls: TlsStream<ClientSocket>, facts: Arc<TlsFacts>) -> Self {
        Self { tls, facts }
    }

    /// Returns the facts of the handshake.
    pub fn facts(&self) -> &Arc<TlsFacts> {
        &self.facts
    }

    /// Returns whether both ends have agreed on HTTP/2.
    pub fn is_http2(&self) -> bool {
        self.tls.get_ref().1.alpn_protocol() == Some(HTTP2)
    }

    /// Returns the socket below.
    pub fn socket(&self) -> &ClientSocket {
        self.tls.get_ref().0
    }
}

impl AsyncRead for SecuredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_read(context, into)
    }
}

impl AsyncWrite for SecuredStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tls).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tls).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
