//! Finds the temporary rule about the key of a request: one look into a table of keyed hashes.

use std::collections::HashMap;
use std::sync::Arc;

use crate::temporary_rules::{LimitEdits, RuleEffect, RuleTarget, TemporaryRule};
use sluicegate_limiter::KeyHash;

use super::key::KeySeed;
use super::limit::ActiveLimit;
use super::named_key::NamedKey;
use super::overrides::AsItIs;

/// The temporary rules about keys of a limit, by keyed hashes.
#[derive(Debug)]
pub(super) struct KeyRules(HashMap<u64, KeyRule, AsItIs>);

/// A rule about a key.
#[derive(Debug)]
struct KeyRule {
    rule: Arc<TemporaryRule>,
    /// The values of the key in the form of its limit's texts; `None` where nobody is shown any.
    values: Option<Vec<String>>,
}

impl KeyRules {
    /// Returns the rules about keys of `active`; `None` where there are none. A rule whose values make no key of the limit is left out.
    pub(super) fn new(active: &ActiveLimit, edits: &LimitEdits, seed: &KeySeed) -> Option<Self> {
        let keys = edits.keys(&active.name).into_iter();
        let rules = keys.filter_map(|(key, rule)| {
            let named = active.name_key(&key.values, seed).ok()?;
            let values = active.values_of_named(&named, &key.values);
            let rule = Arc::clone(rule);
            Some((named.key.kept_bits(), KeyRule { rule, values }))
        });
        let rules: HashMap<_, _, _> = rules.collect();
        (!rules.is_empty()).then_some(Self(rules))
    }

    /// Returns the rule about a key.
    pub(super) fn rule(&self, key: KeyHash) -> Option<&Arc<TemporaryRule>> {
        Some(&self.0.get(&key.kept_bits())?.rule)
    }

    /// Returns the values of a key that a rule is about, in the form of its limit's texts.
    pub(super) fn values(&self, key: KeyHash) -> Option<&[String]> {
        self.0.get(&key.kept_bits())?.values.as_deref()
    }

    /// Returns the keys that a rule bans.
    fn banned(&self) -> impl Iterator<Item = (KeyHash, &Arc<TemporaryRule>)> {
        let rules = self.0.iter().map(|(bits, key)| (bits, &key.rule));
        let banned = rules.filter(|(_, rule)| rule.effect == RuleEffect::Ban);
        banned.map(|(bits, rule)| (KeyHash::from_bits(*bits), rule))
    }
}

impl ActiveLimit {
    /// Returns the keys that temporary rules ban, each with its rule.
    pub fn keys_banned_by_rules(&self) -> impl Iterator<Item = (KeyHash, &Arc<TemporaryRule>)> {
        self.key_rules.iter().flat_map(KeyRules::banned)
    }

    /// Returns the temporary rule that bans a key.
    #[must_use]
    pub fn rule_that_bans(&self, key: KeyHash) -> Option<&Arc<TemporaryRule>> {
        let rule = self.key_rules.as_ref()?.rule(key)?;
        (rule.effect == RuleEffect::Ban).then_some(rule)
    }

    /// Returns the key of this limit that a temporary rule is about; `None` where it is about something else, or its values make no key.
    #[must_use]
    pub fn key_of_rule(&self, target: &RuleTarget, seed: &KeySeed) -> Option<NamedKey> {
        let RuleTarget::Key(key) = target else {
            return None;
        };
        let named = || self.name_key(&key.values, seed).ok();
        (key.limit == self.name).then(named).flatten()
    }
}
