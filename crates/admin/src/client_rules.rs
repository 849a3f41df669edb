//! Says what lists and temporary rules about clients make of the next request of a key or a value, ahead of every limit.
//!
//! They are asked about addresses: the one that an operator writes, or the network in the key of a limit. The network of a key that only
//! its hash identifies is found where a temporary rule is about it.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use serde::Serialize;
use sluicegate_base::address::{PrefixBits, folded_block, prefix};
use sluicegate_base::crawler::{ClientCrawler, CrawlerRequest};
use sluicegate_base::geo::ClientPlace;
use sluicegate_base::received::ReceivedFields;
use sluicegate_decide::client::{ClientLists, ListEffect, ListMatch, ListSource, TemporaryLists};
use sluicegate_decide::rfc3339;
use sluicegate_limiter::KeyHash;

use sluicegate_config::rules::{KeyPart, ListUse, Name};
use sluicegate_decide::admission::{ActiveLimit, KeySeed};
use sluicegate_process::snapshot::Snapshot;

/// Routes that are named with a list.
const NAMED_ROUTES: usize = 20;
/// Addresses of temporary rules whose keys are hashed for a page: a /16, within some 5 ms.
const HASHED: usize = 1 << 16;

/// The lists and rules that the requests of a limit meet.
pub(super) struct ClientRules<'s> {
    snapshot: &'s Snapshot,
    /// The routes, by the lists that apply to them.
    groups: Vec<RouteGroup<'s>>,
}

/// Routes with the same lists.
struct RouteGroup<'s> {
    names: &'s ListUse,
    lists: &'s ClientLists,
    routes: Vec<&'s Name>,
}

/// A list or rule that blocks a client or exempts it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ClientRuleRow {
    /// `blocked` or `exempt`.
    client: &'static str,
    /// The name of the list.
    list: Option<String>,
    /// The id of the temporary rule.
    rule: Option<String>,
    /// The clients that the temporary rule is about.
    target: Option<String>,
    /// The end of the temporary rule.
    until: Option<String>,
    /// The routes to which it applies, the first ones; `None` for all.
    routes: Option<Vec<String>>,
}

/// The lists and rules about one client.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientVerdict {
    /// The effect, where it is the same on all routes.
    pub(super) effect: Option<ListEffect>,
    /// The lists and rules that have an effect.
    pub(super) rows: Vec<ClientRuleRow>,
}

/// A list or rule with the routes on which it decides.
struct DecidingSource<'s> {
    effect: ListEffect,
    source: ListSource,
    routes: Vec<&'s Name>,
}

/// Finds the networks of the keys of a limit.
pub(super) struct KeyNetworks<'s> {
    active: &'s ActiveLimit,
    /// The networks that temporary rules are about, by the hashes of their keys.
    of_rules: HashMap<u64, IpNet>,
}

impl<'s> ClientRules<'s> {
    /// Returns the lists and rules of the routes with this limit; of all routes where none has it, or without a limit.
    pub(super) fn new(snapshot: &'s Snapshot, limit: Option<&ActiveLimit>) -> Self {
        let all = || snapshot.routes.iter().zip(&snapshot.compiled.rules.routes);
        let has_limit = |limits: &[Arc<ActiveLimit>]| {
            limit.is_none_or(|limit| limits.iter().any(|other| other.name == limit.name))
        };
        let mut routes: Vec<_> = all()
            .filter(|(route, _)| has_limit(&route.compiled.limits))
            .collect();
        if routes.is_empty() {
            routes = all().collect();
        }
        let mut groups: Vec<RouteGroup<'s>> = Vec::new();
        for (route, rules) in routes {
            match groups.iter_mut().find(|group| *group.names == rules.lists) {
                Some(group) => group.routes.push(&rules.name),
                None => groups.push(RouteGroup {
                    names: &rules.lists,
                    lists: &route.compiled.lists,
                    routes: vec![&rules.name],
                }),
            }
        }
        Self { snapshot, groups }
    }

    /// Asks them about a client, or about the clients of a network.
    pub(super) fn judge(&self, network: IpNet) -> ClientVerdict {
        let mut found: Vec<DecidingSource<'_>> = Vec::new();
        for group in &self.groups {
            let (effect, source) = match self.list_match(group.lists, network) {
                ListMatch::Ordinary => continue,
                ListMatch::Allowed(source) => (ListEffect::Allow, source),
                ListMatch::Blocked(source) => (ListEffect::Block, source),
            };
            let is_same = |known: &&mut DecidingSource<'_>| {
                known.effect == effect && known.source.name() == source.name()
            };
            match found.iter_mut().find(is_same) {
                Some(known) => known.routes.extend(&group.routes),
                None => found.push(DecidingSource {
                    effect,
                    source,
                    routes: group.routes.clone(),
                }),
            }
        }
        let routes: usize = self.groups.iter().map(|group| group.routes.len()).sum();
        let decided: usize = found.iter().map(|one| one.routes.len()).sum();
        let effect = found.first().map(|first| first.effect);
        let is_one = |effect: &ListEffect| found.iter().all(|one| one.effect == *effect);
        ClientVerdict {
            effect: effect.filter(|effect| decided == routes && is_one(effect)),
            rows: found.iter().map(|one| one.row(routes)).collect(),
        }
    }

    fn list_match(&self, lists: &ClientLists, network: IpNet) -> ListMatch {
        let snapshot = self.snapshot;
        let address = network.addr();
        let place = ClientPlace::new(&snapshot.compiled.geo, address);
        let headers = ReceivedFields::new();
        let request = CrawlerRequest::without_target(address, &headers);
        let crawler = ClientCrawler::new(&snapshot.compiled.crawlers, request);
        let temporary = TemporaryLists {
            rules: &snapshot.compiled.temporary.in_force(),
            networks: &snapshot.compiled.networks,
        };
        lists.network_match(network, &place, &crawler, temporary)
    }
}

impl ClientVerdict {
    /// Returns the effect alone.
    pub(super) fn without_rows(self) -> Self {
        Self {
            rows: Vec::new(),
            ..self
        }
    }
}

impl DecidingSource<'_> {
    /// Returns it as readers see it, where there are so many routes.
    fn row(&self, routes: usize) -> ClientRuleRow {
        let rule = match &self.source {
            ListSource::List(_) => None,
            ListSource::Temporary(rule) => Some(rule),
        };
        let named = self.routes.iter().take(NAMED_ROUTES);
        ClientRuleRow {
            client: match self.effect {
                ListEffect::Allow => "exempt",
                ListEffect::Block => "blocked",
            },
            list: rule.is_none().then(|| self.source.name().to_string()),
            rule: rule.map(|rule| rule.id.to_string()),
            target: rule.map(|rule| rule.target.to_string()),
            until: rule.map(|rule| rfc3339::format(rule.until)),
            routes: (self.routes.len() < routes).then(|| named.map(ToString::to_string).collect()),
        }
    }
}

impl<'s> KeyNetworks<'s> {
    /// Returns the networks of the keys of a limit, whose hashes are made under `seed`.
    pub(super) fn new(active: &'s ActiveLimit, snapshot: &Snapshot, seed: &KeySeed) -> Self {
        let mut of_rules = HashMap::new();
        if let [KeyPart::ClientIp { v4, v6 }] = *active.key.0 {
            let bits = PrefixBits { v4, v6 };
            let mut blocks: Vec<IpNet> = snapshot.compiled.temporary.in_force().blocks().collect();
            // The narrowest decides about its addresses, and has the fewest.
            blocks.sort_by_key(|block| Reverse(block.prefix_len()));
            let networks = blocks
                .into_iter()
                .flat_map(|block| networks_in(block, bits));
            for network in networks.take(HASHED) {
                let counted = prefix(network.addr(), bits);
                let key = seed.hash_parts(std::iter::once(counted.as_bytes()));
                of_rules.entry(key.kept_bits()).or_insert(network);
            }
        }
        Self { active, of_rules }
    }

    /// Returns the network of a key; `None` where it is unknown, or the key has no address.
    pub(super) fn find(&self, key: KeyHash) -> Option<IpNet> {
        let of_rules = self.of_rules.get(&key.kept_bits()).copied();
        of_rules.or_else(|| network_of_values(self.active, &self.active.known_values(key)?))
    }
}

/// Returns the networks of so many bits that a block consists of; none where it is a part of one.
fn networks_in(block: IpNet, bits: PrefixBits) -> impl Iterator<Item = IpNet> {
    let length = match block {
        IpNet::V4(_) => bits.v4,
        IpNet::V6(_) => bits.v6,
    };
    block.subnets(length).into_iter().flatten()
}

/// Returns the client that the values of a key name, or its network; `None` where no part of the key is an address.
pub(super) fn network_of_values(active: &ActiveLimit, values: &[String]) -> Option<IpNet> {
    let parts = active.key.0.iter().filter(|part| **part != KeyPart::Global);
    let mut values = parts.zip(values);
    let is_address = |part: &KeyPart| matches!(part, KeyPart::ClientIp { .. });
    let (_, text) = values.find(|(part, _)| is_address(part))?;
    network_of_text(text)
}

/// Parses an address, or a network such as `203.0.113.0/24`.
pub(super) fn network_of_text(text: &str) -> Option<IpNet> {
    let address: Option<IpAddr> = text.trim().parse().ok();
    let network = address.map(|address| IpNet::from(address.to_canonical()));
    network.or_else(|| text.trim().parse().ok().map(folded_block))
}
