//! Gives scripts that serve a folder routes of their own.
//!
//! Applications take `/index.php` for the root, and `/blog/index.php` for `/blog/` too. So the gateway answers 400 to such a path where the
//! route of the folder treats requests otherwise, unless the route of the path has text alone (docs/paths.md). An expression such as
//! `~ \.php$` takes these paths beside others, so that the script of each folder that a location names gets a copy of its route.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use sluicegate_base::path::{FRONT_CONTROLLERS, NormalPath, PathCase, SCRIPT_ENDINGS};

use super::jumps::JumpTable;
use super::location_block::{LocationBlock, LocationMatch, is_prefix};
use super::location_index::LocationIndex;
use super::locations::PlacedLocation;
use crate::ledger::{EntryId, Ledger};
use crate::letter_case::RoutePath;
use crate::model::{Route, RouteAction};
use crate::paths;
use crate::slots;

/// A location with the numbers of its routes.
pub(super) struct RoutedLocation<'d> {
    pub(super) placed: PlacedLocation<'d>,
    pub(super) routes: Range<usize>,
}

/// Returns the routes of scripts that serve a folder, where the route of the folder treats requests otherwise.
pub(super) fn routes(
    located: &[RoutedLocation<'_>],
    routes: &[Route],
    table: &JumpTable<'_>,
    ledger: &mut Ledger,
) -> Vec<Route> {
    let scripts = ScriptTable::new(located, routes, table);
    let mut made = Vec::new();
    let mut unsaid = BTreeSet::new();
    for script in scripts.candidates() {
        let Some(taker) = scripts.taker(&script) else {
            continue;
        };
        if taker.placed.location.match_kind == LocationMatch::Exact
            || scripts.stands_for_folders(taker, &script)
        {
            continue;
        }
        match scripts.copies(taker, &script) {
            Some(copies) => made.extend(copies),
            None => unsaid.extend(id(&taker.placed.location).map(|id| (id, script))),
        }
    }
    for (id, script) in unsaid {
        let what = format!(
            "a route with `path = \"{script}\"`, which is answered with 400: applications take it for its folder, whose route treats it \
             otherwise"
        );
        ledger.fill_in_for(id, &what);
    }
    let is_named = |ending: &&str| *ending == "php" || !scripts.expressions_with(ending).is_empty();
    for ending in SCRIPT_ENDINGS.into_iter().filter(is_named) {
        scripts.record_others(ending, ledger);
    }
    made
}

/// The locations of a server block with their routes, by their directives.
struct ScriptTable<'t, 'd> {
    located: &'t [RoutedLocation<'d>],
    routes: &'t [Route],
    table: &'t JumpTable<'d>,
    /// The places of locations with all of their paths.
    places: BTreeMap<Option<EntryId>, usize>,
    /// The parts of paths that a `rewrite` passes on.
    rewrites: Vec<LocationBlock<'d>>,
    rewritten: LocationIndex,
}

impl<'t, 'd> ScriptTable<'t, 'd> {
    fn new(
        located: &'t [RoutedLocation<'d>],
        routes: &'t [Route],
        table: &'t JumpTable<'d>,
    ) -> Self {
        let mut places = BTreeMap::new();
        let mut rewrites = Vec::new();
        for (place, routed) in located.iter().enumerate() {
            let location = &routed.placed.location;
            match location.rewrite.is_some() && location.directive.is_some() {
                true => rewrites.push(location.clone()),
                false => {
                    places.entry(id(location)).or_insert(place);
                }
            }
        }
        Self {
            located,
            routes,
            table,
            places,
            rewritten: LocationIndex::new(&rewrites),
            rewrites,
        }
    }

    /// Returns the paths of scripts of the folders that locations name, and of the scripts that locations name.
    fn candidates(&self) -> BTreeSet<String> {
        let prefixes = self.texts(is_prefix);
        let scripts = prefixes.iter().filter(|it| is_script(it));
        let mut found: BTreeSet<String> = scripts.map(|it| (*it).to_owned()).collect();
        let folders: Vec<&&str> = prefixes.iter().filter(|it| is_folder(it)).collect();
        for ending in SCRIPT_ENDINGS {
            let of_ending = self.expressions_with(ending);
            if of_ending.is_empty() {
                continue;
            }
            let index = folders
                .iter()
                .map(|it| format!("{}/index.{ending}", it.trim_end_matches('/')));
            found.extend(index.chain([format!("/index.{ending}")]));
            let is_named = |name: &&&str| of_ending.iter().any(|it| it.contains(**name));
            let names = FRONT_CONTROLLERS.iter().filter(is_named);
            found.extend(names.map(|name| format!("/{name}.{ending}")));
        }
        found
    }

    /// Returns the expressions that name an ending.
    fn expressions_with(&self, ending: &str) -> Vec<&str> {
        let mut found = self.texts(|kind| kind == LocationMatch::Expression);
        found.retain(|it| has_ending(it, ending));
        found
    }

    fn texts(&self, is_wanted: fn(LocationMatch) -> bool) -> Vec<&str> {
        let wanted = self.table.locations().filter(|it| is_wanted(it.match_kind));
        wanted.map(|it| it.text.as_str()).collect()
    }

    /// Records that paths of scripts without a route of their own are refused.
    fn record_others(&self, ending: &str, ledger: &mut Ledger) {
        let of_script = self.taker(&format!("/index.{ending}"));
        let of_script = of_script.map(|it| &it.routes);
        let others = [
            (
                format!("/FOLDER/index.{ending}"),
                "index files of folders that no location names",
            ),
            (
                format!("/index.{ending}/FOLDER"),
                "paths behind the name of a script",
            ),
        ];
        let refused = others.iter().filter_map(|(sample, shown)| {
            // A location that takes the script alone expects nothing behind it.
            let taker = self
                .taker(sample)
                .filter(|it| Some(&it.routes) == of_script)?;
            let is_refused = !self.stands_for_folders(taker, sample);
            let id = id(&taker.placed.location).filter(|_| is_refused)?;
            Some((id, *shown))
        });
        let refused: Vec<(EntryId, &str)> = refused.collect();
        let Some((id, _)) = refused.first() else {
            return;
        };
        let shown: Vec<&str> = refused.iter().map(|(_, shown)| *shown).collect();
        let what = format!(
            "{} are answered with 400, since applications take them for the folder or the root, whose route treats them otherwise; give \
             both routes the same limits, or write a route with `path = \"/FOLDER/index.{ending}\"` for each such folder",
            shown.join(" and ")
        );
        ledger.fill_in_for(*id, &what);
    }

    /// Returns the location whose routes take a path; `None` where those of a `rewrite` do.
    fn taker(&self, path: &str) -> Option<&'t RoutedLocation<'d>> {
        if self.rewritten.place(path, &self.rewrites).is_some() {
            return None;
        }
        let id = self.table.locate(path).and_then(id);
        self.located.get(*self.places.get(&id)?)
    }

    /// Returns true if the routes of a location treat the path of a script as the routes of what applications take it for.
    fn stands_for_folders(&self, taker: &RoutedLocation<'_>, script: &str) -> bool {
        let (head, name) = script.rsplit_once('/').unwrap_or(("", script));
        let others = match is_script(head) {
            // A path behind the name of a script.
            true => [head.to_owned(), format!("/{name}")],
            false => ["/".to_owned(), format!("{head}/")],
        };
        let mut others = others.iter().filter_map(|it| self.taker(it));
        let own = of_first_host(self.routes_of(taker));
        own.iter().all(|it| it.action.is_refusal())
            || others.all(|other| {
                let of_other = of_first_host(self.routes_of(other));
                let is_for_all = |route: &Route| of_other.iter().all(|it| stands_for(route, it));
                other.routes == taker.routes || own.iter().all(is_for_all)
            })
    }

    fn routes_of(&self, routed: &RoutedLocation<'_>) -> &'t [Route] {
        self.routes.get(routed.routes.clone()).unwrap_or_default()
    }

    /// Returns the routes of a location for one of its paths; `None` where a slot of them has no text.
    fn copies(&self, routed: &RoutedLocation<'_>, script: &str) -> Option<Vec<Route>> {
        let path = paths::encoded(script).ok()?;
        let routes = self.routes_of(routed);
        let known = LazyCell::new(|| routes.first().and_then(RoutePath::new));
        let copy = |route: &Route| {
            let mut copy = route.clone();
            let part = |name: &str| known.as_ref()?.slot(&path, route.case, name);
            slots::fill(&mut copy, part).ok()?;
            copy.path.clone_from(&path);
            copy.case = PathCase::Kept;
            Some(copy)
        };
        routes.iter().map(copy).collect()
    }
}

fn id(location: &LocationBlock<'_>) -> Option<EntryId> {
    location.directive.map(|it| it.id)
}

/// Returns the first of the routes of a location that have one host; each host has the same.
fn of_first_host(routes: &[Route]) -> &[Route] {
    let is_other = |route: &Route| {
        let first = routes.first();
        first.is_some_and(|it| it.host != route.host || it.listeners != route.listeners)
    };
    let end = routes.iter().position(is_other);
    &routes[..end.unwrap_or(routes.len())]
}

/// Returns true for a prefix that is no name of a file.
fn is_folder(prefix: &str) -> bool {
    let name = prefix.rsplit('/').next().unwrap_or(prefix);
    !name.contains('.')
}

/// Returns true if an expression names an ending, as `\.php$` and `\.(asp|php)$` do.
fn has_ending(expression: &str, ending: &str) -> bool {
    expression.match_indices(ending).any(|(at, _)| {
        let before = expression[..at].chars().next_back();
        let behind = expression[at + ending.len()..].chars().next();
        before.is_some_and(|c| ".|(".contains(c)) && !behind.is_some_and(char::is_alphanumeric)
    })
}

/// Returns true for the path of a script that serves a folder.
fn is_script(path: &str) -> bool {
    NormalPath::parse(path).is_ok_and(|it| it.is_index_of("/"))
}

/// Returns true if the gateway lets one route take requests that applications take for those of another.
fn stands_for(script: &Route, folder: &Route) -> bool {
    let contains = |one: &[String], other: &[String]| other.iter().all(|it| one.contains(it));
    let has_checks = contains(&script.limits, &folder.limits)
        && contains(&folder.allow, &script.allow)
        && contains(&script.block, &folder.block)
        && script.max_body == folder.max_body;
    let shape = |route: &Route| {
        let changes = match &route.action {
            RouteAction::Forward {
                strip_prefix,
                rewrite,
                ..
            } => (strip_prefix.clone(), rewrite.clone()),
            _ => (None, None),
        };
        (
            changes,
            route.request_fields.clone(),
            route.response_fields.clone(),
        )
    };
    let is_plain = |route: &Route| shape(route) == Default::default();
    let origin = |route: &Route| match &route.action {
        RouteAction::Forward { origin, .. } => Some(origin.clone()),
        _ => None,
    };
    let has_same_shape = shape(script) == shape(folder);
    match (origin(script), origin(folder)) {
        (Some(one), Some(other)) if one != other => {
            has_checks && (has_same_shape || is_plain(folder))
        }
        _ => {
            let rejects_alike = folder.limits.is_empty() || script.status == folder.status;
            has_checks && has_same_shape && script.action == folder.action && rejects_alike
        }
    }
}
