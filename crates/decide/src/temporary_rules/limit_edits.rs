//! Holds the temporary rules about limits and their keys, which are compiled into the limits of a snapshot.

use std::sync::Arc;

use super::rule::TemporaryRule;
use super::target::{LimitKey, RuleEffect, RuleTarget};

/// The temporary rules that change limits, by their ids.
#[derive(Clone, Debug, Default)]
pub struct LimitEdits(Vec<Arc<TemporaryRule>>);

impl LimitEdits {
    /// Returns the edits among `rules`, which come in the order of their ids.
    #[must_use]
    pub fn new<'r>(rules: impl Iterator<Item = &'r Arc<TemporaryRule>>) -> Self {
        let about_limits = rules.filter(|rule| rule.target.limit().is_some());
        Self(about_limits.map(Arc::clone).collect())
    }

    /// Returns the rule that multiplies the rates of a limit; of several the one that was set last.
    #[must_use]
    pub fn scaling_rule(&self, limit: &str) -> Option<&Arc<TemporaryRule>> {
        let rules = self.of_limit(limit);
        let scaling = rules.filter(|rule| rule.effect.factor().is_some());
        scaling.max_by_key(|rule| (rule.from, rule.id))
    }

    /// Returns the rules about keys of a limit. Of several about one key the last decides: one that blocks, then one that bans.
    #[must_use]
    pub fn keys(&self, limit: &str) -> Vec<(&LimitKey, &Arc<TemporaryRule>)> {
        let keys = self.of_limit(limit).filter_map(|rule| match &rule.target {
            RuleTarget::Key(key) => Some((key, rule)),
            RuleTarget::Block(_) | RuleTarget::Asn(_) | RuleTarget::Limit(_) => None,
        });
        let mut keys: Vec<_> = keys.collect();
        keys.sort_by_key(|(_, rule)| (rule.effect == RuleEffect::Block, rule.effect, rule.until));
        keys
    }

    fn of_limit(&self, limit: &str) -> impl Iterator<Item = &Arc<TemporaryRule>> {
        let rules = self.0.iter();
        rules.filter(move |rule| rule.target.limit().is_some_and(|name| **name == *limit))
    }
}

impl PartialEq for LimitEdits {
    /// Rules never change, so their ids tell.
    fn eq(&self, other: &Self) -> bool {
        let ids = self.0.iter().map(|rule| rule.id);
        ids.eq(other.0.iter().map(|rule| rule.id))
    }
}
