//! Splits the paths that a `rewrite` takes from those of their location, so that each has a route of its own.
//!
//! Those of the server block come before nginx looks for a location, so they are expressions before all others. One of a location takes a
//! prefix of its own if no other location is in between.

use super::jumps::{JumpTable, is_redirect};
use super::listens::ServerBlock;
use super::location_index::expression_set;
use super::locations::{LocationBlock, LocationMatch};
use super::templates;

/// Adds a location for each `rewrite` that takes a part of the paths.
pub(super) fn split<'d>(
    locations: &mut Vec<LocationBlock<'d>>,
    server: &ServerBlock<'d>,
    table: &JumpTable<'d>,
) {
    let mut added = Vec::new();
    for location in locations.iter() {
        for (rewrite, prefix) in prefixes(location) {
            let is_between = |other: &LocationBlock<'_>| {
                matches!(
                    other.match_kind,
                    LocationMatch::Prefix | LocationMatch::FinalPrefix
                ) && other.text.len() > location.text.len()
                    && prefix.starts_with(&other.text)
            };
            let leads_on = rewrite.word(1).is_some_and(|to| table.locate(to).is_some());
            if leads_on && !locations.iter().any(is_between) {
                added.push(LocationBlock {
                    text: prefix,
                    children: &[],
                    rewrite: Some(rewrite),
                    ..location.clone()
                });
            }
        }
    }
    let children = server.directive.children().iter();
    let of_server: Vec<_> = children
        .filter(|it| it.name == "rewrite" && !is_redirect(it))
        .filter_map(|it| Some((it, it.word(0)?, table.locate(it.word(1)?)?)))
        .map(|(rewrite, expression, _)| (rewrite, expression))
        .collect();
    let expressions = of_server.iter().map(|(_, expression)| expression);
    let known = expressions.filter(|it| expression_set([it]).is_some());
    if let Some(known) = expression_set(known) {
        // A path of text would go before the expression.
        locations.retain(|it| {
            it.match_kind != LocationMatch::Exact || !known.is_match(it.text.as_bytes())
        });
    }
    for (rewrite, expression) in of_server {
        added.push(LocationBlock {
            directive: Some(rewrite),
            match_kind: LocationMatch::Expression,
            text: expression.to_owned(),
            scope: server.scope.clone(),
            children: &[],
            rest: "",
            rewrite: Some(rewrite),
            outer: Vec::new(),
        });
    }
    locations.extend(added);
}

/// Returns the prefixes that directives of a location take of its paths.
fn prefixes<'d>(location: &LocationBlock<'d>) -> Vec<(&'d super::tree::Directive, String)> {
    let is_prefix = matches!(
        location.match_kind,
        LocationMatch::Prefix | LocationMatch::FinalPrefix
    );
    if !is_prefix {
        return Vec::new();
    }
    let leaves = |it: &&super::tree::Directive| {
        it.name == "rewrite" && !is_redirect(it) && it.word(2) != Some("break")
    };
    let rewrites = location.children.iter().filter(leaves);
    let parts = rewrites.filter_map(|rewrite| {
        let prefix = templates::prefix_of(rewrite.word(0)?)?;
        let is_part = prefix.len() > location.text.len() && prefix.starts_with(&location.text);
        is_part.then_some((rewrite, prefix))
    });
    parts.collect()
}
