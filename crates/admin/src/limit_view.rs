//! Samples a limit for the admin pages: its table, its bans, its requests in flight.

use std::sync::Arc;

use serde::Serialize;
use sluicegate_decide::rfc3339;
use sluicegate_decide::state::CounterPersistence;
use sluicegate_limiter::{
    BanRules, BanStats, Capacity, Concurrency, Limit, OverflowPeriod, Permits, Timestamp,
};

use sluicegate_config::algorithm_name;
use sluicegate_config::rules::Name;
use sluicegate_decide::admission::{ActiveLimit, OverShare, RateScaling, ScaledRates};

/// The part of a limit that the configuration and temporary rules say, as pages write it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct LimitFacts {
    /// Its name.
    pub name: String,
    /// Its key as one would write it in the configuration.
    pub key: String,
    /// Its algorithm, as the configuration names it.
    pub algorithm: &'static str,
    /// Its rates in force.
    pub rates: Vec<String>,
    /// The temporary rule that multiplied them; `None` where they are those of the configuration.
    pub scaled: Option<ScaledRates>,
    /// Its action on a request that exceeds it, as the configuration names it.
    pub action: &'static str,
    /// The share of keys that it is enforced for, as one would write it in the configuration.
    pub enforce: String,
    /// Rates that are only reported.
    pub shadow_rates: Vec<String>,
    /// Keys that its table is made for.
    pub capacity: u64,
}

/// A limit, sampled.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LimitView {
    /// Its name.
    pub name: Name,
    /// The part of it that the configuration says.
    pub facts: LimitFacts,
    /// Keys that its table is made for.
    pub capacity: Capacity,
    /// Active keys.
    pub keys: u64,
    /// Keys that fit in its table.
    pub slots: u64,
    /// Memory of its table.
    pub bytes: u64,
    /// Set while some key shares an overflow counter.
    pub overflow_active: bool,
    /// The period in which new keys share counters; `None` when none do.
    pub overflow: Option<OverflowPeriod>,
    /// The new keys, of 1000 that find a slot, that begin with the counts of others.
    pub overflow_affected: u64,
    /// Decisions over keys that share counters, since the limit exists.
    pub overflow_decisions: u64,
    /// The part of these decisions that was made before the present capacity was set.
    pub overflow_decisions_before: u64,
    /// The part of these decisions that rejected.
    pub overflow_refused: u64,
    /// The share of its slots that one client may take; `None` where clients cannot invent keys.
    pub share: Option<ShareView>,
    /// Slots given to another key after the counts of their own had expired.
    pub slots_reused: u64,
    /// The persistence of its counters.
    pub persistence: CounterPersistence,
    /// Its bans; `None` without `ban`.
    pub bans: Option<BansView>,
    /// Keys that temporary rules ban.
    pub banned_by_rules: u64,
    /// Its requests in flight; `None` without `concurrency`.
    pub permits: Option<PermitsView>,
    /// The units that requests in flight hold in reserve; `None` where the cost is known when a request comes.
    pub reserved: Option<u64>,
    /// Its activation by a condition, and those of its tiers.
    pub activations: Vec<ActivationView>,
}

/// The activation of a limit or a tier by a condition, sampled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ActivationView {
    /// The tier; `None` where it is the limit itself.
    pub tier: Option<String>,
    /// The condition.
    pub when: String,
    /// True if it applies to requests.
    pub active: bool,
    /// The time of the latest change; `None` before the first.
    pub since: Option<String>,
    /// Times that it became active.
    pub activated: u64,
    /// Times that it became inactive.
    pub deactivated: u64,
}

/// The bans of a limit, sampled.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BansView {
    /// The durations and the factor.
    pub rules: BanRules,
    /// Keys that are banned, by the limit or by temporary rules, or whose bans are remembered.
    pub keys: u64,
    /// Keys that fit in their table.
    pub slots: u64,
    /// The counts since the start.
    pub tallies: BanStats,
    /// Memory of their table.
    pub bytes: u64,
    /// The persistence of its bans.
    pub persistence: CounterPersistence,
}

/// The share of a limit's slots that one client may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShareView {
    /// The slots that one client may take, however crowded the table is.
    pub slots: u64,
    /// Rejections of new keys of clients that had taken their share.
    pub refused: u64,
    /// The client that the process log named last.
    pub latest: Option<OverShare>,
}

/// The requests in flight of a limit, sampled.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PermitsView {
    /// The maximum of requests in flight of one key.
    pub max: Concurrency,
    /// Keys that have requests in flight.
    pub keys: u64,
    /// Keys that fit in their table.
    pub slots: u64,
    /// Rejections of keys that share counters, perhaps because of others.
    pub overflow_refused: u64,
    /// Memory of their table.
    pub bytes: u64,
}

impl BansView {
    /// Samples the bans of a limit at `now`; `None` where it has no `ban`.
    pub(super) fn sample(limit: &ActiveLimit, now: Timestamp) -> Option<Self> {
        let active = limit.bans.as_ref()?;
        let bans = &active.bans;
        let occupancy = bans.occupancy(now);
        let rules = limit.keys_banned_by_rules();
        let by_rules_alone = rules.filter(|(key, _)| bans.level(*key, now) == 0).count() as u64;
        Some(Self {
            rules: *bans.rules(),
            keys: occupancy.live + by_rules_alone,
            slots: occupancy.slots,
            tallies: bans.stats(),
            bytes: bans.bytes() as u64,
            persistence: active.persistence.clone(),
        })
    }
}

impl PermitsView {
    /// Samples `permits`.
    pub(super) fn new(permits: &Permits) -> Self {
        let occupancy = permits.occupancy();
        Self {
            max: permits.max(),
            keys: occupancy.live,
            slots: occupancy.slots,
            overflow_refused: permits.stats().refused_in_overflow,
            bytes: permits.bytes() as u64,
        }
    }
}

impl ActivationView {
    /// Samples the activations of `active`, its own first.
    pub(super) fn new(active: &ActiveLimit) -> Vec<Self> {
        let each = active.activations().map(|(tier, activation)| {
            let [activated, deactivated] = activation.changes();
            Self {
                tier: tier.map(ToString::to_string),
                when: activation.rules.when.to_string(),
                active: activation.is_active(),
                since: activation.since().map(rfc3339::format),
                activated,
                deactivated,
            }
        });
        let mut each: Vec<Self> = each.collect();
        each.sort_by(|one, other| one.tier.cmp(&other.tier));
        each
    }
}

impl LimitFacts {
    /// Returns what the configuration says of `active`.
    pub(super) fn new(active: &ActiveLimit) -> Self {
        let written = |limit: &Limit| -> Vec<String> {
            limit.rates().iter().map(ToString::to_string).collect()
        };
        let limit = &active.limit;
        Self {
            name: active.name.to_string(),
            key: active.key.to_string(),
            algorithm: algorithm_name(limit.policy().algorithm()),
            rates: written(limit),
            scaled: active.scaling.as_ref().map(RateScaling::shown),
            action: active.action.name(),
            enforce: active.enforce.to_string(),
            shadow_rates: active.shadow_rates.as_ref().map_or_else(Vec::new, written),
            capacity: limit.capacity().keys(),
        }
    }
}

impl LimitView {
    /// Samples `active` at `now`.
    pub(super) fn new(active: &ActiveLimit, now: Timestamp) -> Self {
        let limit = &active.limit;
        let moment = active.moment(now);
        let occupancy = limit.occupancy(moment);
        let tallies = limit.stats();
        Self {
            name: Arc::clone(&active.name),
            facts: LimitFacts::new(active),
            capacity: limit.capacity(),
            keys: occupancy.live,
            slots: occupancy.slots,
            bytes: limit.bytes() as u64,
            overflow_active: occupancy.in_overflow > 0,
            overflow: limit.overflow(moment),
            overflow_affected: limit.overflow_false_positives(moment),
            overflow_decisions: tallies.in_overflow(),
            overflow_decisions_before: tallies.in_overflow_before,
            overflow_refused: tallies.refused_in_overflow,
            share: limit.share().map(|slots| ShareView {
                slots,
                refused: tallies.refused_over_share,
                latest: active.share_news.latest(),
            }),
            slots_reused: tallies.slots_reused,
            persistence: active.persistence.clone(),
            bans: BansView::sample(active, now),
            banned_by_rules: active.keys_banned_by_rules().count() as u64,
            permits: active.permits.as_ref().map(PermitsView::new),
            activations: ActivationView::new(active),
            reserved: active.reserved.as_ref().map(|reserved| reserved.sum()),
        }
    }
}
