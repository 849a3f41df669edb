//! Owns one certificate of a listener: its chain, its key, the names that it is served for, and when it ends.
//!
//! It is made when the configuration is read, so that a pair that cannot be used is told with its place in the file, and the listener
//! goes on with what it had.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, DnsName, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use sluicegate_limiter::Timestamp;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::secret::Secret;

/// A certificate with its key. Two are equal if they were made of the same texts.
#[derive(Clone)]
pub struct ServerCertificate {
    texts: CertificateTexts,
    names: Vec<Box<str>>,
    validity: Validity,
    certified: Arc<CertifiedKey>,
}

/// What the files say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateTexts {
    /// The certificate and those that lead from it to a root, as PEM.
    pub chain: Arc<str>,
    /// Its key, as PEM.
    pub key: Secret,
    /// What it is served for; `None`: the names in it.
    pub names: Option<Vec<Box<str>>>,
}

/// From when until when a certificate holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first moment.
    pub begins: Timestamp,
    /// The last.
    pub ends: Timestamp,
}

/// Why a pair cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateError {
    /// There is no certificate in its file.
    NoCertificate,
    /// There is no private key in its file.
    NoKey,
    /// The key is of a kind that cannot sign here.
    UnknownKey,
    /// The key belongs to another certificate.
    Mismatch,
    /// The certificate is broken.
    Broken,
}

impl ServerCertificate {
    /// Reads a pair.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn new(texts: CertificateTexts) -> Result<Self, CertificateError> {
        let chain = chain(&texts.chain).ok_or(CertificateError::NoCertificate)?;
        let key = PrivateKeyDer::from_pem_slice(texts.key.reveal().as_bytes())
            .map_err(|_| CertificateError::NoKey)?;
        let first = chain.first().ok_or(CertificateError::NoCertificate)?;
        let (found, validity) = names_and_validity(first).ok_or(CertificateError::Broken)?;
        let key = rustls::crypto::ring::sign::any_supported_type(&key)
            .map_err(|_| CertificateError::UnknownKey)?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            // A kind of key that does not tell its other half; the first handshake will.
            Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(Error::InconsistentKeys(_)) => return Err(CertificateError::Mismatch),
            Err(_) => return Err(CertificateError::Broken),
        }
        Ok(Self {
            names: texts.names.clone().unwrap_or(found),
            validity,
            certified: Arc::new(certified),
            texts,
        })
    }

    /// What it is served for, lower case; a first label `*` stands for any one label.
    #[must_use]
    pub fn names(&self) -> &[Box<str>] {
        &self.names
    }

    /// What it is called where one word must do: its first name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.names.first().map_or("", |name| name)
    }

    /// From when until when it holds.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// What signs the handshakes.
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
    /// Without the key, which is a secret, and logs are not.
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.debug_struct("Certificate")
            .field("names", &self.names)
            .field("validity", &self.validity)
            .finish_non_exhaustive()
    }
}

/// All certificates of a text, at least one.
pub(crate) fn chain(text: &str) -> Option<Vec<CertificateDer<'static>>> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    read.ok().filter(|certificates| !certificates.is_empty())
}

/// From when until when a certificate holds; `None` where it is broken.
pub(crate) fn validity(der: &[u8]) -> Option<Validity> {
    names_and_validity(der).map(|(_, validity)| validity)
}

/// RFC 6125 §6.4.4: names are alternative names; a common name is none.
fn names_and_validity(der: &[u8]) -> Option<(Vec<Box<str>>, Validity)> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
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

/// A name as it is looked up: lower case, at most the first label `*`. `None` where it is no such name.
#[must_use]
pub fn served(name: &str) -> Option<Box<str>> {
    let plain = name.strip_prefix("*.").unwrap_or(name);
    DnsName::try_from(plain).ok()?;
    Some(name.to_ascii_lowercase().into())
}
