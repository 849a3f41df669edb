//! Splits the paths that a `rewrite` takes from those of their location, so that each has a route of its own.
//!
//! Those of the server block come before nginx looks for a location, so they are expressions before all others. One of a location takes a
//! prefix of its own if no other location is in between.

use super::divisions;
use super::jumps::{JumpTable, is_redirect};
use super::listens::ServerBlock;
use super::location_block::{LocationBlock, LocationMatch};
use super::location_index::expression_set;
use super::redirects;
use super::templates;
use super::tree::Directive;

/// Adds a location for each `rewrite` that takes a part of the paths. `answer` is that of the server block for all others.
pub(super) fn split<'d>(
    locations: &mut Vec<LocationBlock<'d>>,
    server: &ServerBlock<'d>,
    answer: Option<&Directive>,
    table: &JumpTable<'d>,
) {
    let mut added = Vec::new();
    for location in locations.iter() {
        added.extend(parts(location, table));
        for (rewrite, prefix) in prefixes(location) {
            let is_between = |other: &LocationBlock<'_>| {
                matches!(
                    other.match_kind,
                    LocationMatch::Prefix | LocationMatch::FinalPrefix
                ) && other.text.len() > location.text.len()
                    && prefix.starts_with(&other.text)
            };
            let part = LocationBlock {
                text: prefix.clone(),
                children: &[],
                rewrite: Some(rewrite),
                ..location.clone()
            };
            if leads_on(&part, table) && !locations.iter().any(is_between) {
                added.extend(with_parts(part, table));
            }
        }
    }
    let is_answer =
        |it: &Directive| it.name == "return" || answer.is_some_and(|answer| answer.id == it.id);
    let before_answer = (server.directive.children().iter()).take_while(|it| !is_answer(it));
    let of_server: Vec<LocationBlock<'d>> = before_answer
        .filter(|it| it.name == "rewrite")
        .filter_map(|rewrite| {
            let block = LocationBlock {
                directive: Some(rewrite),
                match_kind: LocationMatch::Expression,
                text: rewrite.word(0)?.to_owned(),
                scope: server.scope.clone(),
                children: &[],
                rest: "",
                rewrite: Some(rewrite),
                passes_to: None,
                outer: Vec::new(),
            };
            leads_on(&block, table).then_some(block)
        })
        .flat_map(|block| with_parts(block, table))
        .collect();
    let expressions = of_server.iter().map(|block| &block.text);
    let known = expressions.filter(|it| expression_set([it]).is_some());
    if let Some(known) = expression_set(known) {
        // A path of text would go before the expression.
        locations.retain(|it| {
            it.match_kind != LocationMatch::Exact || !known.is_match(it.text.as_bytes())
        });
    }
    locations.extend(of_server);
    locations.extend(added);
}

/// Returns the parts of the paths of a `rewrite` that reach other locations than the rest of them, which comes last.
fn with_parts<'d>(block: LocationBlock<'d>, table: &JumpTable<'d>) -> Vec<LocationBlock<'d>> {
    let division = (block.rewrite)
        .filter(|it| !is_redirect(it))
        .and_then(|rewrite| divisions::divide(&block, rewrite, table));
    let mut blocks = division.map(|it| it.parts).unwrap_or_default();
    blocks.push(block);
    blocks
}

/// Returns the parts of the paths that a location passes on whole, by the first `rewrite` that takes them all.
fn parts<'d>(location: &LocationBlock<'d>, table: &JumpTable<'d>) -> Vec<LocationBlock<'d>> {
    let Some(rewrite) = table.rewrite_of_all(location) else {
        return Vec::new();
    };
    let taken: Vec<String> = prefixes(location)
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    let is_free = |part: &LocationBlock<'_>| !taken.iter().any(|it| part.text.starts_with(it));
    let division = divisions::divide(location, rewrite, table);
    let parts = division.map(|it| it.parts).unwrap_or_default();
    parts.into_iter().filter(is_free).collect()
}

/// Returns true if the `rewrite` of a block passes requests on to a location, or sends clients elsewhere.
fn leads_on(block: &LocationBlock<'_>, table: &JumpTable<'_>) -> bool {
    let Some(rewrite) = block.rewrite else {
        return false;
    };
    match is_redirect(rewrite) {
        true => redirects::answer(block).is_some(),
        false => rewrite.word(1).is_some_and(|to| table.locate(to).is_some()),
    }
}

/// Returns the prefixes that directives of a location take of its paths.
fn prefixes<'d>(location: &LocationBlock<'d>) -> Vec<(&'d Directive, String)> {
    let is_prefix = matches!(
        location.match_kind,
        LocationMatch::Prefix | LocationMatch::FinalPrefix
    );
    if !is_prefix {
        return Vec::new();
    }
    let leaves = |it: &&Directive| it.name == "rewrite" && it.word(2) != Some("break");
    let rewrites = location.children.iter().filter(leaves);
    let parts = rewrites.filter_map(|rewrite| {
        let prefix = templates::prefix_of(rewrite.word(0)?)?;
        let is_part = prefix.len() > location.text.len() && prefix.starts_with(&location.text);
        is_part.then_some((rewrite, prefix))
    });
    parts.collect()
}
