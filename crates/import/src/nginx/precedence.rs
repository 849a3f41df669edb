//! Decides which prefixes go before expressions, and which expressions go before those again.
//!
//! nginx finds the longest prefix first, and then looks at the expressions that stand around it or within it: at none of them around `^~`.
//! Routes with expressions go before those with prefixes. So a prefix of which an expression would take requests that it does not take in
//! nginx becomes an expression before it. This one would take the requests of longer prefixes too, so they go before it likewise; and for
//! each of them the expressions that nginx does look at have a route of their own, with the paths of both.

use std::cmp::Reverse;

use super::locations::{LocationBlock, LocationMatch, OuterPrefix, is_prefix};
use crate::bounds;
use crate::ledger::Ledger;
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
    let mut arranged = Vec::new();
    for location in &locations {
        let goes_first = all.goes_first(&location.text);
        if is_prefix(location.match_kind) && goes_first {
            let length = location.text.len();
            let before = all.expressions_before(location, arranged.len(), ledger);
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
    expressions: Vec<&'l LocationBlock<'d>>,
    /// The prefixes marked with `^~`.
    finals: Vec<&'l LocationBlock<'d>>,
    /// Prefixes of which expressions would take requests that they do not take in nginx.
    protected: Vec<&'l str>,
}

impl<'l, 'd> LocationTable<'l, 'd> {
    fn new(locations: &'l [LocationBlock<'d>]) -> Self {
        let mut expressions: Vec<_> = locations.iter().filter(|it| is_expression(it)).collect();
        expressions.sort_by_key(|it| Reverse(it.outer.last().map(|outer| outer.text.len())));
        let is_final = |it: &&LocationBlock<'_>| it.match_kind == LocationMatch::FinalPrefix;
        let finals: Vec<_> = locations.iter().filter(is_final).collect();
        let is_protected = |it: &&LocationBlock<'_>| {
            let is_final = it.match_kind == LocationMatch::FinalPrefix;
            let mut others = expressions.iter();
            is_prefix(it.match_kind) && others.any(|other| is_final || is_foreign(other, it))
        };
        let protected = locations.iter().filter(is_protected);
        Self {
            protected: protected.map(|it| it.text.as_str()).collect(),
            expressions,
            finals,
        }
    }

    /// Returns true if the routes for a prefix go before expressions.
    fn goes_first(&self, text: &str) -> bool {
        self.protected.iter().any(|it| text.starts_with(it))
    }

    /// Returns the expressions that nginx looks at for requests of a prefix, each with the paths of both.
    fn expressions_before(
        &self,
        location: &LocationBlock<'d>,
        made: usize,
        ledger: &mut Ledger,
    ) -> Vec<LocationBlock<'d>> {
        let mut found = Vec::new();
        for expression in &self.expressions {
            if !self.is_met(expression, location) {
                continue;
            }
            let text = match is_within(expression, location) {
                true => Some(expression.text.clone()),
                false => paths::below_prefix(&location.text, &expression.text),
            };
            match text.filter(|_| made + found.len() < bounds::ARRANGED_LOCATIONS) {
                Some(text) => found.push(LocationBlock {
                    text,
                    ..(*expression).clone()
                }),
                None => require(expression, location, ledger),
            }
        }
        found
    }

    /// Returns true if nginx looks at an expression for requests of a prefix.
    fn is_met(&self, expression: &LocationBlock<'d>, location: &LocationBlock<'d>) -> bool {
        let holds =
            |outer: &OuterPrefix| is_location(location, outer) || has_outer(location, outer);
        let is_skipped = |last: &&LocationBlock<'_>| {
            let is_around = last.directive.map(|it| it.id) == location.directive.map(|it| it.id)
                || is_within(location, last);
            is_around && !is_within(expression, last)
        };
        expression.outer.iter().all(holds) && !self.finals.iter().any(is_skipped)
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

/// Returns true if an expression stands within a prefix beside another, longer one, so that it takes no requests of that one in nginx.
fn is_foreign(expression: &LocationBlock<'_>, location: &LocationBlock<'_>) -> bool {
    let is_beside = |outer: &OuterPrefix| {
        location.text.len() > outer.text.len()
            && location.text.starts_with(&outer.text)
            && !has_outer(location, outer)
    };
    expression.outer.iter().any(is_beside)
}

/// Returns true for the expression of a location. Those of a `rewrite` come before nginx looks for one.
fn is_expression(location: &LocationBlock<'_>) -> bool {
    location.match_kind == LocationMatch::Expression && location.rewrite.is_none()
}

fn is_within(location: &LocationBlock<'_>, around: &LocationBlock<'_>) -> bool {
    location
        .outer
        .iter()
        .any(|outer| is_location(around, outer))
}

fn has_outer(location: &LocationBlock<'_>, outer: &OuterPrefix) -> bool {
    location.outer.iter().any(|it| it.id == outer.id)
}

fn is_location(location: &LocationBlock<'_>, outer: &OuterPrefix) -> bool {
    location.directive.map(|it| it.id) == Some(outer.id)
}
