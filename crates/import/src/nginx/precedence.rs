//! Decides which prefixes go before expressions, and which expressions go before those again.
//!
//! nginx finds the longest prefix first, and then looks at the expressions that stand around it or within it: at none of them around `^~`.
//! Routes with expressions go before those with prefixes. So a prefix of which an expression would take requests that it does not take in
//! nginx becomes an expression before it. This one would take the requests of longer prefixes too, so they go before it likewise; and for
//! each of them the expressions that nginx does look at have a route of their own, with the paths of both.

use std::collections::{BTreeMap, BTreeSet};

use super::location_block::{LocationBlock, LocationMatch, is_prefix};
use crate::bounds;
use crate::ledger::{EntryId, Ledger};
use crate::paths;

/// A location in the order in which routes are written.
pub(super) struct ArrangedLocation<'d> {
    pub(super) location: LocationBlock<'d>,
    /// The length of the prefix whose route goes before expressions, where this is its route or goes before it.
    pub(super) goes_with: Option<usize>,
}

/// Arranges the locations of a server block.
pub(super) fn arrange<'d>(
    locations: Vec<LocationBlock<'d>>,
    ledger: &mut Ledger,
) -> Vec<ArrangedLocation<'d>> {
    let all = LocationTable::new(&locations);
    let mut pairs = Some(PairsLeft {
        compared: bounds::COMPARED_PAIRS,
        written: bounds::ARRANGED_PAIRS,
    });
    let mut arranged = Vec::new();
    for location in &locations {
        let goes_first = all.goes_first(&location.text);
        if is_prefix(location.match_kind) && goes_first {
            let length = location.text.len();
            let before = all.expressions_before(location, &mut pairs, ledger);
            let both = before.into_iter().chain([location.clone()]);
            arranged.extend(both.map(|location| ArrangedLocation {
                location,
                goes_with: Some(length),
            }));
            continue;
        }
        let innermost = location.outer.last();
        let is_moved =
            is_expression(location) && innermost.is_some_and(|it| all.goes_first(&it.text));
        if !is_moved {
            arranged.push(ArrangedLocation {
                location: location.clone(),
                goes_with: None,
            });
        }
    }
    arranged
}

/// The locations of a server block.
struct LocationTable<'l, 'd> {
    /// By the innermost prefix that they stand within.
    expressions: BTreeMap<Option<EntryId>, Vec<&'l LocationBlock<'d>>>,
    /// The prefixes marked with `^~`.
    finals: BTreeSet<EntryId>,
    /// Prefixes of which expressions would take requests that they do not take in nginx.
    protected: BTreeSet<&'l str>,
}

impl<'l, 'd> LocationTable<'l, 'd> {
    fn new(locations: &'l [LocationBlock<'d>]) -> Self {
        let mut expressions: BTreeMap<Option<EntryId>, Vec<&LocationBlock<'d>>> = BTreeMap::new();
        let mut around: BTreeMap<&str, BTreeSet<EntryId>> = BTreeMap::new();
        for expression in locations.iter().filter(|it| is_expression(it)) {
            let innermost = expression.outer.last().map(|it| it.id);
            expressions.entry(innermost).or_default().push(expression);
            for outer in &expression.outer {
                around.entry(&outer.text).or_default().insert(outer.id);
            }
        }
        let texts: BTreeSet<&str> = around.keys().copied().collect();
        let is_beside = |location: &LocationBlock<'_>, text: &str| {
            let has = |id: &EntryId| location.outer.iter().any(|it| it.id == *id);
            text.len() < location.text.len() && !around[text].iter().all(has)
        };
        let is_final = |it: &LocationBlock<'_>| it.match_kind == LocationMatch::FinalPrefix;
        let is_protected = |it: &&LocationBlock<'_>| {
            let mut beginnings = paths::beginnings(&texts, &it.text);
            is_prefix(it.match_kind)
                && ((is_final(it) && !expressions.is_empty())
                    // An expression within it takes no requests of a longer prefix beside it.
                    || beginnings.any(|text| is_beside(it, text)))
        };
        let protected = locations.iter().filter(is_protected);
        let finals = locations.iter().filter(|it| is_final(it));
        Self {
            protected: protected.map(|it| it.text.as_str()).collect(),
            finals: finals.filter_map(id).collect(),
            expressions,
        }
    }

    /// Returns true if the routes for a prefix go before expressions.
    fn goes_first(&self, text: &str) -> bool {
        paths::beginnings(&self.protected, text).next().is_some()
    }

    /// Returns the expressions that nginx looks at for requests of a prefix, each with the paths of both. `pairs` is `None` once there are
    /// too many.
    fn expressions_before(
        &self,
        location: &LocationBlock<'d>,
        pairs: &mut Option<PairsLeft>,
        ledger: &mut Ledger,
    ) -> Vec<LocationBlock<'d>> {
        let mut found = Vec::new();
        for expression in self.expressions_met(location) {
            let left = pairs
                .as_mut()
                .filter(|it| it.written > 0 && it.compared > 0);
            let Some(left) = left else {
                if pairs.take().is_some() {
                    require_rest(location, ledger);
                }
                break;
            };
            left.compared -= 1;
            let is_within = expression
                .outer
                .iter()
                .any(|it| Some(it.id) == id(location));
            let text = match is_within {
                true => Some(expression.text.clone()),
                false => paths::below_prefix(&location.text, &expression.text),
            };
            match text {
                Some(text) => {
                    left.written -= 1;
                    found.push(LocationBlock {
                        text,
                        ..expression.clone()
                    });
                }
                None => require(expression, location, ledger),
            }
        }
        found
    }

    /// Returns the expressions that nginx looks at for requests of a prefix: those within it, then those around it up to one with `^~`.
    fn expressions_met(
        &self,
        location: &LocationBlock<'d>,
    ) -> impl Iterator<Item = &'l LocationBlock<'d>> {
        let outer = location.outer.iter().rev().map(|it| it.id);
        let mut levels: Vec<Option<EntryId>> =
            id(location).into_iter().chain(outer).map(Some).collect();
        levels.push(None);
        let is_final = |it: &Option<EntryId>| it.is_some_and(|id| self.finals.contains(&id));
        if let Some(last) = levels.iter().position(is_final) {
            levels.truncate(last + 1);
        }
        let met = levels
            .into_iter()
            .filter_map(|it| self.expressions.get(&it));
        met.flatten().copied()
    }
}

/// The pairs of a prefix and an expression that a server block may have yet.
struct PairsLeft {
    compared: usize,
    /// Those with a route of their own.
    written: usize,
}

/// Records that no further routes are written for expressions before those of prefixes.
fn require_rest(location: &LocationBlock<'_>, ledger: &mut Ledger) {
    let what = "the routes of this and of later prefixes take requests that expressions take in nginx: the server block has too many \
                pairs of a prefix and an expression; write routes for them";
    match id(location) {
        Some(id) => ledger.fill_in_for(id, what),
        None => ledger.fill_in(format!("[[route]]: {what}")),
    }
}

/// Records that a route for a prefix takes requests that an expression takes in nginx, where that one has other guards.
fn require(expression: &LocationBlock<'_>, location: &LocationBlock<'_>, ledger: &mut Ledger) {
    if location.scope.has_guards_of(&expression.scope) {
        return;
    }
    if let Some(directive) = expression.directive {
        let what = format!(
            "requests that {} fits too do not meet its limits and lists; write a route for them",
            location.shown()
        );
        ledger.fill_in_for(directive.id, &what);
    }
}

/// Returns true for the expression of a location. Those of a `rewrite` come before nginx looks for one.
fn is_expression(location: &LocationBlock<'_>) -> bool {
    location.match_kind == LocationMatch::Expression && location.rewrite.is_none()
}

fn id(location: &LocationBlock<'_>) -> Option<EntryId> {
    location.directive.map(|it| it.id)
}
