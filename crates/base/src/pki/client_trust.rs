//! Decides which client certificates are trusted: those that one of the operator's authorities signed.
//!
//! It is built when the configuration is read, like the listener's own certificates.

use std::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use super::certificate::chain;
use super::provider::crypto_provider;

/// The client certificate policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// A certificate is optional; one that is sent must be trusted.
    Optional,
    /// A certificate is required.
    Required,
}

/// The authorities that a listener trusts. Two are equal if they have the same text and policy.
#[derive(Clone)]
pub struct ClientTrust {
    authorities: Arc<str>,
    auth: ClientAuth,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl ClientTrust {
    /// Trusts certificates that `authorities`, as PEM, have signed; `None` where the text contains no certificate that can sign.
    #[must_use]
    pub fn new(authorities: &str, auth: ClientAuth) -> Option<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in chain(authorities)? {
            roots.add(certificate).ok()?;
        }
        let builder =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), crypto_provider());
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

    /// Returns the policy.
    #[must_use]
    pub fn auth(&self) -> ClientAuth {
        self.auth
    }

    /// Returns the verifier of handshakes.
    #[must_use]
    pub fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
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
