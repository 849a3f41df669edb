//! Decides which paths of routes stand for the locations of a server block.
//!
//! nginx takes the exact location, else the longest prefix; if that is no `^~`, the first expression that matches goes before it. Routes
//! are ranked: text, then expressions in the order of the file, then patterns. A prefix that ends with a slash is a pattern. Any other
//! prefix also takes `/prefixed`, so it is an expression; longer prefixes then are expressions before it. nginx looks at an expression
//! within a location for requests of this location alone, and before it looks at those around.

use std::collections::BTreeSet;

use super::location_block::{LocationBlock, LocationMatch, OuterPrefix, is_prefix};
use super::scope::SettingScope;
use super::tree::Directive;
use super::{guards, omissions, precedence};
use crate::ledger::Ledger;
use crate::paths;

/// A location with the path of its route.
pub(super) struct PlacedLocation<'d> {
    pub(super) location: LocationBlock<'d>,
    pub(super) path: String,
}

/// Collects the locations below a level, those within locations among them. `around` is the location of the level.
pub(super) fn collect<'d>(
    directives: &'d [Directive],
    scope: &SettingScope<'d>,
    around: Option<&LocationBlock<'d>>,
    found: &mut Vec<LocationBlock<'d>>,
    ledger: &mut Ledger,
) {
    for directive in directives.iter().filter(|it| it.name == "location") {
        let read = read_match(directive).and_then(|(kind, text)| {
            let text = match (kind, around) {
                (LocationMatch::Expression, Some(around)) => within(around, &text)?,
                _ => text,
            };
            Ok((kind, text))
        });
        let (match_kind, text) = match read {
            Ok(read) => read,
            Err(reason) => {
                omissions::leave_out(directive, &reason, ledger);
                ledger.fill_in_for(directive.id, &reason);
                continue;
            }
        };
        let children = directive.children();
        let mut outer = around.map(|it| it.outer.clone()).unwrap_or_default();
        if let Some(around) = around.filter(|it| is_prefix(it.match_kind))
            && let Some(directive) = around.directive
        {
            outer.push(OuterPrefix {
                id: directive.id,
                text: around.text.clone(),
            });
        }
        let location = LocationBlock {
            directive: Some(directive),
            match_kind,
            text,
            scope: scope.within(children),
            children,
            rest: "",
            rewrite: None,
            passes_to: None,
            outer,
        };
        collect(children, &location.scope, Some(&location), found, ledger);
        found.push(location);
    }
}

/// Returns the comparison of a location, and its text. nginx takes a modifier without a blank behind it too.
fn read_match(directive: &Directive) -> Result<(LocationMatch, String), String> {
    let modifiers = [
        ("=", LocationMatch::Exact),
        ("^~", LocationMatch::FinalPrefix),
        ("~*", LocationMatch::Expression),
        ("~", LocationMatch::Expression),
    ];
    let mut kinds = modifiers.into_iter();
    match directive.words.as_slice() {
        [text] if text.starts_with('@') => Ok((LocationMatch::Named, text.clone())),
        [text] => {
            let found =
                kinds.find_map(|(modifier, kind)| Some((kind, text.strip_prefix(modifier)?)));
            let (kind, text) = found.unwrap_or((LocationMatch::Prefix, text));
            Ok((kind, text.to_owned()))
        }
        [modifier, text] => match kinds.find(|(known, _)| known == modifier) {
            Some((_, kind)) => Ok((kind, text.clone())),
            None => Err(format!("there is no modifier {modifier:?}")),
        },
        _ => Err("a path is expected".to_owned()),
    }
}

/// Returns an expression for paths that a location takes and one within it.
fn within(around: &LocationBlock<'_>, expression: &str) -> Result<String, String> {
    let both = match around.match_kind {
        LocationMatch::Expression => paths::below_expression(&around.text, expression),
        LocationMatch::Exact | LocationMatch::Named => None,
        LocationMatch::Prefix | LocationMatch::FinalPrefix => {
            paths::below_prefix(&around.text, expression)
        }
    };
    both.ok_or_else(|| {
        let outer = around.shown();
        format!("no path of a route is this within {outer}, where alone nginx looks at it")
    })
}

/// Returns why a location needs no route; `None` where it needs one.
fn needless(location: &LocationBlock<'_>) -> Option<&'static str> {
    let is_expression = location.match_kind == LocationMatch::Expression;
    if !is_expression && is_never_met(location.match_kind, &location.text) {
        return Some(
            "nginx merges slashes and resolves dot segments, so no path is compared with it",
        );
    }
    let is_file = location.children.iter().all(|it| it.name == "root");
    let mut pages = location.scope.error_pages.iter();
    let is_page = location.match_kind == LocationMatch::Exact
        && is_file
        && pages.any(|page| {
            guards::is_page_of_failures(page) && page.words.last() == Some(&location.text)
        });
    is_page.then_some("it has the page of failures, and the gateway has one of its own")
}

/// Returns true for a text that no path in normal form has.
fn is_never_met(kind: LocationMatch, text: &str) -> bool {
    let is_within = ["//", "/./", "/../"].iter().any(|it| text.contains(it));
    let is_at_end = text.ends_with("/.") || text.ends_with("/..");
    is_within || (kind == LocationMatch::Exact && is_at_end)
}

/// Gives each location its path, in the order in which the routes are written. Those that no path stands for are left out.
pub(super) fn place<'d>(
    locations: Vec<LocationBlock<'d>>,
    ledger: &mut Ledger,
) -> Vec<PlacedLocation<'d>> {
    let open: BTreeSet<String> = locations
        .iter()
        .filter(|it| is_prefix(it.match_kind) && !it.text.ends_with('/'))
        .map(|it| it.text.clone())
        .collect();
    let mut placed: Vec<(PathOrder, PlacedLocation<'d>)> = Vec::new();
    for arranged in precedence::arrange(locations, ledger) {
        let mut location = arranged.location;
        let text = &location.text;
        if let (Some(directive), Some(reason)) = (location.directive, needless(&location)) {
            omissions::leave_without_effect(directive, reason, ledger);
            continue;
        }
        let is_expression = is_prefix(location.match_kind)
            && (arranged.goes_with.is_some() || paths::beginnings(&open, text).next().is_some());
        let path = match location.match_kind {
            LocationMatch::Named => continue,
            LocationMatch::Exact => literal(text),
            LocationMatch::Expression => paths::searched_decoded(text, location.case()),
            _ if is_expression => paths::beginning_with(text),
            _ => literal(text).map(|text| text + "*"),
        };
        let path = match path {
            Ok(path) => path,
            Err(reason) => {
                if let Some(directive) = location.directive {
                    let reason = format!("no path of a route is this: {reason}");
                    omissions::leave_out(directive, &reason, ledger);
                    ledger.fill_in_for(directive.id, &reason);
                }
                continue;
            }
        };
        let order = match location.match_kind {
            LocationMatch::Expression if location.rewrite.is_some() => PathOrder::Rewrite,
            LocationMatch::Exact => PathOrder::Exact,
            kind => match (arranged.goes_with, location.outer.last()) {
                (Some(length), _) => PathOrder::BeforeExpressions(usize::MAX - length),
                (None, Some(outer)) if kind == LocationMatch::Expression => {
                    PathOrder::InnerExpression(usize::MAX - outer.text.len())
                }
                (None, None) if kind == LocationMatch::Expression => PathOrder::Expression,
                _ if is_expression => PathOrder::OpenPrefix(usize::MAX - text.len()),
                _ => PathOrder::Pattern(usize::MAX - text.len()),
            },
        };
        location.rest = if is_expression { "{path.1}" } else { "{rest}" };
        placed.push((order, PlacedLocation { location, path }));
    }
    placed.sort_by_key(|(order, _)| *order);
    without_copies(placed.into_iter().map(|(_, location)| location), ledger)
}

/// Returns the first of the locations with each path. nginx takes the first of equal expressions, and a prefix before the same one around.
fn without_copies<'d>(
    placed: impl Iterator<Item = PlacedLocation<'d>>,
    ledger: &mut Ledger,
) -> Vec<PlacedLocation<'d>> {
    let mut known = BTreeSet::new();
    let (first, copies): (Vec<_>, Vec<_>) = placed.partition(|it| known.insert(it.path.clone()));
    for directive in first.iter().filter_map(|it| it.location.directive) {
        ledger.translated(directive.id);
    }
    for directive in copies.iter().filter_map(|it| it.location.directive) {
        if !ledger.is_translated(directive.id) {
            let reason = "another location takes all of its requests";
            omissions::leave_without_effect(directive, reason, ledger);
        }
    }
    first
}

/// The order of routes in the file; longer prefixes come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PathOrder {
    /// By the server block, before a location is looked for.
    Rewrite,
    Exact,
    /// A prefix that goes before expressions, and the expressions that nginx looks at for requests of it.
    BeforeExpressions(usize),
    /// Within a prefix, where nginx looks at it before those around.
    InnerExpression(usize),
    Expression,
    OpenPrefix(usize),
    Pattern(usize),
}

fn literal(text: &str) -> Result<String, String> {
    if !text.starts_with('/') {
        return Err(format!("{text:?} does not begin with a slash"));
    }
    paths::encoded(text).map_err(|c| format!("no path has {c:?}"))
}
