//! Finds the most specific route of one host: by a path without variables, then by expressions, then by the other patterns.
//!
//! That is the order of [`PathRank`](super::rank::PathRank). Where a host has no expressions, one walk of the trie is enough.

use sluicegate_base::path::PathCase;
use sluicegate_config::rules::RouteRules;

use super::entry::RouteEntry;
use super::pattern::CompiledPattern;
use super::regex_set::RegexRoutes;
use super::trie::TrieNode;

/// All routes of one host.
#[derive(Debug)]
pub(super) struct HostRoutes {
    /// Routes that ignore case, by paths in lower case.
    folded: TrieNode,
    /// Patterns that ignore case.
    exact: TrieNode,
    regexes: RegexRoutes,
}

impl HostRoutes {
    /// Compiles routes, each with its index.
    pub(super) fn compile(routes: &[(usize, &RouteRules)]) -> Self {
        let mut folded = TrieNode::new(PathCase::Ignored);
        let mut exact = TrieNode::new(PathCase::Kept);
        let mut by_regex = Vec::new();
        for (index, rules) in routes {
            let entries = RouteEntry::compile(*index, &rules.matches);
            match &rules.matches.regex {
                Some(regex) => by_regex.push((regex, entries.collect())),
                None => {
                    let case = rules.matches.case;
                    let pattern = CompiledPattern::compile(&rules.matches.path, case);
                    let trie = match case {
                        PathCase::Ignored => &mut folded,
                        PathCase::Kept => &mut exact,
                    };
                    entries.for_each(|entry| trie.insert(&pattern, entry));
                }
            }
        }
        Self {
            folded,
            exact,
            regexes: RegexRoutes::compile(by_regex),
        }
    }

    /// Returns the first entry, in the order of precedence, whose path matches and for which `takes` is true.
    pub(super) fn find(
        &self,
        path: &str,
        takes: &mut impl FnMut(&RouteEntry) -> bool,
    ) -> Option<&RouteEntry> {
        let literal = |takes: &mut _| {
            let folded = self.folded.find_literal(path, takes);
            greater(folded, self.exact.find_literal(path, takes))
        };
        let any = |takes: &mut _| {
            let folded = self.folded.find(path, takes);
            greater(folded, self.exact.find(path, takes))
        };
        if self.regexes.is_empty() {
            return any(takes);
        }
        literal(takes)
            .or_else(|| self.regexes.find(path, takes))
            .or_else(|| any(takes))
    }
}

fn greater<'e>(a: Option<&'e RouteEntry>, b: Option<&'e RouteEntry>) -> Option<&'e RouteEntry> {
    match (a, b) {
        (Some(a), Some(b)) if b.summary > a.summary => Some(b),
        (a, b) => a.or(b),
    }
}
