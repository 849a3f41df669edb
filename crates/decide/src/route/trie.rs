//! Finds the most specific route of one host, by the segments of the path.
//!
//! A look-up descends in the order of precedence: text, then parameter, then the ends of this node. The first entry that matches
//! the request is therefore the greatest of all, and the search can stop. When the more specific branch has none, the search
//! backtracks and tries the next.

use ahash::{HashMap, HashMapExt};
use sluicegate_base::path::PathCase;

use super::entry::{PatternEntries, RouteEntry};
use super::pattern::{CompiledPattern, PatternEnd, PatternSegment};

/// Bytes of the longest segment that is converted to lower case without allocation.
const SHORT_SEGMENT: usize = 64;

/// The routes whose patterns share a prefix.
#[derive(Debug)]
pub(super) struct TrieNode {
    case: PathCase,
    literals: HashMap<Box<str>, TrieNode>,
    parameter: Option<Box<TrieNode>>,
    slash: PatternEntries,
    exact: PatternEntries,
    tail: PatternEntries,
}

impl TrieNode {
    pub(super) fn new(case: PathCase) -> Self {
        Self {
            case,
            literals: HashMap::new(),
            parameter: None,
            slash: PatternEntries::default(),
            exact: PatternEntries::default(),
            tail: PatternEntries::default(),
        }
    }

    pub(super) fn insert(&mut self, pattern: &CompiledPattern, entry: RouteEntry) {
        let case = self.case;
        let new = || Self::new(case);
        let mut node = self;
        for step in &pattern.steps {
            node = match step {
                PatternSegment::Literal(text) => {
                    node.literals.entry(text.clone()).or_insert_with(new)
                }
                PatternSegment::Parameter => node.parameter.get_or_insert_with(|| Box::new(new())),
            };
        }
        match pattern.end {
            PatternEnd::Slash => node.slash.insert(entry),
            PatternEnd::Exact => node.exact.insert(entry),
            PatternEnd::Tail => node.tail.insert(entry),
        }
    }

    /// Returns the first entry, in the order of precedence, that matches this path in normal form and for which `takes` is true.
    pub(super) fn find(
        &self,
        path: &str,
        takes: &mut impl FnMut(&RouteEntry) -> bool,
    ) -> Option<&RouteEntry> {
        self.walk(Some(below(path)), takes)
    }

    /// Searches as [`find`](Self::find) does, among patterns of text alone.
    pub(super) fn find_literal(
        &self,
        path: &str,
        takes: &mut impl FnMut(&RouteEntry) -> bool,
    ) -> Option<&RouteEntry> {
        let mut node = self;
        let mut rest = Some(below(path));
        while let Some(text) = rest.filter(|rest| !rest.is_empty()) {
            let (segment, behind) = split(text);
            node = node.literal(segment)?;
            rest = behind;
        }
        let slash = rest.and_then(|_| node.slash.first(takes));
        slash.or_else(|| node.exact.first(takes))
    }

    /// Returns the child node for a segment of a path.
    fn literal(&self, segment: &str) -> Option<&Self> {
        let is_other = |byte: &u8| byte.is_ascii_uppercase();
        if self.case == PathCase::Kept || !segment.as_bytes().iter().any(is_other) {
            return self.literals.get(segment);
        }
        let mut buffer = [0; SHORT_SEGMENT];
        let Some(short) = buffer.get_mut(..segment.len()) else {
            return self.literals.get(&*segment.to_ascii_lowercase());
        };
        short.copy_from_slice(segment.as_bytes());
        short.make_ascii_lowercase();
        self.literals.get(std::str::from_utf8(short).ok()?)
    }

    /// Searches below this node; `rest` is the part after the slash that follows this node's segment; `None` where there is no
    /// such slash.
    fn walk(
        &self,
        rest: Option<&str>,
        takes: &mut impl FnMut(&RouteEntry) -> bool,
    ) -> Option<&RouteEntry> {
        let Some(rest) = rest else {
            return self.exact.first(takes);
        };
        if rest.is_empty() {
            return self
                .slash
                .first(takes)
                .or_else(|| self.exact.first(takes))
                .or_else(|| self.tail.first(takes));
        }
        let (segment, rest) = split(rest);
        let literal = self.literal(segment);
        literal
            .and_then(|node| node.walk(rest, takes))
            .or_else(|| self.parameter.as_ref()?.walk(rest, takes))
            .or_else(|| self.tail.first(takes))
    }
}

fn below(path: &str) -> &str {
    path.strip_prefix('/').unwrap_or(path)
}

/// Returns the first segment, and the part after the slash that follows it, if there is one.
fn split(path: &str) -> (&str, Option<&str>) {
    // Most segments are too short for vector instructions.
    match path.bytes().position(|byte| byte == b'/') {
        Some(slash) => (&path[..slash], Some(&path[slash + 1..])),
        None => (path, None),
    }
}
