//! Owns the socket of a client's connection, and the bytes that were read of it before its protocol was known.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use pingora::protocols::SocketDigest;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Linux's value for an established TCP connection, `include/net/tcp_states.h`.
const ESTABLISHED: u8 = 1;

/// The socket of a client's connection.
#[derive(Debug)]
pub struct ClientSocket {
    socket: TcpStream,
    peer: SocketAddr,
    /// Bytes that are read again.
    ahead: BytesMut,
}

impl ClientSocket {
    /// Returns the socket of a connection from `peer`.
    #[must_use]
    pub fn new(socket: TcpStream, peer: SocketAddr) -> Self {
        Self {
            socket,
            peer,
            ahead: BytesMut::new(),
        }
    }

    /// Returns the address of the client: of the other end, unless a proxy has announced another one.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Takes the address that a proxy announces for that of the client. IPv4 in IPv6 is folded, so that a client has one address whichever
    /// way it came.
    pub fn announce(&mut self, client: SocketAddr) {
        self.peer = SocketAddr::new(client.ip().to_canonical(), client.port());
    }

    /// Lets bytes that were read be read again, in front of what waits to be.
    pub fn put_back(&mut self, mut bytes: BytesMut) {
        bytes.unsplit(std::mem::take(&mut self.ahead));
        self.ahead = bytes;
    }

    /// Returns the socket, of which nothing was put back.
    pub fn into_socket(self) -> TcpStream {
        self.socket
    }

    /// Returns how many bytes the other end has acknowledged; 0 where the system does not report it.
    pub fn acknowledged(&self) -> u64 {
        let info = self.digest().tcp_info();
        info.map_or(0, |info| info.tcpi_bytes_acked)
    }

    /// Returns whether the other end has closed the connection, as far as the system reports it.
    pub fn is_closed_by_peer(&self) -> bool {
        let info = self.digest().tcp_info();
        info.is_some_and(|info| info.tcpi_state != ESTABLISHED)
    }

    /// Makes the close of the socket a reset, RFC 9293 §3.10.5. What was not sent is dropped then.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn reset_on_close(&self) -> io::Result<()> {
        SockRef::from(&self.socket).set_linger(Some(Duration::ZERO))
    }

    fn digest(&self) -> SocketDigest {
        SocketDigest::from_raw_fd(self.socket.as_raw_fd())
    }
}

impl AsyncRead for ClientSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ahead.is_empty() {
            return Pin::new(&mut self.socket).poll_read(context, into);
        }
        let bytes = self.ahead.len().min(into.remaining());
        into.put_slice(&self.ahead[..bytes]);
        self.ahead.advance(bytes);
        if self.ahead.is_empty() {
            // Releases its memory.
            self.ahead = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Goal: bytes that are put back twice are read in the order in which the client sent them. Method: 6 bytes are put back, 4 of them
    /// read and put back once more, and all are read before what the client sends then.
    #[tokio::test]
    async fn what_is_put_back_twice_is_read_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (accepted, peer) = listener.accept().await.unwrap();
        let mut socket = ClientSocket::new(accepted, peer);
        socket.put_back(BytesMut::from(&b"abcdef"[..]));

        let mut first = [0; 4];
        socket.read_exact(&mut first).await.unwrap();
        socket.put_back(BytesMut::from(&first[..]));
        client.write_all(b"ghi").await.unwrap();
        drop(client);

        let mut all = Vec::new();
        socket.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"abcdefghi");
    }
}
