//! Finds out whether a key has rates of its own: one look into a table of keyed hashes, whatever the number of rows.
//!
//! The values that the operator wrote are hashed under the same secret as those of requests, so a look-up costs no more than a hash that
//! is there already. Rates of a row are judged by the counters of the limit.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use sluicegate_limiter::{KeyHash, Limit};

use super::key::KeySeed;
use crate::config::rules::{LimitRules, OverrideRows, Tier, TierIndex};
use crate::response::PolicyItems;

/// The overrides of a limit in force.
#[derive(Debug)]
pub(super) struct Overrides {
    /// What `keys` was made of.
    rows: Arc<OverrideRows>,
    keys: Arc<HashMap<u64, TierIndex, BuildHasherDefault<AsItIs>>>,
    tiers: Box<[ActiveTier]>,
}

/// What is said of a key.
#[derive(Debug)]
pub(super) enum ActiveTier {
    /// It is judged by this handle of the limit's counters, and told so.
    Rates(Box<(Limit, PolicyItems)>),
    /// The limit does not apply.
    Unlimited,
    /// Its requests are refused.
    Blocked,
}

impl Overrides {
    /// The overrides of the limit `name`, whose counters are those of `limit`. The rows of `before` are not hashed again.
    pub(super) fn new(
        name: &str,
        rules: &LimitRules,
        limit: &Limit,
        before: Option<&Self>,
        seed: &KeySeed,
    ) -> Option<Self> {
        let written = rules.overrides.as_ref()?;
        let known = before.filter(|before| before.rows == written.rows);
        let keys = known.map_or_else(
            || {
                let rows = written.rows.iter();
                Arc::new(
                    rows.map(|(key, tier)| (seed.hash_parts(key).bits(), tier))
                        .collect(),
                )
            },
            |before| Arc::clone(&before.keys),
        );
        let tiers = written.tiers.iter().map(|tier| match tier {
            Tier::Unlimited => ActiveTier::Unlimited,
            Tier::Blocked => ActiveTier::Blocked,
            Tier::Rates(policy) => {
                let items = PolicyItems::of_rates(name, policy.rates(), rules);
                // The configuration takes only rows whose rates the counters can be judged by, and makes these large enough; if one
                // were not, its keys would have the limit's own rates.
                let handle = limit.judged_by(policy.clone());
                ActiveTier::Rates(Box::new((handle.unwrap_or_else(|| limit.clone()), items)))
            }
        });
        Some(Self {
            rows: Arc::clone(&written.rows),
            keys,
            tiers: tiers.collect(),
        })
    }

    /// The tier of a key; `None` for those that no row names.
    pub(super) fn of(&self, key: KeyHash) -> Option<(TierIndex, &ActiveTier)> {
        let index = *self.keys.get(&key.bits())?;
        Some((index, self.tier(index)?))
    }

    /// The tier at `index`.
    pub(super) fn tier(&self, index: TierIndex) -> Option<&ActiveTier> {
        self.tiers.get(usize::from(index.0))
    }
}

/// Takes a keyed hash for its own hash: nobody can choose keys that meet in one place without knowing the secret.
#[derive(Clone, Copy, Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Only whole words are ever hashed; this keeps the promise of the trait for everything else.
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, bits: u64) {
        self.0 = bits;
    }
}
