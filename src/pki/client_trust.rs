//! Decides which certificates of clients are believed: those that one of the operator's authorities signed.
//!
//! Made when the configuration is read, as the listener's own certificates are.

use std::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use super::certificate::chain;

/// Whether a client must show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// It may; one that is shown must be believed.
    Optional,
    /// It must.
    Required,
}

/// Whom a listener believes. Two are equal if they were made of the same text and ask alike.
#[derive(Clone)]
pub struct ClientTrust {
    authorities: Arc<str>,
    auth: ClientAuth,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl ClientTrust {
    /// Believes what `authorities`, as PEM, have signed; `None` where the text holds no certificate that can sign.
    #[must_use]
    pub fn new(authorities: &str, auth: ClientAuth) -> Option<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in chain(authorities)? {
            roots.add(certificate).ok()?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let builder = match auth {
            ClientAuth::Required => builder,
            ClientAuth::Optional => builder.allow_unauthenticated(),
        };
        Some(Self {
            authorities: authorities.into(),
            auth,
            verifier: builder.build().ok()?,
        })
    }

    /// Returns whether a client must show one.
    #[must_use]
    pub fn auth(&self) -> ClientAuth {
        self.auth
    }

    pub(crate) fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::clone(&self.verifier)
    }
}

impl PartialEq for ClientTrust {
    fn eq(&self, other: &Self) -> bool {
        (&self.authorities, self.auth) == (&other.authorities, other.auth)
    }
}

impl Eq for ClientTrust {}

impl fmt::Debug for ClientTrust {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.debug_struct("ClientTrust")
            .field("auth", &self.auth)
            .finish_non_exhaustive()
    }
}
