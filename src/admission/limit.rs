//! Owns a limit in force: its counters, its key, and everything about it that can be written before a request comes.

use std::sync::atomic::{AtomicBool, Ordering};

use sluicegate_limiter::{Cost, Limit, Timestamp};

use super::key::KeySeed;
use super::overrides::{ActiveTier, Overrides};
use super::terms::Terms;
use crate::config::rules::{CostRules, KeyTemplate, LimitRules, Name, TierIndex};
use crate::response::PolicyItems;

/// One limit of a snapshot.
#[derive(Debug)]
pub struct ActiveLimit {
    /// Its name.
    pub name: Name,
    /// What it counts by.
    pub key: KeyTemplate,
    /// Its counters.
    pub limit: Limit,
    /// Its items of the RateLimit fields and the bodies of its refusals.
    pub items: PolicyItems,
    /// What a request takes at once.
    pub cost: Cost,
    /// How that is settled at the answer; `None` where it stands.
    pub terms: Option<Terms>,
    pub(super) overrides: Option<Overrides>,
    overflow_announced: AtomicBool,
}

impl ActiveLimit {
    /// A limit as the rules have it, with the counters of `previous` where these still mean the same.
    ///
    /// Counters survive any edit that leaves the key alone (contract C4).
    #[must_use]
    pub fn new(
        name: &Name,
        rules: &LimitRules,
        previous: Option<&ActiveLimit>,
        seed: &KeySeed,
        now: Timestamp,
    ) -> Self {
        let kept = previous.filter(|before| before.key == rules.key);
        let stored = rules.stored_policy();
        let stored = match kept {
            Some(before) => before.limit.edited(stored, rules.capacity, now),
            None => Limit::new(stored, rules.capacity),
        };
        // Counters are made for the largest tier, so the limit's own policy always fits them.
        let limit = stored.judged_by(rules.policy.clone()).unwrap_or(stored);
        let before = kept.and_then(|before| before.overrides.as_ref());
        Self {
            name: name.clone(),
            key: rules.key.clone(),
            overrides: Overrides::new(name, rules, &limit, before, seed),
            limit,
            items: PolicyItems::new(name, rules),
            cost: match rules.cost {
                CostRules::Fixed(cost) => cost,
                CostRules::Told { .. } => Cost::ONE,
            },
            terms: Terms::of(rules),
            overflow_announced: AtomicBool::new(
                kept.is_some_and(|before| before.overflow_announced.load(Ordering::Relaxed)),
            ),
        }
    }

    /// Whether a verdict over it is all there is to know: nothing waits for the answer, and all keys have the same rates.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.terms.is_none() && self.overrides.is_none()
    }

    /// What it writes into fields and bodies for keys of a tier, or for those of none.
    pub(super) fn items_for(&self, tier: Option<TierIndex>) -> &PolicyItems {
        let overrides = self.overrides.as_ref();
        match tier.and_then(|tier| overrides?.tier(tier)) {
            Some(ActiveTier::Rates(rates)) => &rates.1,
            _ => &self.items,
        }
    }

    /// Whether the caller is the first to notice that newcomers of this limit share counters (contract C3: logged once).
    #[must_use]
    pub fn announce_overflow(&self) -> OverflowNews {
        // Relaxed: the flag guards one log line and publishes nothing. The load keeps the line shared under a flood.
        if self.overflow_announced.load(Ordering::Relaxed)
            || self.overflow_announced.swap(true, Ordering::Relaxed)
        {
            OverflowNews::Known
        } else {
            OverflowNews::First
        }
    }
}

/// Whether an overflow was already announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverflowNews {
    /// This is the first.
    First,
    /// It was said before.
    Known,
}
