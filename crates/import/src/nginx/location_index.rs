//! Finds the location of a path or of a name, as nginx looks for it.

use std::collections::BTreeMap;

use regex::bytes::{RegexSet, RegexSetBuilder};

use super::location_block::{LocationBlock, LocationMatch};
use super::templates;
use crate::bounds;
use crate::paths;

/// The places of the locations of a server block, by their texts.
pub(super) struct LocationIndex {
    exact: BTreeMap<String, usize>,
    named: BTreeMap<String, usize>,
    prefixes: BTreeMap<String, usize>,
    expressions: RegexSet,
    /// The places of `expressions`.
    expression_places: Vec<usize>,
    /// The texts of expressions that take each path with a text at its beginning, with their places.
    beginnings: Vec<(String, usize)>,
}

impl LocationIndex {
    pub(super) fn new(locations: &[LocationBlock<'_>]) -> Self {
        let mut index = Self {
            exact: BTreeMap::new(),
            named: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            expressions: RegexSet::empty(),
            expression_places: Vec::new(),
            beginnings: Vec::new(),
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
                        let text = expression.strip_prefix('^').and_then(paths::literal);
                        index.beginnings.extend(text.map(|text| (text, place)));
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

    /// Returns the place of the first expression that takes all paths with a beginning.
    pub(super) fn whole_expression(&self, beginning: &str) -> Option<usize> {
        let mut all = self.beginnings.iter();
        let (_, place) = all.find(|(text, _)| beginning.starts_with(text))?;
        Some(*place)
    }

    /// Returns the place of the longest prefix of a text.
    pub(super) fn widest(&self, text: &str) -> Option<usize> {
        paths::longest_beginning(&self.prefixes, text).copied()
    }

    /// Returns the places of all locations that a path with variables can reach; none where it has no variable.
    pub(super) fn possible(&self, text: &str, locations: &[LocationBlock<'_>]) -> Vec<usize> {
        let Some((head, tail)) = templates::ends(text) else {
            return Vec::new();
        };
        let below = |texts: &BTreeMap<String, usize>| -> Vec<usize> {
            let texts = texts.range(head.clone()..);
            let texts = texts.take_while(|(text, _)| text.starts_with(&head));
            texts.map(|(_, place)| *place).collect()
        };
        let text_of = |place: &usize| locations.get(*place).map_or("", |it| it.text.as_str());
        let exact = below(&self.exact).into_iter();
        let mut places: Vec<usize> = exact.filter(|it| text_of(it).ends_with(&tail)).collect();
        places.extend(self.widest(&head));
        places.extend(below(&self.prefixes));
        let may_match = |place: &&usize| {
            let expression = locations.get(**place).and_then(LocationBlock::expression);
            expression.is_some_and(|it| paths::may_begin(&it, &head) && paths::may_end(&it, &tail))
        };
        places.extend(self.expression_places.iter().filter(may_match));
        places.dedup();
        places
    }

    /// Returns the place of the location of a path or of a name; variables stand for some text.
    pub(super) fn place(&self, text: &str, locations: &[LocationBlock<'_>]) -> Option<usize> {
        if text.starts_with('@') {
            return self.named.get(text).copied();
        }
        let path = templates::sample(text)?;
        if let Some(place) = self.exact.get(&path) {
            return Some(*place);
        }
        let longest = self.widest(&path);
        let is_final = |place: &usize| {
            locations
                .get(*place)
                .is_some_and(|it| it.match_kind == LocationMatch::FinalPrefix)
        };
        if longest.as_ref().is_some_and(is_final) {
            return longest;
        }
        let matches = self.expressions.matches(path.as_bytes());
        let places = matches
            .iter()
            .filter_map(|at| self.expression_places.get(at));
        places.min().copied().or(longest)
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
