//! Finds a key of a limit by its values and returns its state; clears the key, or sets its count.
//!
//! The values of a request and those that an operator writes lead to one hash: both go through the same normal forms.

use std::net::IpAddr;

use crate::client::ListEffect;
use crate::temporary_rules::{RuleEffect, RuleId};
use ipnet::IpNet;
use sluicegate_base::address::{PrefixBits, prefix};
use sluicegate_limiter::{
    ActiveBan, Cost, Decision, InFlight, KeyHash, KeyPlacement, Limit, Timestamp,
};

use super::backend::Backend;
use super::key::KeySeed;
use super::limit::ActiveLimit;
use super::named_key::NamedKey;
use super::next_request::{KeyStanding, NextRequest};
use super::overrides::ActiveTier;
use crate::store::{KeyChange, KeyName};
use sluicegate_config as config;
use sluicegate_config::rules::{KeyPart, OnStoreFailure};

/// The state of a key.
#[derive(Clone, Debug)]
pub struct KeyState {
    /// The decision over a request of cost 1.
    pub decision: Decision,
    /// The source of the decision: this gateway, or the store.
    pub by: &'static str,
    /// The exemption by overrides, a temporary rule or a list: `unlimited` or `blocked`; `None` where rates apply.
    pub exempt: Option<&'static str>,
    /// The answer of the limit to the next request.
    pub next: NextRequest,
    /// The ban in force.
    pub banned: Option<ActiveBan>,
    /// The temporary rule that bans the key.
    pub ban_rule: Option<RuleId>,
    /// The number of bans in a row that are remembered.
    pub ban_level: u8,
    /// Requests in flight; `None` where the limit has no `concurrency`.
    pub in_flight: Option<InFlight>,
}

impl KeyState {
    /// Returns the state where lists and rules have this effect on the clients of the key.
    #[must_use]
    pub fn with_client_effect(self, effect: ListEffect) -> Self {
        let exempt = match effect {
            ListEffect::Allow => "unlimited",
            ListEffect::Block => "blocked",
        };
        Self {
            exempt: Some(exempt),
            next: NextRequest::by_list(effect),
            ..self
        }
    }
}

impl ActiveLimit {
    /// Returns the key that requests with these values are counted by, one value for each part of the limit's key, in its order.
    ///
    /// # Errors
    /// The mistake in the values, and what to write instead.
    pub fn name_key(&self, values: &[String], seed: &KeySeed) -> Result<NamedKey, String> {
        let wanted: Vec<&KeyPart> = self
            .key
            .0
            .iter()
            .filter(|part| **part != KeyPart::Global)
            .collect();
        if wanted.len() != values.len() {
            let names: Vec<String> = wanted.iter().map(ToString::to_string).collect();
            let write = match names.len() {
                0 => "write no value: all requests share one counter".to_owned(),
                _ => format!("write one value for each of {}", names.join(", ")),
            };
            return Err(format!(
                "{} values for a key of {} parts; {write}",
                values.len(),
                wanted.len()
            ));
        }
        let parts = wanted
            .iter()
            .zip(values)
            .map(|(part, text)| counted_by(part, text));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        Ok(NamedKey {
            key: seed.hash_parts(parts.iter().map(Vec::as_slice)),
            parts,
        })
    }

    /// Returns the addresses by which the requests with these values are counted; `None` where the key has other parts.
    #[must_use]
    pub fn counted_network(&self, values: &[String]) -> Option<IpNet> {
        let ([KeyPart::ClientIp { v4, v6 }], [text]) = (&*self.key.0, values) else {
            return None;
        };
        let address = text.split('/').next()?.trim().parse::<IpAddr>().ok()?;
        let bits = PrefixBits { v4: *v4, v6: *v6 };
        let counted = prefix(address.to_canonical(), bits);
        IpNet::new(counted.network(), counted.length()).ok()
    }

    /// Returns whether these values, in this order, may be some of those of a key with further parts.
    #[must_use]
    pub fn has_further_parts(&self, values: &[String]) -> bool {
        let mut parts = self.key.0.iter();
        let fits = |value: &String| parts.any(|part| counted_by(part, value).is_ok());
        values.len() < self.key.0.len() && values.iter().all(fits)
    }

    /// Returns the name of the key in the store; `None` where the limit counts on this gateway alone, where only the hash is known, or
    /// before the seed of the store is known.
    #[must_use]
    pub fn store_name(&self, named: &NamedKey) -> Option<KeyName> {
        let hash = self.hash_remote(named)?;
        Some(KeyName::new(self.store()?.prefix(), hash, &self.name))
    }

    /// Returns the key's hash in the store; `None` in the cases of [`Self::store_name`].
    fn hash_remote(&self, named: &NamedKey) -> Option<KeyHash> {
        if named.parts.is_empty() && self.key.0 != [KeyPart::Global] {
            return None;
        }
        let store = self.store()?;
        let seed = KeySeed::from_seed(store.seed()?);
        let template = self.key.to_string();
        let parts = named.parts.iter().map(Vec::as_slice);
        Some(seed.hash_parts(std::iter::once(template.as_bytes()).chain(parts)))
    }

    /// Returns whether the limit is decided or counted in a store.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.store().is_some()
    }

    /// Returns whether a key of a shared limit can be found in the store.
    #[must_use]
    pub fn reaches_store(&self, named: &NamedKey) -> bool {
        self.store_name(named).is_some()
    }

    /// Returns the counters of the key, or its exemption by overrides.
    pub(super) fn judged(&self, key: KeyHash) -> Result<&Limit, &'static str> {
        let rules = self.key_rules.as_ref();
        match rules
            .and_then(|rules| rules.rule(key))
            .map(|rule| rule.effect)
        {
            Some(RuleEffect::Exempt) => return Err("unlimited"),
            Some(RuleEffect::Block) => return Err("blocked"),
            Some(RuleEffect::Ban | RuleEffect::Scale(_)) | None => {}
        }
        match self
            .overrides
            .as_ref()
            .and_then(|overrides| overrides.of_row(key))
        {
            None => Ok(&self.limit),
            Some(ActiveTier::Rates(rates)) => Ok(&rates.0),
            Some(ActiveTier::Unlimited) => Err("unlimited"),
            Some(ActiveTier::Blocked) => Err("blocked"),
        }
    }

    /// Returns whether a row of the overrides or a temporary rule blocks the key.
    #[must_use]
    pub fn is_blocked(&self, key: KeyHash) -> bool {
        matches!(self.judged(key), Err("blocked"))
    }

    /// Repeats the change of the key that an operator has made at another gateway since the last request with it came here.
    pub fn catch_up(&self, named: &NamedKey, now: Timestamp) {
        if self.is_shared() {
            self.catch_up_with(named.key, self.hash_remote(named), now);
        }
    }

    /// Does the same as [`Self::catch_up`] for the key that is `key` here and `remote` in the store.
    pub(super) fn catch_up_with(&self, key: KeyHash, remote: Option<KeyHash>, now: Timestamp) {
        let (Some(store), Some(remote)) = (self.store(), remote) else {
            return;
        };
        let Some(change) = store.take_change(remote, &self.name) else {
            return;
        };
        if change == KeyChange::Cleared
            && let Some(active) = &self.bans
        {
            active.bans.lift(key, now);
        }
        // The store has the count, which this node does not know before its next answer.
        _ = self.set_here((key, Some(remote)), None, now);
    }

    /// Returns the share that is used of the fullest rate of its only key, in hundredths of a percent; of a limit with a key of requests,
    /// that of no key. A limit in a store has what this gateway knows of the fleet, and while the store cannot be reached at least what is
    /// used of this gateway's share, which then decides.
    #[must_use]
    pub fn used_share(&self, seed: &KeySeed, now: Timestamp) -> u64 {
        let key = seed.hash_parts(std::iter::empty());
        let known = used_of(&self.limit, key, self.moment(now));
        if self.is_decided_by_store(key, now) {
            return known;
        }
        let share = self.backend.share_without_store(self.limit.policy());
        share.map_or(known, |share| known.max(used_of(&share, key, now)))
    }

    /// Returns whether the only key of the limit is counted in a store that has the counts of the fleet.
    fn is_decided_by_store(&self, key: KeyHash, now: Timestamp) -> bool {
        let remote = self.hash_remote(&NamedKey::of_hash(key));
        let reached = self.store().zip(remote);
        reached.is_some_and(|(store, remote)| store.has_counts_of_key(remote, &self.name, now))
    }

    /// Returns the rule that decides over a key now, in place of the store that does not have the counts of the fleet; `None` where the
    /// store decides, or there is none. Of a key whose hash in the store is unknown it is the rule if nothing of a single store can be
    /// reached.
    #[must_use]
    pub fn rule_without_store(
        &self,
        remote: Option<KeyHash>,
        now: Timestamp,
    ) -> Option<OnStoreFailure> {
        let store = self.store()?;
        let has_counts = match remote {
            Some(remote) => store.has_counts_of_key(remote, &self.name, now),
            None => store.has_counts(now),
        };
        self.backend.store_failure_rule().filter(|_| !has_counts)
    }

    /// Returns the counters of this gateway's share, where `rule` says that they decide in place of those of `limit`.
    pub(super) fn share_at(&self, rule: Option<OnStoreFailure>, limit: &Limit) -> Option<Limit> {
        rule.filter(|rule| *rule == OnStoreFailure::Local)?;
        self.backend.share_without_store(limit.policy())
    }

    /// Returns the counters of the key, whatever exempts it from the limit.
    #[must_use]
    pub fn counters_of(&self, named: &NamedKey) -> &Limit {
        self.judged(named.key).unwrap_or(&self.limit)
    }

    /// Returns the state of the key; `remote` is the decision of the store, where it gave one.
    #[must_use]
    pub fn key_state(
        &self,
        named: &NamedKey,
        remote: Option<Decision>,
        now: Timestamp,
    ) -> KeyState {
        let key = named.key;
        let (limit, exempt) = match self.judged(key) {
            Ok(limit) => (limit, None),
            Err(exempt) => (&self.limit, Some(exempt)),
        };
        let by = if remote.is_some() { "store" } else { "gateway" };
        let bans = self.bans.as_ref().map(|active| &active.bans);
        let banned = self.ban_in_force(key, now);
        let without_store = match remote {
            Some(_) => None,
            None => self.rule_without_store(self.hash_remote(named), now),
        };
        let share = self.share_at(without_store, limit);
        let counted = share.as_ref().unwrap_or(limit);
        let decision = remote.unwrap_or_else(|| counted.peek(key, Cost::ONE, self.moment(now)));
        let standing = KeyStanding {
            exempt,
            is_banned: banned.is_some(),
            has_room: has_room(&decision),
            without_store,
        };
        KeyState {
            decision,
            by,
            exempt,
            next: NextRequest::new(self, key, standing),
            banned,
            ban_rule: self.rule_that_bans(key).map(|rule| rule.id),
            ban_level: bans.map_or(0, |bans| bans.level(key, now)),
            in_flight: self.permits.as_ref().map(|permits| permits.in_flight(key)),
        }
    }

    /// Returns the ban of a key, by the limit or by a temporary rule; of both the longer one.
    #[must_use]
    pub fn ban_in_force(&self, key: KeyHash, now: Timestamp) -> Option<ActiveBan> {
        let bans = self.bans.as_ref();
        let begun = bans.and_then(|active| active.bans.active(key, now));
        let by_rule = self.rule_that_bans(key).map(|rule| ActiveBan {
            left: rule.until.saturating_since(now),
            level: 1,
        });
        let both = begun.into_iter().chain(by_rule);
        both.max_by_key(|ban| ban.left)
    }

    /// Forgets what this gateway would send to the store about a key, which would be counted after a change of the key there.
    pub fn forget_pending(&self, named: &NamedKey) {
        if let Backend::Replicated(synced) = &self.backend {
            synced.forget_key(named.key);
        }
    }

    /// Sets the counts of the key in this gateway to zero, or to what is `used` of every rate; bans and permits stay.
    pub fn set_counts(&self, named: &NamedKey, used: Option<Cost>, now: Timestamp) -> KeyPlacement {
        self.set_here((named.key, self.hash_remote(named)), used, now)
    }

    /// Sets the counts of the key in this gateway to zero or to this number. Where windows begin by key, they begin by its hash in the
    /// store, `remote`.
    fn set_here(
        &self,
        (key, remote): (KeyHash, Option<KeyHash>),
        used: Option<Cost>,
        now: Timestamp,
    ) -> KeyPlacement {
        let set = |limit: &Limit, key, used, now| {
            let aligned = remote.and_then(|remote| limit.aligned_to(remote));
            set(aligned.as_ref().unwrap_or(limit), key, used, now)
        };
        let limit = self.judged(key).unwrap_or(&self.limit);
        let counted = set(limit, key, used, self.moment(now));
        match &self.backend {
            Backend::Local => {}
            Backend::Replicated(synced) => {
                synced.forget_key(key);
                set(synced.own(), key, used, now);
            }
            Backend::Remote(shared) => _ = set(shared.own(), key, used, now),
        }
        if let Some(shadow) = &self.shadow_rates {
            set(shadow, key, used, now);
        }
        counted
    }
}

fn set(limit: &Limit, key: KeyHash, used: Option<Cost>, now: Timestamp) -> KeyPlacement {
    match used {
        Some(used) => limit.set(key, used, now),
        None => limit.reset(key, now),
    }
}

/// Returns the bytes that stand for this value of `part` in a key.
fn counted_by(part: &KeyPart, text: &str) -> Result<Vec<u8>, String> {
    if let KeyPart::ClientIp { v4, v6 } = part
        && let Ok(address) = text.parse::<IpAddr>()
    {
        // An address stands for the network that it is counted with.
        let counted = prefix(address, PrefixBits { v4: *v4, v6: *v6 });
        return Ok(counted.as_bytes().to_vec());
    }
    config::counted_value(part, text)
}

/// Returns whether every rate has room for a request.
pub(super) fn has_room(decision: &Decision) -> bool {
    decision.statuses().iter().all(|rate| rate.remaining > 0)
}

/// Returns the share that `key` has used of the fullest rate, in hundredths of a percent.
pub(super) fn used_of(limit: &Limit, key: KeyHash, now: Timestamp) -> u64 {
    let statuses = limit.peek(key, Cost::ONE, now).statuses();
    let rates = statuses.iter().zip(limit.room_of_new_keys(now));
    let used = rates.map(|(status, room)| {
        let used = u64::from(room.saturating_sub(status.remaining));
        (used * 10_000).checked_div(room.into()).unwrap_or(0)
    });
    used.max().unwrap_or(0)
}
