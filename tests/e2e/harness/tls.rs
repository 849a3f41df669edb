//! Certificates, and a client that looks at what it is shown.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, HandshakeKind, ProtocolVersion, RootCertStore, SupportedProtocolVersion,
};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::client::{Client, Request, Response};
use super::eventually::PATIENCE;
use super::h2c::H2cClient;

/// Signs certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>, String);

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    /// A new one, which nobody knows yet.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let pem = key.serialize_pem();
        Self(CertifiedIssuer::self_signed(params, key).unwrap(), pem)
    }

    /// Its own certificate.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Its own certificate, to be shown by a server.
    pub fn itself(&self) -> Pair {
        Pair {
            certificate: self.pem(),
            key: self.1.clone(),
        }
    }

    /// A certificate of a server with these names.
    pub fn server(&self, names: &[&str]) -> Pair {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        self.sign(CertificateParams::new(names).unwrap())
    }

    /// One that has expired.
    pub fn expired(&self, names: &[&str]) -> Pair {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        self.sign(params)
    }

    /// A certificate of a client.
    pub fn client(&self, name: &str) -> Pair {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::OrganizationName, "Example");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Pair {
        let key = KeyPair::generate().unwrap();
        Pair {
            certificate: params.signed_by(&key, &self.0).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}

impl Pair {
    /// The certificate's bytes.
    pub fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()
    }

    /// The SHA-256 of its public key, in base64, by which browsers name a certificate.
    pub(super) fn key_digest(&self) -> String {
        let der = self.der();
        let (_, certificate) = x509_parser::parse_x509_certificate(&der).unwrap();
        let key = certificate.public_key().raw;
        BASE64_STANDARD.encode(ring::digest::digest(&ring::digest::SHA256, key))
    }

    fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap()
    }
}

/// Clients of one kind, which share their memory of sessions.
#[derive(Clone)]
pub struct TlsClients {
    config: ClientConfig,
}

/// A connection under TLS, of HTTP/2 where both sides offered it.
pub struct TlsClient {
    client: Client,
    pub version: ProtocolVersion,
    pub protocol: Option<Vec<u8>>,
    /// What the gateway has shown.
    pub certificate: CertificateDer<'static>,
    pub kind: HandshakeKind,
}

impl TlsClients {
    /// Those that believe `authority`.
    pub fn of(authority: &Authority) -> Self {
        Self::believing(&authority.pem())
    }

    /// Those that believe who has this certificate, as PEM.
    pub fn believing(ca: &str) -> Self {
        Self::with(ca, rustls::DEFAULT_VERSIONS, None)
    }

    /// Those that speak one version alone.
    pub fn speaking(authority: &Authority, version: &'static SupportedProtocolVersion) -> Self {
        Self::with(&authority.pem(), &[version], None)
    }

    /// Those that have a certificate.
    pub fn showing(authority: &Authority, pair: &Pair) -> Self {
        Self::with(&authority.pem(), rustls::DEFAULT_VERSIONS, Some(pair))
    }

    /// Those that know no key exchange that resists quantum computers.
    pub fn classical(authority: &Authority) -> Self {
        let library = rustls::crypto::ring::default_provider();
        Self::by(library, &authority.pem(), rustls::DEFAULT_VERSIONS, None)
    }

    fn with(ca: &str, versions: &[&'static SupportedProtocolVersion], pair: Option<&Pair>) -> Self {
        Self::by(aws_lc_rs::default_provider(), ca, versions, pair)
    }

    fn by(
        library: CryptoProvider,
        ca: &str,
        versions: &[&'static SupportedProtocolVersion],
        pair: Option<&Pair>,
    ) -> Self {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap())
            .unwrap();
        let builder = ClientConfig::builder_with_provider(library.into())
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let config = match pair {
            None => builder.with_no_client_auth(),
            Some(pair) => builder
                .with_client_auth_cert(vec![pair.der()], pair.key_der())
                .unwrap(),
        };
        Self { config }
    }

    /// Those that offer these protocols.
    pub fn offering(mut self, protocols: &[&str]) -> Self {
        let protocols = protocols.iter();
        self.config.alpn_protocols = protocols.map(|name| name.as_bytes().to_vec()).collect();
        self
    }

    /// Those that do not say which name they ask for.
    pub fn nameless(mut self) -> Self {
        self.config.enable_sni = false;
        self
    }

    /// What rustls has of them.
    pub(super) fn into_config(self) -> ClientConfig {
        self.config
    }

    /// Connects, asking for `name`.
    pub async fn connect(&self, to: SocketAddr, name: &str) -> TlsClient {
        self.try_connect(to, name)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Connects, or says why not.
    pub async fn try_connect(&self, to: SocketAddr, name: &str) -> std::io::Result<TlsClient> {
        let stream = TcpStream::connect(to).await?;
        self.shake_hands(stream, name).await
    }

    /// The protocol that a handshake for `name` chooses.
    pub async fn negotiated(&self, to: SocketAddr, name: &str) -> Option<Vec<u8>> {
        let stream = TcpStream::connect(to).await.unwrap();
        let connector = TlsConnector::from(Arc::new(self.config.clone()));
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let tls = connector.connect(name, stream).await.unwrap();
        tls.get_ref().1.alpn_protocol().map(<[u8]>::to_vec)
    }

    /// Connects, and gives the connection under TLS for bytes of any kind.
    pub async fn connect_raw(&self, to: SocketAddr, name: &str) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(to).await.unwrap();
        let connector = TlsConnector::from(Arc::new(self.config.clone()));
        let name = ServerName::try_from(name.to_owned()).unwrap();
        connector.connect(name, stream).await.unwrap()
    }

    /// Shakes hands on a connection that stands.
    pub async fn shake_hands(&self, stream: TcpStream, name: &str) -> std::io::Result<TlsClient> {
        stream.set_nodelay(true)?;
        let connector = TlsConnector::from(Arc::new(self.config.clone()));
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let tls = timeout(PATIENCE, connector.connect(name, stream)).await??;
        let session = tls.get_ref().1;
        let version = session.protocol_version().unwrap();
        let protocol = session.alpn_protocol().map(<[u8]>::to_vec);
        let certificate = session.peer_certificates().unwrap()[0].clone().into_owned();
        let kind = session.handshake_kind().unwrap();
        let client = if protocol.as_deref() == Some(b"h2") {
            Client::over_http2(H2cClient::over(tls).await)
        } else {
            let (sender, connection) = http1::handshake::<_, Full<Bytes>>(TokioIo::new(tls))
                .await
                .map_err(std::io::Error::other)?;
            tokio::spawn(connection);
            Client::over(sender)
        };
        Ok(TlsClient {
            client,
            version,
            protocol,
            certificate,
            kind,
        })
    }
}

impl TlsClient {
    /// Sends a request and reads the answer whole.
    pub async fn send(&mut self, request: Request) -> Response {
        self.client.send(request).await
    }

    /// Sends a request and reads the answer whole, or says what broke.
    pub async fn try_send(&mut self, request: Request) -> Result<Response, String> {
        self.client.try_send(request).await
    }

    /// GET in short.
    pub async fn get(&mut self, target: &str) -> Response {
        self.client.get(target).await
    }
}
