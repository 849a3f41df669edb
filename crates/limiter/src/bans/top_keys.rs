//! Reads bans in use: the banned keys, the remembered keys, and the occupancy of the table.
//!
//! Keys show only as hashes. Nothing is locked, as in `limit::top_keys`: what races with the walk is seen before or after.
//! A walk reads the whole table: for an operator's question, not for a request.

use std::cmp::Reverse;
use std::time::Duration;

use crate::key::KeyHash;
use crate::table::Occupancy;
use crate::time::Timestamp;

use super::ban_state::{BanState, BanWeight};
use super::{ActiveBan, Bans, mark};

/// Most keys that [`Bans::top`] gives.
const MOST_TOP: usize = 1024;

/// A key that is banned or remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BannedKey {
    /// The bits of the key's hash that the table holds: all but the lowest.
    pub key: KeyHash,
    /// Number of bans in a row that are remembered, at least 1.
    pub level: u8,
    /// The ban in force, if it is not over.
    pub banned: Option<ActiveBan>,
}

/// The keys that are banned or remembered; see [`Bans::banned_keys`].
#[derive(Clone, Debug)]
pub struct BannedKeys<'b> {
    bans: &'b Bans,
    now: Timestamp,
    next: usize,
}

impl Iterator for BannedKeys<'_> {
    type Item = BannedKey;

    fn next(&mut self) -> Option<BannedKey> {
        let Self { bans, now, .. } = *self;
        let table = &bans.ban_table.table;
        let rules = &bans.rules;
        while self.next < table.slots() {
            let slot = self.next;
            self.next += 1;
            let Some((key, [word])) = table.occupant(slot, &[BanWeight { rules, now }]) else {
                continue;
            };
            let ban_state = BanState::from_word(word, mark(table.address(key)));
            let level = ban_state.level(rules, now);
            // What a lost claim left behind says nothing of this key.
            if level > 0 {
                let banned = ban_state.active(rules, now);
                return Some(BannedKey { key, level, banned });
            }
        }
        None
    }
}

impl Bans {
    /// The keys that are banned or remembered.
    #[must_use]
    pub fn banned_keys(&self, now: Timestamp) -> BannedKeys<'_> {
        BannedKeys {
            bans: self,
            now,
            next: 0,
        }
    }

    /// The `n` keys that are banned for longest still, then those with the highest level; at most 1024.
    #[must_use]
    pub fn top(&self, n: usize, now: Timestamp) -> Vec<BannedKey> {
        let n = n.min(MOST_TOP);
        let rank = |offender: &BannedKey| {
            let left = offender.banned.map_or(Duration::ZERO, |banned| banned.left);
            Reverse((left, offender.level))
        };
        let mut top: Vec<BannedKey> = Vec::with_capacity(2 * n + 1);
        for offender in self.banned_keys(now) {
            top.push(offender);
            // Sorted once for every n: a heap would save nothing beside the reading of the table.
            if top.len() > 2 * n {
                top.sort_by_key(rank);
                top.truncate(n);
            }
        }
        top.sort_by_key(rank);
        top.truncate(n);
        top
    }

    /// Estimates the occupancy of the table: `live` are keys that are banned or remembered, and nothing is counted in
    /// overflow. Reads up to 131,072 buckets: for a status page, not for a request.
    #[must_use]
    pub fn occupancy(&self, now: Timestamp) -> Occupancy {
        let rules = &self.rules;
        self.ban_table.table.occupancy(&[BanWeight { rules, now }])
    }
}
