//! Finds the tier of a request, whose rates replace those of the limit: one look into a table of keyed hashes, whatever the number of rows,
//! and one for the tier that the request names where no row has its key.
//!
//! The values that the operator wrote are hashed under the same secret as those of requests, so a look-up costs no more than a hash that
//! is there already. Rates of a row or a tier use the counters of the limit: a client that changes its plan keeps its counts.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use crate::activation::LoadActivation;
use crate::policy_items::PolicyItems;
use sluicegate_limiter::{KeyHash, Limit};

use super::facts::RequestFacts;
use super::key::KeySeed;
use super::tier::NamedTiers;
use sluicegate_config::rules::{LimitRules, Name, OverrideRows, Tier, TierIndex};

/// The overrides and tiers of a limit in force.
#[derive(Debug)]
pub(super) struct KeyOverrides {
    /// The rows from which `keys` was made.
    rows: Arc<OverrideRows>,
    keys: Arc<RowTiers>,
    named: Option<NamedTiers>,
    /// The tiers of rows, then the tiers that requests name.
    tiers: Box<[ActiveTier]>,
}

/// Tiers by keyed hashes.
type RowTiers = HashMap<u64, TierIndex, AsItIs>;

/// The tier that a request is in.
#[derive(Clone, Copy, Debug)]
pub struct TierMatch<'a> {
    /// The index among [`all_tiers`](LimitRules::all_tiers).
    pub index: TierIndex,
    /// The name, where the request names the tier; `None` where a row names the key.
    pub name: Option<&'a Name>,
    /// The activation of a tier with a condition.
    pub activation: Option<&'a Arc<LoadActivation>>,
}

/// The rule for keys of one tier.
#[derive(Debug)]
pub(super) enum ActiveTier {
    /// Other rates: a handle of the limit's counters that has them, and the items of the response fields.
    Rates(Box<(Limit, PolicyItems)>),
    /// The limit does not apply.
    Unlimited,
    /// Its requests are refused.
    Blocked,
}

impl TierMatch<'_> {
    /// Returns whether the tier applies to a request that comes now.
    pub(super) fn is_active(&self) -> bool {
        self.activation
            .is_none_or(|activation| activation.is_active())
    }
}

impl ActiveTier {
    fn new(tier: &Tier, name: &str, rules: &LimitRules, limit: &Limit, own: &PolicyItems) -> Self {
        let policy = match tier {
            Tier::Unlimited => return Self::Unlimited,
            Tier::Blocked => return Self::Blocked,
            Tier::Rates(policy) => policy,
        };
        let items = PolicyItems::of_rates(name, policy.rates(), rules).shown_as(own);
        // The configuration takes only rows whose rates the counters can be judged by, and makes these large enough; if one were not, its
        // keys would have the limit's own rates.
        let handle = limit.with_policy(policy.clone());
        Self::Rates(Box::new((handle.unwrap_or_else(|| limit.clone()), items)))
    }
}

impl KeyOverrides {
    /// Returns the overrides in the rules of the limit `name`, whose counters are those of `limit` and whose `own` items decide what
    /// clients may see of it; `None` where the limit has none. Rows that are the same in `before` are not hashed again.
    pub(super) fn new(
        name: &str,
        rules: &LimitRules,
        limit: &Limit,
        own: &PolicyItems,
        before: Option<&Self>,
        seed: &KeySeed,
    ) -> Option<Self> {
        if rules.overrides.is_none() && rules.tier.is_none() {
            return None;
        }
        let written = rules.overrides.as_ref();
        let named = before.and_then(|before| before.named.as_ref());
        let rows = written.map_or_else(Arc::default, |written| Arc::clone(&written.rows));
        let keys = match before.filter(|before| before.rows == rows) {
            Some(before) => Arc::clone(&before.keys),
            None => Arc::new(hash_rows(&rows, seed)),
        };
        // A file has at most `OVERRIDE_TIERS` of them.
        let of_rows = written.map_or(0, |written| written.tiers.len());
        let of_rows = u8::try_from(of_rows).unwrap_or(u8::MAX);
        let tiers = rules.all_tiers();
        Some(Self {
            rows,
            keys,
            named: (rules.tier.as_ref()).map(|tier| NamedTiers::new(tier, of_rows, named)),
            tiers: tiers
                .map(|tier| ActiveTier::new(tier, name, rules, limit, own))
                .collect(),
        })
    }

    /// Returns the tier of a request with this key: that of a row, else the one that it names; `None` without either.
    pub(super) fn find(&self, key: KeyHash, facts: &RequestFacts<'_>) -> Option<TierMatch<'_>> {
        if let Some(index) = self.keys.get(&key.bits()) {
            return Some(TierMatch {
                index: *index,
                name: None,
                activation: None,
            });
        }
        self.named.as_ref()?.find(facts)
    }

    /// Returns the activations of tiers with conditions.
    pub(super) fn activations(&self) -> impl Iterator<Item = (&Name, &Arc<LoadActivation>)> {
        self.named.iter().flat_map(NamedTiers::activations)
    }

    /// Returns the tier that a row gives this key, whose lowest bit the log does not have.
    pub(super) fn of_row(&self, key: KeyHash) -> Option<&ActiveTier> {
        let bits = key.bits();
        let index = self.keys.get(&bits).or_else(|| self.keys.get(&(bits ^ 1)));
        self.tier(*index?)
    }

    /// Returns the tier at `index`.
    pub(super) fn tier(&self, index: TierIndex) -> Option<&ActiveTier> {
        self.tiers.get(usize::from(index.0))
    }
}

/// Returns the tier of each row by the keyed hash of its values.
fn hash_rows(rows: &OverrideRows, seed: &KeySeed) -> RowTiers {
    rows.iter()
        .map(|(key, tier)| (seed.hash_parts(key).bits(), tier))
        .collect()
}

/// A hasher of keyed hashes that returns them as they are: no client can choose keys that meet in one place without the secret.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HashItself(u64);

/// Builds the hasher of keyed hashes.
pub(super) type AsItIs = BuildHasherDefault<HashItself>;

impl Hasher for HashItself {
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
