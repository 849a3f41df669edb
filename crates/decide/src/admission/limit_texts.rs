//! Feeds and reads the texts of a limit's keys.

use std::net::IpAddr;

use crate::rejection::{LimitRejection, MissingKeys, RejectionReason};
use sluicegate_limiter::{KeyHash, Timestamp};

use super::facts::RequestFacts;
use super::key::KeySubstitute;
use super::key_texts::{BanSource, KeyNamer};
use super::key_values::{
    SubstitutedPart, substitute_values, values_of_operator, values_of_request,
};
use super::limit::ActiveLimit;
use super::named_key::NamedKey;
use sluicegate_config::rules::OnMissing;

/// The key of a rejected request.
#[derive(Clone, Copy, Debug)]
pub struct RejectedKey<'a> {
    /// Its values as the log shows them.
    pub values: &'a [String],
    /// The parts of keys that the request lacks.
    pub missing: &'a MissingKeys,
    /// The address of the client.
    pub client: IpAddr,
}

impl ActiveLimit {
    /// Returns the values of a key; `None` where they are unknown, or none are kept.
    #[must_use]
    pub fn known_values(&self, key: KeyHash) -> Option<Vec<String>> {
        let text = self.key_texts.as_ref()?.text(key);
        let of_rule = || self.key_rules.as_ref()?.values(key).map(<[String]>::to_vec);
        text.map(|text| text.to_vec()).or_else(of_rule)
    }

    /// Names keys whose texts an operator is shown, those that matter most first.
    pub fn name_keys(&self, namer: KeyNamer, keys: impl Iterator<Item = KeyHash>) {
        if let Some(texts) = &self.key_texts {
            texts.name(namer, keys);
        }
    }

    /// Names the keys that are heaviest at `now`, and forgets the texts of bans that have ended.
    pub fn name_heaviest<K: Iterator<Item = KeyHash>>(
        &self,
        keys: impl FnOnce() -> K,
        now: Timestamp,
    ) {
        if let Some(texts) = &self.key_texts {
            texts.forget_bans(|key| self.ban_in_force(key, now).is_some());
            texts.name(KeyNamer::Walk, keys());
        }
    }

    /// Takes the text of a request's key, where it is wanted. `lacking` is the part that the request lacks.
    #[inline]
    pub(super) fn offer_text(
        &self,
        key: KeyHash,
        facts: &RequestFacts<'_>,
        lacking: Option<SubstitutedPart<'_>>,
    ) {
        if let Some(texts) = &self.key_texts {
            let shown = texts.shown();
            texts.offer(key, || match lacking {
                None => values_of_request(&self.key, facts, shown),
                Some(lacking) => substitute_values(&self.key, lacking, facts.client, shown),
            });
        }
    }

    /// Notes that this limit rejected a key, and the ban that holds it.
    pub fn note_rejection(&self, rejection: &LimitRejection, key: &RejectedKey<'_>) {
        let Some(texts) = &self.key_texts else { return };
        if !rejection.reason.is_caused_by_client() {
            return;
        }
        let mut missing = key.missing.0.iter();
        let lacking = missing.find(|part| part.limit == usize::from(rejection.limit));
        let text = || match lacking {
            None => key.values.to_vec(),
            Some(part) => {
                let by = match part.then {
                    OnMissing::Ip => KeySubstitute::Address,
                    OnMissing::Refuse | OnMissing::Skip | OnMissing::Shared => KeySubstitute::None,
                };
                let source = &part.source;
                let lacking = SubstitutedPart { source, by };
                substitute_values(&self.key, lacking, key.client, texts.shown())
            }
        };
        let ban = match rejection.reason {
            RejectionReason::Banned(_) | RejectionReason::BanStarted(_) => Some(BanSource::Limit),
            _ => None,
        };
        texts.note_rejection(rejection.key, ban, text);
    }

    /// Keeps the text of a key that an operator has banned, by the values that were written.
    pub fn note_ban_by_operator(&self, named: &NamedKey, written: &[String]) {
        if let Some(texts) = &self.key_texts {
            texts.note_ban_by_operator(named.key, || self.values_of_named(named, written));
        }
    }

    /// Returns the values by which an operator has written a key, in the form of the texts; `None` where it was named by its hash.
    #[must_use]
    pub fn values_of_named(&self, named: &NamedKey, written: &[String]) -> Option<Vec<String>> {
        let shown = self.key_texts.as_ref()?.shown();
        named
            .is_by_values()
            .then(|| values_of_operator(&self.key, named.parts(), written, shown))
    }
}
