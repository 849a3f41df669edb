//! Adds expressions with a slash at their end before expressions of which the gateway takes that path too.
//!
//! For `^/v[0-9]+/otp$` the gateway takes `/v1/otp/`. Where a route that takes all such paths has a guard that the expression lacks, such
//! as a refusal of all other paths, `^/v[0-9]+/otp/$` does what that one does. Where no guard is lost, paths with a slash go where those
//! without it go. A guard for a part of such paths is reported, unless the routes for all of them do the same.

use std::collections::BTreeMap;

use super::SlashTable;
use crate::ledger::Ledger;
use crate::letter_case::covers;
use crate::model::{Limit, Route};
use crate::path_ends::PathEnds;
use crate::paths;
use crate::route_actions::act_alike;
use crate::route_conditions::{RouteConditions, share_listeners, takes_all};
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

    /// Returns the routes for the paths of an expression with a slash; none where it loses no guard. A guard for a part of these paths is
    /// reported, unless the routes found do what that one does.
    pub(super) fn guarded(
        &self,
        group: &ExpressionGroup<'_>,
        limits: &[Limit],
        ledger: &mut Ledger,
    ) -> Vec<Route> {
        let own: Vec<&Route> = group.routes.iter().map(|at| &self.routes[*at]).collect();
        let loses = |other: &Route, before: &[&Route]| {
            let is_lost = |at: usize| {
                let earlier = own[..at].iter().chain(before).copied();
                loses_guard(own[at], other, limits) && meet(own[at], other, earlier)
            };
            (0..own.len()).any(is_lost)
        };
        let mut found: Vec<Route> = Vec::new();
        let mut lost: Vec<&Route> = Vec::new();
        let mut loses_any = false;
        let mut before: BTreeMap<&str, Vec<&Route>> = BTreeMap::new();
        for at in self.candidates(group) {
            let other = &self.routes[at];
            let takes_paths = takes_paths(other, group);
            let place = if takes_paths { "" } else { &other.path };
            let whole = before.get("").cloned().unwrap_or_default();
            let same = before.entry(place).or_default();
            let is_lost = loses(other, &[whole.as_slice(), same].concat());
            same.push(other);
            loses_any |= is_lost;
            let copy = copy(other, group).filter(|_| takes_paths);
            lost.extend(
                Some(other).filter(|_| is_lost && copy.is_none() && !self.is_hidden(other, group)),
            );
            found.extend(copy);
            if takes_paths && takes_all(other, &[]) {
                break;
            }
        }
        if !loses_any || super::is_same(&own, &found, &group.with_slash, limits) {
            return Vec::new();
        }
        if let Some(other) = lost.iter().find(|it| !is_replaced(it, &found, group)) {
            ledger.fill_in(format!(
                "[[route]] path = \"{}\": with a slash at the end, some of these paths have guards of \"{}\"; write a route for these",
                group.first.path, other.path
            ));
            return Vec::new();
        }
        found
    }

    /// Returns true if an earlier expression takes the paths of a prefix among those of a group.
    fn is_hidden(&self, other: &Route, group: &ExpressionGroup<'_>) -> bool {
        let prefix = other.path.strip_suffix('*').unwrap_or_default();
        let tail = group.first.path.strip_prefix("~ ^.*");
        let both = tail.map(|it| format!("~ ^{}.*{it}", paths::escaped(prefix)));
        let mut earlier = self.routes[..group.routes[0]].iter();
        let all = &group.first.listeners;
        earlier.any(|it| {
            it.host == group.first.host && both.as_ref() == Some(&it.path) && takes_all(it, all)
        })
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
                && !ends_in_text(&route.path)
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

/// Returns true if no path of an expression has a slash at its end, for certain.
fn ends_in_text(path: &str) -> bool {
    let open = paths::expression(path).and_then(|it| it.strip_suffix('$'));
    let before = open.and_then(|it| it.strip_suffix(|c: char| c.is_ascii_alphanumeric()));
    before.is_some_and(|it| !it.ends_with('\\') && !paths::has_alternatives(it))
}

/// Returns true if a route takes all paths of an expression with a slash.
fn takes_paths(other: &Route, group: &ExpressionGroup<'_>) -> bool {
    let prefix = match paths::expression(&other.path) {
        Some(expression) => {
            let inner = expression.strip_prefix('^').unwrap_or_default();
            let open = inner.strip_suffix("(.*)$");
            open.or_else(|| inner.strip_suffix(".*$"))
                .and_then(paths::literal)
        }
        None => other.path.strip_suffix('*').map(str::to_owned),
    };
    prefix.is_some_and(|it| it == "/" || paths::always_begins(&group.with_slash, &it))
}

/// Returns true if routes for all paths of an expression with a slash do what another route does for a part of them.
fn is_replaced(other: &Route, found: &[Route], group: &ExpressionGroup<'_>) -> bool {
    let is_alike =
        |at: usize| act_alike(&found[at], other) || !meet(&found[at], other, &found[..at]);
    let mut all = found.iter();
    all.any(|it| takes_all(it, &group.first.listeners)) && (0..found.len()).all(is_alike)
}

/// Returns true if both routes can take a request that no earlier route takes.
fn meet<'r>(one: &Route, other: &Route, earlier: impl IntoIterator<Item = &'r Route>) -> bool {
    let earlier: Vec<RouteConditions> = earlier.into_iter().map(RouteConditions::new).collect();
    let both = RouteConditions::new(one).with(&RouteConditions::new(other));
    both.is_some_and(|it| !it.are_covered(earlier.iter()))
}

/// Returns true if requests of one route had a guard in another one, wherever both lead.
fn loses_guard(own: &Route, other: &Route, limits: &[Limit]) -> bool {
    let mut elsewhere = other.clone();
    if !other.action.is_refusal() {
        elsewhere.action = own.action.clone();
    }
    let conditions = RouteConditions::new(other);
    if RouteConditions::new(own).are_covered([&conditions].into_iter()) {
        elsewhere.client.clear();
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
