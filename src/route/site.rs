//! Finds the most specific route of one host: by a path without variables, then by expressions, then by the other patterns.
//!
//! That is the order of [`PathRank`](super::summary::PathRank). Where a host has no expressions, one walk of the trie is all.

use super::entry::Entry;
use super::pattern::Pattern;
use super::regex::Regexes;
use super::trie::Node;
use crate::config::rules::RouteRules;

/// All routes of one host.
#[derive(Debug)]
pub(super) struct Site {
    trie: Node,
    regexes: Regexes,
}

impl Site {
    /// Compiles routes, each with its index.
    pub(super) fn compile(routes: &[(usize, &RouteRules)]) -> Self {
        let mut trie = Node::default();
        let mut by_regex = Vec::new();
        for (index, rules) in routes {
            let entries = Entry::compile(*index, &rules.matches);
            match &rules.matches.regex {
                Some(regex) => by_regex.push((regex, entries.collect())),
                None => {
                    let pattern = Pattern::compile(&rules.matches.path);
                    entries.for_each(|entry| trie.insert(&pattern, entry));
                }
            }
        }
        Self {
            trie,
            regexes: Regexes::compile(by_regex),
        }
    }

    /// The first entry, in the order of precedence, whose path fits and for which `takes` says so.
    pub(super) fn find(
        &self,
        path: &str,
        takes: &mut impl FnMut(&Entry) -> bool,
    ) -> Option<&Entry> {
        if self.regexes.is_empty() {
            return self.trie.find(path, takes);
        }
        self.trie
            .find_literal(path, takes)
            .or_else(|| self.regexes.find(path, takes))
            .or_else(|| self.trie.find(path, takes))
    }
}
