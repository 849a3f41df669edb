//! Divides the requests of a frontend into cells, in each of which every condition on host, path, method and client has one truth.
//!
//! HAProxy applies rules in their order; the gateway takes the most specific route. So each combination of values that conditions name
//! becomes a route with what the rules give in it, and routes that change nothing are removed.

use super::terms::{ConditionTerm, PathTerm, RuleCondition, SignedTerm, TermTruth};
use crate::bounds;

/// A combination of values; `None` stands for all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestCell {
    pub(super) host: Option<String>,
    pub(super) path: Option<PathTerm>,
    pub(super) client: Option<Vec<String>>,
    pub(super) method: Option<Vec<String>>,
}

/// The values that conditions name.
#[derive(Clone, Debug, Default)]
pub(super) struct ConditionValues {
    hosts: Vec<String>,
    paths: Vec<PathTerm>,
    clients: Vec<Vec<String>>,
    methods: Vec<Vec<String>>,
}

impl ConditionValues {
    /// Adds the values of a condition.
    pub(super) fn add(&mut self, condition: &RuleCondition) {
        for literal in condition.alternatives.iter().flatten() {
            match &literal.term {
                ConditionTerm::Host(hosts) => {
                    hosts.iter().for_each(|it| insert(&mut self.hosts, it))
                }
                ConditionTerm::Path(paths) => {
                    paths.iter().for_each(|it| insert(&mut self.paths, it))
                }
                ConditionTerm::Client(blocks) => insert(&mut self.clients, blocks),
                ConditionTerm::Method(methods) => insert(&mut self.methods, methods),
                ConditionTerm::Above(..) | ConditionTerm::Tls | ConditionTerm::Constant(_) => {}
            }
        }
    }

    /// Returns all cells, those with more conditions first.
    ///
    /// # Errors
    ///
    /// That there are too many.
    pub(super) fn cells(&self) -> Result<Vec<RequestCell>, String> {
        let sizes = [
            self.hosts.len(),
            self.paths.len(),
            self.clients.len(),
            self.methods.len(),
        ];
        let count: usize = sizes.iter().map(|size| size + 1).product();
        if count > bounds::ROUTE_CASES {
            let most = bounds::ROUTE_CASES;
            return Err(format!(
                "its conditions divide requests into {count} cases, more than {most}"
            ));
        }
        let mut cells = Vec::with_capacity(count);
        for host in options(&self.hosts) {
            for path in options(&self.paths) {
                for client in options(&self.clients) {
                    for method in options(&self.methods) {
                        cells.push(RequestCell {
                            host: host.clone(),
                            path: path.clone(),
                            client: client.clone(),
                            method,
                        });
                    }
                }
            }
        }
        Ok(cells)
    }
}

fn insert<T: PartialEq + Clone>(values: &mut Vec<T>, value: &T) {
    if !values.contains(value) {
        values.push(value.clone());
    }
}

/// Returns each value, and none at the end.
fn options<T: Clone>(values: &[T]) -> impl Iterator<Item = Option<T>> {
    values.iter().cloned().map(Some).chain([None])
}

impl RequestCell {
    /// Returns the alternatives of a condition that can hold here, each with the terms that depend on counters.
    pub(super) fn remaining<'c>(&self, condition: &'c RuleCondition) -> Vec<Vec<&'c SignedTerm>> {
        let alternatives = condition.alternatives.iter();
        alternatives
            .filter_map(|alternative| {
                let mut counters = Vec::new();
                for literal in alternative {
                    match self.truth(&literal.term) {
                        None => counters.push(literal),
                        Some(TermTruth::True) if literal.is_negated => return None,
                        Some(TermTruth::False) if !literal.is_negated => return None,
                        Some(_) => {}
                    }
                }
                Some(counters)
            })
            .collect()
    }

    /// Returns true if a condition holds here whatever counters say.
    pub(super) fn always(&self, condition: &RuleCondition) -> bool {
        self.remaining(condition).iter().any(Vec::is_empty)
    }

    /// Returns the truth of a term; `None` where counters decide.
    fn truth(&self, term: &ConditionTerm) -> Option<TermTruth> {
        let holds = match term {
            ConditionTerm::Above(..) => return None,
            ConditionTerm::Constant(truth) => return Some(*truth),
            // Whether a listener has TLS is no condition of a route.
            ConditionTerm::Tls => true,
            ConditionTerm::Host(hosts) => self
                .host
                .as_ref()
                .is_some_and(|host| hosts.iter().any(|it| takes_host(it, host))),
            ConditionTerm::Path(paths) => self
                .path
                .as_ref()
                .is_some_and(|path| paths.iter().any(|it| takes_path(it, path))),
            ConditionTerm::Client(blocks) => self.client.as_ref() == Some(blocks),
            ConditionTerm::Method(methods) => self
                .method
                .as_ref()
                .is_some_and(|own| own.iter().all(|method| methods.contains(method))),
        };
        Some(if holds {
            TermTruth::True
        } else {
            TermTruth::False
        })
    }

    /// Returns true if this cell takes all requests of another one.
    fn takes(&self, other: &Self) -> bool {
        (self.host.is_none() || self.host == other.host)
            && match (&self.path, &other.path) {
                (None, _) => true,
                (Some(own), Some(other)) => takes_path(own, other),
                (Some(_), None) => false,
            }
            && (self.client.is_none() || self.client == other.client)
            && (self.method.is_none() || self.method == other.method)
    }

    /// Returns the order by which the gateway prefers routes; greater goes first.
    fn rank(&self) -> (bool, usize, bool, bool) {
        let path = match &self.path {
            None => 0,
            Some(PathTerm::Beginning(text)) => 1 + text.len(),
            Some(PathTerm::Expression(_)) => 1 << 20,
            Some(PathTerm::Exact(_)) => 1 << 21,
        };
        (
            self.host.is_some(),
            path,
            self.client.is_some(),
            self.method.is_some(),
        )
    }
}

fn takes_host(term: &str, host: &str) -> bool {
    match term.strip_prefix('*') {
        Some(ending) => host.ends_with(ending),
        None => term == host,
    }
}

fn takes_path(term: &PathTerm, path: &PathTerm) -> bool {
    match (term, path) {
        (PathTerm::Beginning(term), PathTerm::Beginning(path) | PathTerm::Exact(path)) => {
            path.starts_with(term.as_str())
        }
        _ => term == path,
    }
}

/// Removes cells without which the next best one gives the same, and orders the others.
pub(super) fn distinct<T: PartialEq>(cells: Vec<(RequestCell, T)>) -> Vec<(RequestCell, T)> {
    let mut kept = cells;
    kept.sort_by_key(|(cell, _)| std::cmp::Reverse(cell.rank()));
    let mut at = 0;
    while at < kept.len() {
        let (cell, result) = &kept[at];
        // The cells behind one are those that the gateway would take in its place.
        let next = kept[at + 1..].iter().find(|(other, _)| other.takes(cell));
        let is_needless = next.is_some_and(|(_, other)| other == result);
        // A cell between both could take its place in part.
        let is_free = kept[at + 1..]
            .iter()
            .take_while(|(other, _)| !other.takes(cell))
            .all(|(other, of_other)| of_other == result || !overlaps(other, cell));
        if is_needless && is_free {
            kept.remove(at);
            // Another cell may be needless now.
            at = 0;
        } else {
            at += 1;
        }
    }
    kept
}

/// Returns true if a request could be in both, were there no other cells.
fn overlaps(one: &RequestCell, other: &RequestCell) -> bool {
    let hosts = one.host.is_none() || other.host.is_none() || one.host == other.host;
    let paths = match (&one.path, &other.path) {
        (Some(one), Some(other)) => {
            takes_path(one, other)
                || takes_path(other, one)
                || matches!(one, PathTerm::Expression(_))
                || matches!(other, PathTerm::Expression(_))
        }
        _ => true,
    };
    let methods = one.method.is_none() || other.method.is_none() || one.method == other.method;
    hosts && paths && methods
}
