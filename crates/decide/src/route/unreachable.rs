//! Finds routes that no request can reach, because routes of higher precedence match all their requests.
//!
//! Of the requests that a route matches, one with nothing but the route's own fields and parameters is the hardest for another
//! route to match: every such condition requires something to be present. So a route is unreachable where such a request goes
//! elsewhere with each of its methods, from each of the clients that differ, whatever the path. A statement about all paths is
//! possible where two paths are the same pattern, or where an expression matches everything with some prefix (`^/api/.*$`);
//! other expressions are not analyzed.
//!
//! Which places there are, databases say, and which crawlers, their proofs: a route with a condition on the place or the crawler is
//! compared with those of the same condition and those without one. A route that names listeners is compared with those that name all of
//! these, and those that name none.
//!
//! # Limits
//! Routes are compared with those of the same host whose paths cover theirs, at most [`MOST`]: larger groups are not checked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ahash::{HashMap, HashMapExt};
use http::Method;
use ipnet::IpNet;
use sluicegate_base::host;
use sluicegate_base::path::PathCase;
use sluicegate_base::path::PathRegex;
use sluicegate_base::received::ReceivedFields;
use sluicegate_config::rules::{HostMatch, RouteMatch, RouteRules};

use super::entry::{RequestFields, RouteEntry};
use super::listener::RequestListener;
use super::method::MethodMatch;
use super::pattern::{CompiledPattern, PatternSegment};
use super::rank::RankCriterion;

/// Maximum number of routes that are compared with one another.
const MOST: usize = 256;
/// A method that no route names.
const UNNAMED: &str = "SLUICEGATE-NONE";

/// The reason for which no request reaches a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnreachableRoute {
    /// Its condition on the client matches no address.
    NoClient,
    /// Routes of higher precedence match all its requests.
    Covered {
        /// The index of the first of them.
        by: usize,
        /// The criterion by which that one precedes it.
        since: RankCriterion,
    },
}

/// A route in the form in which it is compared.
struct ComparedRoute<'r> {
    index: usize,
    matches: &'r RouteMatch,
    entries: Vec<RouteEntry>,
    path: PathClaim<'r>,
}

/// The paths that a route matches.
enum PathClaim<'r> {
    Pattern(CompiledPattern),
    Regex(&'r PathRegex),
}

/// The routes of one host that are compared.
#[derive(Default)]
struct HostScope<'r> {
    /// Routes by paths that are equal but for case.
    alike: HashMap<String, Vec<ComparedRoute<'r>>>,
    /// Routes that match all paths with this prefix.
    beginnings: Vec<(String, String)>,
}

/// Returns every route that no request reaches, by its index in `rules`.
#[must_use]
pub(super) fn dead_routes(rules: &[RouteRules]) -> Vec<(usize, UnreachableRoute)> {
    let mut hosts: HashMap<Option<HostMatch>, HostScope<'_>> = HashMap::new();
    for (index, rules) in rules.iter().enumerate() {
        let candidate = ComparedRoute::new(index, &rules.matches);
        let of_host = hosts.entry(host_key(&rules.matches)).or_default();
        let key = candidate.key();
        if let PathClaim::Regex(regex) = candidate.path
            && let Some(beginning) = regex.takes_all_behind()
        {
            let known = (beginning, key.clone());
            if !of_host.beginnings.contains(&known) && of_host.beginnings.len() < MOST {
                of_host.beginnings.push(known);
            }
        }
        of_host.alike.entry(key).or_default().push(candidate);
    }
    let mut dead: Vec<_> = hosts.values().flat_map(HostScope::dead).collect();
    dead.sort_by_key(|(index, _)| *index);
    dead
}

fn host_key(matches: &RouteMatch) -> Option<HostMatch> {
    Some(match matches.host.as_ref()? {
        HostMatch::Exact(name) => HostMatch::Exact(host::literal(name).into()),
        HostMatch::Under(parent) => HostMatch::Under(host::literal(parent).into()),
    })
}

impl HostScope<'_> {
    fn dead(&self) -> Vec<(usize, UnreachableRoute)> {
        let mut dead = Vec::new();
        for (key, alike) in &self.alike {
            for route in alike {
                let of_beginnings = self.beginnings.iter();
                let wider = of_beginnings
                    .filter(|(beginning, other)| other != key && route.begins_with(beginning))
                    .filter_map(|(_, other)| self.alike.get(other));
                let mut others: Vec<&ComparedRoute<'_>> = wider.flatten().collect();
                others.extend(alike.iter().filter(|other| route.is_within(other)));
                others.retain(|other| {
                    route.is_of_listener(other)
                        && route.is_of_place(other)
                        && route.is_of_crawler(other)
                });
                if others.len() <= MOST
                    && let Some(why) = route.why_dead(&others)
                {
                    dead.push((route.index, why));
                }
            }
        }
        dead
    }
}

impl<'r> ComparedRoute<'r> {
    fn new(index: usize, matches: &'r RouteMatch) -> Self {
        Self {
            index,
            matches,
            entries: RouteEntry::compile(index, matches).collect(),
            path: match &matches.regex {
                Some(regex) => PathClaim::Regex(regex),
                None => PathClaim::Pattern(CompiledPattern::compile(&matches.path, matches.case)),
            },
        }
    }

    /// Returns a key that is equal for routes whose paths are equal but for case.
    fn key(&self) -> String {
        match &self.path {
            PathClaim::Regex(regex) => format!("~{}", regex.as_str()),
            PathClaim::Pattern(pattern) => format!("{pattern:?}").to_ascii_lowercase(),
        }
    }

    /// Returns whether each of its paths is one of `other`'s, where both are equal but for case.
    fn is_within(&self, other: &Self) -> bool {
        other.matches.case == PathCase::Ignored
            || match (&self.path, &other.path) {
                // Without letters, or with the same ones, case makes no difference.
                (PathClaim::Pattern(own), PathClaim::Pattern(theirs)) => {
                    own == theirs && (self.matches.case == PathCase::Kept || !own.has_letters())
                }
                (PathClaim::Regex(_), PathClaim::Regex(_)) => self.matches.case == PathCase::Kept,
                _ => false,
            }
    }

    /// Returns whether each listener that it takes is one of `other`'s.
    fn is_of_listener(&self, other: &Self) -> bool {
        let own = &self.matches.listeners;
        let theirs = &other.matches.listeners;
        theirs.is_empty() || !own.is_empty() && own.iter().all(|name| theirs.contains(name))
    }

    /// Returns whether each place that it takes is one of `other`'s, as far as that is known without databases.
    fn is_of_place(&self, other: &Self) -> bool {
        other.matches.place.is_any() || other.matches.place == self.matches.place
    }

    /// Returns whether each crawler that it takes is one of `other`'s, as far as that is known without proofs.
    fn is_of_crawler(&self, other: &Self) -> bool {
        other.matches.crawler.is_any() || other.matches.crawler == self.matches.crawler
    }

    /// Returns whether each of its paths begins with this text in lower case, whatever its own case.
    fn begins_with(&self, beginning: &str) -> bool {
        match &self.path {
            PathClaim::Regex(regex) => regex
                .takes_all_behind()
                .is_some_and(|own| own.starts_with(beginning)),
            PathClaim::Pattern(pattern) => pattern
                .beginning()
                .to_ascii_lowercase()
                .starts_with(beginning),
        }
    }

    /// Returns why no request reaches it beside `others`, whose paths cover its own.
    fn why_dead(&self, others: &[&Self]) -> Option<UnreachableRoute> {
        let clients = self.clients(others);
        if clients.is_empty() {
            return Some(UnreachableRoute::NoClient);
        }
        let headers: ReceivedFields = self.matches.headers.iter().cloned().collect();
        let query: Vec<String> = self.matches.query.iter().map(spelled).collect();
        let query = query.join("&");
        let mut first = None;
        for entry in &self.entries {
            for method in methods(entry) {
                for client in &clients {
                    let asked = RequestFields {
                        method: &method,
                        headers: &headers,
                        query: &query,
                        listener: RequestListener::Unknown,
                        client: *client,
                        place: None,
                        crawler: None,
                    };
                    let mut ways = others
                        .iter()
                        .flat_map(|other| &other.entries)
                        .filter(|way| way.route != self.index && way.summary > entry.summary);
                    let taken = ways.find(|way| way.takes(&asked))?;
                    first.get_or_insert(UnreachableRoute::Covered {
                        by: taken.route,
                        since: taken.summary.criterion_against(&entry.summary),
                    });
                }
            }
        }
        first
    }

    /// Returns one client of each set that the conditions separate, of those that this route matches: blocks lie within one
    /// another or apart, so each set begins where a block does, or after the end of one.
    fn clients(&self, others: &[&Self]) -> Vec<IpAddr> {
        let mut all: Vec<IpAddr> = vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        let conditions = others.iter().map(|other| &other.matches.client);
        for condition in conditions.chain([&self.matches.client]) {
            for block in condition.of.iter().chain(&condition.except) {
                all.push(block.network());
                all.extend(behind(block));
            }
        }
        all.sort_unstable();
        all.dedup();
        let condition = self.entries.first();
        all.retain(|client| condition.is_some_and(|entry| entry.takes_client(*client)));
        all
    }
}

/// Returns the address after the last one of a block.
fn behind(block: &IpNet) -> Option<IpAddr> {
    match block.broadcast() {
        IpAddr::V4(last) => Some(Ipv4Addr::from_bits(last.to_bits().checked_add(1)?).into()),
        IpAddr::V6(last) => Some(Ipv6Addr::from_bits(last.to_bits().checked_add(1)?).into()),
    }
}

/// Returns the methods that an entry matches: those that it names, or one that no route names.
fn methods(entry: &RouteEntry) -> Vec<Method> {
    match entry.methods() {
        MethodMatch::Any => Method::from_bytes(UNNAMED.as_bytes()).into_iter().collect(),
        MethodMatch::HeadOfGet => vec![Method::HEAD],
        MethodMatch::Named(methods) => methods.to_vec(),
    }
}

/// Returns a parameter that meets a condition and, where any value does, no other condition on it.
fn spelled(condition: &sluicegate_config::rules::QueryCondition) -> String {
    let escaped = |text: &str| -> String {
        let bytes = text.bytes().map(|byte| format!("%{byte:02X}"));
        bytes.collect()
    };
    let value = condition.value.as_deref().unwrap_or("\u{1}no value");
    format!("{}={}", escaped(&condition.name), escaped(value))
}

impl CompiledPattern {
    fn has_letters(&self) -> bool {
        let mut literals = self.steps.iter().filter_map(|step| match step {
            PatternSegment::Literal(text) => Some(text),
            PatternSegment::Parameter => None,
        });
        literals.any(|text| text.bytes().any(|byte| byte.is_ascii_alphabetic()))
    }

    /// Returns the common prefix of its paths.
    fn beginning(&self) -> String {
        let mut beginning = "/".to_owned();
        for (at, step) in self.steps.iter().enumerate() {
            let PatternSegment::Literal(text) = step else {
                return beginning;
            };
            beginning.push_str(text);
            // A slash precedes another step.
            if at + 1 < self.steps.len() {
                beginning.push('/');
            }
        }
        beginning
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_config::{no_review, parse};

    use super::*;

    /// Returns the lines of the unreachable routes, each with that of the route before it; 0 for none.
    fn dead(routes: &[&str]) -> Vec<(usize, usize)> {
        let mut text = String::new();
        for (name, port) in [("a", 80), ("b", 81)] {
            text += &format!("[[listener]]\nname = \"{name}\"\naddress = \"127.0.0.1:{port}\"\n");
        }
        for route in routes {
            text += &format!("[[route]]\n{route}\nrespond = {{ status = 200 }}\n");
        }
        let rules = parse("gateway.toml", &text, no_review)
            .expect("a configuration")
            .rules;
        let each = dead_routes(&rules.routes).into_iter();
        each.map(|(index, why)| match why {
            UnreachableRoute::NoClient => (index, usize::MAX),
            UnreachableRoute::Covered { by, .. } => (index, by),
        })
        .collect()
    }

    /// Goal: a route that nothing reaches is found, whichever condition does it. Method: pairs and threes of routes.
    #[test]
    fn routes_that_nothing_reaches_are_found() {
        let some = usize::MAX;
        for (routes, expected) in [
            // An expression precedes patterns, and a wider one the narrower one after it.
            (
                &["path = \"/api/{id}\"", "path = \"~ ^/api/.*$\""][..],
                (0, 1),
            ),
            (
                &[
                    "path = \"/API/x/*\"",
                    "path = \"~ ^/api/.*$\"\nclient = [\"0.0.0.0/0\", \"::/0\"]",
                ],
                (0, 1),
            ),
            (
                &[
                    "path = \"~ ^/.*$\"",
                    "path = \"~ ^/a/.*$\"\nmethods = [\"POST\"]\nignore_case = false",
                ],
                (some, some),
            ),
            (
                &[
                    "path = \"~ ^/.*$\"\nclient = [\"10.0.0.0/9\"]",
                    "path = \"~ ^/a/.*$\"\nclient = [\"10.0.0.0/8\", \"!10.128.0.0/9\"]",
                ],
                (1, 0),
            ),
            // Of blocks with a common prefix the widest determines how specific a condition is.
            (
                &[
                    "path = \"/a\"\nclient = [\"10.0.0.0/8\", \"192.0.2.0/24\"]",
                    "path = \"/a\"\nclient = [\"10.0.0.0/8\"]",
                ],
                (1, 0),
            ),
            (
                &[
                    "path = \"/a\"\nclient = [\"10.0.0.0/8\"]\nheaders = { x = \"1\" }",
                    "path = \"/a\"\nclient = [\"10.0.0.0/9\", \"10.128.0.0/9\"]",
                ],
                (0, 1),
            ),
            (
                &["path = \"/a\"\nclient = [\"10.0.0.0/8\", \"!10.0.0.0/9\", \"!10.128.0.0/9\"]"],
                (0, some),
            ),
            (
                &[
                    "path = \"~ ^/.*$\"\nlisteners = [\"b\", \"a\"]",
                    "path = \"/b/*\"\nlisteners = [\"a\"]",
                ],
                (1, 0),
            ),
            (
                &[
                    "path = \"/{a}/*\"\nmethods = [\"GET\"]",
                    "path = \"/{b}/*\"\nignore_case = false",
                ],
                (0, 1),
            ),
            (
                &[
                    "path = \"/a\"\nquery = { q = \"*\" }\nmethods = [\"PUT\"]",
                    "path = \"/a\"\nquery = { q = \"*\" }\nclient = [\"0.0.0.0/0\", \"::/0\"]",
                ],
                (0, 1),
            ),
        ] {
            let expected: Vec<_> = Some(expected)
                .filter(|(dead, _)| *dead != some)
                .into_iter()
                .collect();
            assert_eq!(dead(routes), expected, "{routes:?}");
        }
    }

    /// Goal: no reachable route is reported. Method: near misses of the cases that are reported.
    #[test]
    fn routes_that_something_reaches_are_left_alone() {
        for routes in [
            &["path = \"/api/{id}\"", "path = \"~ ^/api/.+$\""][..],
            &["path = \"/api/{id}\"", "path = \"~ ^/api/[a-z]*$\""],
            &[
                "path = \"/api/{id}\"",
                "path = \"~ ^/api/.*$\"\nmethods = [\"GET\", \"POST\"]",
            ],
            &[
                "path = \"/api/{id}\"",
                "path = \"~ ^/api/.*$\"\nhost = \"a.example\"",
            ],
            &[
                "path = \"/Api/{id}\"",
                "path = \"~ ^/api/.*$\"\nignore_case = false",
            ],
            &["path = \"/a/*\"", "path = \"~ ^/a/b.*$\""],
            &["path = \"/api\"", "path = \"~ ^/.*$\""],
            &[
                "path = \"/*\"",
                "path = \"/*\"\nheaders = { x = \"1\" }",
                "path = \"/*\"\nmethods = [\"GET\"]",
            ],
            &["path = \"/a\"", "path = \"/a\"\nignore_case = false"],
            &[
                "path = \"~ ^/.*$\"\nlisteners = [\"a\"]",
                "path = \"/b/*\"",
                "path = \"/c/*\"\nlisteners = [\"b\"]",
                "path = \"/d/*\"\nlisteners = [\"a\", \"b\"]",
            ],
            &[
                "path = \"/a\"\nclient = [\"10.0.0.0/8\"]",
                "path = \"/a\"\nclient = [\"10.0.0.0/9\", \"10.129.0.0/16\"]",
            ],
            &[
                "path = \"/a\"\nmethods = [\"GET\"]",
                "path = \"/a\"\nmethods = [\"HEAD\"]",
            ],
            &[
                "path = \"/a\"\nquery = { q = \"1\" }\nclient = [\"10.0.0.0/8\"]",
                "path = \"/a\"\nquery = { q = \"*\" }\nclient = [\"10.0.0.0/8\"]",
            ],
        ] {
            assert_eq!(dead(routes), [], "{routes:?}");
        }
    }

    /// Goal: clients that a route excepts count as those of the routes behind it. Method: exceptions of the route before, of the
    /// one behind and of both, alone and within blocks, behind one path and behind an expression; the same with an exception that leaves
    /// nobody over.
    #[test]
    fn exceptions_leave_their_clients_to_the_routes_behind() {
        let pair = |first: &str, second: &str| {
            let before = format!("path = \"~ ^/.*$\"\n{first}");
            let behind = format!("path = \"/a/{{id}}\"\n{second}");
            let same = format!("path = \"/a/{{id}}\"\n{first}");
            [dead(&[&before, &behind]), dead(&[&same, &behind])]
        };
        for (first, second) in [
            ("client = [\"!10.0.0.0/8\"]", ""),
            ("client = [\"!10.0.0.0/8\"]", "client = [\"!11.0.0.0/8\"]"),
            ("client = [\"!10.1.0.0/16\"]", "client = [\"10.0.0.0/8\"]"),
            (
                "client = [\"10.0.0.0/8\", \"!10.1.0.0/16\"]",
                "client = [\"10.0.0.0/8\"]",
            ),
            (
                "client = [\"10.0.0.0/8\", \"!10.1.0.0/16\"]",
                "client = [\"10.0.0.0/8\", \"!10.2.0.0/16\"]",
            ),
            (
                "client = [\"10.0.0.0/8\", \"!10.1.0.0/16\", \"10.1.1.0/24\"]",
                "client = [\"10.1.0.0/16\"]",
            ),
            ("client = [\"0.0.0.0/0\"]", "client = [\"!10.0.0.0/8\"]"),
        ] {
            assert_eq!(pair(first, second), [[], []], "{first} | {second}");
        }
        for (first, second) in [
            ("client = [\"!10.0.0.0/8\"]", "client = [\"11.0.0.0/8\"]"),
            (
                "client = [\"10.0.0.0/8\", \"!10.1.0.0/16\", \"10.1.1.0/24\"]",
                "client = [\"10.0.0.0/8\", \"!10.1.0.0/16\"]",
            ),
        ] {
            let [behind_expression, _] = pair(first, second);
            assert_eq!(behind_expression, [(1, 0)], "{first} | {second}");
        }
    }
}
