//! Decides whether a client is exempt from the limits or blocked ahead of them, by the operator's lists of address blocks.
//!
//! Of all blocks that contain the address the longest decides, whichever list and table it is from; of two equally long ones the
//! one that blocks. So a block list of networks and an allow list of single addresses in them combine as expected, and a mistake
//! errs towards rejecting.
//!
//! A country, a city or a network (ASN) counts as wider than every block, so that single addresses can be exceptions from it; of these
//! a network counts as the narrowest, since it is named one by one, and a country as the widest. A crawler counts as narrower than all
//! of them: it is named one by one too, and proved.

use std::net::IpAddr;
use std::sync::Arc;

use sluicegate_base::address::{CidrSet, PrefixLength};
use sluicegate_base::crawler::ClientCrawler;
use sluicegate_base::geo::{ClientPlace, GeoField, PlaceSet};

use crate::config::rules::Name;

/// The lists that apply to the requests of one route.
#[derive(Clone, Debug, Default)]
pub struct ClientLists {
    blocks: Vec<(Name, ListEffect, Arc<CidrSet>)>,
    places: Vec<(Name, ListEffect, PlaceSet)>,
    crawlers: Vec<(Name, ListEffect, Vec<Name>)>,
}

/// The part of a list that contains a client, the narrower last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ListEntry {
    Country,
    City,
    Asn,
    Crawler,
    Block(PrefixLength),
}

/// The effect of a list on its clients, the stronger last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListEffect {
    /// The clients skip the limits.
    Allow,
    /// The clients are rejected.
    Block,
}

/// The result of matching a client with the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListMatch<'l> {
    /// No list contains it.
    Ordinary,
    /// This list exempts it from the limits.
    Allowed(&'l Name),
    /// This list blocks it.
    Blocked(&'l Name),
}

impl ClientLists {
    /// Adds a list.
    pub fn add(&mut self, name: &Name, effect: ListEffect, blocks: &Arc<CidrSet>) {
        self.blocks
            .push((Arc::clone(name), effect, Arc::clone(blocks)));
    }

    /// Adds the places of a list.
    pub fn add_places(&mut self, name: &Name, effect: ListEffect, places: PlaceSet) {
        if !places.is_empty() {
            self.places.push((Arc::clone(name), effect, places));
        }
    }

    /// Adds the crawlers of a list.
    pub fn add_crawlers(&mut self, name: &Name, effect: ListEffect, crawlers: &[Name]) {
        if !crawlers.is_empty() {
            self.crawlers
                .push((Arc::clone(name), effect, crawlers.to_vec()));
        }
    }

    /// Matches `client` with the lists. Costs a binary search a list, and nothing where there is none. Place and crawler are looked up
    /// only if a list names some, and no narrower entry decides.
    #[must_use]
    pub fn list_match(
        &self,
        client: IpAddr,
        place: &ClientPlace<'_>,
        crawler: &ClientCrawler<'_>,
    ) -> ListMatch<'_> {
        let of_blocks = self.blocks.iter().filter_map(|(name, effect, blocks)| {
            let length = blocks.longest(client)?;
            Some((ListEntry::Block(length), *effect, name))
        });
        let strongest = of_blocks.max_by_key(|(entry, effect, _)| (*entry, *effect));
        let of_places = || {
            let hits = self.places.iter().filter_map(|(name, effect, places)| {
                Some((ListEntry::of(places, place)?, *effect, name))
            });
            hits.max_by_key(|(entry, effect, _)| (*entry, *effect))
        };
        let of_crawlers = || {
            let hits = self.crawlers.iter().filter_map(|(name, effect, crawlers)| {
                let mut crawlers = crawlers.iter();
                let is_there = crawlers.any(|name| crawler.get().is_named(name));
                is_there.then_some((ListEntry::Crawler, *effect, name))
            });
            hits.max_by_key(|(_, effect, _)| *effect)
        };
        match strongest.or_else(of_crawlers).or_else(of_places) {
            None => ListMatch::Ordinary,
            Some((_, ListEffect::Allow, name)) => ListMatch::Allowed(name),
            Some((_, ListEffect::Block, name)) => ListMatch::Blocked(name),
        }
    }
}

impl ListEntry {
    /// Returns the narrowest of `places` that the client is in.
    fn of(places: &PlaceSet, client: &ClientPlace<'_>) -> Option<Self> {
        let fields = [
            (GeoField::Asn, Self::Asn),
            (GeoField::City, Self::City),
            (GeoField::Country, Self::Country),
        ];
        let mut fields = fields.into_iter();
        let (_, entry) = fields.find(|(field, _)| places.has(*field, client.get()))?;
        Some(entry)
    }
}

impl<'l> ListMatch<'l> {
    /// Returns the list that decided.
    #[must_use]
    pub fn list(self) -> Option<&'l Name> {
        match self {
            Self::Ordinary => None,
            Self::Allowed(name) | Self::Blocked(name) => Some(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_base::crawler::{
        CrawlerIdentity, CrawlerRegistry, CrawlerRequest, CrawlerStatus, KnownCrawler, SignedHosts,
        UnverifiedReason,
    };
    use sluicegate_base::geo::{CountryCode, GeoDatabases, GeoPlace};
    use sluicegate_base::received::ReceivedFields;

    use super::*;

    fn match_of<'l>(lists: &'l ClientLists, client: &str, geo: &GeoDatabases) -> ListMatch<'l> {
        let client = client.parse().unwrap();
        let (crawlers, headers) = (CrawlerRegistry::default(), ReceivedFields::new());
        let headers = &headers;
        let crawler =
            ClientCrawler::new(&crawlers, CrawlerRequest::without_target(client, headers));
        lists.list_match(client, &ClientPlace::new(geo, client), &crawler)
    }

    /// Goal: a verified crawler passes a blocked country, and an address that is blocked by itself does not. Method: three lists, with a
    /// crawler, one who claims to be it, and others of the same country.
    #[test]
    fn a_crawler_is_narrower_than_its_country_and_wider_than_a_block() {
        let [allowed, blocked, liars] = ["search", "blocked", "liars"].map(Name::from);
        let country = CountryCode::new("US");
        let mut lists = ClientLists::default();
        lists.add_crawlers(&allowed, ListEffect::Allow, &["search".into()]);
        lists.add_crawlers(&liars, ListEffect::Block, &["unverified".into()]);
        let places = PlaceSet {
            countries: vec![country],
            ..PlaceSet::default()
        };
        lists.add_places(&blocked, ListEffect::Block, places);
        let block = "192.0.2.7/32".parse().unwrap();
        lists.add(
            &blocked,
            ListEffect::Block,
            &Arc::new(CidrSet::new([block])),
        );
        let identity = CrawlerIdentity {
            name: "google".into(),
            group: Some("search".into()),
        };
        let ranges = Arc::new(CidrSet::new(["192.0.2.0/24".parse().unwrap()]));
        let crawler = KnownCrawler::new(identity, &[]).with_ranges([&ranges]);
        let (crawlers, headers) = (
            CrawlerRegistry::new([crawler], SignedHosts::default()),
            ReceivedFields::new(),
        );
        let databases = GeoDatabases::default();
        for (client, status, list_match) in [
            ("192.0.2.1", None, ListMatch::Allowed(&allowed)),
            ("192.0.2.7", None, ListMatch::Blocked(&blocked)),
            ("203.0.113.1", None, ListMatch::Blocked(&blocked)),
            (
                "203.0.113.1",
                Some(CrawlerStatus::Unverified(None, UnverifiedReason::NoProof)),
                ListMatch::Blocked(&liars),
            ),
        ] {
            let client: IpAddr = client.parse().unwrap();
            let place = ClientPlace::new(&databases, client).with(Some(GeoPlace {
                country,
                ..GeoPlace::default()
            }));
            let headers = &headers;
            let request = CrawlerRequest::without_target(client, headers);
            let crawler = ClientCrawler::new(&crawlers, request).with(status);
            assert_eq!(
                lists.list_match(client, &place, &crawler),
                list_match,
                "{client}"
            );
        }
    }

    /// Goal: the longest block decides, equal ones block. Method: an allow list and a block list that nest both ways.
    #[test]
    fn the_longest_block_of_all_lists_decides_and_a_tie_blocks() {
        let set = |blocks: &[&str]| {
            Arc::new(CidrSet::new(
                blocks.iter().map(|block| block.parse().unwrap()),
            ))
        };
        let (office, bad) = (Name::from("office"), Name::from("bad"));
        let mut lists = ClientLists::default();
        lists.add(
            &bad,
            ListEffect::Block,
            &set(&["10.0.0.0/8", "192.0.2.7/32", "2001:db8::/48"]),
        );
        lists.add(
            &office,
            ListEffect::Allow,
            &set(&["10.1.0.0/16", "192.0.2.0/24", "2001:db8::/48"]),
        );
        for (client, list_match) in [
            ("10.2.0.1", ListMatch::Blocked(&bad)),
            ("10.1.0.1", ListMatch::Allowed(&office)),
            ("192.0.2.1", ListMatch::Allowed(&office)),
            ("192.0.2.7", ListMatch::Blocked(&bad)),
            ("2001:db8::1", ListMatch::Blocked(&bad)),
            ("198.51.100.1", ListMatch::Ordinary),
        ] {
            assert_eq!(
                match_of(&lists, client, &GeoDatabases::default()),
                list_match,
                "{client}"
            );
        }
    }
}
