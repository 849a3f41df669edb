//! Removes the cells that need no route of their own, since the route that the gateway takes in their place gives the same.
//!
//! # Invariants
//!
//! 1. Cells are in the order in which the gateway takes their routes: the more specific host, then the more specific path, then the order
//!    in which requests were divided. `route_order` keeps it where the gateway prefers the narrower conditions of a later route.
//! 2. A cell is compared with those that the gateway would prefer less, which are final by then; so cells are removed from the back.

use std::collections::{BTreeMap, BTreeSet};

use super::division::RequestCell;
use super::terms::PathTerm;
use crate::closed_hosts;
use crate::model::RouteValue;

/// A cell with what the rules give in it.
type CellResult<T> = (RequestCell, T);

/// Returns the cells that need a route, in the order in which the gateway prefers them.
pub(crate) fn needed<T: PartialEq>(cells: Vec<CellResult<T>>) -> Vec<CellResult<T>> {
    let mut groups: Vec<Vec<CellResult<T>>> = Vec::new();
    for (cell, result) in cells {
        // Cells of one host stand together.
        match groups.last_mut() {
            Some(group) if group[0].0.host == cell.host => group.push((cell, result)),
            _ => groups.push(vec![(cell, result)]),
        }
    }
    // Exact hosts, then hosts below one from the longest name to the shortest, then all others.
    groups.sort_by_key(|group| std::cmp::Reverse(host_rank(group[0].0.host.as_deref())));
    for group in &mut groups {
        let depths = depths(group.iter().map(|(cell, _)| cell));
        group.sort_by_key(|(cell, _)| std::cmp::Reverse(path_rank(cell.path.as_ref(), &depths)));
    }
    // From the back, so all wider hosts are final where a host is compared with them.
    let mut reduced_groups: BTreeMap<Option<String>, Vec<CellResult<T>>> = BTreeMap::new();
    let hosts: Vec<Option<String>> = groups.iter().map(|it| it[0].0.host.clone()).collect();
    while let Some(group) = groups.pop() {
        let host = group[0].0.host.clone();
        let wider = closed_hosts::around(host.as_deref()).filter(|it| *it != host);
        let behind = wider.filter_map(|it| reduced_groups.get(&it)).flatten();
        let behind: Vec<&CellResult<T>> = behind.collect();
        let kept = reduced(group, &behind);
        reduced_groups.insert(host, kept);
    }
    let ordered = hosts.iter().filter_map(|it| reduced_groups.remove(it));
    ordered.flatten().collect()
}

/// Removes the cells of one host that need no route; `behind` are those of wider hosts, in the order in which the gateway prefers them.
fn reduced<T: PartialEq>(
    mut group: Vec<CellResult<T>>,
    behind: &[&CellResult<T>],
) -> Vec<CellResult<T>> {
    // From the back, so the cells of `kept` are those that the gateway prefers less, the last one first.
    let mut kept: Vec<CellResult<T>> = Vec::new();
    while let Some((cell, result)) = group.pop() {
        // The cells of the same host that are still in the group come first for the requests that they take.
        let reached: Vec<&CellResult<T>> = (behind.iter().copied())
            .filter(|(other, _)| {
                takes(other, &cell) || !group.iter().any(|(own, _)| takes(own, other))
            })
            .collect();
        if !is_needless((&cell, &result), &kept, &reached) {
            kept.push((cell, result));
        }
    }
    kept.reverse();
    kept
}

/// Returns true if the gateway does the same without a cell: the next route that takes all of its requests gives the same, and no route
/// before that one takes a part of them and gives something else.
fn is_needless<T: PartialEq>(
    (cell, result): (&RequestCell, &T),
    kept: &[CellResult<T>],
    behind: &[&CellResult<T>],
) -> bool {
    for (other, other_result) in kept.iter().rev().chain(behind.iter().copied()) {
        let is_same = other_result == result;
        if takes(other, cell) {
            return is_same;
        }
        if !is_same && overlaps(other, cell) {
            return false;
        }
    }
    false
}

/// Returns the prefixes of paths that routes have as expressions: those that end within a segment, and those whose paths an expression
/// takes too, which would come before the prefix.
pub(crate) fn open_prefixes<'c>(cells: impl Iterator<Item = &'c RequestCell>) -> Vec<String> {
    let terms: BTreeSet<&PathTerm> = cells.filter_map(|it| it.path.as_ref()).collect();
    let is_pattern = |it: &&&PathTerm| matches!(it, PathTerm::Beginning(_) | PathTerm::Exact(_));
    let expressions: Vec<&PathTerm> = terms.iter().filter(|it| !is_pattern(it)).copied().collect();
    let is_taken = |path: &PathTerm| expressions.iter().any(|it| it.covers(path));
    let prefixes = terms.iter().copied().filter_map(|path| match path {
        PathTerm::Beginning(text) if !text.ends_with('/') || is_taken(path) => Some(text.clone()),
        _ => None,
    });
    prefixes.collect()
}

/// Returns true if the route of a path is an expression. So is each prefix below an expression of the same host, since expressions come
/// before prefixes.
pub(crate) fn is_expression(path: Option<&PathTerm>, open_prefixes: &[String]) -> bool {
    match path {
        None | Some(PathTerm::Exact(_)) => false,
        Some(PathTerm::Beginning(text)) => open_prefixes.iter().any(|it| text.starts_with(it)),
        Some(_) => true,
    }
}

/// Returns true if a cell takes all requests of another one, whose host it takes.
fn takes(own: &RequestCell, other: &RequestCell) -> bool {
    let path = match (&own.path, &other.path) {
        (None, _) => true,
        (Some(own), Some(other)) => own.covers(other),
        (Some(_), None) => false,
    };
    path && (own.client.is_none() || own.client == other.client)
        && own.values.iter().all(|value| other.values.contains(value))
        && (own.method.is_none() || own.method == other.method)
}

/// Returns true if a request could be in both cells, were there no other cells.
fn overlaps(one: &RequestCell, other: &RequestCell) -> bool {
    let paths = match (&one.path, &other.path) {
        (Some(one), Some(other)) => one.overlaps(other),
        _ => true,
    };
    let is_other = |value: &RouteValue| {
        let mut others = other.values.iter();
        let is_same = |it: &RouteValue| it.key == value.key && it.name == value.name;
        others.any(|it| {
            is_same(it) && it.value != value.value && it.value != "*" && value.value != "*"
        })
    };
    paths
        && !one.values.iter().any(is_other)
        && methods_overlap(one.method.as_deref(), other.method.as_deref())
}

/// Returns true if routes for these methods can take the same requests: one for GET takes HEAD too.
fn methods_overlap(one: Option<&[String]>, other: Option<&[String]>) -> bool {
    let (Some(one), Some(other)) = (one, other) else {
        return true;
    };
    let has = |methods: &[String], method: &str| methods.iter().any(|it| it == method);
    one.iter().any(|method| has(other, method))
        || (has(one, "GET") && has(other, "HEAD"))
        || (has(one, "HEAD") && has(other, "GET"))
}

/// Returns the order by which the gateway prefers hosts; greater goes first.
fn host_rank(host: Option<&str>) -> (u8, usize) {
    match host {
        None => (0, 0),
        Some(host) if host.starts_with('*') => (1, host.len()),
        Some(_) => (2, 0),
    }
}

/// Most expressions of one host that are compared with each other.
const COMPARED_EXPRESSIONS: usize = 1024;

/// Returns, for each path that a route has as an expression, the number of those that take all of its requests: the file has the narrower
/// expression first.
fn depths<'c>(cells: impl Iterator<Item = &'c RequestCell> + Clone) -> BTreeMap<PathTerm, usize> {
    let open_prefixes = open_prefixes(cells.clone());
    let terms: BTreeSet<&PathTerm> = cells.filter_map(|it| it.path.as_ref()).collect();
    let expressions: Vec<&PathTerm> = terms
        .into_iter()
        .filter(|it| is_expression(Some(it), &open_prefixes))
        .collect();
    let depth = |path: &PathTerm| match path {
        PathTerm::Beginning(text) if expressions.len() > COMPARED_EXPRESSIONS => text.len(),
        _ if expressions.len() > COMPARED_EXPRESSIONS => 0,
        path => expressions.iter().filter(|it| it.covers(path)).count(),
    };
    let depths = expressions
        .iter()
        .map(|path| ((*path).clone(), depth(path)));
    depths.collect()
}

/// Returns the order by which the gateway prefers the paths of one host; greater goes first.
fn path_rank(path: Option<&PathTerm>, depths: &BTreeMap<PathTerm, usize>) -> (u8, usize) {
    let depth = path.and_then(|it| depths.get(it));
    match (path, depth) {
        (None, _) => (0, 0),
        (Some(PathTerm::Exact(_)), _) => (3, 0),
        (Some(PathTerm::Beginning(text)), None) => (1, text.len()),
        (Some(_), depth) => (2, depth.copied().unwrap_or(0)),
    }
}

/// Returns, for requests that two routes of one host take, the paths of both where the gateway takes the first one and `loses` says that
/// a rule of the second one is lost by that.
pub(crate) fn lost_overlaps<T>(
    cells: &[CellResult<T>],
    loses: impl Fn(&T, &T) -> bool,
) -> Vec<(&PathTerm, &PathTerm)> {
    let mut found = Vec::new();
    for (at, (first, result)) in cells.iter().enumerate() {
        let Some(path) = first
            .path
            .as_ref()
            .filter(|it| is_expression(Some(it), &[]))
        else {
            continue;
        };
        let same_host = cells[at + 1..]
            .iter()
            .take_while(|(it, _)| it.host == first.host);
        for (second, second_result) in same_host {
            let Some(other) = &second.path else { continue };
            let is_nested = path.covers(other) || other.covers(path);
            if !is_nested
                && overlaps(first, second)
                && loses(result, second_result)
                && !found.contains(&(path, other))
            {
                found.push((path, other));
            }
        }
    }
    found
}
