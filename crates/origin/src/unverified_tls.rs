//! Opens TLS to servers whose certificates are not verified, `tls = { verify = "off" }`.
//!
//! Pingora verifies nothing of such a certificate either, but reads its key with a parser for certificates that are verified, which rejects
//! X.509 version 1, critical extensions that it does not know, and keys that it has no algorithm for. Here the certificate is not read at
//! all. The signature of the handshake is not verified with its key: whoever stands on the path can show a certificate of their own, so
//! the signature proves nothing.

use std::sync::Arc;

use pingora::connectors::TransportConnector;
use pingora::protocols::l4::stream::Stream as SocketStream;
use pingora::protocols::tls::client::handshake;
use pingora::protocols::{ALPN, Stream};
use pingora::upstreams::peer::{HttpPeer, Scheme};
use pingora::{Error, ErrorType, Result};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use sluicegate_base::pki::crypto_provider;
use tokio::time::timeout_at;
use tokio_rustls::TlsConnector;

use sluicegate_config::rules::{OriginRules, Verify};
use sluicegate_transport::timer;

/// The settings of TLS to the servers of an origin.
#[derive(Clone, Debug)]
pub(super) struct UnverifiedTls(Arc<ClientConfig>);

impl UnverifiedTls {
    /// Returns the settings of an origin; `None` where it has no TLS, or verifies certificates.
    pub(super) fn from_rules(rules: &OriginRules) -> Option<Self> {
        let tls = rules.transport.tls.as_ref()?;
        if tls.verify != Verify::Off {
            return None;
        }
        let builder = ClientConfig::builder_with_provider(crypto_provider())
            .with_safe_default_protocol_versions()
            .ok()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate));
        let config = match &tls.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = identity.chain.iter();
                let chain = chain.map(|one| CertificateDer::from(one.0.to_vec()));
                // The pair was checked when the configuration was read.
                let key = PrivateKeyDer::try_from(identity.key.to_vec()).ok()?;
                builder.with_client_auth_cert(chain.collect(), key).ok()?
            }
        };
        Some(Self(Arc::new(config)))
    }

    /// Opens a connection to `peer`: the socket by `transport`, then TLS.
    ///
    /// # Errors
    /// There is no connection; its error has the form of those of `transport`.
    pub(super) async fn open(
        &self,
        transport: &TransportConnector,
        peer: &HttpPeer,
    ) -> Result<Stream> {
        let deadline = peer.options.total_connection_timeout.map(timer::deadline);
        let mut plain = peer.clone();
        plain.scheme = Scheme::HTTP;
        let socket = transport.new_stream(&plain).await?.into_any();
        let Ok(socket) = socket.downcast::<SocketStream>() else {
            return Error::e_explain(ErrorType::InternalError, "a stream without a socket");
        };
        let connector = self.connector(&peer.options.alpn);
        let opening = handshake(&connector, &peer.sni, *socket);
        let opened = match deadline {
            None => opening.await,
            Some(deadline) => timeout_at(deadline, opening).await.unwrap_or_else(|_| {
                Error::e_explain(ErrorType::ConnectTimedout, "connecting to server by TLS")
            }),
        };
        Ok(Box::new(opened?))
    }

    /// Returns a connector that offers these protocols.
    fn connector(&self, alpn: &ALPN) -> TlsConnector {
        let mut config = ClientConfig::clone(&self.0);
        let offered: &[&[u8]] = match alpn {
            ALPN::H1 | ALPN::Custom(_) => &[b"http/1.1"],
            ALPN::H2 => &[b"h2"],
            ALPN::H2H1 => &[b"h2", b"http/1.1"],
        };
        config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }
}

/// A verifier that accepts every certificate, unread.
#[derive(Debug)]
struct AnyCertificate;

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

    /// Returns all that servers sign with, since none is verified: those of P-521 and SHA-1 too.
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        use SignatureScheme as Scheme;
        vec![
            Scheme::ECDSA_NISTP256_SHA256,
            Scheme::ECDSA_NISTP384_SHA384,
            Scheme::ECDSA_NISTP521_SHA512,
            Scheme::ED25519,
            Scheme::ED448,
            Scheme::RSA_PSS_SHA256,
            Scheme::RSA_PSS_SHA384,
            Scheme::RSA_PSS_SHA512,
            Scheme::RSA_PKCS1_SHA256,
            Scheme::RSA_PKCS1_SHA384,
            Scheme::RSA_PKCS1_SHA512,
            Scheme::ECDSA_SHA1_Legacy,
            Scheme::RSA_PKCS1_SHA1,
        ]
    }
}
