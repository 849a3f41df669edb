//! Holds the crawlers of one configuration, and finds the one that sends a request.
//!
//! A signature is looked for first, since it needs no claim; then the claims decide whose addresses count. A proof decides, not the
//! claim: a client that names two crawlers is the one that it proves. Of several, the crawler with the longest user agent that the
//! request has is tried first, so `Googlebot-Image` comes before `Googlebot`. The names of the client's address come last, since they may
//! cost a look-up.

use std::sync::Arc;

use arrayvec::ArrayVec;
use http::header;

use super::known_crawler::KnownCrawler;
use super::network_failures::NetworkFailures;
use super::request::CrawlerRequest;
use super::reverse_dns::{NamesFault, ReverseDns, ReverseDnsFault};
use super::signatures::{SignedBy, SignedHosts, signed_by};
use super::status::{CrawlerIdentity, CrawlerProof, CrawlerStatus, UnverifiedReason};
use crate::bounds::{CRAWLERS, USER_AGENT_BYTES, USER_AGENT_FIELDS};
use crate::received::ReceivedFields;

/// The crawlers of a configuration, at most [`CRAWLERS`]; none where it names none.
#[derive(Clone, Debug, Default)]
pub struct CrawlerRegistry {
    crawlers: Vec<KnownCrawler>,
    hosts: SignedHosts,
    /// `None` where no crawler has keys.
    failures: Option<Arc<NetworkFailures>>,
    /// `None` where no crawler has domains.
    reverse_dns: Option<Arc<ReverseDns>>,
}

/// A crawler that a request names, with the length of the user agent by which it does.
type CrawlerClaim<'c> = (usize, &'c KnownCrawler);

impl CrawlerRegistry {
    /// Returns these crawlers, whose signatures count for `hosts`; those beyond [`CRAWLERS`] are left out.
    #[must_use]
    pub fn new(crawlers: impl IntoIterator<Item = KnownCrawler>, hosts: SignedHosts) -> Self {
        let crawlers: Vec<_> = crawlers.into_iter().take(CRAWLERS).collect();
        let has_keys = crawlers.iter().any(|crawler| crawler.keys.is_some());
        Self {
            crawlers,
            hosts,
            failures: has_keys.then(Arc::default),
            reverse_dns: None,
        }
    }

    /// Adds the names of addresses, where a crawler has domains. They are those of `previous`, as far as these hold.
    #[must_use]
    pub fn with_reverse_dns(mut self, previous: Option<&Self>) -> Self {
        let domains = self.crawlers.iter().flat_map(|crawler| &crawler.domains);
        let previous = previous.and_then(Self::reverse_dns);
        self.reverse_dns = ReverseDns::new(domains.cloned(), previous);
        self
    }

    /// Returns the names of addresses; `None` where no crawler has domains.
    #[must_use]
    pub fn reverse_dns(&self) -> Option<&Arc<ReverseDns>> {
        self.reverse_dns.as_ref()
    }

    /// Returns the crawler with this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Arc<CrawlerIdentity>> {
        let mut identities = self.crawlers.iter().map(|crawler| &crawler.identity);
        identities.find(|identity| *identity.name == *name)
    }

    /// Finds the crawler that sends a request.
    #[must_use]
    pub fn identify(&self, request: &CrawlerRequest<'_>) -> CrawlerStatus {
        let signed = self.signed_by(request);
        if let SignedBy::Crawler(crawler) = signed {
            return crawler.by(CrawlerProof::Signature);
        }
        let claims = self.claims(request.headers);
        let claimed = claims.iter().map(|(_, crawler)| *crawler);
        let silent = self
            .crawlers
            .iter()
            .filter(|crawler| crawler.user_agents.is_empty());
        let mut by_address = claimed.chain(silent);
        if let Some(crawler) = by_address.find(|crawler| crawler.has(request.client)) {
            return crawler.by(CrawlerProof::Ranges);
        }
        let named = self.named_by_dns(&claims, request);
        match (named, signed, claims.first()) {
            (Some(Ok((crawler, name))), ..) => crawler.by(CrawlerProof::ReverseDns(Some(name))),
            (_, SignedBy::Failed(crawler, reason), _) => crawler.unverified(reason),
            (Some(Err(fault)), _, Some((_, crawler))) => {
                crawler.unverified(UnverifiedReason::ReverseDns(fault))
            }
            (_, _, Some((_, crawler))) => crawler.unverified(UnverifiedReason::NoProof),
            (_, _, None) => CrawlerStatus::None,
        }
    }

    /// Finds the crawler among `claims` in whose domain the client's address has a name, with that name, or the reason why there is none.
    /// `None` where no claimed crawler has domains: then the address is not looked up.
    fn named_by_dns<'c>(
        &self,
        claims: &[CrawlerClaim<'c>],
        request: &CrawlerRequest<'_>,
    ) -> Option<Result<(&'c KnownCrawler, Arc<str>), ReverseDnsFault>> {
        let dns = self.reverse_dns.as_ref()?;
        let claimed = claims.iter().map(|(_, crawler)| *crawler);
        let mut claimed = claimed
            .filter(|crawler| !crawler.domains.is_empty())
            .peekable();
        claimed.peek()?;
        let names = match dns.names(request.client, request.now) {
            Ok(names) => names,
            Err(fault) => return Some(Err(fault)),
        };
        let named = |crawler: &'c KnownCrawler| {
            let mut names = names.iter();
            let is_in = |name: &&Arc<str>| crawler.domains.iter().any(|of| of.contains(name));
            Some((crawler, Arc::clone(names.find(is_in)?)))
        };
        let other = ReverseDnsFault::Names(NamesFault::OtherDomain);
        Some(claimed.find_map(named).ok_or(other))
    }

    fn signed_by(&self, request: &CrawlerRequest<'_>) -> SignedBy<'_> {
        match &self.failures {
            Some(failures) => signed_by(&self.crawlers, &self.hosts, failures, request),
            None => SignedBy::Nobody,
        }
    }

    /// Returns the crawlers that a request names, those with the longest user agent first.
    fn claims(&self, headers: &ReceivedFields) -> ArrayVec<CrawlerClaim<'_>, CRAWLERS> {
        let mut claims: ArrayVec<CrawlerClaim<'_>, CRAWLERS> = ArrayVec::new();
        if self.crawlers.is_empty() {
            return claims;
        }
        // RFC 9110 §10.1.5 has one field; whichever of several an origin reads, it is a claim.
        let fields = headers.get_all(header::USER_AGENT);
        for field in fields.take(USER_AGENT_FIELDS) {
            let bytes = field.as_bytes().iter().take(USER_AGENT_BYTES);
            let text: ArrayVec<u8, USER_AGENT_BYTES> = bytes.map(u8::to_ascii_lowercase).collect();
            for crawler in &self.crawlers {
                let Some(length) = crawler.claim(&text) else {
                    continue;
                };
                let same = |(_, other): &&mut CrawlerClaim<'_>| std::ptr::eq(*other, crawler);
                match claims.iter_mut().find(same) {
                    Some((known, _)) => *known = length.max(*known),
                    None => claims.push((length, crawler)),
                }
            }
        }
        claims.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
        claims
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::super::{ClientCrawler, CrawlerCondition, HostDomain, LookUpResult};
    use super::*;
    use crate::address::CidrSet;

    fn crawler(
        name: &str,
        group: Option<&str>,
        user_agents: &[&str],
        ranges: &[&str],
    ) -> KnownCrawler {
        let identity = CrawlerIdentity {
            name: name.into(),
            group: group.map(Into::into),
        };
        let user_agents: Vec<Arc<str>> = user_agents.iter().map(|part| (*part).into()).collect();
        let blocks = ranges.iter().map(|block| block.parse().unwrap());
        KnownCrawler::new(identity, &user_agents).with_ranges([&Arc::new(CidrSet::new(blocks))])
    }

    fn crawlers() -> CrawlerRegistry {
        CrawlerRegistry::new(
            [
                crawler("google", Some("search"), &["Googlebot"], &["192.0.2.0/24"]),
                crawler(
                    "image",
                    None,
                    &["Googlebot-Image"],
                    &["192.0.2.0/24", "2001:db8::/32"],
                ),
                crawler(
                    "gpt",
                    Some("ai"),
                    &["GPTBot", "OAI-SearchBot"],
                    &["198.51.100.0/24"],
                ),
                crawler("monitor", None, &[], &["203.0.113.7/32"]),
            ],
            SignedHosts::default(),
        )
    }

    fn status(client: &str, user_agents: &[&str]) -> CrawlerStatus {
        let mut headers = ReceivedFields::new();
        for text in user_agents {
            headers.append(header::USER_AGENT, HeaderValue::from_str(text).unwrap());
        }
        let request = CrawlerRequest::without_target(client.parse().unwrap(), &headers);
        crawlers().identify(&request)
    }

    /// Goal: a claim alone proves nothing, an address alone nothing where a claim belongs to it, and both together do. Method: each
    /// combination, with user agents in odd case, in a second field, behind 1 KiB, and names of several crawlers.
    #[test]
    fn a_crawler_is_who_proves_it() {
        const GOOGLE: &str =
            "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
        let long = format!("{}Googlebot", " ".repeat(USER_AGENT_BYTES));
        for (client, user_agents, value) in [
            ("192.0.2.1", &[GOOGLE][..], "search"),
            ("192.0.2.1", &["gOOGLEbOT"], "search"),
            ("192.0.2.1", &["curl/8", GOOGLE], "search"),
            ("192.0.2.1", &["Googlebot-Image/1.0"], "image"),
            ("2001:db8::1", &["Googlebot-Image/1.0"], "image"),
            ("2001:db8::1", &[GOOGLE], "unverified"),
            ("203.0.113.1", &[GOOGLE], "unverified"),
            ("203.0.113.1", &["curl/8", "x googlebot y"], "unverified"),
            ("192.0.2.1", &["curl/8"], "none"),
            ("192.0.2.1", &[], "none"),
            ("192.0.2.1", &[&long], "none"),
            // The proof decides between two claims.
            ("198.51.100.1", &["Googlebot OAI-SearchBot"], "ai"),
            ("203.0.113.7", &[], "monitor"),
            ("203.0.113.7", &[GOOGLE], "monitor"),
        ] {
            assert_eq!(
                status(client, user_agents).value(),
                value,
                "{client} {user_agents:?}"
            );
        }
    }

    /// Goal: a condition takes a crawler by its name and by its group, and an exception neither. Method: each form on each kind of client.
    #[test]
    fn names_and_groups_are_conditions() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).into()).collect();
        let google = status("192.0.2.1", &["Googlebot"]);
        let liar = status("203.0.113.1", &["Googlebot"]);
        let none = status("203.0.113.1", &["curl"]);
        for (of, except, takes) in [
            (&["google"][..], &[][..], [true, false, false]),
            (&["search"], &[], [true, false, false]),
            (&["unverified", "ai"], &[], [false, true, false]),
            (&[], &["none"], [true, true, false]),
            (&[], &["search"], [false, true, true]),
            (&[], &[], [true, true, true]),
        ] {
            let condition = CrawlerCondition {
                of: names(of),
                except: names(except),
            };
            let found = [&google, &liar, &none].map(|status| condition.takes(status));
            assert_eq!(found, takes, "{of:?} {except:?}");
        }
    }

    /// Goal: only claims of crawlers with domains are looked up, and a confirmed name proves the crawler in whose domain it is. Method:
    /// claims of each kind from one address, before and after its look-up.
    #[test]
    fn a_name_proves_the_crawler_of_its_domain() {
        let with = |name, agent, domain: Option<&str>| {
            let domains: Vec<HostDomain> = domain.into_iter().map(HostDomain::new).collect();
            crawler(name, None, &[agent], &[]).with_domains(&domains)
        };
        let crawlers = CrawlerRegistry::new(
            [
                with("google", "Googlebot", Some("googlebot.com")),
                with("bing", "bingbot", Some("search.msn.com")),
                with("archive", "archiver", Some("archive.test")),
                with("scrapy", "Scrapy", None),
            ],
            SignedHosts::default(),
        )
        .with_reverse_dns(None);
        let dns = crawlers.reverse_dns().unwrap();
        dns.serve();
        let claim = |agent: &'static str| {
            let mut headers = ReceivedFields::new();
            headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
            let client = "192.0.2.1".parse().unwrap();
            let found = crawlers.identify(&CrawlerRequest::without_target(client, &headers));
            match found {
                CrawlerStatus::Unverified(_, reason) => reason.as_str().to_owned(),
                CrawlerStatus::Verified(crawler, proof) => {
                    format!("{} by {}", crawler.name, proof.hostname().unwrap_or("-"))
                }
                CrawlerStatus::None => "none".to_owned(),
            }
        };
        assert_eq!(
            (claim("curl"), claim("Scrapy")),
            ("none".into(), "no-proof".into())
        );
        assert!(dns.take().is_none());
        assert_eq!(claim("Googlebot"), "dns-pending");
        // The first name is another crawler's.
        let names = ["a.search.msn.com", "crawl-1.googlebot.com"].map(Arc::from);
        let names = Arc::from(names);
        let result = LookUpResult::Confirmed { names, ttl: 300 };
        dns.take().unwrap().finish(&result, 0);
        for (agent, wanted) in [
            ("Googlebot", "google by crawl-1.googlebot.com"),
            ("Scrapy Googlebot", "google by crawl-1.googlebot.com"),
            ("bingbot", "bing by a.search.msn.com"),
            ("archiver", "dns-other-domain"),
            ("Scrapy", "no-proof"),
            ("curl", "none"),
        ] {
            assert_eq!(claim(agent), wanted, "{agent}");
        }
    }

    /// Goal: a request on a route that reads no crawler costs nothing. Method: the answer before and after the first read.
    #[test]
    fn the_answer_is_found_when_it_is_read() {
        let (crawlers, headers) = (crawlers(), ReceivedFields::new());
        let client = "203.0.113.7".parse().unwrap();
        let request = CrawlerRequest::without_target(client, &headers);
        let client = ClientCrawler::new(&crawlers, request);
        assert_eq!(client.known(), None);
        assert_eq!(client.get().value(), "monitor");
        assert_eq!(client.known().map(CrawlerStatus::value), Some("monitor"));
        let told = ClientCrawler::new(&crawlers, request).with(Some(CrawlerStatus::None));
        assert_eq!(told.get().value(), "none");
    }
}
