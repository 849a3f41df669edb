//! Divides the paths that a `rewrite` passes on by the locations that they reach, each of which has limits and an origin of its own.
//!
//! A `rewrite` such as `^/v1/(.*)$ /$1` leads below each location that begins with its new path. A part of its paths is a route of its own
//! where the group is narrowed to it: `^/v1/(admin.*)$`, or the prefix `/v1/admin` in a location.

use super::jumps::{JumpTable, handler, stays_in};
use super::keys::{TextPiece, pieces};
use super::location_block::{LocationBlock, LocationMatch, is_prefix};
use super::tree::Directive;
use crate::bounds;
use crate::paths;

/// The paths of a `rewrite`, divided.
pub(super) struct PathDivision<'t, 'd> {
    /// In the order in which routes are written.
    pub(super) parts: Vec<LocationBlock<'d>>,
    /// Locations that further paths reach, for which no route is known.
    pub(super) rest: Vec<&'t LocationBlock<'d>>,
    /// True if some of the paths come to the location of the `rewrite` again.
    pub(super) repeats: bool,
}

/// A `rewrite` that puts a text in place of the beginning of paths.
struct MovedBeginning {
    /// The expression before the last group, and the text at the beginning of this group.
    before: String,
    group: &'static str,
    /// The beginning of the paths that it takes, where that is a text.
    from: Option<String>,
    /// The beginning of the paths that it makes.
    to: String,
}

impl MovedBeginning {
    fn read(rewrite: &Directive) -> Option<Self> {
        let [expression, replacement, ..] = rewrite.words.as_slice() else {
            return None;
        };
        let groups = paths::group_count(expression);
        let path = replacement.split('?').next()?;
        let (head, last) = match pieces(path).as_slice() {
            [TextPiece::Variable(last)] => (String::new(), last.clone()),
            [TextPiece::Text(head), TextPiece::Variable(last)] => (head.clone(), last.clone()),
            _ => return None,
        };
        let inner = expression.strip_suffix('$').unwrap_or(expression);
        let endings = [("(/.*)", "/"), ("(/.+)", "/"), ("(.*)", ""), ("(.+)", "")];
        let (before, group) = endings
            .iter()
            .find_map(|(ending, group)| Some((inner.strip_suffix(ending)?, *group)))?;
        let is_last = last.parse() == Ok(groups);
        let is_whole = before.starts_with('^') && !paths::has_alternatives(expression);
        let to = head + group;
        if !is_last || !is_whole || !to.starts_with('/') {
            return None;
        }
        let from = paths::literal(&before[1..]).map(|text| text + group);
        Some(Self {
            before: before.to_owned(),
            group,
            from,
            to,
        })
    }

    /// Narrows it to the paths of a location. `None` where these are not known.
    fn within(mut self, location: &LocationBlock<'_>) -> Option<Self> {
        if is_of_server(location) {
            return Some(self);
        }
        let from = self.from.take()?;
        let from = match location.text.strip_prefix(from.as_str()) {
            Some(rest) => {
                self.to.push_str(rest);
                location.text.clone()
            }
            None => from,
        };
        let is_known = is_prefix(location.match_kind) && from.starts_with(&location.text);
        self.from = Some(from);
        is_known.then_some(self)
    }
}

/// Returns true for the paths of a `rewrite` of the server block.
fn is_of_server(location: &LocationBlock<'_>) -> bool {
    location.match_kind == LocationMatch::Expression && location.rewrite.is_some()
}

/// Returns the location that paths of a `rewrite` of a beginning reach unless a narrower one takes them; `None` where it is none.
pub(super) fn base<'t, 'd>(
    location: &LocationBlock<'d>,
    rewrite: &'d Directive,
    table: &'t JumpTable<'d>,
) -> Option<&'t LocationBlock<'d>> {
    let moved = MovedBeginning::read(rewrite)?.within(location)?;
    table.base(&moved.to)
}

/// Divides the paths of a location that a `rewrite` passes on; `None` where that is no `rewrite` of a beginning.
pub(super) fn divide<'t, 'd>(
    location: &LocationBlock<'d>,
    rewrite: &'d Directive,
    table: &'t JumpTable<'d>,
) -> Option<PathDivision<'t, 'd>> {
    if location.passes_to.is_some() || stays_in(rewrite, location) {
        return None;
    }
    let moved = MovedBeginning::read(rewrite)?.within(location)?;
    let base = table.base(&moved.to)?;
    let is_other = |it: &&LocationBlock<'_>| {
        !is_same_location(it, base) && !is_same_location(it, location) && reaches(&moved, it, base)
    };
    let most = bounds::REWRITE_PARTS;
    let others = table.locations().filter(is_other).take(most + 1);
    let others: Vec<&LocationBlock<'d>> = others.collect();
    let mut division = PathDivision {
        parts: Vec::new(),
        rest: Vec::new(),
        repeats: is_prefix(location.match_kind) && location.text.starts_with(&moved.to),
    };
    if others.iter().all(|it| answers_alike(it, base)) {
        return Some(division);
    }
    if others.len() > most {
        division.rest = others;
        return Some(division);
    }
    let mut parts: Vec<(PartOrder, LocationBlock<'d>)> = Vec::new();
    for other in others {
        let narrowed = match is_of_server(location) {
            true => paths_of_server(&moved, other),
            false => path_of_location(&moved, location, other, table),
        };
        match narrowed {
            NarrowedPaths::Known(match_kind, texts) => {
                let block = |text: String| LocationBlock {
                    match_kind,
                    text,
                    children: &[],
                    rewrite: Some(rewrite),
                    passes_to: other.directive,
                    ..location.clone()
                };
                let order = part_order(other);
                parts.extend(texts.into_iter().map(|text| (order, block(text))));
            }
            NarrowedPaths::Absent => {}
            NarrowedPaths::Unknown => division.rest.push(other),
        }
    }
    parts.sort_by_key(|(order, _)| *order);
    division.parts = parts.into_iter().map(|(_, part)| part).collect();
    Some(division)
}

/// The order in which nginx looks at locations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PartOrder {
    Exact,
    FinalPrefix(usize),
    Expression,
    Prefix(usize),
}

fn part_order(location: &LocationBlock<'_>) -> PartOrder {
    let length = usize::MAX - location.text.len();
    match location.match_kind {
        LocationMatch::Exact => PartOrder::Exact,
        LocationMatch::FinalPrefix => PartOrder::FinalPrefix(length),
        LocationMatch::Expression => PartOrder::Expression,
        LocationMatch::Prefix | LocationMatch::Named => PartOrder::Prefix(length),
    }
}

/// Returns true if some path with the new beginning reaches a location, which is not the base.
fn reaches(moved: &MovedBeginning, other: &LocationBlock<'_>, base: &LocationBlock<'_>) -> bool {
    let is_below = other.text.starts_with(&moved.to);
    let is_expression_before = base.match_kind == LocationMatch::Expression;
    match other.match_kind {
        LocationMatch::Named => false,
        LocationMatch::Exact => is_below,
        LocationMatch::FinalPrefix => is_below && other.text != moved.to,
        LocationMatch::Prefix => is_below && other.text != moved.to && !is_expression_before,
        LocationMatch::Expression => {
            base.match_kind != LocationMatch::FinalPrefix
                && (other.expression()).is_some_and(|it| paths::may_begin(&it, &moved.to))
        }
    }
}

/// The paths of a `rewrite` that reach one location.
enum NarrowedPaths {
    /// The comparison, and the text of each.
    Known(LocationMatch, Vec<String>),
    /// No path comes there by the `rewrite`.
    Absent,
    Unknown,
}

/// Returns the paths of a `rewrite` of the server block that reach a location: expressions whose last group is narrowed to it.
fn paths_of_server(moved: &MovedBeginning, other: &LocationBlock<'_>) -> NarrowedPaths {
    let behind = other.text.strip_prefix(moved.to.as_str());
    let ends: Option<Vec<String>> = match other.match_kind {
        LocationMatch::Exact => behind.map(|rest| vec![paths::escaped(rest)]),
        LocationMatch::Expression => ends_of_expression(&moved.to, other),
        // A group within the last one has the rest of the path behind the location.
        _ => behind.map(|rest| vec![paths::escaped(rest) + "(.*)"]),
    };
    let MovedBeginning { before, group, .. } = moved;
    let narrowed = |rest: &String| format!("{before}({}{rest})$", paths::escaped(group));
    match ends {
        Some(ends) => NarrowedPaths::Known(
            LocationMatch::Expression,
            ends.iter().map(narrowed).collect(),
        ),
        None => NarrowedPaths::Unknown,
    }
}

/// Returns the paths of a location that its `rewrite` passes on to another one.
fn path_of_location(
    moved: &MovedBeginning,
    location: &LocationBlock<'_>,
    other: &LocationBlock<'_>,
    table: &JumpTable<'_>,
) -> NarrowedPaths {
    let behind = other.text.strip_prefix(moved.to.as_str());
    let behind = behind.filter(|_| other.match_kind != LocationMatch::Expression);
    let Some((from, rest)) = moved.from.as_ref().zip(behind) else {
        return match takes_before(moved, location, other) {
            true => NarrowedPaths::Absent,
            false => NarrowedPaths::Unknown,
        };
    };
    let text = from.clone() + rest;
    let is_exact = other.match_kind == LocationMatch::Exact;
    let holder = match is_exact {
        true => table.locate(&text),
        false => table.widest(&text),
    };
    match holder.is_some_and(|it| is_same_location(it, location)) {
        true if is_exact => NarrowedPaths::Known(LocationMatch::Exact, vec![text]),
        true => NarrowedPaths::Known(location.match_kind, vec![text]),
        false => NarrowedPaths::Absent,
    }
}

/// Returns the expressions over the rest of paths with a beginning that a location takes.
fn ends_of_expression(to: &str, location: &LocationBlock<'_>) -> Option<Vec<String>> {
    let expression = location.expression()?;
    if expression.starts_with("(?i)") {
        return None;
    }
    let beginning = paths::escaped(to);
    let found = paths::found_behind(to, &expression)?;
    found
        .iter()
        .map(|it| it.strip_prefix(beginning.as_str()).map(str::to_owned))
        .collect()
}

/// Returns true if an expression takes a new path only if it took the path before: it then goes before the location of the `rewrite`.
fn takes_before(
    moved: &MovedBeginning,
    location: &LocationBlock<'_>,
    other: &LocationBlock<'_>,
) -> bool {
    let Some(expression) = other.expression() else {
        return false;
    };
    if expression.contains('^') || location.match_kind == LocationMatch::FinalPrefix {
        return false;
    }
    let from = moved.from.as_deref().unwrap_or_default();
    let inner = expression.strip_prefix("(?i)").unwrap_or(&expression);
    match inner.strip_prefix('/') {
        Some(inner) => !inner.contains('/') && from.ends_with('/') && moved.to.ends_with('/'),
        None => !inner.contains('/'),
    }
}

/// Returns the rest of a path behind the prefix of a location, where `part` has the paths of a `rewrite` of the server block that reach it.
pub(super) fn rest_behind(
    part: &LocationBlock<'_>,
    location: &LocationBlock<'_>,
) -> Option<String> {
    let reaches = part.passes_to.map(|it| it.id) == location.directive.map(|it| it.id);
    match (is_of_server(part) && reaches, location.match_kind) {
        (true, LocationMatch::Exact) => Some(String::new()),
        (true, kind) if is_prefix(kind) => {
            let last = paths::group_count(&part.text);
            Some(format!("{{path.{last}}}"))
        }
        _ => None,
    }
}

pub(super) fn is_same_location(one: &LocationBlock<'_>, other: &LocationBlock<'_>) -> bool {
    let id = |it: &LocationBlock<'_>| it.directive.map(|directive| directive.id);
    id(one) == id(other)
}

/// Returns true if two locations have the same limits, lists and server.
pub(super) fn answers_alike(one: &LocationBlock<'_>, other: &LocationBlock<'_>) -> bool {
    let answer = |it: &LocationBlock<'_>| {
        let directive = handler(it);
        directive.map(|directive| (directive.name.clone(), directive.words.clone()))
    };
    one.scope.has_guards_of(&other.scope)
        && other.scope.has_guards_of(&one.scope)
        && answer(one) == answer(other)
}
