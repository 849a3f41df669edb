//! An HTTP/2 client with prior knowledge, in clear text or over TLS.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use h2::client::SendRequest;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::client::{Request, Response};
use super::eventually::PATIENCE;

/// What the end of a stream came with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndOfStream {
    /// The head: there is neither a body nor a trailer.
    Head,
    /// A frame behind it.
    Later,
}

/// One connection; every request is a stream of its own.
#[derive(Clone)]
pub struct H2cClient {
    sender: SendRequest<Bytes>,
}

impl H2cClient {
    /// Connects and exchanges the prefaces.
    pub async fn connect(to: SocketAddr) -> Self {
        Self::over(TcpStream::connect(to).await.unwrap()).await
    }

    /// Exchanges the prefaces on a connection that stands.
    pub(super) async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let (sender, connection) = timeout(PATIENCE, h2::client::handshake(stream))
            .await
            .unwrap()
            .unwrap();
        tokio::spawn(connection);
        Self { sender }
    }

    /// Sends a request on a new stream and reads the answer whole.
    pub async fn send(&self, request: Request) -> Response {
        self.send_to_the_end(request).await.0
    }

    /// As [`send`](Self::send), and tells how the stream ended.
    pub async fn send_to_the_end(&self, request: Request) -> (Response, EndOfStream) {
        timeout(PATIENCE, self.exchange(request))
            .await
            .unwrap()
            .unwrap()
    }

    /// As [`send`](Self::send), or says what broke.
    pub async fn try_send(&self, request: Request) -> Result<Response, String> {
        match timeout(PATIENCE, self.exchange(request)).await {
            Ok(Ok((answer, _))) => Ok(answer),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("no answer in time".to_owned()),
        }
    }

    async fn exchange(&self, mut request: Request) -> Result<(Response, EndOfStream), h2::Error> {
        // HTTP/2 says it before the path.
        let host = request.take_host();
        let head = request
            .parts(&format!(
                "http://{}",
                host.as_deref().unwrap_or("gateway.test")
            ))
            .version(http::Version::HTTP_2)
            .body(())
            .unwrap();
        let body = request.content();
        let mut sender = self.sender.clone().ready().await?;
        let (answer, mut upload) = sender.send_request(head, body.is_empty())?;
        if !body.is_empty() {
            upload.send_data(body, true)?;
        }
        let (mut head, mut incoming) = answer.await?.into_parts();
        // A frame that waits to be read keeps a stream from being at its end.
        let end = if incoming.is_end_stream() {
            EndOfStream::Head
        } else {
            EndOfStream::Later
        };
        let mut body = BytesMut::new();
        while let Some(piece) = incoming.data().await {
            let piece = piece?;
            incoming.flow_control().release_capacity(piece.len())?;
            body.extend_from_slice(&piece);
        }
        // The status of gRPC is in a head or in trailers, and tests name it like a field.
        let trailers = incoming.trailers().await?.unwrap_or_default();
        for name in ["grpc-status", "grpc-message"] {
            if let Some(told) = trailers.get(name) {
                head.headers.insert(name, told.clone());
            }
        }
        let answer = Response {
            status: head.status.as_u16(),
            headers: head.headers,
            body: body.freeze(),
        };
        Ok((answer, end))
    }
}
