//! Shows temporary rules to readers, and compares the keys that they are about.
//!
//! The values of a key are shown as those of every key are: as `[log] keys` says, and only where readers are known by a token. The hash
//! identifies the key without them.

use std::sync::Arc;

use serde::Serialize;
use sluicegate_base::clock;
use sluicegate_decide::rfc3339;
use sluicegate_decide::temporary_rules::{
    RateFactor, RuleEffect, RuleTarget, TemporaryRule, written_key,
};
use sluicegate_limiter::{KeyHash, Timestamp};

use super::duration::seconds;
use sluicegate_config::rules::LoggedKeys;
use sluicegate_decide::admission::{ActiveLimit, KeySeed};
use sluicegate_process::GatewayProcess;
use sluicegate_process::snapshot::Snapshot;

/// Rules that are named in a line about several.
const NAMED: usize = 20;

/// The parts of the gateway by which rules are shown and compared.
#[derive(Clone, Copy)]
pub(super) struct RuleViewer<'s> {
    pub(super) snapshot: &'s Snapshot,
    pub(super) seed: &'s KeySeed,
}

/// A rule as readers see it.
#[derive(Debug, Serialize)]
pub(super) struct RuleRow {
    id: String,
    action: &'static str,
    /// To whom or what it does that, in words.
    pub(super) object: String,
    /// An address, a block of addresses or a network; `None` where a limit is named.
    target: Option<String>,
    limit: Option<String>,
    /// The hash of the key; `None` for a rule about no key, or whose limit has no such key now.
    pub(super) key: Option<String>,
    /// The values of the key in the form of `[log] keys`; `None` where they are hidden.
    key_values: Option<Vec<String>>,
    factor: Option<f64>,
    from: String,
    until: String,
    /// Seconds until its end.
    left: f64,
    /// Requests of this gateway that it decided.
    hits: u64,
    reason: String,
    by: String,
    scope: &'static str,
}

impl RuleViewer<'_> {
    /// Returns a rule as readers see it.
    pub(super) fn row(self, rule: &TemporaryRule, now: Timestamp) -> RuleRow {
        let limit = rule.target.limit();
        let active = limit.and_then(|name| self.snapshot.compiled.limits.get(name));
        let named = active.and_then(|active| active.key_of_rule(&rule.target, self.seed));
        let key = named
            .as_ref()
            .map(|named| format!("{:016x}", named.key.kept_bits()));
        let key_values = match (&rule.target, active, &named) {
            (RuleTarget::Key(key), Some(active), Some(named)) => {
                active.values_of_named(named, &key.values)
            }
            _ => None,
        };
        RuleRow {
            id: rule.id.to_string(),
            action: rule.effect.as_str(),
            object: self.object(&rule.target, key.as_deref(), key_values.as_deref()),
            target: limit.is_none().then(|| rule.target.to_string()),
            limit: limit.map(ToString::to_string),
            key,
            key_values,
            factor: rule.effect.factor().map(RateFactor::number),
            from: rfc3339::format(rule.from),
            until: rfc3339::format(rule.until),
            left: seconds(clock::between(now, rule.until)),
            hits: rule.hits(),
            reason: (rule.reason_for_readers(&self.snapshot.compiled.rules.admin)).to_owned(),
            by: rule.by.clone(),
            scope: rule.scope.as_str(),
        }
    }

    /// Names the object of a rule. Masked values are the same for many keys, so the hash stands beside them.
    fn object(
        self,
        target: &RuleTarget,
        key: Option<&str>,
        key_values: Option<&[String]>,
    ) -> String {
        let RuleTarget::Key(named) = target else {
            return target.to_string();
        };
        let limit = &named.limit;
        let is_masked = self.snapshot.compiled.rules.log.keys == LoggedKeys::Masked;
        match (key_values, key) {
            _ if named.values.is_empty() => format!("every request of {limit}"),
            (Some(values), Some(key)) if is_masked => {
                format!("the key {key} ({} masked) of {limit}", written_key(values))
            }
            (Some(values), _) => format!("{} of {limit}", written_key(values)),
            (None, Some(key)) => format!("the key {key} of {limit}"),
            (None, None) => format!("a key of {limit}"),
        }
    }

    /// Returns whether another target is this one: keys are compared in the form in which their limit counts.
    pub(super) fn same_as(self, target: &RuleTarget) -> impl Fn(&RuleTarget) -> bool {
        let limit = target.limit();
        let active = limit.and_then(|name| self.snapshot.compiled.limits.get(name));
        let key = move |target: &RuleTarget| {
            active?
                .key_of_rule(target, self.seed)
                .map(|named| named.key)
        };
        let own = key(target);
        move |other| other == target || (own.is_some() && key(other) == own)
    }
}

/// Returns the rules that ban those keys of a limit for which `is_meant` is true.
pub(super) fn rules_that_ban(
    process: &GatewayProcess,
    limit: &ActiveLimit,
    is_meant: impl Fn(KeyHash, &TemporaryRule) -> bool,
) -> Vec<Arc<TemporaryRule>> {
    let mut rules = process.shared.temporary.list(clock::now());
    rules.retain(|rule| {
        let is_ban = rule.effect == RuleEffect::Ban;
        let key = || limit.key_of_rule(&rule.target, &process.shared.seed);
        is_ban && key().is_some_and(|named| is_meant(named.key, rule))
    });
    rules
}

/// Ends rules, and returns those that were in force.
pub(super) fn end(
    process: &GatewayProcess,
    rules: &[Arc<TemporaryRule>],
) -> Vec<Arc<TemporaryRule>> {
    if rules.is_empty() {
        return Vec::new();
    }
    let ids: Vec<_> = rules.iter().map(|rule| rule.id).collect();
    let ended = process.shared.temporary.remove(&ids, clock::now());
    process.follow_temporary_rules();
    ended
}

/// Ends every rule that bans a key of a limit.
pub(super) fn end_bans(
    process: &GatewayProcess,
    limit: &ActiveLimit,
    key: KeyHash,
) -> Vec<Arc<TemporaryRule>> {
    let is_meant = |other: KeyHash, _: &TemporaryRule| other.kept_bits() == key.kept_bits();
    end(process, &rules_that_ban(process, limit, is_meant))
}

/// Returns the words of the audit line about rules that were removed beside something else; empty for none.
pub(super) fn removed_words(rules: &[Arc<TemporaryRule>]) -> String {
    let named = rules.iter().take(NAMED).map(|rule| rule.id.to_string());
    let ids = named.collect::<Vec<_>>().join(", ");
    match rules.len() {
        0 => String::new(),
        1 => format!(", and removed temporary rule {ids}"),
        2..=NAMED => format!(", and removed temporary rules {ids}"),
        number => {
            let others = number - NAMED;
            format!(", and removed temporary rules {ids} and {others} more")
        }
    }
}
