//! Owns the typed rules of `[acme]`: from whom certificates come, how names are proved, and where all of it is kept.

use std::fmt;
use std::sync::Arc;

use super::Name;

/// The proof that a name leads to the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// By an answer on port 80, RFC 8555 §8.3.
    Http01,
    /// By a handshake on port 443, RFC 8737.
    TlsAlpn01,
}

/// The names of one certificate: at least one, sorted, each once. A name stands in one set only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameSet(Arc<[Name]>);

impl AcmeChallenge {
    /// Returns the name in the configuration, which is the one that RFC 8555 §9.7.8 registers.
    #[must_use]
    pub const fn name(self) -> &'static str {
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
