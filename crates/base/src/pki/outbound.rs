//! Owns the TLS settings of a connection that the gateway opens: its trust anchors, and the gateway's own certificate.
//!
//! It is built when the configuration is read, so that an unusable certificate is reported with its place in the file.

use std::fmt;
use std::sync::{Arc, LazyLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::provider::crypto_provider;
use crate::secret::Secret;

/// The certificates that this machine trusts, read when first needed.
static SYSTEM: LazyLock<RootCertStore> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
});

/// TLS settings of a connection. Two are equal if they were built from the same texts.
#[derive(Clone)]
pub struct Tls {
    texts: TlsTexts,
    name: Option<ServerName<'static>>,
    config: Arc<ClientConfig>,
}

/// The texts of the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsTexts {
    /// The authorities that sign the servers' certificates, as PEM; `None`: those that the machine trusts.
    pub ca: Option<Arc<str>>,
    /// The gateway's own certificate with its chain, and its key, as PEM.
    pub pair: Option<(Arc<str>, Secret)>,
    /// The name that a server's certificate must have; `None`: the host name of the connection.
    pub server_name: Option<String>,
}

/// The reason for which the texts are unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsError {
    /// The file of authorities contains no certificate.
    Ca,
    /// The file of the gateway's own certificate contains none.
    Certificate,
    /// Its file contains no private key.
    Key,
    /// Certificate and key do not match, or the key type is unknown.
    Pair(String),
    /// The name is invalid.
    Name,
}

impl Tls {
    /// Builds the settings.
    ///
    /// # Errors
    /// The error in the texts.
    pub fn new(texts: TlsTexts) -> Result<Self, TlsError> {
        let roots = match &texts.ca {
            None => SYSTEM.clone(),
            Some(text) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(text).ok_or(TlsError::Ca)? {
                    roots.add(certificate).map_err(|_| TlsError::Ca)?;
                }
                roots
            }
        };
        let builder = ClientConfig::builder_with_provider(crypto_provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Pair(error.to_string()))?
            .with_root_certificates(roots);
        let config = match &texts.pair {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = certificates(chain).ok_or(TlsError::Certificate)?;
                let key = PrivateKeyDer::from_pem_slice(key.reveal().as_bytes())
                    .map_err(|_| TlsError::Key)?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| TlsError::Pair(error.to_string()))?
            }
        };
        let name = texts.server_name.clone().map(ServerName::try_from);
        Ok(Self {
            name: name.transpose().map_err(|_| TlsError::Name)?,
            texts,
            config: Arc::new(config),
        })
    }

    /// Returns the configuration of the connections.
    #[must_use]
    pub fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    /// Returns the name that servers must prove; `None`: the name by which they are reached.
    #[must_use]
    pub fn server_name(&self) -> Option<&ServerName<'static>> {
        self.name.as_ref()
    }
}

impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.texts.fmt(into)
    }
}

/// Returns all certificates of a text, at least one.
fn certificates(text: &str) -> Option<Vec<CertificateDer<'static>>> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    read.ok().filter(|certificates| !certificates.is_empty())
}
