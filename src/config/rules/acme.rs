//! Owns the typed rules of `[acme]`: from whom certificates come, how names are proved, and where all of it is kept.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{Name, Rules};
use crate::pki::Tls;
use crate::secret::Secret;

/// `[acme]`. Equal where what it was made of is.
#[derive(Clone, Debug, PartialEq)]
pub struct AcmeRules {
    /// The URL of the server's directory, RFC 8555 §7.1.1; always https.
    pub directory: Arc<str>,
    /// Whom the server may write to, as URLs.
    pub contact: Vec<String>,
    /// Whom the gateway believes to be the server.
    pub trust: Tls,
    /// How the gateway proves that names are its own.
    pub proof: Proof,
    /// How long before its end a certificate is renewed; `None`: when a third of its lifetime is left.
    pub renew_before: Option<Duration>,
    /// Where the account and the certificates are kept.
    pub dir: PathBuf,
    /// The account elsewhere that the one at the server belongs to, RFC 8555 §7.3.4.
    pub binding: Option<Binding>,
}

/// How the gateway proves that a name is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// By an answer on port 80, RFC 8555 §8.3.
    Http01,
    /// By a handshake on port 443, RFC 8737.
    TlsAlpn01,
}

/// An account that the certificate authority knows its customer by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// What it is called there.
    pub key_id: Arc<str>,
    /// Its key, in base64url.
    pub hmac: Secret,
}

/// The names of one certificate: at least one, sorted, each once. A name stands in one set only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameSet(Arc<[Name]>);

impl Proof {
    /// As one writes it in the configuration, and as RFC 8555 §9.7.8 registers it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
        }
    }
}

impl NameSet {
    /// The set of these names; `None` of no names.
    #[must_use]
    pub fn new(mut names: Vec<Name>) -> Option<Self> {
        names.sort();
        names.dedup();
        (!names.is_empty()).then(|| Self(names.into()))
    }

    /// Its names.
    #[must_use]
    pub fn names(&self) -> &[Name] {
        &self.0
    }

    /// The name that it is called by: no other set has it.
    #[must_use]
    pub fn first(&self) -> &Name {
        &self.0[0]
    }
}

impl fmt::Display for NameSet {
    /// `example.com, www.example.com`
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, name) in self.0.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(into, "{comma}{name}")?;
        }
        Ok(())
    }
}

impl Rules {
    /// The certificates that listeners ask `[acme]` for, each once.
    #[must_use]
    pub fn ordered_names(&self) -> Vec<NameSet> {
        let tls = self.listeners.iter().filter_map(|each| each.tls.as_ref());
        let mut sets: Vec<_> = tls.filter_map(|tls| tls.acme.clone()).collect();
        sets.sort();
        sets.dedup();
        sets
    }
}
