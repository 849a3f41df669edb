//! Finds the most specific route of one host: by a path without variables, then by expressions, then by the other patterns.
//!
//! That is the order of [`PathRank`](super::summary::PathRank). Where a host has no expressions, one walk of the trie is all.

use super::entry::Entry;
use super::pattern::Pattern;
use super::regex::Regexes;
use super::trie::Node;
use crate::config::rules::{PathCase, RouteRules};

/// All routes of one host.
#[derive(Debug)]
pub(super) struct Site {
    /// By paths in lower case, of routes that ignore case.
    folded: Node,
    /// Of those that do not.
    exact: Node,
    regexes: Regexes,
}

impl Site {
    /// Compiles routes, each with its index.
    pub(super) fn compile(routes: &[(usize, &RouteRules)]) -> Self {
        let mut folded = Node::new(PathCase::Ignored);
        let mut exact = Node::new(PathCase::Kept);
        let mut by_regex = Vec::new();
        for (index, rules) in routes {
            let entries = Entry::compile(*index, &rules.matches);
            match &rules.matches.regex {
                Some(regex) => by_regex.push((regex, entries.collect())),
                None => {
                    let case = rules.matches.case;
                    let pattern = Pattern::compile(&rules.matches.path, case);
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
            regexes: Regexes::compile(by_regex),
        }
    }

    /// The first entry, in the order of precedence, whose path fits and for which `takes` says so.
    pub(super) fn find(
        &self,
        path: &str,
        takes: &mut impl FnMut(&Entry) -> bool,
    ) -> Option<&Entry> {
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

fn greater<'e>(a: Option<&'e Entry>, b: Option<&'e Entry>) -> Option<&'e Entry> {
    match (a, b) {
        (Some(a), Some(b)) if b.summary > a.summary => Some(b),
        (a, b) => a.or(b),
    }
}
