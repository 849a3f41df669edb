//! Owns the protocol with the servers of an origin, and its certificates.

use std::fmt;
use std::sync::Arc;

/// The protocol with the servers of an origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP/1.1, the default.
    #[default]
    Http1,
    /// HTTP/2 by TLS, and nothing else.
    H2,
    /// HTTP/2 without TLS, which is not asked for but known.
    H2c,
    /// By TLS, what the server takes of HTTP/2 and HTTP/1.1.
    Auto,
}

impl Protocol {
    /// Returns whether it implies TLS.
    #[must_use]
    pub fn implies_tls(self) -> bool {
        matches!(self, Self::H2 | Self::Auto)
    }
}

/// One certificate, DER; X.509 was found in it when it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Certificate(pub Arc<[u8]>);

/// A certificate of the gateway's own, those that lead to its root, and its key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The gateway's own first; at least one.
    pub chain: Arc<[Certificate]>,
    /// PKCS #8, PKCS #1 or SEC 1, DER; it fits the first certificate.
    pub key: Arc<[u8]>,
}

impl fmt::Debug for Identity {
    /// Without the key, which is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("chain", &self.chain)
            .finish_non_exhaustive()
    }
}

/// The verification of a server's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verify {
    /// Its signer, its validity and its name; the default.
    #[default]
    Full,
    /// Its signer and its validity.
    Chain,
    /// Nothing.
    Off,
}
