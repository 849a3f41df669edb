//! Compares the conditions of routes beside host and path: listeners, clients, fields, parameters and methods.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use sluicegate_base::path::PathCase;

use crate::addresses;
use crate::model::{Route, RouteValue};

/// The conditions of a route. An empty list is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RouteConditions {
    listeners: Vec<String>,
    client: Vec<String>,
    values: Vec<RouteValue>,
    methods: Vec<String>,
}

/// The rank of conditions by which the gateway prefers one of two routes; the greater one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConditionRank {
    /// Fewer listeners are narrower.
    listeners: Option<Reverse<usize>>,
    /// The shortest prefix of a block, in bits of an IPv6 address.
    client: Option<u8>,
    fields: usize,
    parameters: usize,
    has_methods: bool,
}

impl RouteConditions {
    pub(crate) fn new(route: &Route) -> Self {
        Self {
            listeners: route.listeners.clone(),
            client: route.client.clone(),
            values: route.values.clone(),
            methods: route.methods.clone(),
        }
    }

    /// Sets the conditions of a route.
    pub(crate) fn set(self, route: &mut Route) {
        route.listeners = self.listeners;
        route.client = self.client;
        route.values = self.values;
        route.methods = self.methods;
    }

    pub(crate) fn rank(&self) -> ConditionRank {
        let listeners = self.listeners.len();
        let is_positive = |it: &&String| !it.starts_with('!');
        let blocks = self.client.iter().filter(is_positive);
        let bits = blocks.filter_map(|it| addresses::network(it)).map(bits);
        let fields = self.values.iter().filter(|it| it.key == "headers").count();
        ConditionRank {
            listeners: (listeners > 0).then_some(Reverse(listeners)),
            client: (!self.client.is_empty()).then(|| bits.min().unwrap_or(0)),
            fields,
            parameters: self.values.len() - fields,
            has_methods: !self.methods.is_empty(),
        }
    }

    /// Returns true if each request that fulfils these conditions fulfils some of the others.
    pub(crate) fn are_covered<'c>(&self, others: impl Iterator<Item = &'c Self>) -> bool {
        let others = others.filter(|it| {
            covers(&it.listeners, &self.listeners)
                && it.values.iter().all(|value| self.values.contains(value))
                && covers(&it.methods, &self.methods)
        });
        let clients: Vec<&[String]> = others.map(|it| it.client.as_slice()).collect();
        cover_clients(&clients, &self.client)
    }

    /// Adds the clients of other conditions, and returns true, where nothing else differs and the rank stays the same.
    pub(crate) fn take_clients(&mut self, other: &Self) -> bool {
        let mut blocks = self.client.iter().chain(&other.client);
        let can_take = !blocks.any(|it| it.starts_with('!'))
            && self.rank() == other.rank()
            && self.listeners == other.listeners
            && self.values == other.values
            && self.methods == other.methods;
        if can_take {
            self.client.extend_from_slice(&other.client);
        }
        can_take
    }

    /// Returns the conditions of requests that fulfil these and the other ones; `None` where no request does.
    pub(crate) fn with(&self, other: &Self) -> Option<Self> {
        Some(Self {
            listeners: both_names(&self.listeners, &other.listeners)?,
            client: both_clients(&self.client, &other.client)?,
            values: both_values(&self.values, &other.values)?,
            methods: both_methods(&self.methods, &other.methods)?,
        })
    }
}

/// Removes the routes that take the same requests as an earlier one: two comparisons of paths can be one expression.
pub(crate) fn remove_repeated(routes: &mut Vec<Route>) {
    let mut known = BTreeSet::new();
    routes.retain(|route| {
        known.insert((
            route.host.clone(),
            route.path.clone(),
            route.case == PathCase::Kept,
            RouteConditions::new(route),
        ))
    });
}

fn bits(block: IpNet) -> u8 {
    match block {
        IpNet::V4(block) => block.prefix_len() + 96,
        IpNet::V6(block) => block.prefix_len(),
    }
}

/// Returns true if a list has each of the names of another one; an empty list has all.
fn covers(wide: &[String], narrow: &[String]) -> bool {
    wide.is_empty() || (!narrow.is_empty() && narrow.iter().all(|it| wide.contains(it)))
}

/// Returns true if a route takes all requests for its path that arrive at some listeners; an empty list has all.
pub(crate) fn takes_all(route: &Route, listeners: &[String]) -> bool {
    covers(&route.listeners, listeners)
        && route.client.is_empty()
        && route.values.is_empty()
        && route.methods.is_empty()
}

/// Returns true if two lists have listeners in common.
pub(crate) fn share_listeners(one: &[String], other: &[String]) -> bool {
    one.is_empty() || other.is_empty() || one.iter().any(|it| other.contains(it))
}

/// Returns the names of both lists; `None` where there is none.
pub(crate) fn both_names(one: &[String], other: &[String]) -> Option<Vec<String>> {
    match (one, other) {
        ([], all) | (all, []) => Some(all.to_vec()),
        _ => {
            let shared: Vec<String> = one
                .iter()
                .filter(|it| other.contains(it))
                .cloned()
                .collect();
            (!shared.is_empty()).then_some(shared)
        }
    }
}

/// Returns the methods of two routes. A later route for GET takes HEAD too.
fn both_methods(one: &[String], later: &[String]) -> Option<Vec<String>> {
    let mut later = later.to_vec();
    if later.iter().any(|it| it == "GET") && one.iter().any(|it| it == "HEAD") {
        later.push("HEAD".to_owned());
    }
    both_names(one, &later)
}

/// Returns the values of both lists; `None` where they ask for two values of one field or parameter.
fn both_values(one: &[RouteValue], other: &[RouteValue]) -> Option<Vec<RouteValue>> {
    let mut found = one.to_vec();
    for value in other {
        let is_same = |it: &&mut RouteValue| it.key == value.key && it.name == value.name;
        match found.iter_mut().find(is_same) {
            Some(known) if known.takes(value) => known.clone_from(value),
            Some(known) if value.takes(known) => {}
            Some(_) => return None,
            None => found.push(value.clone()),
        }
    }
    Some(found)
}

/// A list of blocks, in which the longest one that contains an address decides.
struct BlockList {
    /// False for blocks that are excepted.
    blocks: BTreeMap<IpNet, bool>,
    /// True if it has exceptions alone, or nothing, and so all other clients.
    has_others: bool,
}

impl BlockList {
    fn new(texts: &[String]) -> Self {
        let mut blocks = BTreeMap::new();
        for text in texts {
            let excepted = text.strip_prefix('!');
            if let Some(network) = addresses::network(excepted.unwrap_or(text)) {
                // Of two equal blocks the exception decides.
                *blocks.entry(network).or_insert(true) &= excepted.is_none();
            }
        }
        Self {
            blocks,
            has_others: texts.iter().all(|it| it.starts_with('!')),
        }
    }

    /// Returns true if the clients of a block belong to the list, but for those of smaller blocks.
    fn has(&self, network: &IpNet) -> bool {
        let mut around = addresses::around(network);
        let longest = around.find_map(|it| self.blocks.get(&it));
        longest.copied().unwrap_or(self.has_others)
    }
}

/// Returns true if lists together have each client of another one; an empty list has all.
fn cover_clients(wide: &[&[String]], narrow: &[String]) -> bool {
    let wide: Vec<BlockList> = wide.iter().map(|it| BlockList::new(it)).collect();
    let narrow = BlockList::new(narrow);
    let has = |network: &IpNet| wide.iter().any(|it| it.has(network));
    let mut networks = wide.iter().chain([&narrow]).flat_map(|it| it.blocks.keys());
    networks.all(|it| !narrow.has(it) || has(it))
        && (wide.iter().any(|it| it.has_others) || !narrow.has_others)
}

/// Returns the clients of both lists; `None` where there are none.
fn both_clients(one: &[String], other: &[String]) -> Option<Vec<String>> {
    if one.is_empty() || other.is_empty() || one == other {
        let longer = if one.is_empty() { other } else { one };
        return Some(longer.to_vec());
    }
    let lists = [BlockList::new(one), BlockList::new(other)];
    let networks = lists.iter().flat_map(|it| it.blocks.keys().copied());
    // A block stands before those within it.
    let networks: BTreeSet<IpNet> = networks.collect();
    let mut found = BlockList {
        blocks: BTreeMap::new(),
        has_others: lists.iter().all(|it| it.has_others),
    };
    for network in networks {
        let is_in = lists.iter().all(|it| it.has(&network));
        if found.has(&network) != is_in {
            found.blocks.insert(network, is_in);
        }
    }
    let has_blocks = found.blocks.values().any(|is_in| *is_in);
    if !has_blocks && !found.has_others {
        return None;
    }
    let everybody = ["0.0.0.0/0", "::/0"].map(str::to_owned);
    let others = everybody
        .into_iter()
        .filter(|_| has_blocks && found.has_others);
    let blocks = found.blocks.iter().map(|(block, is_in)| match is_in {
        true => addresses::written(block),
        false => format!("!{}", addresses::written(block)),
    });
    Some(others.chain(blocks).collect())
}

/// Returns true if two lists of blocks have clients in common.
pub(crate) fn share_clients(one: &[String], other: &[String]) -> bool {
    both_clients(one, other).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// Goal: the clients of two lists are those that both have. Method: blocks within each other, exceptions in one list and in both,
    /// exceptions alone, and lists without a common client.
    #[test]
    fn lists_of_clients_have_their_common_clients() {
        for (one, other, expected) in [
            ("", "10.0.0.0/8", Some("10.0.0.0/8")),
            ("10.0.0.0/8", "10.1.0.0/16 ::1", Some("10.1.0.0/16")),
            (
                "10.0.0.0/8 !10.1.0.0/16",
                "10.1.2.0/24 10.2.0.0/16",
                Some("10.2.0.0/16"),
            ),
            (
                "10.0.0.0/8 !10.1.0.0/16 10.1.1.1",
                "10.0.0.0/8",
                Some("10.0.0.0/8 !10.1.0.0/16 10.1.1.1"),
            ),
            ("!10.0.0.0/8", "!192.0.2.1", Some("!10.0.0.0/8 !192.0.2.1")),
            ("!10.0.0.0/8 10.1.0.0/16", "10.0.0.0/8", Some("10.1.0.0/16")),
            ("!10.0.0.0/8", "10.1.0.0/16", None),
            ("10.0.0.0/8", "192.0.2.1", None),
        ] {
            let both = |one: &str, other: &str| both_clients(&texts(one), &texts(other));
            assert_eq!(both(one, other), expected.map(texts), "{one}, {other}");
            assert_eq!(both(other, one).is_none(), expected.is_none());
            if let Some(both) = both(one, other) {
                for one in [one, other] {
                    assert!(cover_clients(&[&texts(one)], &both));
                }
            }
        }
    }

    /// Goal: lists cover what they have as a whole, and nothing else. Method: an exception in either list, exceptions alone, none, and
    /// lists that have a part each.
    #[test]
    fn lists_cover_clients_that_they_have_as_a_whole() {
        let covers = |wide: &str, narrow: &str| {
            let wide: Vec<Vec<String>> = wide.split('|').map(texts).collect();
            let wide: Vec<&[String]> = wide.iter().map(Vec::as_slice).collect();
            cover_clients(&wide, &texts(narrow))
        };
        assert!(covers("10.1.0.0/16|10.0.0.0/8 !10.1.0.0/16", "10.0.0.0/8"));
        assert!(covers("10.0.0.0/8|!10.0.0.0/8", ""));
        assert!(!covers("10.1.1.1|10.0.0.0/8 !10.1.0.0/16", "10.0.0.0/8"));
        assert!(covers("10.0.0.0/8 !10.1.0.0/16", "10.2.0.0/16 10.3.0.1"));
        assert!(covers("10.0.0.0/8 !10.1.0.0/16", "10.0.0.0/8 !10.0.0.0/9"));
        assert!(covers("!10.1.0.0/16", "!10.0.0.0/8"));
        assert!(covers("", "10.0.0.0/8"));
        assert!(!covers("10.0.0.0/8 !10.1.0.0/16", "10.0.0.0/8"));
        assert!(!covers("10.0.0.0/8", "!10.1.0.0/16"));
        assert!(!covers("10.0.0.0/8", ""));
    }

    /// Goal: methods and values of two routes are those of a request that both take. Method: HEAD at a later GET, any value, two values.
    #[test]
    fn methods_and_values_are_those_of_one_request() {
        let methods = |one: &str, later: &str| both_methods(&texts(one), &texts(later));
        assert_eq!(methods("", "GET"), Some(texts("GET")));
        assert_eq!(methods("HEAD PUT", "GET"), Some(texts("HEAD")));
        assert_eq!(methods("GET", "HEAD"), None);
        let value = |value: &str| RouteValue {
            key: "query",
            name: "a".to_owned(),
            value: value.to_owned(),
        };
        let both = |one: &str, other: &str| both_values(&[value(one)], &[value(other)]);
        assert_eq!(both("*", "1"), Some(vec![value("1")]));
        assert_eq!(both("1", "*"), Some(vec![value("1")]));
        assert_eq!(both("1", "2"), None);
    }
}
