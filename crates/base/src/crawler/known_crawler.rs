//! Holds one crawler of the configuration: its claims, and the proofs of its requests.

use std::net::IpAddr;
use std::sync::Arc;

use memchr::memmem::Finder;
use sluicegate_message_signatures::KeySet;

use super::reverse_dns::HostDomain;
use super::status::{CrawlerIdentity, CrawlerProof, CrawlerStatus, UnverifiedReason};
use crate::address::CidrSet;

/// A crawler with its claims and its proofs.
#[derive(Clone, Debug)]
pub struct KnownCrawler {
    pub(super) identity: Arc<CrawlerIdentity>,
    /// Parts of user agents, in lower case.
    pub(super) user_agents: Vec<Finder<'static>>,
    ranges: Vec<Arc<CidrSet>>,
    pub(super) keys: Option<Arc<KeySet>>,
    pub(super) domains: Vec<HostDomain>,
}

impl KnownCrawler {
    /// Returns the crawler whose requests have one of `user_agents` in their user agent, in any case. Without user agents it claims
    /// nothing, and its proofs alone decide.
    #[must_use]
    pub fn new(identity: CrawlerIdentity, user_agents: &[Arc<str>]) -> Self {
        let lower = user_agents.iter().map(|part| part.to_ascii_lowercase());
        Self {
            identity: Arc::new(identity),
            user_agents: lower.map(|part| Finder::new(&part).into_owned()).collect(),
            ranges: Vec::new(),
            keys: None,
            domains: Vec::new(),
        }
    }

    /// Adds blocks of addresses that its operator publishes.
    #[must_use]
    pub fn with_ranges<'r>(mut self, ranges: impl IntoIterator<Item = &'r Arc<CidrSet>>) -> Self {
        self.ranges.extend(ranges.into_iter().map(Arc::clone));
        self
    }

    /// Adds the keys by which it signs requests.
    #[must_use]
    pub fn with_keys(mut self, keys: Option<&Arc<KeySet>>) -> Self {
        self.keys = keys.map(Arc::clone);
        self
    }

    /// Adds the domains in which the names of its addresses are. They count only where its user agents are claimed.
    #[must_use]
    pub fn with_domains(mut self, domains: &[HostDomain]) -> Self {
        self.domains.extend_from_slice(domains);
        self
    }

    /// Returns the length of its longest user agent within `text`, which is in lower case.
    pub(super) fn claim(&self, text: &[u8]) -> Option<usize> {
        let found = self
            .user_agents
            .iter()
            .filter(|part| part.find(text).is_some());
        found.map(|part| part.needle().len()).max()
    }

    pub(super) fn has(&self, client: IpAddr) -> bool {
        self.ranges.iter().any(|set| set.longest(client).is_some())
    }

    pub(super) fn unverified(&self, reason: UnverifiedReason) -> CrawlerStatus {
        CrawlerStatus::Unverified(Some(Arc::clone(&self.identity)), reason)
    }

    pub(super) fn by(&self, proof: CrawlerProof) -> CrawlerStatus {
        CrawlerStatus::Verified(Arc::clone(&self.identity), proof)
    }
}
