//! The authority of the ACME server: signs the server's own certificate, and what it issues.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm, date_time_ymd,
};
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;

/// Authorities so far.
static AUTHORITIES: AtomicUsize = AtomicUsize::new(0);

/// The authority.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A signing request that was verified.
pub(super) struct SigningRequest {
    pub(super) names: Vec<String>,
    key: Vec<u8>,
}

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // Clients look for who signed by this name.
        let number = AUTHORITIES.fetch_add(1, Ordering::Relaxed);
        let name = format!("authority {number} of {}", std::process::id());
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    /// TLS for the server itself, at its loopback address.
    pub(super) fn server_config(&self) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        Arc::new(config)
    }

    /// Signs: the chain, as PEM.
    pub(super) fn sign(&self, request: &SigningRequest, lifetime: Duration) -> String {
        let mut params = CertificateParams::new(request.names.clone()).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let epoch = date_time_ymd(1970, 1, 1);
        params.not_before = epoch + now;
        params.not_after = epoch + now + lifetime;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let leaf = params.signed_by(request, &self.0).unwrap();
        format!("{}{}", leaf.pem(), self.0.pem())
    }
}

impl SigningRequest {
    /// Reads and verifies one; `None` where it is none, or is not signed by its key.
    pub(super) fn verified(der: &[u8]) -> Option<Self> {
        let (_, request) = X509CertificationRequest::from_der(der).ok()?;
        let about = &request.certification_request_info;
        let key = about.subject_pki.subject_public_key.data.to_vec();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &key)
            .verify(about.raw, &request.signature_value.data)
            .ok()?;
        let mut names = Vec::new();
        for extension in request.requested_extensions()? {
            let ParsedExtension::SubjectAlternativeName(alternative) = extension else {
                continue;
            };
            for name in &alternative.general_names {
                match name {
                    GeneralName::DNSName(name) => names.push((*name).to_owned()),
                    _ => return None,
                }
            }
        }
        names.sort();
        Some(Self { names, key })
    }
}

impl PublicKeyData for SigningRequest {
    fn der_bytes(&self) -> &[u8] {
        &self.key
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}
