//! Lists the keys of a limit with the highest use, and the banned ones, by what this gateway knows.

use std::cmp::Reverse;
use std::collections::HashSet;

use crate::temporary_rules::RuleId;
use sluicegate_limiter::{ActiveBan, Cost, Decision, KeyHash, KeyUsage, Timestamp};

use super::inspect::{has_room, used_of};
use super::limit::ActiveLimit;
use super::next_request::{KeyStanding, NextRequest};

/// A key among those with the highest use.
#[derive(Clone, Debug)]
pub struct RankedKey {
    /// Its hash.
    pub key: KeyHash,
    /// Thousandths of its fullest rate that are used.
    pub used: u64,
    /// Time of the latest charge, where the counters hold it.
    pub charged: Option<Timestamp>,
    /// The decision of this gateway over a request of cost 1.
    pub decision: Decision,
    /// The answer of the limit to the next request.
    pub next: NextRequest,
    /// The ban in force.
    pub banned: Option<ActiveBan>,
    /// The temporary rule that bans the key.
    pub ban_rule: Option<RuleId>,
}

impl RankedKey {
    /// Returns the place in the list: a banned key stands where a full one does, before it.
    fn rank(&self) -> Reverse<(u64, bool)> {
        let used = match self.banned {
            Some(_) => self.used.max(1_000),
            None => self.used,
        };
        Reverse((used, self.banned.is_some()))
    }
}

impl ActiveLimit {
    /// Returns up to `most` keys by what this gateway knows of them: those that have used most of their fullest rate, and the banned keys,
    /// whose counts may have expired. Where there are more keys, the banned ones have half of the places. Reads the whole tables.
    #[must_use]
    pub fn rank_keys(&self, most: usize, now: Timestamp) -> Vec<RankedKey> {
        let fullest = self.fullest_keys(most, self.moment(now));
        let fullest = fullest
            .iter()
            .map(|usage| self.ranked_key(usage.key, Some(usage), now));
        let (mut banned, mut others): (Vec<_>, Vec<_>) =
            fullest.partition(|ranked| ranked.banned.is_some());
        let known: HashSet<u64> = banned.iter().map(|ranked| ranked.key.bits()).collect();
        let bans = self.bans.as_ref();
        let top = bans.map_or_else(Vec::new, |active| active.bans.top(most, now));
        let begun = top.iter().filter(|key| key.banned.is_some());
        let by_rules = self.keys_banned_by_rules().map(|(key, _)| key);
        let unlisted = begun.map(|key| key.key).chain(by_rules);
        let unlisted: HashSet<u64> = unlisted
            .map(KeyHash::bits)
            .filter(|bits| !known.contains(bits))
            .collect();
        let unlisted = unlisted.into_iter().map(KeyHash::from_bits);
        banned.extend(unlisted.map(|key| self.ranked_key(key, None, now)));
        banned.sort_by_key(RankedKey::rank);
        banned.truncate(most.saturating_sub(others.len()).max(most.div_ceil(2)));
        others.truncate(most.saturating_sub(banned.len()));
        banned.append(&mut others);
        banned.sort_by_key(RankedKey::rank);
        banned
    }

    /// Returns up to `most` keys that have used most of their fullest rate, fullest first. Of a limit with overrides that is the rate of a
    /// key's row, so the table cannot rank them.
    fn fullest_keys(&self, most: usize, moment: Timestamp) -> Vec<KeyUsage> {
        if self.overrides.is_none() {
            return self.limit.top(most, moment);
        }
        let mut fullest: Vec<(u64, KeyUsage)> = Vec::new();
        let keep_fullest = |fullest: &mut Vec<(u64, KeyUsage)>| {
            fullest.sort_by_key(|(used, _)| Reverse(*used));
            fullest.truncate(most);
        };
        for usage in self.limit.active_keys(moment) {
            fullest.push((self.used_of_own_rates(&usage, moment), usage));
            if fullest.len() >= 4 * most.max(16) {
                keep_fullest(&mut fullest);
            }
        }
        keep_fullest(&mut fullest);
        fullest.into_iter().map(|(_, usage)| usage).collect()
    }

    /// Returns the thousandths of a key's fullest rate that are used, by the rates of its row where it has one.
    fn used_of_own_rates(&self, usage: &KeyUsage, moment: Timestamp) -> u64 {
        match self.judged(usage.key) {
            Ok(limit) if !std::ptr::eq(limit, &self.limit) => {
                used_of(limit, usage.key, moment) / 10
            }
            _ => usage.fullness(),
        }
    }

    /// Returns the state of a key by what this gateway knows; `usage` is what the table has of it, `None` for a key without counts.
    fn ranked_key(&self, key: KeyHash, usage: Option<&KeyUsage>, now: Timestamp) -> RankedKey {
        let judged = self.judged(key);
        let limit = judged.unwrap_or(&self.limit);
        let without_store = self.rule_without_store(None, now);
        let share = self.share_at(without_store, limit);
        let counted = share.as_ref().unwrap_or(limit);
        let decision = counted.peek(key, Cost::ONE, self.moment(now));
        let banned = self.ban_in_force(key, now);
        let standing = KeyStanding {
            exempt: judged.err(),
            is_banned: banned.is_some(),
            has_room: has_room(&decision),
            without_store,
        };
        let used = usage.map(|usage| self.used_of_own_rates(usage, self.moment(now)));
        RankedKey {
            key,
            used: used.unwrap_or_else(|| used_of(limit, key, self.moment(now)) / 10),
            charged: usage.and_then(KeyUsage::charged),
            decision,
            next: NextRequest::new(self, key, standing),
            banned,
            ban_rule: self.rule_that_bans(key).map(|rule| rule.id),
        }
    }
}
