//! Checks who serves a name, by connecting there: HTTP-01 (RFC 8555 §8.3) and TLS-ALPN-01 (RFC 8737 §3).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::jws::sha256;
use crate::harness::{Client, get};

const PATIENCE: Duration = Duration::from_secs(10);

/// Whether `name`, which leads to `address`, shows this key authorization by HTTP; else why not.
pub(super) async fn http(
    address: SocketAddr,
    name: &str,
    token: &str,
    authorization: &str,
) -> Result<(), String> {
    let path = format!("/.well-known/acme-challenge/{token}");
    let asked = async {
        let mut client = Client::try_connect(address)
            .await
            .map_err(|error| error.to_string())?;
        client.try_send(get(&path).header("host", name)).await
    };
    let late = || Err("no answer in time".to_owned());
    let answer = tokio::time::timeout(PATIENCE, asked)
        .await
        .unwrap_or_else(|_| late())?;
    match (answer.status, answer.text()) {
        (200, text) if text.trim_end() == authorization => Ok(()),
        (status, text) => Err(format!(
            "Invalid response from http://{name}{path}: {status} {text:?}"
        )),
    }
}

/// Whether `name`, which leads to `address`, shows this key authorization by TLS; else why not.
pub(super) async fn tls(
    address: SocketAddr,
    name: &str,
    authorization: &str,
) -> Result<(), String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let seen = Arc::new(Seen {
        provider: Arc::clone(&provider),
        certificate: Mutex::default(),
    });
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&seen) as Arc<_>)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    let server = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
    let asked = async {
        let stream = TcpStream::connect(address).await?;
        TlsConnector::from(Arc::new(config))
            .connect(server, stream)
            .await
    };
    let late = || Err(std::io::ErrorKind::TimedOut.into());
    let stream = tokio::time::timeout(PATIENCE, asked)
        .await
        .unwrap_or_else(|_| late());
    let stream = stream.map_err(|error| format!("no handshake for {name}: {error}"))?;
    if stream.get_ref().1.alpn_protocol() != Some(b"acme-tls/1") {
        return Err(format!("{name} does not speak acme-tls/1"));
    }
    let der = seen
        .certificate
        .lock()
        .unwrap()
        .take()
        .ok_or("no certificate")?;
    shows(&der, name, authorization)
}

fn shows(der: &[u8], name: &str, authorization: &str) -> Result<(), String> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(|error| error.to_string())?;
    let names = certificate
        .subject_alternative_name()
        .map_err(|error| error.to_string())?;
    let names = names.ok_or("no names")?;
    if names.value.general_names != [GeneralName::DNSName(name)] {
        return Err(format!("the certificate is not for {name} alone"));
    }
    let identifier = certificate
        .extensions()
        .iter()
        .find(|extension| extension.oid.to_id_string() == "1.3.6.1.5.5.7.1.31")
        .ok_or("no acmeIdentifier")?;
    // An OCTET STRING of 32 bytes.
    let wanted = [vec![4, 32], sha256(authorization.as_bytes())].concat();
    if !identifier.critical || identifier.value != wanted {
        return Err("acmeIdentifier is not the digest of the key authorization".to_owned());
    }
    Ok(())
}

/// Believes every certificate, and keeps it; that the server has its key is verified.
#[derive(Debug)]
struct Seen {
    provider: Arc<CryptoProvider>,
    certificate: Mutex<Option<Vec<u8>>>,
}

impl ServerCertVerifier for Seen {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        *self.certificate.lock().unwrap() = Some(certificate.to_vec());
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        unreachable!("TLS 1.3 alone is offered")
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        // By the bare key: rustls refuses a certificate with a critical extension that it does not know.
        let (_, certificate) = X509Certificate::from_der(certificate)
            .map_err(|_| rustls::Error::General("no certificate".to_owned()))?;
        let key = SubjectPublicKeyInfoDer::from(certificate.public_key().raw);
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
