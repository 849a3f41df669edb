//! Owns one certificate of a listener: its chain, its key, the names that it is served for, and its validity.
//!
//! It is parsed when the configuration is read, so that an unusable pair is reported with its place in the file, and the
//! listener keeps the one that it had.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, DnsName, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use sluicegate_limiter::Timestamp;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::oid_registry::OID_PKIX_ACCESS_DESCRIPTOR_CA_ISSUERS;
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};
use x509_parser::public_key::PublicKey;

use super::provider::crypto_provider;
use crate::secret::Secret;

/// A certificate with its key. Two are equal if they were parsed from the same texts.
#[derive(Clone)]
pub struct ServerCertificate {
    texts: CertificateTexts,
    names: Vec<Box<str>>,
    validity: Validity,
    certified: Arc<CertifiedKey>,
}

/// The texts of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateTexts {
    /// The certificate and its intermediates, as PEM.
    pub chain: Arc<str>,
    /// The key, as PEM.
    pub key: Secret,
    /// The names that it is served for; `None`: those in the certificate.
    pub names: Option<Vec<Box<str>>>,
}

/// The period in which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first moment.
    pub begins: Timestamp,
    /// The last moment.
    pub ends: Timestamp,
}

/// The reason for which a pair is unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateError {
    /// The file contains no certificate.
    NoCertificate,
    /// The file contains no private key.
    NoKey,
    /// The key type cannot sign here.
    UnknownKey,
    /// The key is an RSA key of so many bits, which are too few or too many.
    RsaBits(usize),
    /// The key belongs to another certificate.
    Mismatch,
    /// The certificate is malformed.
    Broken,
    /// The certificate has X.509 version 1 or 2, which has no names of hosts.
    OldVersion,
    /// The library of TLS rejects the certificate, for this reason.
    Unsupported(String),
}

/// A defect of a chain by which some clients reject the certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainDefect {
    /// The certificate at this place in the file, from 1, did not issue the one before it.
    Order(usize),
    /// The file lacks the certificate of this issuer, which is no root: the certificate says where to fetch it.
    MissingIssuer(String),
}

impl ServerCertificate {
    /// Parses a pair.
    ///
    /// # Errors
    /// The reason for which it is unusable.
    pub fn new(texts: CertificateTexts) -> Result<Self, CertificateError> {
        let chain = chain(&texts.chain).ok_or(CertificateError::NoCertificate)?;
        let key = PrivateKeyDer::from_pem_slice(texts.key.reveal().as_bytes())
            .map_err(|_| CertificateError::NoKey)?;
        let first = chain.first().ok_or(CertificateError::NoCertificate)?;
        let (found, validity) = names_and_validity(first).ok_or(CertificateError::Broken)?;
        if is_old(first) {
            return Err(CertificateError::OldVersion);
        }
        let key = crypto_provider().key_provider.load_private_key(key);
        let key = key.map_err(|_| unusable_key(first))?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            // A key type that does not expose its public key; the first handshake will check it.
            Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(Error::InconsistentKeys(_)) => return Err(CertificateError::Mismatch),
            Err(error) => return Err(CertificateError::Unsupported(error.to_string())),
        }
        Ok(Self {
            names: texts.names.clone().unwrap_or(found),
            validity,
            certified: Arc::new(certified),
            texts,
        })
    }

    /// Returns the names that it is served for, in lower case; a first label `*` matches any one label.
    #[must_use]
    pub fn names(&self) -> &[Box<str>] {
        &self.names
    }

    /// Returns its first name, for texts that name the certificate.
    #[must_use]
    pub fn name(&self) -> &str {
        self.names.first().map_or("", |name| name)
    }

    /// Returns its validity.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Returns the defect of its chain, if it has one.
    #[must_use]
    pub fn chain_defect(&self) -> Option<ChainDefect> {
        let parsed = self.certified.cert.iter().map(|der| parse(der));
        let chain: Vec<X509Certificate<'_>> = parsed.collect::<Option<_>>()?;
        let out_of_order = |pair: &[X509Certificate<'_>]| matches!(pair, [one, next] if one.issuer().as_raw() != next.subject().as_raw());
        if let Some(at) = chain.windows(2).position(out_of_order) {
            return Some(ChainDefect::Order(at + 2));
        }
        match &*chain {
            [alone] if names_issuers_file(alone) => {
                Some(ChainDefect::MissingIssuer(alone.issuer().to_string()))
            }
            _ => None,
        }
    }

    /// Returns the key that signs handshakes, with the chain.
    #[must_use]
    pub fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }
}

impl PartialEq for ServerCertificate {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

impl Eq for ServerCertificate {}

impl fmt::Debug for ServerCertificate {
    /// Omits the key, which is secret.
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.debug_struct("Certificate")
            .field("names", &self.names)
            .field("validity", &self.validity)
            .finish_non_exhaustive()
    }
}

/// Returns all certificates of a text, at least one.
pub(super) fn chain(text: &str) -> Option<Vec<CertificateDer<'static>>> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    read.ok().filter(|certificates| !certificates.is_empty())
}

/// Returns the validity of a certificate; `None` where it is malformed.
#[must_use]
pub fn validity(der: &[u8]) -> Option<Validity> {
    names_and_validity(der).map(|(_, validity)| validity)
}

fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    X509Certificate::from_der(der)
        .ok()
        .map(|(_, certificate)| certificate)
}

fn is_old(der: &[u8]) -> bool {
    parse(der).is_some_and(|certificate| certificate.version() != X509Version::V3)
}

/// Returns why the key of a certificate cannot be used.
fn unusable_key(der: &[u8]) -> CertificateError {
    let certificate = parse(der);
    let key = certificate
        .as_ref()
        .and_then(|certificate| certificate.public_key().parsed().ok());
    match key {
        Some(PublicKey::RSA(key)) => CertificateError::RsaBits(key.key_size()),
        _ => CertificateError::UnknownKey,
    }
}

/// Returns whether a certificate says where that of its issuer can be fetched, as those of public authorities do (RFC 5280 §4.2.2.1). The
/// issuer of a server's certificate is no root then.
fn names_issuers_file(certificate: &X509Certificate<'_>) -> bool {
    let is_self_issued = certificate.issuer().as_raw() == certificate.subject().as_raw();
    let mut extensions = certificate.extensions().iter();
    !is_self_issued
        && extensions.any(|extension| match extension.parsed_extension() {
            ParsedExtension::AuthorityInfoAccess(access) => (access.accessdescs.iter())
                .any(|one| one.access_method == OID_PKIX_ACCESS_DESCRIPTOR_CA_ISSUERS),
            _ => false,
        })
}

/// Returns the alternative names, since RFC 6125 §6.4.4 ignores the common name, and the validity.
fn names_and_validity(der: &[u8]) -> Option<(Vec<Box<str>>, Validity)> {
    let certificate = parse(der)?;
    let seconds = |time: i64| Timestamp::from_secs(u64::try_from(time).unwrap_or(0));
    let validity = Validity {
        begins: seconds(certificate.validity().not_before.timestamp()),
        ends: seconds(certificate.validity().not_after.timestamp()),
    };
    let alternative = certificate.subject_alternative_name().ok()?;
    let names = alternative.map_or(&[][..], |extension| &extension.value.general_names);
    let names = names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => served(name),
        _ => None,
    });
    Some((names.collect(), validity))
}

/// Returns a name in the form in which it is looked up: lower case, at most the first label `*`; `None` for an invalid name.
#[must_use]
pub fn served(name: &str) -> Option<Box<str>> {
    let plain = name.strip_prefix("*.").unwrap_or(name);
    DnsName::try_from(plain).ok()?;
    Some(name.to_ascii_lowercase().into())
}
