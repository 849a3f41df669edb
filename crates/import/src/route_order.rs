//! Keeps routes in the order in which the other proxy takes them.
//!
//! A translator writes the routes of a host in that order. Among expressions, and among routes with one path, the gateway prefers the route
//! with the narrower conditions, and looks at the order of the file last. So a later route for some clients, fields or methods would take
//! requests from an earlier one. The earlier route is repeated with the conditions of both: of two routes with the same conditions the
//! gateway takes the first one.
//!
//! # Invariants
//! 1. Routes are compared from the last one on, so the routes behind a route are in order by then, with those that are repeated.
//! 2. A repeated route has each condition of the later one, so its rank is at least as high, and it stands before that one.
//! 3. The later routes of the highest rank come first, so a route that is repeated for one of them is preferred to the next ones too.

use std::collections::BTreeMap;
use std::ops::Bound;

use sluicegate_base::path::PathCase;

use crate::bounds;
use crate::ledger::Ledger;
use crate::model::Route;
use crate::path_ends::PathEnds;
use crate::paths;
use crate::route_actions::act_alike;
use crate::route_conditions::{ConditionRank, RouteConditions};

/// Repeats routes from which later ones would take requests.
pub(crate) fn keep(routes: &mut Vec<Route>, ledger: &mut Ledger) {
    // Conditions and places alone decide among the expressions of a host, and among its routes with one path.
    let mut groups: BTreeMap<(Option<&str>, Option<&str>), Vec<usize>> = BTreeMap::new();
    for (at, route) in routes.iter().enumerate() {
        let path = Some(route.path.as_str()).filter(|it| paths::expression(it).is_none());
        let group = groups.entry((route.host.as_deref(), path)).or_default();
        group.push(at);
    }
    let mut repeated: BTreeMap<usize, Vec<RouteConditions>> = BTreeMap::new();
    for group in groups.into_values().filter(|it| it.len() > 1) {
        let mut order = GroupOrder::new(routes, group);
        order.repeat(ledger);
        repeated.append(&mut order.repeated);
    }
    for (at, route) in std::mem::take(routes).into_iter().enumerate() {
        for conditions in repeated.remove(&at).unwrap_or_default() {
            let mut copy = route.clone();
            conditions.set(&mut copy);
            routes.push(copy);
        }
        routes.push(route);
    }
}

/// A route, or one that is repeated, as it is compared with others.
struct RankedRoute<'r> {
    at: usize,
    route: &'r Route,
    conditions: RouteConditions,
    rank: ConditionRank,
}

impl<'r> RankedRoute<'r> {
    fn new(at: usize, route: &'r Route, conditions: RouteConditions) -> Self {
        Self {
            rank: conditions.rank(),
            at,
            route,
            conditions,
        }
    }
}

/// Routes that only their conditions and their places order.
struct GroupOrder<'r> {
    own: Vec<RankedRoute<'r>>,
    /// The places of `own` by their paths.
    places: BTreeMap<&'r str, Vec<usize>>,
    /// The ends of the paths of routes, by the numbers of the routes.
    ends: BTreeMap<usize, PathEnds>,
    /// The routes with conditions behind the current one, by their ranks.
    later: BTreeMap<ConditionRank, Vec<RankedRoute<'r>>>,
    repeated: BTreeMap<usize, Vec<RouteConditions>>,
}

impl<'r> GroupOrder<'r> {
    fn new(routes: &'r [Route], numbers: Vec<usize>) -> Self {
        let own: Vec<RankedRoute<'r>> = numbers
            .into_iter()
            .map(|at| RankedRoute::new(at, &routes[at], RouteConditions::new(&routes[at])))
            .collect();
        let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, it) in own.iter().enumerate() {
            places.entry(&it.route.path).or_default().push(place);
        }
        let ends = own.iter().map(|it| (it.at, PathEnds::new(&it.route.path)));
        Self {
            ends: ends.collect(),
            places,
            own,
            later: BTreeMap::new(),
            repeated: BTreeMap::new(),
        }
    }

    fn repeat(&mut self, ledger: &mut Ledger) {
        let mut left = bounds::REPEATED_ROUTES;
        while let Some(own) = self.own.pop() {
            let found = self.lost(&own);
            let Some(rest) = left.checked_sub(found.len()) else {
                report_lost(own.route, ledger);
                return;
            };
            left = rest;
            for conditions in &found {
                self.take(RankedRoute::new(own.at, own.route, conditions.clone()));
            }
            if !found.is_empty() {
                self.repeated.insert(own.at, found);
            }
            if own.conditions != RouteConditions::default() {
                self.take(own);
            }
        }
    }

    fn take(&mut self, route: RankedRoute<'r>) {
        self.later.entry(route.rank).or_default().push(route);
    }

    /// Returns the conditions of requests that later routes would take from a route; `own` are the routes before it.
    fn lost(&self, taken: &RankedRoute<'_>) -> Vec<RouteConditions> {
        let mut found: Vec<RouteConditions> = Vec::new();
        let preferred = (Bound::Excluded(taken.rank), Bound::Unbounded);
        let preferred = self.later.range(preferred);
        for later in preferred.rev().flat_map(|(_, routes)| routes) {
            if act_alike(taken.route, later.route)
                || !self.ends[&taken.at].may_meet(&self.ends[&later.at])
            {
                continue;
            }
            let Some(both) = taken.conditions.with(&later.conditions) else {
                continue;
            };
            if both.are_covered(found.iter()) || self.is_taken_before(taken, &both) {
                continue;
            }
            if !found.iter_mut().any(|it| it.take_clients(&both)) {
                found.push(both);
            }
        }
        found
    }

    /// Returns true if routes before another one have its path and take all of these requests.
    fn is_taken_before(&self, taken: &RankedRoute<'_>, conditions: &RouteConditions) -> bool {
        let places = self.places.get(taken.route.path.as_str());
        let earlier = places.into_iter().flatten();
        // A route that regards case leaves the other letters of its path to the routes behind it.
        let takes_letters = |it: &&RankedRoute<'_>| {
            it.route.case == PathCase::Ignored || taken.route.case == PathCase::Kept
        };
        let earlier = earlier
            .filter_map(|place| self.own.get(*place))
            .filter(takes_letters);
        conditions.are_covered(earlier.map(|it| &it.conditions))
    }
}

/// Records that later routes can take requests of a route and of those before it.
fn report_lost(route: &Route, ledger: &mut Ledger) {
    let most = bounds::REPEATED_ROUTES;
    let what = format!(
        "more than {most} routes of its host would be repeated with conditions on clients, fields or methods of later ones, which the \
         gateway prefers; write `client`, `headers`, `query` or `methods` in the routes up to path = {:?}",
        route.path
    );
    match route.remarks.sources.last() {
        Some(id) => ledger.fill_in_for(*id, &what),
        None => ledger.fill_in(format!("[[route]]: {what}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{RouteAction, RouteValue};

    fn route(path: &str, status: u16) -> Route {
        Route::new(path.to_owned(), RouteAction::empty_answer(status))
    }

    /// Returns the status of each route with its conditions, in their order.
    fn kept(mut routes: Vec<Route>) -> Vec<String> {
        keep(&mut routes, &mut Ledger::default());
        let shown = |route: &Route| {
            let values = route.values.iter().map(|it| it.name.as_str());
            let words = route.client.iter().chain(&route.methods);
            let words: Vec<&str> = words.map(String::as_str).chain(values).collect();
            match route.action {
                RouteAction::Respond { status, .. } => format!("{status} {}", words.join(" ")),
                _ => String::new(),
            }
        };
        routes.iter().map(shown).collect()
    }

    fn value(name: &str) -> RouteValue {
        RouteValue {
            key: "headers",
            name: name.to_owned(),
            value: "1".to_owned(),
        }
    }

    /// Goal: no later route takes requests from an earlier one. Method: conditions of three kinds behind expressions with and without
    /// others, routes of one path, and routes that need nothing: of another path, of another host, with the same answer.
    #[test]
    fn an_earlier_route_is_repeated_with_the_conditions_of_later_ones() {
        let all = "~ ^/a.*$";
        let office = || vec!["10.0.0.0/8".to_owned()];
        let with = |mut route: Route, edit: fn(&mut Route)| {
            edit(&mut route);
            route
        };
        let for_office = |status| Route {
            client: office(),
            ..route(all, status)
        };
        let post = |it: &mut Route| it.methods.push("POST".to_owned());
        let field = |it: &mut Route| it.values.push(value("x"));
        let inner = || route("~ ^/a/b$", 1);
        assert_eq!(
            kept(vec![inner(), for_office(2)]),
            ["1 10.0.0.0/8", "1 ", "2 10.0.0.0/8"]
        );
        assert_eq!(
            kept(vec![
                inner(),
                with(route(all, 2), field),
                with(route(all, 3), post)
            ]),
            ["1 x", "1 POST", "1 ", "2 x", "3 POST"]
        );
        assert_eq!(
            kept(vec![with(inner(), post), for_office(2)]),
            ["1 10.0.0.0/8 POST", "1 POST", "2 10.0.0.0/8"]
        );
        assert_eq!(
            kept(vec![
                with(route("/x", 1), post),
                Route {
                    path: "/x".to_owned(),
                    ..for_office(2)
                }
            ]),
            ["1 10.0.0.0/8 POST", "1 POST", "2 10.0.0.0/8"]
        );
        let slot = |it: &mut Route| it.response_fields.set_value("x", "{path.1}");
        let with_slot = kept(vec![with(inner(), slot), with(for_office(1), slot)]);
        assert_eq!(with_slot.len(), 3);
        let elsewhere = Route {
            host: Some("a.test".to_owned()),
            ..for_office(2)
        };
        for other in [
            for_office(1),
            route(all, 2),
            elsewhere,
            Route {
                path: "~ ^/c$".to_owned(),
                ..for_office(2)
            },
        ] {
            assert_eq!(kept(vec![inner(), other]).len(), 2);
        }
    }

    /// Goal: a route is repeated for all clients of later ones, and for no others. Method: clients of a later route within those of another
    /// one, clients of two blocks of one size, and a route behind others of its path that take the clients together.
    #[test]
    fn a_route_is_repeated_for_the_clients_of_later_ones() {
        let for_clients = |blocks: &str, path: &str, status| Route {
            client: blocks.split(' ').map(str::to_owned).collect(),
            ..route(path, status)
        };
        let inner = "~ ^/a/b$";
        let all = "~ ^/a.*$";
        let mut routes = vec![
            route(inner, 1),
            for_clients("10.1.0.0/16", all, 2),
            for_clients("10.0.0.0/8", all, 3),
            for_clients("11.0.0.0/8", all, 3),
        ];
        assert_eq!(
            kept(routes.clone()),
            [
                "1 10.1.0.0/16",
                "1 11.0.0.0/8 10.0.0.0/8",
                "1 ",
                "2 10.1.0.0/16",
                "3 10.0.0.0/8",
                "3 11.0.0.0/8"
            ]
        );
        routes.pop();
        routes.insert(0, for_clients("10.0.0.0/8 !10.1.0.0/16", inner, 4));
        routes.insert(1, for_clients("10.1.0.0/16", inner, 5));
        assert_eq!(kept(routes).len(), 5);
    }

    /// Goal: a route that regards case spares no other one of its path a repetition. Method: a route for the clients of a later one before
    /// the same path with regard to case, and without.
    #[test]
    fn a_route_that_regards_case_takes_the_letters_of_its_path_alone() {
        let for_office = |path: &str, status, case| Route {
            client: vec!["10.0.0.0/8".to_owned()],
            case,
            ..route(path, status)
        };
        let inner = "~ ^/a/b$";
        for (case, repeated) in [(PathCase::Kept, 4), (PathCase::Ignored, 3)] {
            let routes = vec![
                for_office(inner, 1, case),
                Route {
                    case: PathCase::Ignored,
                    ..route(inner, 2)
                },
                for_office("~ ^/a.*$", 3, PathCase::Ignored),
            ];
            assert_eq!(kept(routes).len(), repeated);
        }
    }
}
