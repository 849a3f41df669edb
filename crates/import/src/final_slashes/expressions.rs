//! Adds expressions with a slash at their end before expressions of which the gateway takes that path too.
//!
//! For `^/v[0-9]+/otp$` the gateway takes `/v1/otp/`. Where a route that takes all such paths has a guard that the expression lacks, such
//! as a refusal of all other paths, `^/v[0-9]+/otp/$` does what that one does. Where no guard is lost, paths with a slash go where those
//! without it go.

use std::collections::BTreeMap;

use super::SlashTable;
use crate::letter_case::covers;
use crate::model::{Limit, Route};
use crate::path_ends::PathEnds;
use crate::paths;
use crate::route_conditions::{share_listeners, takes_all};
use crate::slots;

/// The routes of an expression whose paths have no slash at their end.
pub(super) struct ExpressionGroup<'r> {
    first: &'r Route,
    /// The expression over its paths with a slash, without a mark.
    with_slash: String,
    ends: PathEnds,
    /// The numbers of the routes.
    pub(super) routes: Vec<usize>,
}

impl ExpressionGroup<'_> {
    pub(super) fn host(&self) -> Option<&str> {
        self.first.host.as_deref()
    }
}

impl<'r> SlashTable<'r> {
    /// Returns the expressions whose paths have no slash at their end.
    pub(super) fn expressions(&self) -> Vec<ExpressionGroup<'r>> {
        let mut groups: BTreeMap<(Option<&str>, &[String], &str), ExpressionGroup<'r>> =
            BTreeMap::new();
        for (at, route) in self.routes.iter().enumerate() {
            let Some(with_slash) = self.with_slash(at) else {
                continue;
            };
            let key = (
                route.host.as_deref(),
                route.listeners.as_slice(),
                route.path.as_str(),
            );
            let group = groups.entry(key).or_insert_with(|| ExpressionGroup {
                first: route,
                ends: PathEnds::new(&format!("~ {with_slash}")),
                with_slash,
                routes: Vec::new(),
            });
            group.routes.push(at);
        }
        groups.into_values().collect()
    }

    /// Returns the expression over the paths of a route with a slash; `None` where these are its own, or the path is text.
    fn with_slash(&self, at: usize) -> Option<String> {
        let route = &self.routes[at];
        let expression = paths::expression(&route.path)?;
        let open = expression
            .strip_suffix('$')
            .filter(|it| !it.ends_with('\\'))?;
        let path = self.paths[at].as_ref()?;
        let longer = format!("{}/", path.sample());
        let is_own =
            path.takes_as_written(&longer, route.case) || super::exact_path(route).is_some();
        (!is_own).then(|| format!("{open}/$"))
    }

    /// Returns the routes for the paths of an expression with a slash; none where it loses no guard, or where other routes take a part of
    /// these paths: each of them is taken without the slash too.
    pub(super) fn guarded(&self, group: &ExpressionGroup<'_>, limits: &[Limit]) -> Vec<Route> {
        let own: Vec<&Route> = group.routes.iter().map(|at| &self.routes[*at]).collect();
        let loses = |other: &Route| own.iter().any(|it| loses_guard(it, other, limits));
        let mut found = Vec::new();
        for at in self.candidates(group) {
            let other = &self.routes[at];
            match (takes_paths(other, group), loses(other)) {
                (true, _) => found.extend(copy(other, group)),
                (false, true) => return Vec::new(),
                (false, false) => continue,
            }
            if takes_all(other, &[]) {
                break;
            }
        }
        let loses_none = !found.iter().any(loses);
        match loses_none || super::is_same(&own, &found, &group.with_slash, limits) {
            true => Vec::new(),
            false => found,
        }
    }

    /// Returns the routes that may take the paths of an expression with a slash, in the order in which the gateway prefers them.
    fn candidates(&self, group: &ExpressionGroup<'_>) -> Vec<usize> {
        let first = group.routes[0];
        let hosts = self.around(group.host());
        let all = hosts.into_iter().flat_map(|host| {
            let expressions = host.expressions.iter().copied();
            expressions.chain(host.all_prefixes.iter().copied())
        });
        let is_behind = |at: &usize| {
            let route = &self.routes[*at];
            let is_earlier = *at < first && route.host == group.first.host;
            let is_earlier = is_earlier && paths::expression(&route.path).is_some();
            !is_earlier
                && !group.routes.contains(at)
                && share_listeners(&group.first.listeners, &route.listeners)
                && self.ends[*at].may_meet(&group.ends)
        };
        all.filter(is_behind).collect()
    }
}

/// Returns the ends of the paths of routes, if a path is an expression.
pub(super) fn all_ends(routes: &[Route]) -> Vec<PathEnds> {
    let has_expressions = routes
        .iter()
        .any(|it| paths::expression(&it.path).is_some());
    let compared = routes.iter().filter(|_| has_expressions);
    compared.map(ends).collect()
}

/// Returns the ends of the path of a route.
fn ends(route: &Route) -> PathEnds {
    match route.path.strip_suffix('*') {
        Some(prefix) => PathEnds::new(&format!("~ ^{}.*$", paths::escaped(prefix))),
        None => PathEnds::new(&route.path),
    }
}

/// Returns true if a route takes all paths of an expression with a slash.
fn takes_paths(other: &Route, group: &ExpressionGroup<'_>) -> bool {
    let prefix = other
        .path
        .strip_suffix('*')
        .filter(|it| it.starts_with('/'));
    prefix.is_some_and(|it| it == "/" || paths::always_begins(&group.with_slash, it))
}

/// Returns true if requests of one route had a guard in another one, wherever both lead.
fn loses_guard(own: &Route, other: &Route, limits: &[Limit]) -> bool {
    let mut elsewhere = other.clone();
    if !other.action.is_refusal() {
        elsewhere.action = own.action.clone();
    }
    !covers(own, &elsewhere, limits)
}

/// Returns a route that does what another one does, for an expression with a slash; `None` where it needs a part of the path.
fn copy(other: &Route, group: &ExpressionGroup<'_>) -> Option<Route> {
    let mut copy = other.clone();
    slots::fill(&mut copy, |_| None).ok()?;
    let path = paths::checked(group.with_slash.clone()).ok()?;
    Some(super::placed(copy, path, group.first))
}
