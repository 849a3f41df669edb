//! Names what serving a request needs of a client's connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use pingora::protocols::SocketDigest;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::client::TlsFacts;

/// The facts of a client's connection that its requests share.
#[derive(Clone)]
pub struct ConnectionFacts {
    /// The other end; `None` where the connection has no address.
    pub peer: Option<SocketAddr>,
    /// The facts of the TLS handshake; `None` in clear text.
    pub secured: Option<Arc<TlsFacts>>,
}

/// A client's connection of HTTP/1.1, from which the head of a request was taken.
pub trait ClientConnection: Send {
    /// Returns the bytes that were received and not consumed: of the request's body, then of later requests.
    fn received(&mut self) -> &mut BytesMut;

    /// Reads once, behind the received bytes. Returns the number of bytes, 0 at the end; `None` when it takes longer than `patience`.
    /// Dropping the future loses no byte.
    fn read_more(
        &mut self,
        patience: Option<Duration>,
    ) -> impl Future<Output = Option<io::Result<usize>>> + Send;

    /// Writes all bytes. A client that reads too slowly ends the write with an error.
    fn write(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Returns its stream, for a protocol other than HTTP.
    fn stream(&mut self) -> &mut (impl AsyncRead + AsyncWrite + Send + Unpin);

    /// Returns its socket.
    fn socket(&self) -> Option<Arc<SocketDigest>>;
}
