//! Owns the answer for one request, and its one text, which keys, conditions and logs share.

use std::sync::Arc;

use sluicegate_message_signatures::SignatureFault;

use super::reverse_dns::ReverseDnsFault;

/// The value of clients that claim to be no crawler.
pub const NONE: &str = "none";
/// The value of clients that claim to be a crawler and do not prove it.
pub const UNVERIFIED: &str = "unverified";

/// A crawler by its names, neither of which is [`NONE`] or [`UNVERIFIED`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CrawlerIdentity {
    /// Its name.
    pub name: Arc<str>,
    /// The name that it shares with other crawlers; `None` where it stands for itself.
    pub group: Option<Arc<str>>,
}

/// The proof that a client is a crawler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CrawlerProof {
    /// Its address is in a block that the crawler's operator publishes.
    Ranges,
    /// The request has a signature by a key of the crawler (Web Bot Auth).
    Signature,
    /// This name of its address is in a domain of the crawler, and has that address. `None` where a log has the proof without the name.
    ReverseDns(Option<Arc<str>>),
}

/// The reason why a claim is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnverifiedReason {
    /// Nothing of the request proves it.
    NoProof,
    /// A signature names a key of the crawler, and this is wrong with it.
    Signature(SignatureFault),
    /// A signature is for a host that is not one of this gateway.
    SignatureAuthority,
    /// Too many signatures from the client's network failed lately.
    SignatureThrottled,
    /// The names of its address do not prove it.
    ReverseDns(ReverseDnsFault),
}

/// The answer for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CrawlerStatus {
    /// It claims to be no crawler.
    None,
    /// It claims to be a crawler, this one where that is known, and this is why it is not believed.
    Unverified(Option<Arc<CrawlerIdentity>>, UnverifiedReason),
    /// It is this crawler.
    Verified(Arc<CrawlerIdentity>, CrawlerProof),
}

impl CrawlerIdentity {
    /// Returns the name by which keys count it: that of its group, or its own.
    #[must_use]
    pub fn counted_as(&self) -> &str {
        self.group.as_deref().unwrap_or(&self.name)
    }
}

impl CrawlerProof {
    /// The number of proofs.
    pub const COUNT: usize = 3;

    /// Returns every proof, in the order of [`CrawlerProof::index`].
    #[must_use]
    pub const fn all() -> [Self; Self::COUNT] {
        [Self::Ranges, Self::Signature, Self::ReverseDns(None)]
    }

    /// Returns its index in [`CrawlerProof::all`].
    #[must_use]
    pub const fn index(&self) -> usize {
        match self {
            Self::Ranges => 0,
            Self::Signature => 1,
            Self::ReverseDns(_) => 2,
        }
    }

    /// Returns its name in logs and labels of metrics.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Ranges => "ranges",
            Self::Signature => "signature",
            Self::ReverseDns(_) => "reverse-dns",
        }
    }

    /// Returns the name that proves it; `None` where something else does.
    #[must_use]
    pub fn hostname(&self) -> Option<&str> {
        match self {
            Self::ReverseDns(hostname) => hostname.as_deref(),
            Self::Ranges | Self::Signature => None,
        }
    }
}

impl UnverifiedReason {
    /// Returns its name in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoProof => "no-proof",
            Self::Signature(fault) => fault.as_str(),
            Self::SignatureAuthority => "signature-authority",
            Self::SignatureThrottled => "signature-throttled",
            Self::ReverseDns(fault) => fault.as_str(),
        }
    }
}

impl CrawlerStatus {
    /// Returns the value by which keys count the client.
    #[must_use]
    pub fn value(&self) -> &str {
        match self {
            Self::None => NONE,
            Self::Unverified(..) => UNVERIFIED,
            Self::Verified(crawler, _) => crawler.counted_as(),
        }
    }

    /// Returns whether `name` stands for the client: a crawler's name, a group's, [`UNVERIFIED`] or [`NONE`].
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        match self {
            Self::None => name == NONE,
            Self::Unverified(..) => name == UNVERIFIED,
            Self::Verified(crawler, _) => {
                *crawler.name == *name || crawler.group.as_deref() == Some(name)
            }
        }
    }

    /// Returns the crawler that the client is, or claims to be.
    #[must_use]
    pub fn crawler(&self) -> Option<&Arc<CrawlerIdentity>> {
        match self {
            Self::None => None,
            Self::Unverified(claimed, _) => claimed.as_ref(),
            Self::Verified(crawler, _) => Some(crawler),
        }
    }
}
