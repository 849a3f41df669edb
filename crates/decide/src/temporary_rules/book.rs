//! Owns the set of temporary rules, and merges those of several gateways and processes.
//!
//! A rule has one id everywhere and never changes. What is removed leaves a tombstone until the rule would have ended, so that a gateway
//! that has not heard of the removal does not bring the rule back. So the order in which entries are merged does not matter.
//!
//! # Limits
//! [`TEMPORARY_RULES`] rules, and as many tombstones, of which those that end first go first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_base::bounds::{TEMPORARY_RULE_LENGTH, TEMPORARY_RULES};
use sluicegate_limiter::Timestamp;

use super::rule::{RuleId, RuleScope, TemporaryRule};
use super::target::RuleTarget;

/// The clock of another gateway may be ahead by so much.
const OTHER_CLOCK: Duration = Duration::from_secs(300);

/// The rules and tombstones of a gateway.
#[derive(Debug, Default)]
pub struct RuleBook {
    rules: BTreeMap<RuleId, Arc<TemporaryRule>>,
    removed: BTreeMap<RuleId, Tombstone>,
}

/// A removed rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tombstone {
    until: Timestamp,
    scope: RuleScope,
}

/// A rule or a tombstone, as it is written to a file and to the store.
#[derive(Clone, Debug)]
pub enum RuleEntry {
    /// The rule is in force.
    InForce(Arc<TemporaryRule>),
    /// The rule was removed; the entry is needed until this time.
    Removed(RuleId, Timestamp, RuleScope),
}

/// There are as many rules as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleBookFull;

/// The result of taking over entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeResult {
    /// Set where an entry changed something.
    pub is_changed: bool,
    /// Why each of some entries was not taken over.
    pub refused: Vec<String>,
}

impl RuleEntry {
    /// Returns the id of the rule.
    #[must_use]
    pub fn id(&self) -> RuleId {
        match self {
            Self::InForce(rule) => rule.id,
            Self::Removed(id, _, _) => *id,
        }
    }

    /// Returns the time until which the entry is needed.
    #[must_use]
    pub fn until(&self) -> Timestamp {
        match self {
            Self::InForce(rule) => rule.until,
            Self::Removed(_, until, _) => *until,
        }
    }

    /// Returns whether all gateways of a fleet share the entry.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        let scope = match self {
            Self::InForce(rule) => rule.scope,
            Self::Removed(_, _, scope) => *scope,
        };
        scope == RuleScope::Fleet
    }
}

impl RuleBook {
    /// Returns the rules, those that have ended since the last [`Self::expire`] among them.
    pub fn rules(&self) -> impl Iterator<Item = &Arc<TemporaryRule>> {
        self.rules.values()
    }

    /// Returns every rule and tombstone.
    pub fn entries(&self) -> impl Iterator<Item = RuleEntry> {
        let rules = self.rules.values().map(Arc::clone).map(RuleEntry::InForce);
        let removed = self.removed.iter();
        rules.chain(removed.map(|(id, stone)| RuleEntry::Removed(*id, stone.until, stone.scope)))
    }

    /// Adds a rule in the place of those that do the same to the same clients on the same gateways, and returns these. `has_target`
    /// compares the target of another rule with that of this one: two texts may be one key.
    ///
    /// # Errors
    /// There are as many rules as there may be.
    pub fn add(
        &mut self,
        rule: TemporaryRule,
        has_target: impl Fn(&RuleTarget) -> bool,
        now: Timestamp,
    ) -> Result<Vec<Arc<TemporaryRule>>, RuleBookFull> {
        let is_same = |other: &&Arc<TemporaryRule>| {
            other.effect.as_str() == rule.effect.as_str()
                && has_target(&other.target)
                && other.scope == rule.scope
                && other.until > now
        };
        let same: Vec<RuleId> = self.rules().filter(is_same).map(|rule| rule.id).collect();
        if self.rules.len() - same.len() >= TEMPORARY_RULES {
            return Err(RuleBookFull);
        }
        let replaced = same.into_iter().filter_map(|id| self.remove(id, now));
        let replaced = replaced.collect();
        self.rules.insert(rule.id, Arc::new(rule));
        Ok(replaced)
    }

    /// Removes a rule and returns it; `None` where none with this id is in force.
    pub fn remove(&mut self, id: RuleId, now: Timestamp) -> Option<Arc<TemporaryRule>> {
        let removed = self.rules.remove(&id)?;
        self.bury(id, removed.until, removed.scope);
        Some(removed).filter(|rule| rule.until > now)
    }

    /// Takes over entries.
    pub fn merge_all(
        &mut self,
        entries: impl IntoIterator<Item = RuleEntry>,
        now: Timestamp,
    ) -> MergeResult {
        let mut result = MergeResult::default();
        for entry in entries {
            match self.merge(entry, now) {
                Ok(is_changed) => result.is_changed |= is_changed,
                Err(why) => result.refused.push(why),
            }
        }
        result
    }

    /// Takes over an entry. Returns whether that changes something. An entry that has ended is ignored.
    ///
    /// # Errors
    /// The reason why a rule is not taken over: it ends later than any rule may, or there are as many rules as there may be.
    pub fn merge(&mut self, entry: RuleEntry, now: Timestamp) -> Result<bool, String> {
        let id = entry.id();
        if entry.until() <= now || self.removed.contains_key(&id) {
            return Ok(false);
        }
        if entry.until() > now.saturating_add(TEMPORARY_RULE_LENGTH + OTHER_CLOCK) {
            let days = TEMPORARY_RULE_LENGTH.as_secs() / (24 * 3600);
            return Err(format!("rule {id} ends more than {days} days from now"));
        }
        match entry {
            RuleEntry::Removed(_, until, scope) => {
                self.rules.remove(&id);
                self.bury(id, until, scope);
                Ok(true)
            }
            RuleEntry::InForce(_) if self.rules.contains_key(&id) => Ok(false),
            RuleEntry::InForce(_) if self.rules.len() >= TEMPORARY_RULES => {
                Err(format!("rule {id} is one more than {TEMPORARY_RULES}"))
            }
            RuleEntry::InForce(rule) => {
                self.rules.insert(id, rule);
                Ok(true)
            }
        }
    }

    /// Drops rules and tombstones that have ended, and returns the rules.
    pub fn expire(&mut self, now: Timestamp) -> Vec<Arc<TemporaryRule>> {
        self.removed.retain(|_, stone| stone.until > now);
        let ended = self.rules.values().filter(|rule| rule.until <= now);
        let ended: Vec<Arc<TemporaryRule>> = ended.map(Arc::clone).collect();
        for rule in &ended {
            self.rules.remove(&rule.id);
        }
        ended
    }

    fn bury(&mut self, id: RuleId, until: Timestamp, scope: RuleScope) {
        if self.removed.len() >= TEMPORARY_RULES {
            let first = self.removed.iter().min_by_key(|(_, stone)| stone.until);
            if let Some(first) = first.map(|(id, _)| *id) {
                self.removed.remove(&first);
            }
        }
        self.removed.insert(id, Tombstone { until, scope });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::rule::RuleLifetime;
    use super::super::target::RuleEffect;
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

    fn after(seconds: u64) -> Timestamp {
        NOW.saturating_add(Duration::from_secs(seconds))
    }

    fn rule(id: u64, target: &str, seconds: u64) -> TemporaryRule {
        let target = RuleTarget::parse(target).unwrap();
        let lifetime = RuleLifetime {
            from: NOW,
            until: after(seconds),
        };
        TemporaryRule::new(RuleId::from_bits(id), RuleEffect::Block, target, lifetime)
    }

    fn add(
        book: &mut RuleBook,
        rule: TemporaryRule,
    ) -> Result<Vec<Arc<TemporaryRule>>, RuleBookFull> {
        let target = rule.target.clone();
        book.add(rule, |other| *other == target, NOW)
    }

    fn ids(book: &RuleBook) -> Vec<String> {
        book.rules().map(|rule| rule.id.to_string()).collect()
    }

    /// Goal: a second command about a target is the one in force, and the end of a rule is the end of its tombstone. Method: one target
    /// twice and another, removals, and time.
    #[test]
    fn a_rule_replaces_its_like_and_ends() {
        let mut book = RuleBook::default();
        assert_eq!(add(&mut book, rule(1, "192.0.2.1", 60)).unwrap().len(), 0);
        assert_eq!(add(&mut book, rule(2, "192.0.2.2", 60)).unwrap().len(), 0);
        let replaced = add(&mut book, rule(3, "192.0.2.1", 30)).unwrap();
        assert_eq!(replaced[0].id, RuleId::from_bits(1));
        assert_eq!(ids(&book), ["000000000002", "000000000003"]);
        assert!(book.remove(RuleId::from_bits(9), NOW).is_none());
        assert!(book.remove(RuleId::from_bits(2), NOW).is_some());
        assert!(book.remove(RuleId::from_bits(2), NOW).is_none());
        assert_eq!(book.entries().count(), 3);
        assert_eq!(book.expire(after(30)).len(), 1);
        assert_eq!(book.entries().count(), 2);
        assert_eq!(book.expire(after(60)).len(), 0);
        assert_eq!(book.entries().count(), 0);
    }

    /// Goal: nobody fills the memory. Method: as many rules as there may be and one more, of this gateway and of another; one whose like
    /// goes fits; then as many removals.
    #[test]
    fn rules_and_tombstones_are_bounded() {
        let mut book = RuleBook::default();
        let target = |at: usize| format!("10.{}.{}.1", at >> 8, at & 255);
        for at in 0..TEMPORARY_RULES {
            let rule = Arc::new(rule(at as u64, &target(at), 60));
            assert_eq!(book.merge(RuleEntry::InForce(rule), NOW), Ok(true));
        }
        let one_more = || rule(u64::MAX, "192.0.2.1", 60);
        assert_eq!(add(&mut book, one_more()).map(drop), Err(RuleBookFull));
        let entry = RuleEntry::InForce(Arc::new(one_more()));
        let merged = book.merge_all([entry], NOW);
        assert!(!merged.is_changed);
        assert_eq!(merged.refused, ["rule ffffffffffff is one more than 10000"]);
        assert!(add(&mut book, rule(u64::MAX - 1, &target(7), 60)).is_ok());
        for at in 0..=TEMPORARY_RULES {
            let id = RuleId::from_bits((1 << 40) + at as u64);
            let removed = RuleEntry::Removed(id, after(10), RuleScope::Fleet);
            assert_eq!(book.merge(removed, NOW), Ok(true));
        }
        assert_eq!(book.entries().count(), 2 * TEMPORARY_RULES);
    }

    /// Goal: nobody who writes the file or the store sets a rule without an end. Method: ends on both sides of the longest, of a rule and
    /// of a tombstone, which would stay as long.
    #[test]
    fn an_entry_that_ends_too_late_is_refused() {
        let mut book = RuleBook::default();
        let longest = TEMPORARY_RULE_LENGTH + OTHER_CLOCK;
        let entry = |id, seconds| RuleEntry::InForce(Arc::new(rule(id, "192.0.2.1", seconds)));
        let long = entry(2, longest.as_secs() + 1);
        let late = RuleEntry::Removed(RuleId::from_bits(3), long.until(), RuleScope::Fleet);
        assert_eq!(book.merge(entry(1, longest.as_secs()), NOW), Ok(true));
        let merged = book.merge_all([long, late], NOW);
        let why =
            ["2", "3"].map(|id| format!("rule 00000000000{id} ends more than 30 days from now"));
        assert_eq!((merged.is_changed, merged.refused), (false, why.to_vec()));
        assert_eq!(ids(&book), ["000000000001"]);
    }

    proptest! {
        /// Goal: gateways that have heard of the same entries agree, whatever the order. Method: entries about few rules in two orders.
        #[test]
        fn the_order_of_merging_does_not_matter(
            entries in prop::collection::vec((0_u64..4, any::<bool>()), 0..12),
            turn in 0_usize..12,
        ) {
            let entry = |(id, removed): &(u64, bool)| match removed {
                true => RuleEntry::Removed(RuleId::from_bits(*id), after(60), RuleScope::Fleet),
                false => RuleEntry::InForce(Arc::new(rule(*id, "192.0.2.1", 60))),
            };
            let mut one = RuleBook::default();
            let mut other = RuleBook::default();
            for heard in entries.iter().map(entry) {
                one.merge_all([heard], NOW);
            }
            let turn = turn.min(entries.len());
            for heard in entries[turn..].iter().chain(&entries[..turn]).rev().map(entry) {
                other.merge_all([heard], NOW);
            }
            prop_assert_eq!(ids(&one), ids(&other));
            prop_assert_eq!(one.removed, other.removed);
        }
    }
}
