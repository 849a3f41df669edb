//! Owns one temporary rule: what it does to whom, until when, and who has set it and why.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_config::rules::{AdminRules, Name};
use sluicegate_limiter::{KeyHash, Timestamp};

use super::target::{RuleEffect, RuleTarget};
use crate::request_id::RequestId;

/// Most characters of a reason.
const REASON: usize = 200;
/// Most characters of the name of the operator.
const OPERATOR: usize = 64;

/// A rule that an operator has set for a time.
#[derive(Debug)]
pub struct TemporaryRule {
    /// Its id, the same on all gateways.
    pub id: RuleId,
    /// The effect.
    pub effect: RuleEffect,
    /// To whom or what it does that.
    pub target: RuleTarget,
    /// The time at which it was set.
    pub from: Timestamp,
    /// Its end.
    pub until: Timestamp,
    /// Why it was set; empty where nobody has said so.
    pub reason: String,
    /// The operator who has set it.
    pub by: String,
    /// The gateways on which it is in force.
    pub scope: RuleScope,
    /// Its name in the access log: `temporary:ID`, which no list can have.
    name: Name,
    /// Requests of this gateway that it decided.
    hits: AtomicU64,
}

/// The beginning and the end of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleLifetime {
    /// The time at which it is set.
    pub from: Timestamp,
    /// Its end.
    pub until: Timestamp,
}

/// The id of a rule: 12 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(u64);

/// The gateways on which a rule is in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleScope {
    /// All gateways that share the store; without a store this one.
    #[default]
    Fleet,
    /// The gateway on which it was set.
    Here,
}

impl TemporaryRule {
    /// Returns a rule without hits. The texts are cut to what is kept, without control characters, and the times to milliseconds, as they
    /// are written.
    #[must_use]
    pub fn new(id: RuleId, effect: RuleEffect, target: RuleTarget, lifetime: RuleLifetime) -> Self {
        Self {
            id,
            effect,
            target,
            from: in_milliseconds(lifetime.from),
            until: in_milliseconds(lifetime.until),
            reason: String::new(),
            by: String::new(),
            scope: RuleScope::Fleet,
            name: format!("temporary:{id}").into(),
            hits: AtomicU64::new(0),
        }
    }

    /// Returns the rule with the operator's words.
    #[must_use]
    pub fn said(self, reason: &str, by: &str) -> Self {
        Self {
            reason: plain(reason, REASON),
            by: plain(by, OPERATOR),
            ..self
        }
    }

    /// Returns the rule for these gateways.
    #[must_use]
    pub fn in_scope(self, scope: RuleScope) -> Self {
        Self { scope, ..self }
    }

    /// Returns its name in the access log.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Returns the reason as readers of the admin listener see it: none where no token tells who they are, since a reason may name anybody.
    #[must_use]
    pub fn reason_for_readers(&self, admin: &AdminRules) -> &str {
        match admin.token_file {
            Some(_) => &self.reason,
            None => "",
        }
    }

    /// Counts a request that the rule decided.
    pub fn count_hit(&self) {
        // Relaxed: a number for the operator, which publishes nothing.
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the requests of this gateway that the rule decided since the process started.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Returns what the rule does, in few words, without the values of a key, which the process log does not have. `hash` is that of its
    /// key, where it is known.
    #[must_use]
    pub fn summary(&self, hash: Option<KeyHash>) -> String {
        let does = self.effect.as_str();
        match (&self.target, self.effect.factor()) {
            (RuleTarget::Key(key), _) => match hash {
                Some(hash) => format!("{does} key {:016x} of {}", hash.kept_bits(), key.limit),
                None => format!("{does} a key of {}", key.limit),
            },
            (target, Some(factor)) => format!("{does} {target} by {}", factor.number()),
            (target, None) => format!("{does} {target}"),
        }
    }
}

impl RuleId {
    /// Returns an id that no other rule has.
    #[must_use]
    pub fn random() -> Self {
        let bits = RequestId::next().bits().unwrap_or_default();
        Self::from_bits(u64::try_from(bits >> 80).unwrap_or_default())
    }

    /// Returns the id of the lowest 48 bits.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits & 0xffff_ffff_ffff)
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(into, "{:012x}", self.0)
    }
}

impl FromStr for RuleId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_id = text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bits = is_id.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        bits.map(Self).ok_or_else(|| {
            "an id is written as 12 hex digits, as the list of rules shows it".to_owned()
        })
    }
}

impl RuleScope {
    /// Returns its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fleet => "fleet",
            Self::Here => "here",
        }
    }
}

impl FromStr for RuleScope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fleet" => Ok(Self::Fleet),
            "here" => Ok(Self::Here),
            _ => Err(format!("{text:?} is no scope; write \"fleet\" or \"here\"")),
        }
    }
}

/// Checks the reason that an operator gives.
///
/// # Errors
/// It is too long to be kept whole.
pub fn check_reason(reason: &str) -> Result<(), String> {
    match reason.chars().count() {
        0..=REASON => Ok(()),
        length => Err(format!(
            "a reason has at most {REASON} characters, and this one has {length}"
        )),
    }
}

/// Returns the beginning of a text, without control characters.
fn plain(text: &str, most: usize) -> String {
    let text = text.chars().filter(|letter| !letter.is_control());
    text.take(most).collect()
}

fn in_milliseconds(at: Timestamp) -> Timestamp {
    const MILLISECOND: u64 = 1_000_000;
    Timestamp::from_nanos(at.as_nanos() / MILLISECOND * MILLISECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: an id is read as it is written, and two rules have two. Method: ids at both ends, a random one, and texts that are none.
    #[test]
    fn an_id_is_read_as_it_is_written() {
        for id in [
            RuleId::from_bits(0),
            RuleId::from_bits(u64::MAX),
            RuleId::random(),
        ] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        assert_ne!(RuleId::random(), RuleId::random());
        for wrong in ["", "0", "+00000000000", "00000000000g", "0000000000000"] {
            assert!(wrong.parse::<RuleId>().is_err(), "{wrong}");
        }
    }

    /// Goal: the words of an operator are bounded, and move no terminal. Method: a long reason with an escape in it.
    #[test]
    fn the_words_of_a_rule_are_bounded_and_plain() {
        let target = RuleTarget::parse("192.0.2.1").unwrap();
        let lifetime = RuleLifetime {
            from: Timestamp::from_secs(1),
            until: Timestamp::from_nanos(2_000_999_999),
        };
        let rule = TemporaryRule::new(RuleId::from_bits(1), RuleEffect::Block, target, lifetime);
        let rule = rule.said(&format!("\u{1b}[2J{}", "ä".repeat(300)), "a\nb");
        assert_eq!(rule.reason.chars().count(), 200);
        assert!(rule.reason.starts_with("[2Jä"));
        assert_eq!(rule.by, "ab");
        assert_eq!(rule.until, Timestamp::from_secs(2));
    }
}
