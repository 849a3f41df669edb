//! Accounts for values of the tree, each once: it is translated, it is to be filled in, or it changes no answer.

use std::collections::BTreeSet;

use super::tree::ITSELF;
use crate::ingress::yaml::YamlNode;
use crate::ledger::{EntryId, Ledger, UNKNOWN};

/// The account of all values of the input.
pub(super) struct TreeAccount<'l> {
    pub(super) ledger: &'l mut Ledger,
    /// Values that a line under "To fill in" is about.
    covered: BTreeSet<EntryId>,
}

impl<'l> TreeAccount<'l> {
    pub(super) fn new(ledger: &'l mut Ledger) -> Self {
        Self {
            ledger,
            covered: BTreeSet::new(),
        }
    }

    /// Records that the configuration says what a value says.
    pub(super) fn translated(&mut self, node: &YamlNode) {
        let ids = node.entries().into_iter();
        for id in ids.filter(|it| !self.covered.contains(it)) {
            self.ledger.translated(id);
        }
    }

    /// Records a value that is translated with another meaning.
    pub(super) fn differs(&mut self, node: &YamlNode, difference: &str) {
        self.translated(node);
        if let Some(id) = node.entries().first() {
            self.ledger.differs(*id, difference);
        }
    }

    /// Records a value that changes no answer.
    pub(super) fn idle(&mut self, node: &YamlNode, reason: &str) {
        for id in node.entries() {
            self.ledger.without_effect(id, reason);
        }
    }

    /// Records that the operator has to write what a value does; `name` is what it is called where it has no text of its own.
    pub(super) fn lost(&mut self, node: &YamlNode, name: &str, reason: &str) {
        let ids = node.entries();
        let Some(first) = ids.first() else {
            self.ledger.fill_in(format!("{name}: {reason}"));
            return;
        };
        if ids.iter().any(|id| !self.covered.contains(id)) {
            self.ledger.fill_in_for(*first, reason);
        }
        for id in ids {
            self.ledger.left_out(id, reason);
            self.covered.insert(id);
        }
    }

    /// Records that the operator has to write what a value does, unless something was recorded of it.
    pub(super) fn lost_if_unknown(&mut self, node: &YamlNode, name: &str, reason: &str) {
        let is_unknown = |id: &EntryId| self.ledger.reason(*id) == Some(UNKNOWN);
        if node.entries().iter().all(is_unknown) {
            self.lost(node, name, reason);
        }
    }

    /// Records that all of a value is to be filled in by the line about one of its members.
    pub(super) fn lost_with(&mut self, node: &YamlNode, member: &YamlNode, reason: &str) {
        for id in node.entries() {
            self.ledger.left_out_with(id, reason);
            self.covered.insert(id);
        }
        if let Some(id) = member.entries().first() {
            self.ledger.fill_in_for(*id, reason);
        }
    }

    /// Records the members of a map that are translated, and that all others are to be filled in.
    pub(super) fn members(&mut self, node: &YamlNode, name: &str, known: &[&str]) {
        for (member, value) in node.members() {
            if member == ITSELF || known.iter().any(|it| it.eq_ignore_ascii_case(member)) {
                self.translated(value);
            } else {
                self.lost(value, &format!("{name}.{member}"), "it has no counterpart");
            }
        }
    }

    /// Requires all values of which nothing was recorded.
    pub(super) fn finish(mut self, entries: &[EntryId]) {
        for id in entries {
            if self.ledger.has_lost_effect(*id) && self.covered.insert(*id) {
                self.ledger.require(*id);
            }
        }
    }
}
