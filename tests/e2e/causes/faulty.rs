//! Origins that fail in one way each: raw sockets, since no server library gives these answers.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use crate::harness::frames::{DATA, END_HEADERS, Frames, GOAWAY, HEADERS, RST_STREAM, frame};
use crate::harness::{Pair, listen};

/// What becomes of each connection.
#[derive(Clone)]
pub enum Way {
    /// A reset as soon as it is accepted.
    ResetAtOnce,
    /// These bytes when the request has come, then a reset.
    ResetAfter(Vec<u8>),
    /// These bytes when the request has come, then the close.
    CloseAfter(Vec<u8>),
    /// These bytes when the request has come, then silence.
    SilentAfter(Vec<u8>),
    /// These bytes as soon as anything has come, whatever it was, then silence.
    Blurt(Vec<u8>),
    /// The request is not read.
    Deaf,
    /// A handshake with this certificate, and a proper answer.
    Tls(Arc<ServerConfig>),
    /// HTTP/2 that answers a request with these frames, then stays silent.
    Frames(Vec<u8>),
}

/// An origin that fails; it stops when dropped.
pub struct Faulty {
    pub address: SocketAddr,
    accepting: AbortHandle,
}

impl Faulty {
    /// Listens, and does to every connection as `way` says.
    pub async fn start(way: Way) -> Self {
        let listener = listen();
        let address = listener.local_addr().unwrap();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let way = way.clone();
                // An error is the gateway's leaving.
                tokio::spawn(async move {
                    let _ = converse(stream, way).await;
                });
            }
        });
        Self {
            address,
            accepting: accepting.abort_handle(),
        }
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// An address whose connections are never made: nobody accepts, and the kernel's queue is full.
pub struct BlackHole {
    pub address: SocketAddr,
    _queued: Vec<TcpStream>,
    _listener: TcpListener,
}

impl BlackHole {
    /// Fills the queue.
    pub async fn start() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queued = Vec::new();
        let patience = std::time::Duration::from_millis(500);
        while let Ok(stream) = tokio::time::timeout(patience, TcpStream::connect(address)).await {
            queued.push(stream.unwrap());
        }
        Self {
            address,
            _queued: queued,
            _listener: listener,
        }
    }
}

/// The server's side of TLS with this certificate.
pub fn tls(pair: &Pair) -> Way {
    let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    Way::Tls(Arc::new(config))
}

/// A stream that is reset for `reason` instead of an answer.
pub fn stream_reset(reason: u32) -> Way {
    Way::Frames(frame(RST_STREAM, 0, 1, &reason.to_be_bytes()))
}

/// A connection that ends for `reason` before an answer.
pub fn goaway(reason: u32) -> Way {
    let payload = [0_u32.to_be_bytes(), reason.to_be_bytes()].concat();
    Way::Frames(frame(GOAWAY, 0, 0, &payload))
}

/// An answer whose stream is reset in the middle of its body.
pub fn body_reset(reason: u32) -> Way {
    // `:status: 200`, RFC 7541 appendix A.
    let head = frame(HEADERS, END_HEADERS, 1, &[0x88]);
    let data = frame(DATA, 0, 1, b"0123456789");
    let reset = frame(RST_STREAM, 0, 1, &reason.to_be_bytes());
    Way::Frames([head, data, reset].concat())
}

async fn converse(mut stream: TcpStream, way: Way) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    match way {
        Way::ResetAtOnce => stream.set_zero_linger(),
        Way::ResetAfter(bytes) => {
            request(&mut stream).await?;
            stream.write_all(&bytes).await?;
            stream.set_zero_linger()
        }
        Way::CloseAfter(bytes) => {
            request(&mut stream).await?;
            stream.write_all(&bytes).await
        }
        Way::SilentAfter(bytes) => {
            request(&mut stream).await?;
            stream.write_all(&bytes).await?;
            until_closed(stream).await
        }
        Way::Blurt(bytes) => {
            let mut read = [0; 4096];
            let _ = stream.read(&mut read).await?;
            stream.write_all(&bytes).await?;
            until_closed(stream).await
        }
        Way::Deaf => std::future::pending().await,
        Way::Tls(config) => {
            let mut stream = TlsAcceptor::from(config).accept(stream).await?;
            let mut sink = [0; 4096];
            let _ = stream.read(&mut sink).await?;
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                .await
        }
        Way::Frames(frames) => {
            let mut connection = Frames::accept(stream).await;
            while let Some(frame) = connection.next().await {
                if frame.kind == HEADERS {
                    connection.try_write(&frames).await?;
                }
            }
            Ok(())
        }
    }
}

/// Reads a request without a body.
async fn request(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut read).await? == 0 {
            break;
        }
    }
    Ok(())
}

async fn until_closed(mut stream: TcpStream) -> std::io::Result<()> {
    let mut sink = [0; 4096];
    while stream.read(&mut sink).await? > 0 {}
    Ok(())
}
