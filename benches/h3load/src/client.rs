//! A connection of HTTP/3 and its requests, on quinn.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, RecvStream, SendStream, TokioRuntime,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use sluicegate_http3::frame::{FrameHead, FrameKind, write_head, write_settings};
use sluicegate_http3::{qpack, varint};
use socket2::{Domain, Protocol, Socket, Type};

use crate::Failure;
use crate::answer::{Answer, AnswerInput};

/// The bytes that a socket may hold, of which the system grants as many as it allows.
const SOCKET_BYTES: usize = 4 << 20;
/// The type of a control stream, RFC 9114 §6.2.1.
const CONTROL_STREAM: u64 = 0x00;
/// The code of an end without an error, RFC 9114 §8.1.
const NO_ERROR: u32 = 0x100;

/// An open connection.
pub struct Client {
    endpoint: Endpoint,
    connection: Connection,
    /// Stays open as long as the connection, RFC 9114 §6.2.1.
    _control: SendStream,
}

impl Client {
    /// Opens a connection.
    ///
    /// # Errors
    /// There is no socket, or the handshake fails.
    pub async fn connect(server: SocketAddr, host: &str) -> Result<Self, Failure> {
        let config = EndpointConfig::default();
        let runtime = Arc::new(TokioRuntime);
        let mut endpoint = Endpoint::new(config, None, socket(server)?, runtime)?;
        endpoint.set_default_client_config(client_config()?);
        let connection = endpoint.connect(server, host)?.await?;
        let mut control = connection.open_uni().await?;
        let mut settings = Vec::new();
        varint::write(CONTROL_STREAM, &mut settings);
        // None: the server's encoder has no dynamic table then.
        write_settings(&[], &mut settings);
        control.write_all(&settings).await?;
        tokio::task::spawn_local(drain_streams(connection.clone()));
        Ok(Self {
            endpoint,
            connection,
            _control: control,
        })
    }

    /// Sends a request and reads its answer.
    ///
    /// # Errors
    /// The connection or the stream ends before the answer does, or the answer breaks HTTP/3.
    pub async fn get(&self, request: &Bytes) -> Result<Answer, Failure> {
        let (mut output, mut input) = self.connection.open_bi().await?;
        output.write_chunk(request.clone()).await?;
        output.finish()?;
        let mut answer = AnswerInput::new();
        while let Some(chunk) = input.read_chunk(usize::MAX, true).await? {
            answer.receive(&chunk.bytes)?;
        }
        answer.end()
    }

    /// Returns whether the connection has ended.
    pub fn is_gone(&self) -> bool {
        self.connection.close_reason().is_some()
    }

    /// Ends the connection.
    pub async fn close(self: Rc<Self>) {
        self.connection.close(NO_ERROR.into(), b"");
        self.endpoint.wait_idle().await;
    }
}

/// Returns the bytes of a GET: HEADERS, and nothing behind it.
pub fn request(authority: &str, path: &str) -> Bytes {
    let mut section = Vec::new();
    qpack::write_prefix(&mut section);
    qpack::write_field(b":method", b"GET", &mut section);
    qpack::write_field(b":scheme", b"https", &mut section);
    qpack::write_field(b":authority", authority.as_bytes(), &mut section);
    qpack::write_field(b":path", path.as_bytes(), &mut section);
    qpack::write_field(b"user-agent", b"h3load", &mut section);
    let length = section.len() as u64;
    let kind = FrameKind::HEADERS;
    let mut bytes = Vec::new();
    write_head(FrameHead { kind, length }, &mut bytes);
    bytes.extend_from_slice(&section);
    bytes.into()
}

/// Reads what the server sends on its control stream and those of QPACK, and ignores it.
async fn drain_streams(connection: Connection) {
    while let Ok(stream) = connection.accept_uni().await {
        tokio::task::spawn_local(drain(stream));
    }
}

async fn drain(mut stream: RecvStream) {
    while let Ok(Some(_)) = stream.read_chunk(usize::MAX, true).await {}
}

/// Returns a socket with room for the datagrams that come while the program is not run.
fn socket(server: SocketAddr) -> Result<std::net::UdpSocket, Failure> {
    let local: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let domain = Domain::for_address(local);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(SOCKET_BYTES)?;
    socket.set_send_buffer_size(SOCKET_BYTES)?;
    socket.bind(&local.into())?;
    Ok(socket.into())
}

fn client_config() -> Result<ClientConfig, Failure> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(AnyCertificate(Arc::clone(&provider)));
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let crypto = QuicClientConfig::try_from(tls)?;
    Ok(ClientConfig::new(Arc::new(crypto)))
}

/// Accepts any certificate: those of benches are made for one run.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
