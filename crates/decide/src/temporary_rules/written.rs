//! Writes temporary rules as JSON, for the file of the state directory and for the store, and reads them again.
//!
//! What another version or another hand has written is checked like an operator's order; an entry that is none is ignored.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sluicegate_limiter::Timestamp;

use super::book::RuleEntry;
use super::rule::{RuleId, RuleLifetime, RuleScope, TemporaryRule};
use super::target::{RateFactor, RuleTarget, RuleWords};
use crate::rfc3339;

/// A rule or a tombstone.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum WrittenEntry {
    /// A rule.
    InForce(WrittenRule),
    /// A tombstone.
    Removed(WrittenRemoval),
}

/// A rule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WrittenRule {
    /// The id.
    pub id: String,
    /// `block`, `exempt`, `ban` or `scale`.
    pub action: String,
    /// An address, a block of addresses or a network; absent where a limit is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// A limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The values of a key of the limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<String>,
    /// The factor of the limit's rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// The time at which it was set, RFC 3339.
    pub from: String,
    /// Its end.
    pub until: String,
    /// Why it was set.
    pub reason: String,
    /// The operator who has set it.
    pub by: String,
    /// `fleet` or `here`.
    pub scope: String,
}

/// A tombstone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WrittenRemoval {
    id: String,
    removed_until: String,
    scope: String,
}

impl WrittenRule {
    /// Returns the written form of a rule.
    #[must_use]
    pub fn new(rule: &TemporaryRule) -> Self {
        let limit = rule.target.limit();
        Self {
            id: rule.id.to_string(),
            action: rule.effect.as_str().to_owned(),
            target: limit.is_none().then(|| rule.target.to_string()),
            limit: limit.map(|name| name.to_string()),
            key: match &rule.target {
                RuleTarget::Key(key) => key.values.clone(),
                RuleTarget::Block(_) | RuleTarget::Asn(_) | RuleTarget::Limit(_) => Vec::new(),
            },
            factor: rule.effect.factor().map(RateFactor::number),
            from: rfc3339::format(rule.from),
            until: rfc3339::format(rule.until),
            reason: rule.reason.clone(),
            by: rule.by.clone(),
            scope: rule.scope.as_str().to_owned(),
        }
    }

    fn read(&self) -> Result<TemporaryRule, String> {
        let words = RuleWords {
            action: &self.action,
            target: self.target.as_deref(),
            limit: self.limit.as_deref(),
            key: &self.key,
            factor: self.factor,
        };
        let (effect, target) = words.read()?;
        let lifetime = RuleLifetime {
            from: time(&self.from)?,
            until: time(&self.until)?,
        };
        let rule = TemporaryRule::new(self.id.parse()?, effect, target, lifetime);
        let rule = rule.said(&self.reason, &self.by);
        Ok(rule.in_scope(self.scope.parse()?))
    }
}

impl WrittenEntry {
    /// Returns the written form of an entry.
    #[must_use]
    pub fn new(entry: &RuleEntry) -> Self {
        match entry {
            RuleEntry::InForce(rule) => Self::InForce(WrittenRule::new(rule)),
            RuleEntry::Removed(id, until, scope) => Self::Removed(WrittenRemoval {
                id: id.to_string(),
                removed_until: rfc3339::format(*until),
                scope: scope.as_str().to_owned(),
            }),
        }
    }

    /// Returns the entry.
    ///
    /// # Errors
    /// The part that no gateway of this version writes.
    pub fn read(&self) -> Result<RuleEntry, String> {
        match self {
            Self::InForce(rule) => rule.read().map(Arc::new).map(RuleEntry::InForce),
            Self::Removed(removal) => {
                let id: RuleId = removal.id.parse()?;
                let scope: RuleScope = removal.scope.parse()?;
                Ok(RuleEntry::Removed(id, time(&removal.removed_until)?, scope))
            }
        }
    }
}

fn time(text: &str) -> Result<Timestamp, String> {
    rfc3339::parse(text).ok_or_else(|| format!("{text:?} is no time"))
}

#[cfg(test)]
mod tests {
    use super::super::target::RuleEffect;
    use super::*;

    /// Goal: an entry that is read is the one that was written, and any other text is none. Method: a rule and a tombstone, and each part
    /// damaged.
    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let lifetime = RuleLifetime {
            from: Timestamp::from_secs(1),
            until: Timestamp::from_secs(2),
        };
        let target = RuleTarget::parse("203.0.113.0/24").unwrap();
        let rule = TemporaryRule::new(RuleId::from_bits(7), RuleEffect::Exempt, target, lifetime);
        let rule = Arc::new(rule.said("a \"b\"", "admin").in_scope(RuleScope::Here));
        let removed = RuleEntry::Removed(RuleId::from_bits(8), lifetime.until, RuleScope::Fleet);
        for entry in [RuleEntry::InForce(rule), removed] {
            let text = serde_json::to_string(&WrittenEntry::new(&entry)).unwrap();
            let read: WrittenEntry = serde_json::from_str(&text).unwrap();
            let read = read.read().unwrap();
            assert_eq!(
                serde_json::to_string(&WrittenEntry::new(&read)).unwrap(),
                text
            );
            assert_eq!(
                (read.until(), read.is_shared()),
                (entry.until(), entry.is_shared())
            );
            for (from, to) in [
                ("000000000", "x"),
                ("exempt", "eat"),
                ("203", "2033"),
                ("1970", "y"),
                ("\"here\"", "\"there\""),
                ("\"fleet\"", "\"there\""),
            ] {
                let damaged = text.replace(from, to);
                let read = serde_json::from_str::<WrittenEntry>(&damaged);
                let is_read = read.is_ok_and(|read| read.read().is_ok());
                assert_eq!(is_read, damaged == text, "{damaged}");
            }
        }
    }
}
