//! Finds the routes of a host whose paths are regular expressions.
//!
//! All expressions of a host are one automaton, which reads the path once and reports those that match it. Its time is
//! proportional to the path, and does not grow with the expressions as long as its states fit a cache of 2 MiB a thread; beyond
//! that they are built again during the search. Each expression adds a byte in which a look-up records the match.

use ahash::{HashMap, HashMapExt};
use regex::bytes::RegexSet;
use sluicegate_base::path::{PathRegex, compile_regexes};

use super::entry::{PatternEntries, RouteEntry};

/// The routes of one host whose paths are regular expressions.
#[derive(Debug)]
pub(super) struct RegexRoutes {
    set: RegexSet,
    /// Entries by expression.
    entries: Vec<PatternEntries>,
}

impl RegexRoutes {
    /// Compiles the expressions of one host with their entries.
    pub(super) fn compile(routes: Vec<(&PathRegex, Vec<RouteEntry>)>) -> Self {
        if routes.is_empty() {
            return Self {
                set: RegexSet::empty(),
                entries: Vec::new(),
            };
        }
        let mut known: HashMap<&PathRegex, usize> = HashMap::new();
        let mut texts = Vec::new();
        let mut entries: Vec<PatternEntries> = Vec::new();
        for (regex, ways) in routes {
            let at = *known.entry(regex).or_insert_with(|| {
                texts.push(regex.pattern());
                entries.push(PatternEntries::default());
                texts.len() - 1
            });
            for way in ways {
                entries[at].insert(way);
            }
        }
        let set = compile_regexes(&texts, usize::MAX)
            .expect("each was compiled alone, and together they may be as large as they are");
        Self { set, entries }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the most specific entry for which `takes` is true, among those whose expression matches this path in normal form.
    pub(super) fn find(
        &self,
        path: &str,
        takes: &mut impl FnMut(&RouteEntry) -> bool,
    ) -> Option<&RouteEntry> {
        if self.is_empty() {
            return None;
        }
        let shorter = path.strip_suffix('/').filter(|path| !path.is_empty());
        let mut matched: Vec<&PatternEntries> = Vec::new();
        for reading in [Some(path), shorter].into_iter().flatten() {
            let set = self.set.matches(reading.as_bytes());
            if !set.matched_any() {
                // The usual case; a pass through the set would cost a step for each expression.
                continue;
            }
            matched.extend(set.iter().filter_map(|at| self.entries.get(at)));
        }
        let ways = matched
            .into_iter()
            .filter_map(|entries| entries.first(takes));
        ways.max_by(|a, b| a.summary.cmp(&b.summary))
    }
}
