//! Finds the crawler that has signed a request (Web Bot Auth).
//!
//! A signature counts only for the hosts that the operator names: a crawler signs requests for every site that it reads, so any of these
//! sites could send one on to a gateway that takes every host.
//!
//! # Concurrency
//! [`SignatureFailures`] is a table of words, each written whole. Threads that meet in one may lose a count, which lets one more
//! verification through.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ahash::RandomState;
use sluicegate_message_signatures::{BotSignature, KeySet, SignatureFault};

use super::client::CrawlerRequest;
use super::registry::KnownCrawler;
use super::status::UnverifiedReason;
use crate::address::{PrefixBits, prefix};
use crate::bounds::{SIGNATURE_FAILURE_SLOTS, SIGNATURE_FAILURES};
use crate::host;

/// The hosts for which requests may be signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignedHosts {
    /// Names.
    pub exact: Vec<Arc<str>>,
    /// Parents of names at any depth.
    pub under: Vec<Arc<str>>,
}

/// The result of looking for a signature.
pub(super) enum SignedBy<'c> {
    /// No signature names a key of a crawler.
    Nobody,
    /// This crawler has signed the request.
    Crawler(&'c KnownCrawler),
    /// A signature names a key of this crawler and does not count.
    Failed(&'c KnownCrawler, UnverifiedReason),
}

/// Failed verifications of networks of clients in the present minute, so that no client makes the gateway verify without end.
#[derive(Debug)]
pub(super) struct SignatureFailures {
    random: RandomState,
    /// Each is a tag of 32 bits, a minute of 24 bits and a count of 8.
    slots: Box<[AtomicU64]>,
}

impl SignedHosts {
    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.under.is_empty()
    }

    /// Returns whether requests for this authority, as sent, may be signed.
    fn take(&self, authority: &str) -> bool {
        let Ok(host) = host::normalize(authority) else {
            return false;
        };
        let is_under = |parent: &Arc<str>| {
            let rest = host.strip_suffix(&**parent);
            rest.is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
        };
        self.exact.iter().any(|name| **name == *host) || self.under.iter().any(is_under)
    }
}

/// Finds the crawler among `crawlers` that has signed a request.
pub(super) fn signed_by<'c>(
    crawlers: &'c [KnownCrawler],
    hosts: &SignedHosts,
    failures: &SignatureFailures,
    request: &CrawlerRequest<'_>,
) -> SignedBy<'c> {
    // What cannot be read names no key, so it is nobody's.
    let Ok(signatures) = BotSignature::read(request.message.headers) else {
        return SignedBy::Nobody;
    };
    let mut failed = SignedBy::Nobody;
    for signature in &signatures {
        let with_key = |crawler: &'c KnownCrawler| {
            let keys: &KeySet = crawler.keys.as_ref()?;
            Some((crawler, keys.find(signature.key_id())?))
        };
        let Some((crawler, key)) = crawlers.iter().find_map(with_key) else {
            continue;
        };
        if !hosts.take(request.message.authority) {
            failed = SignedBy::Failed(crawler, UnverifiedReason::SignatureAuthority);
            continue;
        }
        if failures.is_exceeded(request.client, request.now) {
            return SignedBy::Failed(crawler, UnverifiedReason::SignatureThrottled);
        }
        match signature.verify(key, &request.message, request.now) {
            Ok(()) => return SignedBy::Crawler(crawler),
            Err(fault) => {
                // Only this fault costs a verification.
                if fault == SignatureFault::Mismatch {
                    failures.add(request.client, request.now);
                }
                failed = SignedBy::Failed(crawler, UnverifiedReason::Signature(fault));
            }
        }
    }
    failed
}

impl Default for SignatureFailures {
    fn default() -> Self {
        let slots = (0..SIGNATURE_FAILURE_SLOTS).map(|_| AtomicU64::new(0));
        Self {
            random: RandomState::new(),
            slots: slots.collect(),
        }
    }
}

impl SignatureFailures {
    /// Returns whether the network of `client` has failed too often in the minute of `now`, in seconds since 1970.
    fn is_exceeded(&self, client: IpAddr, now: u64) -> bool {
        let (slot, word) = self.word(client, now);
        // Relaxed: the word is all that is read.
        let found = slot.map_or(0, |slot| slot.load(Ordering::Relaxed));
        found & !COUNT == word && found & COUNT >= SIGNATURE_FAILURES
    }

    /// Counts a failure. Another network in the same slot loses its count.
    fn add(&self, client: IpAddr, now: u64) {
        let (slot, word) = self.word(client, now);
        let Some(slot) = slot else { return };
        // Relaxed: as in `is_exceeded`.
        let found = slot.load(Ordering::Relaxed);
        let count = if found & !COUNT == word {
            found & COUNT
        } else {
            0
        };
        let count = (count + 1).min(COUNT);
        slot.store(word | count, Ordering::Relaxed);
    }

    /// Returns the slot of a network, and its word without a count.
    fn word(&self, client: IpAddr, now: u64) -> (Option<&AtomicU64>, u64) {
        let network = prefix(client, PrefixBits { v4: 24, v6: 48 });
        let hash = self.random.hash_one(network.as_bytes());
        let slot = usize::try_from(hash % SIGNATURE_FAILURE_SLOTS as u64).unwrap_or(0);
        let minute = (now / 60) & 0x00ff_ffff;
        (self.slots.get(slot), hash & TAG | minute << 8)
    }
}

/// The bits of a count.
const COUNT: u64 = 0xff;
/// The bits of a tag.
const TAG: u64 = 0xffff_ffff_0000_0000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a network that fails is left alone for the rest of the minute, and others are not. Method: failures up to the cap from
    /// addresses of one network; then the next minute.
    #[test]
    fn failures_of_a_network_are_bounded_in_a_minute() {
        let failures = SignatureFailures::default();
        let client = |text: &str| text.parse::<IpAddr>().unwrap();
        for at in 0..SIGNATURE_FAILURES {
            assert!(!failures.is_exceeded(client("192.0.2.1"), 600), "{at}");
            failures.add(client("192.0.2.1"), 600);
        }
        assert!(failures.is_exceeded(client("192.0.2.200"), 659));
        assert!(!failures.is_exceeded(client("192.0.2.1"), 660));
        assert!(!failures.is_exceeded(client("192.0.3.1"), 659));
        assert!(!failures.is_exceeded(client("2001:db8::1"), 659));
    }

    /// Goal: a signature for another site is none here. Method: names, names under a parent, and names that only look like them.
    #[test]
    fn hosts_are_compared_by_labels() {
        let hosts = SignedHosts {
            exact: vec!["example.com".into()],
            under: vec!["shop.example.com".into()],
        };
        for (authority, takes) in [
            ("example.com", true),
            ("EXAMPLE.com:8443", true),
            ("a.b.shop.example.com", true),
            ("shop.example.com", false),
            ("www.example.com", false),
            ("evilexample.com", false),
            ("evilshop.example.com", false),
            ("example.com.evil.net", false),
            ("", false),
        ] {
            assert_eq!(hosts.take(authority), takes, "{authority}");
        }
    }
}
