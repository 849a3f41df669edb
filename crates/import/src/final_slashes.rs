//! Keeps paths apart that differ in a slash at their end.
//!
//! The gateway takes `/x/` for `/x`, as most origins do, and a limit must hold for both. Other proxies tell them apart: beside
//! `location = /x`, requests for `/x/` belong to another location. Where the route of `/x` leads elsewhere than that one, or lacks a guard
//! of it, `/x/` gets routes that do what the routes do that would take it. It does not where `/x` is stricter at most.

mod expressions;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use sluicegate_base::path::NormalPath;

use crate::bounds;
use crate::closed_hosts;
use crate::ledger::Ledger;
use crate::letter_case::{RoutePath, covers};
use crate::model::{Limit, Route, RouteAction};
use crate::path_ends::PathEnds;
use crate::paths;
use crate::route_actions::act_alike;
use crate::route_conditions::{RouteConditions, both_names, share_listeners, takes_all};
use crate::slots;

/// Adds routes for paths with a slash at their end that the route of the path without it would take.
pub(crate) fn keep_apart(routes: &mut Vec<Route>, limits: &[Limit], ledger: &mut Ledger) {
    if routes.iter().all(|it| it.path.ends_with('*')) {
        return;
    }
    keep_within(SlashBudget::new(), routes, limits, ledger);
}

fn keep_within(
    mut budget: SlashBudget,
    routes: &mut Vec<Route>,
    limits: &[Limit],
    ledger: &mut Ledger,
) {
    let mut added: BTreeMap<usize, Vec<Route>> = BTreeMap::new();
    let table = SlashTable::new(routes);
    for group in table.groups() {
        let compared = table.count(group.host, |host| host.expressions.len());
        let found = match budget.compares(compared) {
            true => table.apart(&group, limits, ledger),
            false => Vec::new(),
        };
        if let Some(last) = group.routes.last().filter(|_| budget.takes(&found)) {
            added.insert(*last, found);
        }
    }
    let mut before: BTreeMap<usize, Vec<Route>> = BTreeMap::new();
    for group in table.expressions() {
        let all = |host: &HostRoutes| host.expressions.len() + host.all_prefixes.len();
        let found = match budget.compares(table.count(group.host(), all)) {
            true => table.guarded(&group, limits, ledger),
            false => Vec::new(),
        };
        if budget.takes(&found) {
            before.insert(group.routes[0], found);
        }
    }
    if budget.is_exceeded {
        ledger.fill_in(TOO_MANY);
    }
    for (at, route) in std::mem::take(routes).into_iter().enumerate() {
        routes.extend(before.remove(&at).into_iter().flatten());
        routes.push(route);
        routes.extend(added.remove(&at).into_iter().flatten());
    }
}

/// The routes that are compared and added.
struct SlashBudget {
    comparisons: usize,
    routes: usize,
    is_exceeded: bool,
}

impl SlashBudget {
    fn new() -> Self {
        Self {
            comparisons: bounds::COMPARISONS_OF_SLASHES,
            routes: bounds::ROUTES_WITH_SLASHES,
            is_exceeded: false,
        }
    }

    /// Returns true if a path may be compared with this number of routes.
    fn compares(&mut self, compared: usize) -> bool {
        match self.comparisons.checked_sub(compared) {
            Some(left) => self.comparisons = left,
            None => self.is_exceeded = true,
        }
        !self.is_exceeded
    }

    /// Returns true if routes may be added.
    fn takes(&mut self, found: &[Route]) -> bool {
        match self.routes.checked_sub(found.len()) {
            Some(left) => self.routes = left,
            None => self.is_exceeded = true,
        }
        !self.is_exceeded && !found.is_empty()
    }
}

/// Why some paths have no routes of their own.
const TOO_MANY: &str = "[[route]]: the gateway takes a path with a slash at the end for the path without it, and there are too many to \
                        compare or to write; write routes with a slash for those that have to be limited";

/// The routes of a path without a slash at its end.
struct ExactGroup<'r> {
    host: Option<&'r str>,
    listeners: &'r [String],
    path: String,
    /// The path with a slash at its end, in normal form.
    asked: String,
    /// The numbers of the routes.
    routes: Vec<usize>,
}

/// The routes of a host by the kinds of their paths, each with its number.
#[derive(Default)]
struct HostRoutes {
    /// By paths in lower case.
    exact: BTreeMap<String, Vec<usize>>,
    expressions: Vec<usize>,
    /// By paths in lower case, without the star.
    prefixes: BTreeMap<String, Vec<usize>>,
    /// The same, the longer ones first.
    all_prefixes: Vec<usize>,
}

impl HostRoutes {
    fn add(&mut self, at: usize, route: &Route) {
        let path = route.path.to_ascii_lowercase();
        if paths::expression(&route.path).is_some() {
            self.expressions.push(at);
        } else if let Some(prefix) = path.strip_suffix('*') {
            self.prefixes.entry(prefix.to_owned()).or_default().push(at);
            self.all_prefixes.push(at);
        } else {
            self.exact.entry(path).or_default().push(at);
        }
    }

    /// Returns the routes that may take a path, in the order in which the gateway prefers them.
    fn candidates(&self, asked: &str) -> Vec<usize> {
        let asked = asked.to_ascii_lowercase();
        let mut found = self.exact.get(&asked).cloned().unwrap_or_default();
        found.extend(&self.expressions);
        let slashes = asked.rmatch_indices('/').map(|(at, _)| &asked[..=at]);
        let prefixes = slashes.filter_map(|it| self.prefixes.get(it));
        found.extend(prefixes.flatten());
        found
    }
}

struct SlashTable<'r> {
    routes: &'r [Route],
    paths: Vec<Option<RoutePath>>,
    /// The ends of the paths of routes; empty where no path is an expression.
    ends: Vec<PathEnds>,
    hosts: BTreeMap<Option<String>, HostRoutes>,
}

impl<'r> SlashTable<'r> {
    fn new(routes: &'r [Route]) -> Self {
        let mut hosts: BTreeMap<Option<String>, HostRoutes> = BTreeMap::new();
        for (at, route) in routes.iter().enumerate() {
            let host = hosts.entry(route.host.clone()).or_default();
            host.add(at, route);
        }
        for host in hosts.values_mut() {
            let prefixes = &mut host.all_prefixes;
            prefixes.sort_by_key(|at| Reverse(routes[*at].path.len()));
        }
        Self {
            paths: routes.iter().map(RoutePath::new).collect(),
            ends: expressions::all_ends(routes),
            routes,
            hosts,
        }
    }

    /// Returns the groups of routes that take a path with a slash too.
    fn groups(&self) -> Vec<ExactGroup<'r>> {
        let mut groups: BTreeMap<(Option<&str>, &[String], String), ExactGroup<'r>> =
            BTreeMap::new();
        for (at, route) in self.routes.iter().enumerate() {
            let Some(path) = exact_path(route) else {
                continue;
            };
            let host = route.host.as_deref();
            let listeners = route.listeners.as_slice();
            let key = (host, listeners, path.clone());
            let group = groups.entry(key).or_insert_with(|| ExactGroup {
                host,
                listeners,
                asked: with_slash(&path),
                path,
                routes: Vec::new(),
            });
            group.routes.push(at);
        }
        groups.into_values().collect()
    }

    /// Returns the routes that take a path as it is written, in the order in which the gateway prefers them, up to one that always does.
    fn takers(&self, group: &ExactGroup<'_>) -> Vec<usize> {
        let mut found = Vec::new();
        for host in self.around(group.host) {
            for at in host.candidates(&group.asked) {
                let route = &self.routes[at];
                let path = self.paths[at].as_ref();
                if !path.is_some_and(|it| it.takes_as_written(&group.asked, route.case))
                    || !share_listeners(group.listeners, &route.listeners)
                {
                    continue;
                }
                found.push(at);
                if takes_all(route, group.listeners) {
                    return found;
                }
            }
        }
        found
    }

    /// Returns the routes of a host and of the hosts around it, the narrower ones first.
    fn around(&self, host: Option<&str>) -> Vec<&HostRoutes> {
        let all = closed_hosts::around(host);
        all.filter_map(|it| self.hosts.get(&it)).collect()
    }

    /// Returns the number of routes of a host, and of the hosts around it, that are compared with one of its paths.
    fn count(&self, host: Option<&str>, count: fn(&HostRoutes) -> usize) -> usize {
        let around = self.around(host).into_iter();
        around.map(|it| count(it) + 1).sum()
    }

    /// Returns the routes for a path with a slash; none where they make no difference, or no other route takes it.
    fn apart(&self, group: &ExactGroup<'_>, limits: &[Limit], ledger: &mut Ledger) -> Vec<Route> {
        let takers = self.takers(group);
        let mut copies = Vec::new();
        for at in &takers {
            match self.copy(*at, group) {
                Ok(copy) => copies.push(copy),
                Err(reason) => {
                    ledger.fill_in(format!("[[route]] path = \"{}/\": {reason}", group.path));
                    return Vec::new();
                }
            }
        }
        let own: Vec<&Route> = group.routes.iter().map(|at| &self.routes[*at]).collect();
        if copies.is_empty() || is_same(&own, &copies, &group.asked, limits) {
            return Vec::new();
        }
        // A route that has the path itself stays where it is.
        let is_written = |at: usize| {
            let route = &self.routes[at];
            route.host.as_deref() == group.host && exact_text(route).is_some()
        };
        let copies = takers.iter().zip(copies);
        let copies = copies.filter(|(at, _)| !is_written(**at));
        let mut found: Vec<Route> = copies.map(|(_, copy)| copy).collect();
        let last = takers.last();
        if last.is_some_and(|at| !takes_all(&self.routes[*at], group.listeners)) {
            found.push(self.closing(group));
        }
        found
    }

    /// Returns the route for requests that no route takes.
    fn closing(&self, group: &ExactGroup<'_>) -> Route {
        let own = &self.routes[group.routes[0]];
        let closing = closed_hosts::closing_route(group.host.unwrap_or_default());
        let mut route = placed(closing, format!("{}/", group.path), own);
        route.remarks.sources.clone_from(&own.remarks.sources);
        route
    }

    /// Returns a route for the path of a group with a slash, which does what another one does.
    fn copy(&self, at: usize, group: &ExactGroup<'_>) -> Result<Route, String> {
        let mut copy = self.routes[at].clone();
        let case = copy.case;
        let path = self.paths[at].as_ref();
        slots::fill(&mut copy, |name| path?.slot(&group.asked, case, name))?;
        let own = &self.routes[group.routes[0]];
        Ok(placed(copy, format!("{}/", group.path), own))
    }
}

/// Returns a route with another path, for the requests of this path that come to the host and the listeners of `own`.
fn placed(mut route: Route, path: String, own: &Route) -> Route {
    route.path = path;
    route.host.clone_from(&own.host);
    route.case = own.case;
    if let Some(both) = both_names(&own.listeners, &route.listeners) {
        route.listeners = both;
    }
    route
}

/// Returns the path of a route that is text alone.
fn exact_text(route: &Route) -> Option<&str> {
    let path = Some(route.path.as_str());
    path.filter(|it| it.starts_with('/') && !it.contains(['*', '{']))
}

/// Returns the path of a route that takes it with a slash at the end too: a text, or an expression that is one.
fn exact_path(route: &Route) -> Option<String> {
    let text = match paths::expression(&route.path) {
        Some(expression) => {
            let inner = expression.strip_prefix('^')?.strip_suffix('$')?;
            paths::literal(inner).filter(|it| !it.contains(['*', '{', '}', '?', '#', ';']))?
        }
        None => exact_text(route)?.to_owned(),
    };
    (text.starts_with('/') && !text.ends_with('/')).then_some(text)
}

/// Returns a path with a slash at its end, in normal form.
fn with_slash(path: &str) -> String {
    let normal = NormalPath::parse(path).map(|it| format!("{}/", it.as_str()));
    normal.unwrap_or_else(|_| format!("{path}/"))
}

/// Returns true if the routes of a path do with the path behind a slash what others do, or are stricter.
fn is_same(own: &[&Route], others: &[Route], asked: &str, limits: &[Limit]) -> bool {
    let own: Vec<Route> = own.iter().map(|it| with_sent_path(it, asked)).collect();
    let others: Vec<Route> = others.iter().map(|it| with_sent_path(it, asked)).collect();
    let is_equal = |(one, other): (&Route, &Route)| {
        RouteConditions::new(one) == RouteConditions::new(other) && act_alike(one, other)
    };
    (own.len() == others.len() && own.iter().zip(&others).all(is_equal))
        || own
            .iter()
            .all(|one| others.iter().all(|other| covers(one, other, limits)))
}

/// Returns a route with the path that an origin gets as its `rewrite`.
fn with_sent_path(route: &Route, asked: &str) -> Route {
    let mut found = route.clone();
    found.path = asked.to_owned();
    if let RouteAction::Forward {
        strip_prefix,
        rewrite,
        ..
    } = &mut found.action
    {
        let rest = strip_prefix
            .take()
            .and_then(|it| asked.strip_prefix(it.as_str()).map(str::to_owned));
        let sent = rest.unwrap_or_else(|| asked.to_owned());
        rewrite.get_or_insert(sent);
    }
    found
}

#[cfg(test)]
mod tests {
    use sluicegate_base::path::PathCase;

    use super::*;

    fn route(path: &str, status: u16) -> Route {
        Route::new(path.to_owned(), RouteAction::empty_answer(status))
    }

    /// Returns the routes of `/x/`, each with its listener, its method and its status.
    fn found(mut routes: Vec<Route>) -> Vec<String> {
        keep_apart(&mut routes, &[], &mut Ledger::default());
        let own = routes.iter().filter(|it| it.path == "/x/");
        let shown = own.map(|it| match it.action {
            RouteAction::Respond { status, .. } => {
                format!("{}{} {status}", it.listeners.concat(), it.methods.concat())
            }
            _ => String::new(),
        });
        shown.collect()
    }

    /// Goal: `/x/` has the routes that take it in their order. Method: a route of it for a method, an expression for another, a prefix, a
    /// route of a wider host; none for the rest; listeners; a route that is stricter, and one that nothing else takes.
    #[test]
    fn a_path_with_a_slash_has_the_routes_that_take_it() {
        let with = |mut route: Route, method: &str| {
            route.methods.push(method.to_owned());
            route
        };
        let own = || route("/x", 200);
        let own_slash = || with(route("/x/", 201), "PUT");
        let expression = || with(route("~ ^/x/.*$", 202), "POST");
        let of_host = |mut route: Route| {
            route.host = Some("a.test".to_owned());
            route
        };
        assert_eq!(
            found(vec![own(), own_slash(), expression(), route("/*", 203)]),
            ["POST 202", " 203", "PUT 201"]
        );
        assert_eq!(found(vec![own(), expression()]), ["POST 202", " 404"]);
        assert_eq!(found(vec![of_host(own()), route("/*", 203)]), [" 203"]);
        assert_eq!(
            found(vec![route("~ ^/x$", 200), route("/*", 203)]),
            [" 203"]
        );
        let mut at_a = own();
        at_a.listeners.push("a".to_owned());
        let mut elsewhere = route("/*", 204);
        elsewhere.listeners.push("b".to_owned());
        assert_eq!(found(vec![at_a, elsewhere, route("/*", 203)]), ["a 203"]);
        assert!(found(vec![route("/x", 403), route("/*", 203)]).is_empty());
        assert!(found(vec![own(), route("/*", 200), route("/y", 203)]).is_empty());
        assert!(found(vec![own()]).is_empty());
        let folded = Route {
            case: PathCase::Ignored,
            ..route("/X/*", 203)
        };
        assert_eq!(found(vec![own(), folded]), [" 203"]);
    }
    /// Goal: prefixes are among what is compared, and what is not compared is said. Method: an expression beside more prefixes than may be
    /// compared.
    #[test]
    fn more_routes_than_are_compared_are_reported() {
        let reported = |comparisons| {
            let mut routes = vec![route("~ ^/x[0-9]$", 200)];
            routes.extend((0..20).map(|i| route(&format!("/p{i}/*"), 403)));
            let budget = SlashBudget {
                comparisons,
                ..SlashBudget::new()
            };
            let mut ledger = Ledger::default();
            keep_within(budget, &mut routes, &[], &mut ledger);
            ledger.to_fill_in().to_vec()
        };
        assert_eq!(reported(21), [TOO_MANY]);
        assert!(reported(22).is_empty());
    }
}
