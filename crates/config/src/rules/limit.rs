//! Owns the rules of `[limit.NAME]`.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_base::geo::GeoField;
use sluicegate_limiter::{
    Algorithm, BanRules, Bans, Capacity, Concurrency, Limit, Permits, Policy, PolicyError,
};

use super::{
    ActivationRules, CostRules, CountedRequests, KeyTemplate, OnMissing, OverrideRules,
    RefusalRules, SharedRules, Tier, TierIndex, TierRules, TierSource, ValuePart,
};
use crate::action::{Action, Share};
use crate::condition::Condition;

/// `[limit.NAME]`.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitRules {
    /// The key; each has a counter of its own.
    pub key: KeyTemplate,
    /// The action for requests that lack a part of the key; `None` where none can.
    pub on_missing: Option<OnMissing>,
    /// The rates and the algorithm.
    pub policy: Policy,
    /// Keys held at once.
    pub capacity: Capacity,
    /// The response fields about the limit.
    pub headers: FieldStyle,
    /// The response to its rejections; `None` leaves the problem body.
    pub refusal: Option<Arc<RefusalRules>>,
    /// Keys that are not judged by `policy`; `None` where no file names any.
    pub overrides: Option<OverrideRules>,
    /// Requests that are not judged by `policy`, where no row names their key; `None` where requests name no tier.
    pub tier: Option<TierRules>,
    /// The cost of a request.
    pub cost: CostRules,
    /// Which responses count; `None`: every admitted request does, whatever comes of it.
    pub count_if: Option<Condition>,
    /// Which requests count beside that.
    pub count: CountedRequests,
    /// The action for a request that it has no room for.
    pub action: Action,
    /// The rules by which it becomes active; `None`: it always is. While it is not, it is in shadow.
    pub activation: Option<Arc<ActivationRules>>,
    /// The most by which `Retry-After` is later than the client may come back.
    pub retry_jitter: Duration,
    /// The keys that it is enforced for; for the others it is in shadow.
    pub enforce: Share,
    /// Rates that are judged beside, by the same algorithm, and only reported.
    pub shadow_rates: Option<Policy>,
    /// The ban of a key that exceeded the rates; `None`: until they have room again.
    pub ban: Option<BanRules>,
    /// The maximum number of requests of a key in flight; `None`: as many as the rates admit.
    pub concurrency: Option<Concurrency>,
    /// The way in which it counts in the store; `None`: it counts by itself. Bans and requests in flight always do.
    pub shared: Option<SharedRules>,
}

impl LimitRules {
    /// Everything that it takes, in bytes: its counters, what a store last said of them, those of rates in shadow, its bans, and its
    /// requests in flight.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let shadow = self.shadow_rates.as_ref();
        let tables = [
            Some(Limit::bytes_for(&self.stored_policy(), self.capacity)),
            self.shared
                .map(|_| Limit::bytes_for(&self.stored_policy(), self.capacity)),
            shadow.map(|policy| Limit::bytes_for(policy, self.capacity)),
            self.ban.map(|_| Bans::bytes_for(self.capacity)),
            self.concurrency.map(|_| Permits::bytes_for(self.capacity)),
            self.key.can_be_invented().then(|| self.bytes_of_shares()),
        ];
        tables.into_iter().flatten().fold(0, u64::saturating_add)
    }

    /// Returns the bytes of the accounts of payers of slots: each table of counters has its own.
    fn bytes_of_shares(&self) -> u64 {
        let tables = [true, self.shared.is_some(), self.shadow_rates.is_some()];
        let tables = tables.into_iter().map(u64::from);
        tables.sum::<u64>() * Limit::SHARES_BYTES
    }
}

impl LimitRules {
    /// Every tier, those of rows first; the place of each is its [`TierIndex`].
    pub fn all_tiers(&self) -> impl Iterator<Item = &Tier> {
        let of_rows = self.overrides.iter().flat_map(|rows| &rows.tiers);
        let named = self.tier.iter().flat_map(|named| &named.tiers);
        of_rows.chain(named.map(|named| &named.tier))
    }

    /// The limit with all rates, those of tiers too, of so many hundredths of what they are. Its key, table and rates in shadow stay.
    ///
    /// # Errors
    /// A count would be larger than the algorithm can have.
    pub fn scaled(&self, hundredths: NonZeroU32) -> Result<Self, PolicyError> {
        let mut scaled = self.clone();
        scaled.policy = self.policy.scaled(hundredths)?;
        let rows = scaled.overrides.iter_mut();
        let rows = rows.flat_map(|rows| &mut rows.tiers);
        let named = scaled.tier.iter_mut();
        let named = named.flat_map(|named| &mut named.tiers);
        for tier in rows.chain(named.map(|named| &mut named.tier)) {
            if let Tier::Rates(policy) = tier {
                *policy = policy.scaled(hundredths)?;
            }
        }
        Ok(scaled)
    }

    /// The tier at `index`.
    #[must_use]
    pub fn tier_at(&self, index: TierIndex) -> Option<&Tier> {
        self.all_tiers().nth(index.0.into())
    }

    /// Every value of a request that the limit reads: those of its key, and what names the tier.
    pub fn values_read(&self) -> impl Iterator<Item = &ValuePart> {
        let named_by = self.tier.iter().filter_map(|tier| tier.named_by.value());
        self.key.values().chain(named_by)
    }

    /// The fields of the client's place that the limit reads: those of its key, and what names the tier.
    pub fn places_read(&self) -> impl Iterator<Item = GeoField> {
        let named_by = self.tier.iter().filter_map(|tier| match tier.named_by {
            TierSource::Value(_) => None,
            TierSource::Place(field) => Some(field),
        });
        self.key.places().chain(named_by)
    }

    /// The policy that counters are made for: that of the limit; of logs the one with the largest counts of all tiers, since their
    /// length follows from that.
    #[must_use]
    pub fn stored_policy(&self) -> Policy {
        let policies = self.all_tiers().filter_map(|tier| match tier {
            Tier::Rates(policy) => Some(policy),
            Tier::Unlimited | Tier::Blocked => None,
        });
        let largest = |policy: &&Policy| policy.rates().iter().map(|rate| rate.count()).max();
        match self.policy.algorithm() {
            Algorithm::Exact => policies
                .chain([&self.policy])
                .max_by_key(largest)
                .unwrap_or(&self.policy)
                .clone(),
            _ => self.policy.clone(),
        }
    }
}

/// `headers`: in which fields a limit tells clients how they stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldStyle {
    /// `RateLimit-Policy` and `RateLimit`, the default.
    #[default]
    Ietf,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`.
    XRateLimit,
    /// All of them.
    Both,
    /// None.
    None,
}

impl FieldStyle {
    /// Returns whether the fields of the draft are written.
    #[must_use]
    pub fn has_ietf(self) -> bool {
        matches!(self, Self::Ietf | Self::Both)
    }

    /// Returns whether the `X-RateLimit` fields are written.
    #[must_use]
    pub fn has_x_rate_limit(self) -> bool {
        matches!(self, Self::XRateLimit | Self::Both)
    }
}
