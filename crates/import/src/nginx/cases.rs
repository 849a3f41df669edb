//! Makes several routes of one location whose limits depend on a property of the request.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::choice::{JOINT, RequestProperty, ValueChoice};
use super::variables;
use crate::addresses;
use crate::bounds;
use crate::model::RouteValue;

/// The limits of requests that fulfil a condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RouteCase {
    /// Blocks of clients; `!` excepts.
    pub(super) client: Vec<String>,
    pub(super) methods: Vec<String>,
    pub(super) conditions: Vec<RouteValue>,
    pub(super) limits: Vec<String>,
}

/// The cases of a location.
pub(super) struct CaseList {
    /// The last has no condition.
    pub(super) cases: Vec<RouteCase>,
    /// Cases that are not told apart, and in which fewer requests pass than in nginx.
    pub(super) differences: Vec<String>,
    /// Cases that are not told apart, and in which more requests pass.
    pub(super) looser: Vec<String>,
}

/// Makes the cases of a location.
pub(super) fn combine(choices: &[ValueChoice<Vec<String>>]) -> CaseList {
    let mut differences = Vec::new();
    let mut looser = Vec::new();
    let first = choices.iter().find_map(|choice| choice.property.clone());
    // A second property would need a route for each pair of cases. All limits of such a choice hold instead, which is stricter.
    let choices: Vec<ValueChoice<Vec<String>>> = choices
        .iter()
        .map(|choice| {
            if choice.property.is_none() || choice.property == first {
                return choice.clone();
            }
            differences.push(
                "limits that depend on a second property of the request hold whatever it is"
                    .to_owned(),
            );
            let names = choice.cases.iter().map(|(_, names)| names);
            let mut all: Vec<String> = names.chain([&choice.default]).flatten().cloned().collect();
            all.sort();
            all.dedup();
            ValueChoice::constant(all)
        })
        .collect();
    let mut cases = match &first {
        None => Vec::new(),
        Some(RequestProperty::Client) => clients(&choices),
        Some(property) => values(property, &choices, &mut looser),
    };
    if cases.len() > bounds::ROUTE_CASES {
        let most = bounds::ROUTE_CASES;
        looser.push(format!("only the first {most} cases are told apart"));
        cases.truncate(most);
    }
    cases.push(RouteCase {
        limits: limits(&choices, |choice| &choice.default),
        ..RouteCase::default()
    });
    for case in &mut cases {
        if case.limits.len() > bounds::ROUTE_LIMITS {
            let most = bounds::ROUTE_LIMITS;
            looser.push(format!("only {most} limits of {} hold", case.limits.len()));
            case.limits.truncate(most);
        }
    }
    differences.dedup();
    looser.dedup();
    CaseList {
        cases,
        differences,
        looser,
    }
}

/// Returns the blocks of clients that no limit of a location counts, where a list of them says the same as the cases: all limits exempt the
/// same blocks, count everybody else, and except nobody within these blocks.
pub(super) fn exempt(choices: &[ValueChoice<Vec<String>>]) -> Option<Vec<String>> {
    let first = choices.first()?;
    let is_exempt = |names: &Vec<String>| names.is_empty();
    let agrees = |choice: &ValueChoice<Vec<String>>| {
        let cases = || choice.cases.iter().zip(&first.cases);
        choice.property == Some(RequestProperty::Client)
            && !choice.default.is_empty()
            && choice.cases.len() == first.cases.len()
            && cases().all(|((block, names), (other, of_first))| {
                block == other
                    && is_exempt(names) == is_exempt(of_first)
                    && (is_exempt(names) || *names == choice.default)
            })
    };
    if !choices.iter().all(agrees) {
        return None;
    }
    let (exempt, counted): (Vec<_>, Vec<_>) =
        first.cases.iter().partition(|(_, names)| is_exempt(names));
    let network = |(block, _): &&(String, Vec<String>)| addresses::network(block);
    let outer: BTreeSet<IpNet> = exempt.iter().filter_map(network).collect();
    let mut inner = counted.iter().filter_map(network);
    if exempt.is_empty() || inner.any(|it| addresses::is_in(&it, &outer)) {
        return None;
    }
    Some(exempt.iter().map(|(block, _)| block.clone()).collect())
}

/// Returns choices that take their default in every case.
pub(super) fn defaults(choices: Vec<ValueChoice<Vec<String>>>) -> Vec<ValueChoice<Vec<String>>> {
    let defaults = choices.into_iter().map(|choice| choice.default);
    defaults.map(ValueChoice::constant).collect()
}

fn limits<'c>(
    choices: &'c [ValueChoice<Vec<String>>],
    value: impl Fn(&'c ValueChoice<Vec<String>>) -> &'c Vec<String>,
) -> Vec<String> {
    each_once(choices.iter().map(value))
}

fn each_once<'c>(lists: impl Iterator<Item = &'c Vec<String>>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for name in lists.flatten() {
        if !found.contains(name) {
            found.push(name.clone());
        }
    }
    found
}

/// The limits of a choice by its cases.
struct CaseTable<'c, K> {
    cases: BTreeMap<K, &'c Vec<String>>,
    default: &'c Vec<String>,
}

/// Cases by methods, fields or parameters.
fn values(
    property: &RequestProperty,
    choices: &[ValueChoice<Vec<String>>],
    looser: &mut Vec<String>,
) -> Vec<RouteCase> {
    let default = limits(choices, |choice| &choice.default);
    let mut cases: Vec<RouteCase> = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    // Of equal values the first one holds.
    let tables = choices.iter().map(|choice| CaseTable {
        cases: (choice.cases.iter().rev())
            .map(|(value, names)| (value.as_str(), names))
            .collect(),
        default: &choice.default,
    });
    let tables: Vec<CaseTable<'_, &str>> = tables.collect();
    for (value, _) in choices.iter().flat_map(|choice| &choice.cases) {
        if !seen.insert(value) {
            continue;
        }
        let names = tables.iter().map(|table| {
            let names = table.cases.get(value.as_str()).copied();
            names.unwrap_or(table.default)
        });
        let limits = each_once(names);
        if limits == default {
            continue;
        }
        let is_shared =
            |case: &RouteCase| *property == RequestProperty::Method && case.limits == limits;
        let shared = cases.iter().position(is_shared);
        let mut case = RouteCase {
            limits: limits.clone(),
            ..RouteCase::default()
        };
        match (restrict(&mut case, property, value), shared) {
            (Ok(()), Some(at)) => cases[at].methods.extend(case.methods),
            (Ok(()), None) => cases.push(case),
            (Err(reason), _) => looser.push(reason),
        }
    }
    cases
}

/// Restricts a case to requests with this value of a property.
///
/// # Errors
///
/// The reason for which no route has the condition.
fn restrict(case: &mut RouteCase, property: &RequestProperty, value: &str) -> Result<(), String> {
    match property {
        // nginx compares without regard to case, and methods are sent in upper case.
        RequestProperty::Method if value.bytes().all(|byte| byte.is_ascii_alphabetic()) => {
            case.methods.push(value.to_ascii_uppercase());
        }
        RequestProperty::Method => return Err(format!("{value:?} is no method of a route")),
        RequestProperty::Value(part) => match variables::condition(part, value) {
            Some(condition) => case.conditions.push(condition),
            None => {
                return Err(format!(
                    "a route has no condition on {}, so {value:?} is counted as any other value",
                    part.text()
                ));
            }
        },
        RequestProperty::Joined(properties) => {
            for (property, value) in properties.iter().zip(value.split(JOINT)) {
                restrict(case, property, value)?;
            }
        }
        RequestProperty::Client => {}
    }
    Ok(())
}

/// Cases by blocks of the client's address.
fn clients(choices: &[ValueChoice<Vec<String>>]) -> Vec<RouteCase> {
    let mut blocks: Vec<IpNet> = choices
        .iter()
        .flat_map(|choice| &choice.cases)
        .filter_map(|(block, _)| addresses::network(block))
        .collect();
    blocks.sort();
    blocks.dedup();
    let default = limits(choices, |choice| &choice.default);
    let tables = choices.iter().map(|choice| CaseTable {
        cases: (choice.cases.iter())
            .filter_map(|(block, names)| Some((addresses::network(block)?, names)))
            .collect(),
        default: &choice.default,
    });
    let tables: Vec<CaseTable<'_, IpNet>> = tables.collect();
    let of_block = |block: &IpNet| {
        each_once(tables.iter().map(|table| {
            let longest = addresses::around(block).find_map(|it| table.cases.get(&it).copied());
            longest.unwrap_or(table.default)
        }))
    };
    let judged: Vec<(IpNet, Vec<String>)> = blocks
        .iter()
        .map(|block| (*block, of_block(block)))
        .collect();
    let mut cases: Vec<RouteCase> = Vec::new();
    for (_, limits) in &judged {
        if *limits == default || cases.iter().any(|case| case.limits == *limits) {
            continue;
        }
        let mut client = Vec::new();
        let own = judged.iter().filter(|(_, others)| others == limits);
        let own: BTreeSet<IpNet> = own.map(|(block, _)| *block).collect();
        for (block, _) in &judged {
            if own.contains(block) {
                client.push(addresses::written(block));
            } else if addresses::is_in(block, &own) {
                client.push(format!("!{}", addresses::written(block)));
            }
        }
        cases.push(RouteCase {
            client,
            limits: limits.clone(),
            ..RouteCase::default()
        });
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(
        property: RequestProperty,
        cases: &[(&str, &[&str])],
        default: &[&str],
    ) -> ValueChoice<Vec<String>> {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        ValueChoice {
            property: Some(property),
            cases: cases
                .iter()
                .map(|(case, limits)| ((*case).to_owned(), names(limits)))
                .collect(),
            default: names(default),
            differences: Vec::new(),
            looser: Vec::new(),
        }
    }

    /// Goal: the longest block decides, as in `geo`. Method: an exempt block with an exception, which has an exempt address in it.
    #[test]
    fn blocks_within_blocks_are_excepted() {
        let choice = choice(
            RequestProperty::Client,
            &[
                ("10.0.0.0/8", &[]),
                ("10.1.0.0/16", &["a"]),
                ("10.1.1.1/32", &[]),
            ],
            &["a"],
        );
        let CaseList {
            cases, differences, ..
        } = combine(&[choice]);
        assert_eq!(differences, Vec::<String>::new());
        assert_eq!(cases.len(), 2);
        assert_eq!(cases[0].client, ["10.0.0.0/8", "!10.1.0.0/16", "10.1.1.1"]);
        assert!(cases[0].limits.is_empty());
        assert_eq!(cases[1].limits, ["a"]);
    }

    /// Goal: requests of one method alone are limited. Method: the others by default are not.
    #[test]
    fn methods_with_equal_limits_share_a_route() {
        let choice = choice(
            RequestProperty::Method,
            &[("POST", &["a"]), ("PUT", &["a"])],
            &[],
        );
        let cases = combine(&[choice]).cases;
        assert_eq!(cases.len(), 2);
        assert_eq!(cases[0].methods, ["POST", "PUT"]);
        assert_eq!(cases[0].limits, ["a"]);
        assert!(cases[1].limits.is_empty() && cases[1].methods.is_empty());
    }

    /// Goal: nothing is looser where it cannot be said. Method: two properties.
    #[test]
    fn a_second_property_is_not_told_apart() {
        let by_client = choice(RequestProperty::Client, &[("10.0.0.0/8", &[])], &["a"]);
        let by_method = choice(RequestProperty::Method, &[("POST", &["b"])], &[]);
        let CaseList {
            cases, differences, ..
        } = combine(&[by_client, by_method]);
        assert_eq!(differences.len(), 1);
        assert_eq!(cases[0].limits, ["b"]);
        assert_eq!(cases[1].limits, ["a", "b"]);
    }
}
