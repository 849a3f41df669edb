//! A client of HTTP/3 on one connection: h3 over quinn, which nobody here wrote.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use h3::client::{RequestStream, SendRequest};
use h3::error::StreamError;
use h3_quinn::{BidiStream, OpenStreams};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{Endpoint, TransportConfig};
use quinn_proto::EndpointConfig;
use tokio::time::timeout;

use super::client::{Request, Response};
use super::eventually::PATIENCE;
use super::tls::{Authority, Pair, TlsClients};

/// The name of the listener in its certificate.
const NAME: &str = "gateway.test";

/// The authority that all of these clients believe.
static AUTHORITY: LazyLock<Authority> = LazyLock::new(Authority::new);

/// The error of a request that was not sent, since the connection ends.
pub const NOT_SENT: &str = "the connection takes no more requests";

/// One connection; every request is a stream of its own.
pub struct Http3Client {
    sender: SendRequest<OpenStreams, Bytes>,
    // Its last connection would end with it.
    _endpoint: Endpoint,
}

impl Http3Client {
    /// The certificate of a listener that these clients believe.
    pub(super) fn believed() -> Pair {
        AUTHORITY.server(&[NAME])
    }

    /// Connects, from an address of the system's choice where none is given.
    pub(super) async fn connect(from: Option<IpAddr>, to: SocketAddr) -> io::Result<Self> {
        Self::connect_with(TransportConfig::default(), from, to).await
    }

    /// Connects, and sends a PING whenever nothing came for a moment.
    pub async fn pinging(to: SocketAddr) -> Self {
        let mut transport = TransportConfig::default();
        transport.keep_alive_interval(Some(Duration::from_millis(100)));
        Self::connect_with(transport, None, to).await.unwrap()
    }

    async fn connect_with(
        transport: TransportConfig,
        from: Option<IpAddr>,
        to: SocketAddr,
    ) -> io::Result<Self> {
        let tls = TlsClients::of(&AUTHORITY).offering(&["h3"]).into_config();
        let quic = QuicClientConfig::try_from(tls).map_err(io::Error::other)?;
        let any = match to.ip() {
            IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        };
        let mut endpoint = Endpoint::client(SocketAddr::new(from.unwrap_or(any), 0))?;
        let mut config = quinn::ClientConfig::new(Arc::new(quic));
        config.transport_config(Arc::new(transport));
        endpoint.set_default_client_config(config);
        let connecting = endpoint.connect(to, NAME).map_err(io::Error::other)?;
        let connection = timeout(PATIENCE, connecting).await??;
        let (mut connection, sender) = h3::client::new(h3_quinn::Connection::new(connection))
            .await
            .map_err(io::Error::other)?;
        // Its end shows in the requests.
        tokio::spawn(async move { poll_fn(|context| connection.poll_close(context)).await });
        Ok(Self {
            sender,
            _endpoint: endpoint,
        })
    }

    /// The first datagram of a client of `authority` that connects to `to`: nothing of it is known to have a source.
    pub fn first_datagram(authority: &Authority, to: SocketAddr) -> Vec<u8> {
        let tls = TlsClients::of(authority).offering(&["h3"]).into_config();
        let quic = Arc::new(QuicClientConfig::try_from(tls).unwrap());
        let settings = Arc::new(EndpointConfig::default());
        let mut endpoint = quinn_proto::Endpoint::new(settings, None, true, None);
        let config = quinn_proto::ClientConfig::new(quic);
        let now = Instant::now();
        let connected = endpoint.connect(now, config, to, NAME);
        let mut datagram = Vec::new();
        let transmit = (connected.unwrap().1).poll_transmit(now, 1, &mut datagram);
        datagram.truncate(transmit.unwrap().size);
        datagram
    }

    /// Sends a request on a new stream and reads the answer whole, or says what broke.
    pub async fn try_send(&mut self, request: Request) -> Result<Response, String> {
        match timeout(PATIENCE, self.exchange(request)).await {
            Ok(answer) => answer,
            Err(_) => Err("no answer in time".to_owned()),
        }
    }

    async fn exchange(&mut self, mut request: Request) -> Result<Response, String> {
        let host = request.take_host();
        let head = request
            .parts(&format!("https://{}", host.as_deref().unwrap_or(NAME)))
            .version(http::Version::HTTP_3)
            .body(())
            .unwrap();
        let sent = self.sender.send_request(head).await;
        let stream = sent.map_err(|_| NOT_SENT.to_owned())?;
        let answer = Self::finish(stream, request.content()).await;
        answer.map_err(|error| error.to_string())
    }

    /// Sends the content of a request, and reads the answer.
    async fn finish(
        mut stream: RequestStream<BidiStream<Bytes>, Bytes>,
        sent: Bytes,
    ) -> Result<Response, StreamError> {
        if !sent.is_empty() {
            // An answer may come before all of it was read, and asks for no more.
            let _ = stream.send_data(sent).await;
        }
        let _ = stream.finish().await;
        let mut answer = stream.recv_response().await?;
        while answer.status().is_informational() {
            answer = stream.recv_response().await?;
        }
        let mut body = BytesMut::new();
        while let Some(piece) = stream.recv_data().await? {
            body.put(piece);
        }
        let (mut head, ()) = answer.into_parts();
        // As with HTTP/2, tests name the status of gRPC like a field.
        let trailers = stream.recv_trailers().await?.unwrap_or_default();
        for name in ["grpc-status", "grpc-message"] {
            if let Some(found) = trailers.get(name) {
                head.headers.insert(name, found.clone());
            }
        }
        Ok(Response {
            status: head.status.as_u16(),
            headers: head.headers,
            body: body.freeze(),
        })
    }
}
