//! Finds the crawler that has signed a request (Web Bot Auth).
//!
//! A signature counts only for the hosts that the operator names: a crawler signs requests for every site that it reads, so any of these
//! sites could send one on to a gateway that takes every host.
//!
//! # Concurrency
//! [`SignatureFailures`] is a table of words, each written whole. Threads that meet in one may lose a count, which lets one more
//! verification through.

use std::sync::Arc;

use sluicegate_message_signatures::{
    BotSignature, KeySet, SIGNATURE, SIGNATURE_INPUT, SignatureFault, SignedRequest,
};

use super::known_crawler::KnownCrawler;
use super::network_failures::NetworkFailures;
use super::request::CrawlerRequest;
use super::status::UnverifiedReason;
use crate::bounds::SIGNATURE_FAILURES;
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
    failures: &NetworkFailures,
    request: &CrawlerRequest<'_>,
) -> SignedBy<'c> {
    let needed = [SIGNATURE_INPUT, SIGNATURE];
    if !needed.iter().all(|name| request.headers.contains_key(name)) {
        return SignedBy::Nobody;
    }
    let headers = request.headers.to_map();
    let message = SignedRequest {
        method: request.method,
        scheme: request.scheme,
        authority: request.authority,
        target: request.target,
        headers: &headers,
    };
    // What cannot be read names no key, so it is nobody's.
    let Ok(signatures) = BotSignature::read(&headers) else {
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
        if !hosts.take(request.authority) {
            failed = SignedBy::Failed(crawler, UnverifiedReason::SignatureAuthority);
            continue;
        }
        if failures.reach(SIGNATURE_FAILURES, request.client, request.now) {
            return SignedBy::Failed(crawler, UnverifiedReason::SignatureThrottled);
        }
        match signature.verify(key, &message, request.now) {
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

#[cfg(test)]
mod tests {
    use super::*;

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
