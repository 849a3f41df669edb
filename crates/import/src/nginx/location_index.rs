//! Finds the location of a path or of a name, as nginx looks for it.

use std::collections::BTreeMap;

use regex::bytes::{RegexSet, RegexSetBuilder};

use super::locations::{LocationBlock, LocationMatch};
use super::templates;
use crate::bounds;

/// The places of the locations of a server block, by their texts.
pub(super) struct LocationIndex {
    exact: BTreeMap<String, usize>,
    named: BTreeMap<String, usize>,
    prefixes: BTreeMap<String, usize>,
    expressions: RegexSet,
    /// The places of `expressions`.
    expression_places: Vec<usize>,
}

impl LocationIndex {
    pub(super) fn new(locations: &[LocationBlock<'_>]) -> Self {
        let mut index = Self {
            exact: BTreeMap::new(),
            named: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            expressions: RegexSet::empty(),
            expression_places: Vec::new(),
        };
        let mut expressions = Vec::new();
        for (place, location) in locations.iter().enumerate() {
            let by_text = match location.match_kind {
                LocationMatch::Exact => &mut index.exact,
                LocationMatch::Named => &mut index.named,
                LocationMatch::Prefix | LocationMatch::FinalPrefix => &mut index.prefixes,
                LocationMatch::Expression => {
                    // One that the engine does not have is no path of a route either.
                    if let Some(expression) = location.expression()
                        && expression_set([&expression]).is_some()
                    {
                        expressions.push(expression);
                        index.expression_places.push(place);
                    }
                    continue;
                }
            };
            by_text.entry(location.text.clone()).or_insert(place);
        }
        index.expressions = expression_set(&expressions).unwrap_or_else(RegexSet::empty);
        index
    }

    /// Returns the place of the location of a path or of a name; variables stand for some text.
    pub(super) fn place(&self, text: &str, locations: &[LocationBlock<'_>]) -> Option<usize> {
        let path = text.split('?').next()?;
        if path.starts_with('@') {
            return self.named.get(path).copied();
        }
        let path = templates::sample(path)?;
        if let Some(place) = self.exact.get(&path) {
            return Some(*place);
        }
        let ends = path.char_indices().map(|(at, _)| at).chain([path.len()]);
        let longest = ends.rev().find_map(|end| self.prefixes.get(&path[..end]));
        let is_final = |place: &usize| {
            locations
                .get(*place)
                .is_some_and(|it| it.match_kind == LocationMatch::FinalPrefix)
        };
        if longest.is_some_and(is_final) {
            return longest.copied();
        }
        let matches = self.expressions.matches(path.as_bytes());
        let places = matches
            .iter()
            .filter_map(|at| self.expression_places.get(at));
        places.min().or(longest).copied()
    }
}

/// Returns a set of expressions, in which nginx searches with regard to bytes.
pub(super) fn expression_set<T: AsRef<str>>(
    expressions: impl IntoIterator<Item = T>,
) -> Option<RegexSet> {
    let mut builder = RegexSetBuilder::new(expressions);
    builder
        .unicode(false)
        .size_limit(bounds::EXPRESSION_BYTES)
        .build()
        .ok()
}
