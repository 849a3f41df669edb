//! Finds the temporary rule about the key of a request: one look into a table of keyed hashes.

use std::collections::HashMap;
use std::sync::Arc;

use sluicegate_limiter::KeyHash;

use super::key::KeySeed;
use super::limit::ActiveLimit;
use super::overrides::AsItIs;
use crate::temporary_rules::{LimitEdits, RuleEffect, TemporaryRule};

/// The temporary rules about keys of a limit, by keyed hashes.
#[derive(Debug)]
pub(super) struct KeyRules(HashMap<u64, Arc<TemporaryRule>, AsItIs>);

impl KeyRules {
    /// Returns the rules about keys of `active`; `None` where there are none. A rule whose values make no key of the limit is left out.
    pub(super) fn new(active: &ActiveLimit, edits: &LimitEdits, seed: &KeySeed) -> Option<Self> {
        let keys = edits.keys(&active.name).into_iter();
        let rules = keys.filter_map(|(key, rule)| {
            let named = active.name_key(&key.values, seed).ok()?;
            Some((mark(named.key), Arc::clone(rule)))
        });
        let rules: HashMap<_, _, _> = rules.collect();
        (!rules.is_empty()).then_some(Self(rules))
    }

    /// Returns the rule about a key.
    pub(super) fn rule(&self, key: KeyHash) -> Option<&Arc<TemporaryRule>> {
        self.0.get(&mark(key))
    }

    /// Returns the keys that a rule bans.
    pub(super) fn banned(&self) -> impl Iterator<Item = KeyHash> {
        let banned = self
            .0
            .iter()
            .filter(|(_, rule)| rule.effect == RuleEffect::Ban);
        banned.map(|(bits, _)| KeyHash::from_bits(*bits))
    }
}

/// Returns the bits that tables and the log keep of a key.
fn mark(key: KeyHash) -> u64 {
    key.bits() & !1
}
