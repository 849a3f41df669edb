//! Divides the requests of a frontend into cells, in each of which every condition on host, path, client and method has one truth.
//!
//! HAProxy applies rules in their order; the gateway takes the most specific route. So each combination of values that conditions name
//! becomes a route with what the rules give in it. The values of a later dimension are those of the conditions that can hold for the
//! values of the earlier ones: a request has one host, so a path that is named for one host divides the requests of no other host.

use std::collections::BTreeMap;

use super::intersection::with_intersections;
use super::partition;
use super::terms::{ConditionTerm, PathTerm, RuleCondition, SignedTerm, TermTruth};
use crate::addresses;
use crate::bounds;
use crate::model::RouteValue;

/// A combination of values; `None` stands for all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestCell {
    pub(crate) host: Option<String>,
    pub(crate) path: Option<PathTerm>,
    pub(crate) client: Option<Vec<String>>,
    /// Fields and parameters.
    pub(crate) values: Vec<RouteValue>,
    pub(crate) method: Option<Vec<String>>,
}

/// Terms that hold together.
pub(crate) type TermList = [SignedTerm];

/// The dimensions in which cells differ, in the order in which requests are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CellDimension {
    Host,
    Path,
    Client,
    Value,
    Method,
}

/// Divides requests. `hosts` are the hosts that any condition names; `conditions` returns, for a cell of which only the host is known, the
/// conditions that can decide about its requests.
///
/// # Errors
///
/// That there are too many cells.
pub(crate) fn divide<'c>(
    hosts: &[String],
    conditions: impl Fn(&RequestCell) -> Vec<&'c TermList>,
) -> Result<CellDivision, String> {
    // Paths that several comparisons name together can be too many.
    if let Some(cells) = divided(hosts, &conditions, with_intersections)
        .ok()
        .flatten()
    {
        return Ok(CellDivision {
            cells,
            has_intersections: true,
        });
    }
    let cells = divided(hosts, &conditions, Some)?;
    Ok(CellDivision {
        cells: cells.unwrap_or_default(),
        has_intersections: false,
    })
}

/// The cells of requests.
pub(crate) struct CellDivision {
    pub(crate) cells: Vec<RequestCell>,
    /// True if the paths that several comparisons name together are cells.
    pub(crate) has_intersections: bool,
}

/// Divides requests. `arranged` returns the paths of a host, and `None` where there are too many.
fn divided<'c>(
    hosts: &[String],
    conditions: &impl Fn(&RequestCell) -> Vec<&'c TermList>,
    arranged: fn(Vec<PathTerm>) -> Option<Vec<PathTerm>>,
) -> Result<Option<Vec<RequestCell>>, String> {
    let mut cells = Vec::new();
    for host in options(hosts) {
        let cell = RequestCell {
            host,
            ..RequestCell::default()
        };
        let possible = cell.possible(&conditions(&cell), CellDimension::Host);
        let Some(paths) = arranged(paths(&possible)) else {
            return Ok(None);
        };
        for path in options(&paths) {
            let cell = RequestCell {
                path,
                ..cell.clone()
            };
            let possible = cell.possible(&possible, CellDimension::Path);
            for client in options(&clients(&possible)) {
                let cell = RequestCell {
                    client,
                    ..cell.clone()
                };
                let possible = cell.possible(&possible, CellDimension::Client);
                divide_further(&cell, &possible, &mut cells)?;
                within_bound(cells.len())?;
            }
        }
    }
    Ok(Some(cells))
}

/// Divides the requests of a cell by fields, parameters and methods.
fn divide_further(
    cell: &RequestCell,
    conditions: &[&TermList],
    cells: &mut Vec<RequestCell>,
) -> Result<(), String> {
    for values in combinations(values(conditions))? {
        let cell = RequestCell {
            values,
            ..cell.clone()
        };
        let possible = cell.possible(conditions, CellDimension::Value);
        for method in options(&methods(&possible)) {
            cells.push(RequestCell {
                method,
                ..cell.clone()
            });
        }
    }
    Ok(())
}

/// Returns each combination of values of different fields and parameters: a request can have them all.
pub(crate) fn combinations(values: Vec<RouteValue>) -> Result<Vec<Vec<RouteValue>>, String> {
    let mut names: BTreeMap<(&'static str, String), Vec<RouteValue>> = BTreeMap::new();
    for value in values {
        let name = (value.key, value.name.clone());
        names.entry(name).or_default().push(value);
    }
    let mut found = vec![Vec::new()];
    for mut values in names.into_values() {
        // The route for any value comes last.
        values.sort_by_key(|it| it.value == "*");
        within_bound(found.len() * (values.len() + 1))?;
        let longer = found.iter().flat_map(|known| {
            options(&values).map(move |value| known.iter().cloned().chain(value).collect())
        });
        found = longer.collect();
    }
    Ok(found)
}

/// Returns an error where there are too many cells.
pub(crate) fn within_bound(cells: usize) -> Result<(), String> {
    let most = bounds::REQUEST_CELLS;
    match cells > most {
        true => Err(format!(
            "its conditions divide requests into more than {most} cases"
        )),
        false => Ok(()),
    }
}

/// Returns the hosts that conditions name.
pub(crate) fn hosts<'c>(conditions: impl Iterator<Item = &'c TermList>) -> Vec<String> {
    let mut found = Vec::new();
    for term in conditions.flatten().map(|literal| &literal.term) {
        if let ConditionTerm::Host(hosts) = term {
            found.extend(hosts.iter().cloned());
        }
    }
    distinct(found)
}

fn paths(conditions: &[&TermList]) -> Vec<PathTerm> {
    let named = terms(conditions).filter_map(|term| match term {
        ConditionTerm::Path(paths) => Some(paths),
        _ => None,
    });
    distinct(named.flatten().filter(|it| !it.is_always()).cloned())
}

fn clients(conditions: &[&TermList]) -> Vec<Vec<String>> {
    let named = terms(conditions).filter_map(|term| match term {
        ConditionTerm::Client(blocks) => Some(blocks.as_slice()),
        _ => None,
    });
    client_parts(named)
}

/// Returns the parts into which lists of blocks divide clients.
pub(crate) fn client_parts<'l>(lists: impl Iterator<Item = &'l [String]>) -> Vec<Vec<String>> {
    partition::clients(&distinct(lists))
}

fn values(conditions: &[&TermList]) -> Vec<RouteValue> {
    let named = terms(conditions).filter_map(|term| match term {
        ConditionTerm::Value(value) => Some(value.clone()),
        _ => None,
    });
    distinct(named)
}

fn methods(conditions: &[&TermList]) -> Vec<Vec<String>> {
    let named = terms(conditions).filter_map(|term| match term {
        ConditionTerm::Method(methods) => Some(methods.as_slice()),
        _ => None,
    });
    method_parts(named)
}

/// Returns the parts into which lists of methods divide requests.
pub(crate) fn method_parts<'l>(lists: impl Iterator<Item = &'l [String]>) -> Vec<Vec<String>> {
    partition::methods(&distinct(lists))
}

fn terms<'c>(conditions: &[&'c TermList]) -> impl Iterator<Item = &'c ConditionTerm> {
    conditions
        .iter()
        .flat_map(|list| list.iter())
        .map(|it| &it.term)
}

/// Returns each value once, in the order in which they come first.
pub(crate) fn distinct<T: Ord + Clone>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut known = std::collections::BTreeSet::new();
    let values = values.into_iter();
    values.filter(|value| known.insert(value.clone())).collect()
}

/// Returns each value, and none at the end.
fn options<T: Clone>(values: &[T]) -> impl Iterator<Item = Option<T>> {
    values.iter().cloned().map(Some).chain([None])
}

impl RequestCell {
    /// Returns the conditions that can hold for the requests of a cell, where the dimensions up to this one are known.
    fn possible<'c>(&self, conditions: &[&'c TermList], known: CellDimension) -> Vec<&'c TermList> {
        let conditions = conditions.iter().copied();
        conditions.filter(|it| self.may_hold(it, known)).collect()
    }

    /// Returns true if terms can hold together, where the dimensions up to this one are known.
    pub(crate) fn may_hold(&self, terms: &TermList, known: CellDimension) -> bool {
        terms.iter().all(|literal| {
            let is_known = dimension(&literal.term).is_none_or(|it| it <= known);
            !is_known || self.holds(literal) != Some(false)
        })
    }

    /// Returns true if terms hold together for certain, where only the host is known.
    pub(crate) fn holds_for_host(&self, terms: &TermList) -> bool {
        terms.iter().all(|literal| {
            let is_known = dimension(&literal.term).is_none_or(|it| it == CellDimension::Host);
            is_known && self.holds(literal) == Some(true)
        })
    }

    /// Returns the alternatives of a condition that can hold here, each with the terms that depend on counters.
    pub(crate) fn remaining<'c>(&self, condition: &'c RuleCondition) -> Vec<Vec<&'c SignedTerm>> {
        let mut found = Vec::new();
        for alternative in &condition.alternatives {
            if alternative.iter().all(|it| self.holds(it) != Some(false)) {
                let counters = alternative.iter().filter(|it| self.holds(it).is_none());
                found.push(counters.collect());
            }
        }
        found
    }

    /// Returns true if a condition holds here whatever counters say.
    pub(crate) fn always(&self, condition: &RuleCondition) -> bool {
        self.remaining(condition).iter().any(Vec::is_empty)
    }

    /// Returns whether a term or its opposite holds; `None` where counters decide.
    fn holds(&self, literal: &SignedTerm) -> Option<bool> {
        let truth = self.truth(&literal.term)?;
        Some((truth == TermTruth::True) != literal.is_negated)
    }

    /// Returns true if its clients are among those of a list. The parts of clients are in a list as a whole or not at all.
    pub(crate) fn has_client_of(&self, blocks: &[String]) -> bool {
        let own = self.client.iter().flatten();
        let mut own = own.filter(|it| !it.starts_with('!'));
        own.next().is_some_and(|it| covers_block(blocks, it))
    }

    /// Returns the truth of a term; `None` where counters decide.
    fn truth(&self, term: &ConditionTerm) -> Option<TermTruth> {
        let holds = match term {
            ConditionTerm::Above(..) => return None,
            ConditionTerm::Constant(truth) => return Some(*truth),
            // Rules that depend on these are resolved before, or left out.
            ConditionTerm::Tls | ConditionTerm::ClientFile(_) => true,
            ConditionTerm::Host(hosts) => self
                .host
                .as_ref()
                .is_some_and(|host| hosts.iter().any(|it| covers_host(it, host))),
            ConditionTerm::Path(paths) => paths
                .iter()
                .any(|it| it.is_always() || self.path.as_ref().is_some_and(|path| it.covers(path))),
            ConditionTerm::Client(blocks) => self.has_client_of(blocks),
            ConditionTerm::Value(value) => self.values.iter().any(|own| value.takes(own)),
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
}

/// Returns the dimension that a term is about; `None` for counters, files, connections and constants.
fn dimension(term: &ConditionTerm) -> Option<CellDimension> {
    match term {
        ConditionTerm::Host(_) => Some(CellDimension::Host),
        ConditionTerm::Path(_) => Some(CellDimension::Path),
        ConditionTerm::Client(_) => Some(CellDimension::Client),
        ConditionTerm::Value(_) => Some(CellDimension::Value),
        ConditionTerm::Method(_) => Some(CellDimension::Method),
        ConditionTerm::Above(..)
        | ConditionTerm::ClientFile(_)
        | ConditionTerm::Tls
        | ConditionTerm::Constant(_) => None,
    }
}

/// Returns true if a host, or all hosts below one, are among those of a term.
pub(crate) fn covers_host(term: &str, host: &str) -> bool {
    match term.strip_prefix('*') {
        Some(ending) => host.ends_with(ending),
        None => term == host,
    }
}

/// Returns true if one of the blocks contains a whole block.
fn covers_block(blocks: &[String], block: &str) -> bool {
    let network = addresses::network(block);
    blocks
        .iter()
        .any(|it| match (addresses::network(it), network) {
            (Some(outer), Some(inner)) => outer.contains(&inner),
            _ => it == block,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(term: ConditionTerm) -> SignedTerm {
        SignedTerm {
            term,
            is_negated: false,
        }
    }

    /// Goal: hosts exclude each other, so their paths do not multiply. Method: 300 hosts with two paths each and one for all; a list of
    /// clients within another one.
    #[test]
    fn values_of_one_host_divide_no_other_host() {
        let mut conditions: Vec<Vec<SignedTerm>> = Vec::new();
        for host in 0..300 {
            for path in ["a", "b"] {
                let host_term = ConditionTerm::Host(vec![format!("h{host}.test")]);
                let path = PathTerm::Beginning(format!("/{path}{host}/"));
                conditions.push(vec![is(host_term), is(ConditionTerm::Path(vec![path]))]);
            }
        }
        let of_all = || conditions.iter().map(Vec::as_slice);
        let hosts = hosts(of_all());
        let cells = divide(&hosts, |_| of_all().collect()).unwrap().cells;
        // Each host has two paths and the rest; requests for other hosts are one cell.
        assert_eq!(cells.len(), 300 * 3 + 1);
    }

    #[test]
    fn a_block_within_another_one_belongs_to_both() {
        // Goal: a client of a narrow list is one of the wide list too. Method: addresses and blocks.
        let office = ["10.0.0.0/8".to_owned(), "2001:db8::/32".to_owned()];
        assert!(covers_block(&office, "10.1.2.3"));
        assert!(covers_block(&office, "10.0.0.0/8"));
        assert!(covers_block(&office, "2001:db8:1::/48"));
        assert!(!covers_block(&office, "0.0.0.0/0"));
        assert!(!covers_block(&office, "192.0.2.1"));
    }
}
