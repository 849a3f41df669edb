//! Decides whether a client is exempt from the limits or blocked ahead of them, by the operator's lists of address blocks.
//!
//! Of all blocks that contain the address the longest decides, whichever list and table it is from; of two equally long ones the
//! one that blocks. So a block list of networks and an allow list of single addresses in them combine as expected, and a mistake
//! errs towards rejecting.
//!
//! A country, a city or a network (ASN) counts as wider than every block, so that single addresses can be exceptions from it; of these
//! a network counts as the narrowest, since it is named one by one, and a country as the widest. A crawler counts as narrower than all
//! of them: it is named one by one too, and proved.
//!
//! Temporary rules are one more source of blocks and networks. Where one and a list are equally narrow the rule decides, since the operator
//! has set it later.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use sluicegate_base::address::{CidrSet, PrefixLength};
use sluicegate_base::crawler::ClientCrawler;
use sluicegate_base::geo::{ClientPlace, GeoDatabases, GeoField, PlaceSet};
use sluicegate_config::rules::Name;

use crate::temporary_rules::{RuleEffect, RuleLookup, TemporaryRule};

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

/// The result of matching a client with the lists and the temporary rules.
#[derive(Clone, Debug)]
pub enum ListMatch {
    /// None contains it.
    Ordinary,
    /// This one exempts it from the limits.
    Allowed(ListSource),
    /// This one blocks it.
    Blocked(ListSource),
}

/// A list of the configuration, or a temporary rule.
#[derive(Clone, Debug)]
pub enum ListSource {
    /// The list of this name.
    List(Name),
    /// The rule.
    Temporary(Arc<TemporaryRule>),
}

/// The temporary rules in force, with the databases that name the networks of clients.
#[derive(Clone, Copy)]
pub struct TemporaryLists<'r> {
    /// The rules.
    pub rules: &'r RuleLookup,
    /// The databases.
    pub networks: &'r GeoDatabases,
}

/// A list or rule that contains the client, and how narrow its part is.
struct ListHit {
    entry: ListEntry,
    effect: ListEffect,
    source: ListSource,
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

    /// Matches `client` with the lists and the temporary rules. Costs a binary search a list, and one for all rules; nothing where there is
    /// none. Place and crawler are looked up only if a list or a rule names some, and no narrower entry decides.
    #[must_use]
    pub fn list_match(
        &self,
        client: IpAddr,
        place: &ClientPlace<'_>,
        crawler: &ClientCrawler<'_>,
        temporary: TemporaryLists<'_>,
    ) -> ListMatch {
        let by_rule = temporary.rules.rule_for_address(client);
        let by_block = self.block_hit(|blocks| blocks.longest(client), by_rule);
        ListMatch::new(by_block.or_else(|| self.wide_hit(client, place, crawler, temporary)))
    }

    /// Matches the clients of a network with the lists and the temporary rules, apart from entries for a part of the network. `place` and
    /// `crawler` are those of its first address.
    #[must_use]
    pub fn network_match(
        &self,
        network: IpNet,
        place: &ClientPlace<'_>,
        crawler: &ClientCrawler<'_>,
        temporary: TemporaryLists<'_>,
    ) -> ListMatch {
        let by_rule = temporary.rules.rule_around(network);
        let by_block = self.block_hit(|blocks| blocks.longest_around(network), by_rule);
        let address = network.addr();
        ListMatch::new(by_block.or_else(|| self.wide_hit(address, place, crawler, temporary)))
    }

    /// Returns the strongest entry that is wider than a block of addresses.
    fn wide_hit(
        &self,
        client: IpAddr,
        place: &ClientPlace<'_>,
        crawler: &ClientCrawler<'_>,
        temporary: TemporaryLists<'_>,
    ) -> Option<ListHit> {
        let by_crawler = self.crawler_hits(crawler).max_by_key(ListHit::rank);
        by_crawler.or_else(|| {
            let places = self.place_hits(place);
            let places = places.chain(temporary.network_hit(client));
            places.max_by_key(ListHit::rank)
        })
    }

    /// Returns the strongest block of addresses, where `longest` finds those of lists.
    fn block_hit(
        &self,
        longest: impl Fn(&CidrSet) -> Option<PrefixLength>,
        by_rule: Option<(PrefixLength, &Arc<TemporaryRule>)>,
    ) -> Option<ListHit> {
        let by_list = self.blocks.iter().filter_map(|(name, effect, blocks)| {
            let entry = ListEntry::Block(longest(blocks)?);
            Some(ListHit::by_list(entry, *effect, name))
        });
        let by_rule = by_rule.map(|(length, rule)| {
            let entry = ListEntry::Block(length);
            ListHit::by_rule(entry, rule)
        });
        by_list.chain(by_rule).max_by_key(ListHit::rank)
    }

    fn crawler_hits(&self, crawler: &ClientCrawler<'_>) -> impl Iterator<Item = ListHit> {
        self.crawlers.iter().filter_map(|(name, effect, crawlers)| {
            let mut crawlers = crawlers.iter();
            let is_there = crawlers.any(|name| crawler.get().is_named(name));
            is_there.then(|| ListHit::by_list(ListEntry::Crawler, *effect, name))
        })
    }

    fn place_hits(&self, place: &ClientPlace<'_>) -> impl Iterator<Item = ListHit> {
        self.places.iter().filter_map(|(name, effect, places)| {
            let entry = ListEntry::from_places(places, place)?;
            Some(ListHit::by_list(entry, *effect, name))
        })
    }
}

impl TemporaryLists<'_> {
    /// Looks the network of the client up where a rule names one.
    fn network_hit(self, client: IpAddr) -> Option<ListHit> {
        if !self.rules.has_networks() {
            return None;
        }
        let number = self.networks.find(client).asn?;
        let rule = self.rules.rule_for_network(number)?;
        Some(ListHit::by_rule(ListEntry::Asn, rule))
    }
}

impl ListHit {
    fn by_list(entry: ListEntry, effect: ListEffect, name: &Name) -> Self {
        Self {
            entry,
            effect,
            source: ListSource::List(Arc::clone(name)),
        }
    }

    fn by_rule(entry: ListEntry, rule: &Arc<TemporaryRule>) -> Self {
        Self {
            entry,
            effect: match rule.effect {
                RuleEffect::Exempt => ListEffect::Allow,
                // No rule about clients bans or scales.
                RuleEffect::Block | RuleEffect::Ban | RuleEffect::Scale(_) => ListEffect::Block,
            },
            source: ListSource::Temporary(Arc::clone(rule)),
        }
    }

    /// Returns the rank, of which the highest decides.
    fn rank(&self) -> (ListEntry, bool, ListEffect) {
        let is_temporary = matches!(self.source, ListSource::Temporary(_));
        (self.entry, is_temporary, self.effect)
    }
}

impl ListEntry {
    /// Returns the narrowest of `places` that the client is in.
    fn from_places(places: &PlaceSet, client: &ClientPlace<'_>) -> Option<Self> {
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

impl ListMatch {
    fn new(strongest: Option<ListHit>) -> Self {
        let Some(hit) = strongest else {
            return Self::Ordinary;
        };
        match hit.effect {
            ListEffect::Allow => Self::Allowed(hit.source),
            ListEffect::Block => Self::Blocked(hit.source),
        }
    }

    /// Returns the list or rule that decided.
    #[must_use]
    pub fn source(&self) -> Option<&ListSource> {
        match self {
            Self::Ordinary => None,
            Self::Allowed(source) | Self::Blocked(source) => Some(source),
        }
    }
}

impl ListSource {
    /// Returns the name for the access log.
    #[must_use]
    pub fn name(&self) -> &Name {
        match self {
            Self::List(name) => name,
            Self::Temporary(rule) => rule.name(),
        }
    }

    /// Counts a request that the rule decided.
    pub fn count_hit(&self) {
        if let Self::Temporary(rule) = self {
            rule.count_hit();
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

    use sluicegate_limiter::Timestamp;

    use super::*;
    use crate::temporary_rules::{RuleId, RuleLifetime, RuleTarget};

    /// The effect on a client, and the name of what decides.
    type NamedMatch = Option<(ListEffect, String)>;

    fn named(list_match: &ListMatch) -> NamedMatch {
        let name = |source: &ListSource| source.name().to_string();
        match list_match {
            ListMatch::Ordinary => None,
            ListMatch::Allowed(source) => Some((ListEffect::Allow, name(source))),
            ListMatch::Blocked(source) => Some((ListEffect::Block, name(source))),
        }
    }

    fn match_of(lists: &ClientLists, client: &str, rules: &RuleLookup) -> NamedMatch {
        let client = client.parse().unwrap();
        let geo = GeoDatabases::default();
        let (crawlers, headers) = (CrawlerRegistry::default(), ReceivedFields::new());
        let headers = &headers;
        let crawler =
            ClientCrawler::new(&crawlers, CrawlerRequest::without_target(client, headers));
        let place = ClientPlace::new(&geo, client);
        let temporary = TemporaryLists {
            rules,
            networks: &geo,
        };
        let found = named(&lists.list_match(client, &place, &crawler, temporary));
        // A network of one address is that client.
        let network = lists.network_match(client.into(), &place, &crawler, temporary);
        assert_eq!(named(&network), found, "{client}");
        found
    }

    fn set(blocks: &[&str]) -> Arc<CidrSet> {
        Arc::new(CidrSet::new(
            blocks.iter().map(|block| block.parse().unwrap()),
        ))
    }

    fn allowed(name: &str) -> NamedMatch {
        Some((ListEffect::Allow, name.to_owned()))
    }

    fn blocked(name: &str) -> NamedMatch {
        Some((ListEffect::Block, name.to_owned()))
    }

    /// Goal: a verified crawler passes a blocked country, and an address that is blocked by itself does not. Method: three lists, with a
    /// crawler, one who claims to be it, and others of the same country.
    #[test]
    fn a_crawler_is_narrower_than_its_country_and_wider_than_a_block() {
        let [search, country_list, liars] = ["search", "blocked", "liars"].map(Name::from);
        let country = CountryCode::new("US");
        let mut lists = ClientLists::default();
        lists.add_crawlers(&search, ListEffect::Allow, &["search".into()]);
        lists.add_crawlers(&liars, ListEffect::Block, &["unverified".into()]);
        let places = PlaceSet {
            countries: vec![country],
            ..PlaceSet::default()
        };
        lists.add_places(&country_list, ListEffect::Block, places);
        lists.add(&country_list, ListEffect::Block, &set(&["192.0.2.7/32"]));
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
            ("192.0.2.1", None, allowed("search")),
            ("192.0.2.7", None, blocked("blocked")),
            ("203.0.113.1", None, blocked("blocked")),
            (
                "203.0.113.1",
                Some(CrawlerStatus::Unverified(None, UnverifiedReason::NoProof)),
                blocked("liars"),
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
            let temporary = TemporaryLists {
                rules: &RuleLookup::default(),
                networks: &databases,
            };
            let found = lists.list_match(client, &place, &crawler, temporary);
            assert_eq!(named(&found), list_match, "{client}");
        }
    }

    /// Goal: the longest block decides, equal ones block. Method: an allow list and a block list that nest both ways.
    #[test]
    fn the_longest_block_of_all_lists_decides_and_a_tie_blocks() {
        let lists = nested_lists();
        for (client, list_match) in [
            ("10.2.0.1", blocked("bad")),
            ("10.1.0.1", allowed("office")),
            ("192.0.2.1", allowed("office")),
            ("192.0.2.7", blocked("bad")),
            ("2001:db8::1", blocked("bad")),
            ("198.51.100.1", None),
        ] {
            let found = match_of(&lists, client, &RuleLookup::default());
            assert_eq!(found, list_match, "{client}");
        }
    }

    fn nested_lists() -> ClientLists {
        let mut lists = ClientLists::default();
        lists.add(
            &Name::from("bad"),
            ListEffect::Block,
            &set(&["10.0.0.0/8", "192.0.2.7/32", "2001:db8::/48"]),
        );
        lists.add(
            &Name::from("office"),
            ListEffect::Allow,
            &set(&["10.1.0.0/16", "192.0.2.0/24", "2001:db8::/48"]),
        );
        lists
    }

    /// Goal: a temporary rule is one more list, and decides where a list is equally narrow. Method: rules that are wider, narrower and
    /// as wide as the lists that nest.
    #[test]
    fn a_temporary_rule_decides_like_a_list_that_was_written_later() {
        let lists = nested_lists();
        let rule = |(id, (effect, target)): (u64, &(RuleEffect, &str))| {
            let lifetime = RuleLifetime {
                from: Timestamp::default(),
                until: Timestamp::from_secs(1),
            };
            let target = RuleTarget::parse(target).unwrap();
            let id = RuleId::from_bits(id);
            Arc::new(TemporaryRule::new(id, *effect, target, lifetime))
        };
        let rules: Vec<_> = (0..)
            .zip(&[
                (RuleEffect::Block, "10.0.0.0/9"),
                (RuleEffect::Exempt, "192.0.2.7"),
                (RuleEffect::Exempt, "10.0.0.7"),
                (RuleEffect::Block, "192.0.2.0/25"),
            ])
            .map(rule)
            .collect();
        let rules = RuleLookup::new(rules.iter());
        for (client, list_match) in [
            ("10.1.0.1", allowed("office")),
            ("10.2.0.1", blocked("temporary:000000000000")),
            ("192.0.2.7", allowed("temporary:000000000001")),
            ("10.0.0.7", allowed("temporary:000000000002")),
            ("192.0.2.1", blocked("temporary:000000000003")),
            ("192.0.2.129", allowed("office")),
        ] {
            assert_eq!(match_of(&lists, client, &rules), list_match, "{client}");
        }
    }
}
