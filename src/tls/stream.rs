//! Adapts a connection under TLS to the trait of Pingora's sessions.
//!
//! tokio-rustls reads and writes. The facts of the handshake travel to the request in the one field of Pingora's digest that
//! accepts a value of any type: the digest of a proxy that a connection was made through, which a client's connection does not
//! have.

use std::any::Any;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use pingora::http::ResponseHeader;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::tls::SslDigest;
use pingora::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl,
    Stream, TimingDigest, UniqueID, UniqueIDType,
};
use sluicegate_decide::client::TlsFacts;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_rustls::server::TlsStream;

/// A connection whose handshake has ended.
#[derive(Debug)]
pub(super) struct SecuredStream {
    tls: TlsStream<Stream>,
    protocol: Option<ALPN>,
    ssl: Arc<SslDigest>,
    account: Arc<ProxyDigest>,
}

impl SecuredStream {
    /// Wraps a connection; `secured` are the facts of the handshake.
    pub(super) fn new(tls: TlsStream<Stream>, secured: Arc<TlsFacts>) -> pingora::Result<Self> {
        let protocol = tls.get_ref().1.alpn_protocol();
        Ok(Self {
            protocol: match protocol {
                Some(b"h2") => Some(ALPN::H2),
                _ => Some(ALPN::H1),
            },
            ssl: Arc::new(SslDigest::new(
                secured.cipher,
                secured.version,
                None,
                None,
                Vec::new(),
            )),
            account: Arc::new(ProxyDigest::new(
                Box::new(ResponseHeader::build(200, Some(0))?),
                Some(Box::new(secured) as Box<dyn Any + Send + Sync>),
            )),
            tls,
        })
    }

    fn below(&self) -> &Stream {
        self.tls.get_ref().0
    }
}

/// Returns the facts of a connection's handshake; `None` in clear text.
pub(crate) fn secured_by(account: Option<&Arc<ProxyDigest>>) -> Option<&Arc<TlsFacts>> {
    account?.user_data.as_ref()?.downcast_ref()
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

#[async_trait]
impl Shutdown for SecuredStream {
    async fn shutdown(&mut self) {
        // Sends close_notify, RFC 8446 §6.1. It is lost if the client has left already.
        let _ = AsyncWriteExt::shutdown(self).await;
    }
}

impl UniqueID for SecuredStream {
    fn id(&self) -> UniqueIDType {
        self.below().id()
    }
}

impl Ssl for SecuredStream {
    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        Some(Arc::clone(&self.ssl))
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        self.protocol.clone()
    }
}

/// Empty: the connection above this stream reads ahead.
impl Peek for SecuredStream {}

impl GetTimingDigest for SecuredStream {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.below().get_timing_digest()
    }

    fn get_read_pending_time(&self) -> Duration {
        self.below().get_read_pending_time()
    }

    fn get_write_pending_time(&self) -> Duration {
        self.below().get_write_pending_time()
    }
}

impl GetProxyDigest for SecuredStream {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        Some(Arc::clone(&self.account))
    }
}

impl GetSocketDigest for SecuredStream {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.below().get_socket_digest()
    }
}
