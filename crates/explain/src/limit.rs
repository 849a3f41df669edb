//! Explains one limit: a clause for each property of its rules, collected in one place.
//!
//! The numbers are those that docs/limiter.md derives. A field of the rules that clients notice gets a clause of its own, and a
//! line in [`LimitExplained::new`]; the clauses that are not about the rates are in `action`, `tier` and `penalty`.

use serde::Serialize;
use sluicegate_limiter::{Algorithm, Alignment, Limit, Policy, Rate, Refill};

use super::text::{bytes, count, listed, rates, span};
use super::{action, activation, penalty, shared, tier};
use sluicegate_config::algorithm_name;
use sluicegate_config::rules::{KeyPart, LimitRules, Name, Rules};

/// A limit in plain sentences.
#[derive(Debug, Serialize)]
pub struct LimitExplained {
    /// Its name.
    pub name: String,
    /// The rates and their key.
    pub allows: String,
    /// The name of the algorithm.
    pub algorithm: &'static str,
    /// The algorithm's way to count.
    pub judged: String,
    /// The maximum that a client can get out of each rate, by timing its requests.
    pub worst_case: Vec<String>,
    /// The times at which it applies, where it has a condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The decider, where it is not the gateway alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<String>,
    /// The rule for a request that lacks a part of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// The treatment of names beside the key's, where the limit accepts any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_names: Option<String>,
    /// The cost of a request, where it is not always one unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<String>,
    /// Keys with other rates in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overrides: Option<String>,
    /// Tiers that requests name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiers: Option<String>,
    /// The times at which tiers with conditions apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiers_when: Option<String>,
    /// The treatment of a request that exceeds it.
    pub exceeded: String,
    /// Rates that are only reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow_rates: Option<String>,
    /// The ban of a key that exceeds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ban: Option<String>,
    /// The bound on requests of a key in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<String>,
    /// Maximum memory in bytes.
    pub memory_bytes: u64,
    /// Number of keys for which it has room.
    pub capacity: u64,
    /// Maximum time in seconds for which a key keeps its slot after its last request.
    pub key_held_seconds: u64,
    /// The behavior with more active keys than slots.
    pub when_full: String,
    /// The routes that have it.
    pub routes: Vec<String>,
    /// The limits that use it as their fallback limit.
    pub instead_of: Vec<String>,
}

impl LimitExplained {
    /// Explains the limit `name`.
    #[must_use]
    pub fn new(name: &Name, limit: &LimitRules, rules: &Rules) -> Self {
        let rates = || limit.policy.rates().iter();
        let held = rates()
            .map(|rate| held_seconds(limit.policy.algorithm(), rate))
            .max()
            .unwrap_or(0);
        let asks = rules
            .routes
            .iter()
            .filter(|route| route.limits.contains(name));
        Self {
            name: name.to_string(),
            allows: allows(limit),
            algorithm: algorithm_name(limit.policy.algorithm()),
            judged: judged(&limit.policy),
            worst_case: rates()
                .map(|rate| worst_case(limit.policy.algorithm(), rate))
                .collect(),
            when: activation::of_limit(limit),
            shared: shared::shared(limit, rules.store.as_ref()),
            missing: action::missing(limit),
            other_names: action::other_names(limit),
            counts: action::counts(limit),
            overrides: tier::overrides(limit),
            tiers: tier::named(limit),
            tiers_when: activation::of_tiers(limit),
            exceeded: action::exceeded(limit),
            shadow_rates: action::shadow_rates(limit),
            ban: penalty::ban(limit),
            concurrency: penalty::concurrency(limit),
            memory_bytes: limit.bytes(),
            capacity: limit.capacity.keys(),
            key_held_seconds: held,
            when_full: when_full(limit, held),
            routes: asks.map(|route| route.name.to_string()).collect(),
            instead_of: action::instead_of(name, rules)
                .map(ToString::to_string)
                .collect(),
        }
    }

    /// Returns every clause, a line each.
    pub(super) fn sentences(&self) -> Vec<String> {
        let mut lines = vec![format!("{} {}", self.allows, self.judged)];
        lines.extend(self.when.clone());
        lines.extend(self.worst_case.iter().cloned());
        lines.extend(self.overrides.clone());
        lines.extend(self.tiers.clone());
        lines.extend(self.tiers_when.clone());
        lines.extend(self.counts.clone());
        lines.extend(self.missing.clone());
        lines.extend(self.other_names.clone());
        lines.extend(self.shared.clone());
        lines.extend(self.concurrency.clone());
        lines.push(self.exceeded.clone());
        lines.extend(self.ban.clone());
        lines.extend(self.shadow_rates.clone());
        lines.push(format!(
            "Memory: up to {}, for {}.",
            bytes(self.memory_bytes),
            match self.capacity {
                1 => "one key".to_owned(),
                keys => format!("{} keys", count(keys)),
            }
        ));
        lines.push(self.when_full.clone());
        let routes: Vec<_> = self
            .routes
            .iter()
            .map(|route| format!("{route:?}"))
            .collect();
        lines.extend(match routes.as_slice() {
            [] if self.instead_of.is_empty() => Some("No route uses it.".to_owned()),
            [] => None,
            [route] => Some(format!("Used by the route {route}.")),
            routes => Some(format!("Used by the routes {}.", listed(routes))),
        });
        if !self.instead_of.is_empty() {
            lines.push(format!(
                "Applies in place of {} once that is exceeded.",
                listed(&self.instead_of)
            ));
        }
        lines
    }
}

/// Describes the rates and their key.
fn allows(limit: &LimitRules) -> String {
    let rates = listed(&rates(&limit.policy));
    let whom = match limit.key.0.as_slice() {
        [KeyPart::Global] => "all requests together".to_owned(),
        _ => format!("each value of {}", limit.key),
    };
    format!("Allows {whom} {rates}, charged together or not at all.")
}

fn judged(policy: &Policy) -> String {
    match policy.algorithm() {
        Algorithm::SlidingWindow => {
            "Algorithm: sliding window, approximated by the count of this window and the overlapping share of the previous one.".to_owned()
        }
        Algorithm::Exact => "Algorithm: exact, a log of every admission.".to_owned(),
        Algorithm::FixedWindow(Alignment::Epoch) => {
            "Algorithm: fixed windows that begin at multiples of the period, in UTC.".to_owned()
        }
        Algorithm::FixedWindow(Alignment::FirstRequest) => {
            "Algorithm: fixed windows that begin with a key's first request.".to_owned()
        }
        Algorithm::FixedWindow(Alignment::Key) => {
            "Algorithm: fixed windows that begin at an offset of each key, derived from its secret hash.".to_owned()
        }
        Algorithm::FixedWindow(Alignment::Calendar { .. }) => {
            "Algorithm: fixed windows, the days, weeks or months of a time zone.".to_owned()
        }
        Algorithm::TokenBucket { refill, .. } => {
            let refill = match refill {
                Refill::Greedy => "refilled continuously",
                Refill::Interval => "refilled at the end of each period",
            };
            format!("Algorithm: token bucket, {refill}.")
        }
        Algorithm::Gcra { .. } => {
            "Algorithm: GCRA, the theoretical arrival time of the next request with a burst tolerance.".to_owned()
        }
        Algorithm::LeakyBucket { queue, max_wait } => format!(
            "Algorithm: leaky bucket; requests leave one by one, up to {} wait, each for at most {:?}.",
            count((*queue).into()),
            max_wait
        ),
    }
}

/// Returns the maximum in any span of the rate's period: the table of docs/limiter.md, "The algorithms".
fn worst_case(algorithm: &Algorithm, rate: &Rate) -> String {
    let n = u64::from(rate.count());
    let period = span(rate.period().as_secs().into());
    let by_timing = |most: u64, where_exact: &str| {
        format!(
            "Worst case: never more than {} in {where_exact}, and {} in any other {period} if bursts are timed to the edge between two.",
            count(n),
            count(most)
        )
    };
    let from_burst = |burst: Option<u32>| {
        let burst = u64::from(burst.unwrap_or(rate.count()));
        format!(
            "Worst case: {} at once, and {} in any {period}, the burst and the refill.",
            count(burst),
            count(burst + n)
        )
    };
    match algorithm {
        // All of the last window's count came at its very end.
        Algorithm::SlidingWindow => by_timing(2 * n, &format!("{period} aligned to the clock")),
        Algorithm::Exact => format!("Worst case: never more than {} in any {period}.", count(n)),
        Algorithm::FixedWindow(Alignment::FirstRequest) => by_timing(2 * n - 1, "a window"),
        Algorithm::FixedWindow(Alignment::Key) => by_timing(2 * n, "a window of its key"),
        Algorithm::FixedWindow(Alignment::Epoch | Alignment::Calendar { .. }) => {
            by_timing(2 * n, "a window")
        }
        Algorithm::TokenBucket { burst, .. } | Algorithm::Gcra { burst } => from_burst(*burst),
        Algorithm::LeakyBucket { .. } => format!(
            "Worst case: {} leave in any {period}, at least {:.3} s apart.",
            count(n + 1),
            f64::from(rate.period().as_secs()) / f64::from(rate.count())
        ),
    }
}

/// Returns the maximum time in seconds for which a key is active after its last charge, rounded up: docs/limiter.md, "Memory".
fn held_seconds(algorithm: &Algorithm, rate: &Rate) -> u64 {
    let period = u64::from(rate.period().as_secs());
    let drained = |units: u32| (u64::from(units) * period).div_ceil(u64::from(rate.count()));
    match algorithm {
        Algorithm::SlidingWindow => 2 * period,
        Algorithm::Exact | Algorithm::FixedWindow(_) => period,
        Algorithm::TokenBucket { burst, refill } => {
            let drained = drained(burst.unwrap_or(rate.count()));
            match refill {
                Refill::Greedy => drained,
                // Tokens come back at the end of a period only.
                Refill::Interval => drained.next_multiple_of(period),
            }
        }
        Algorithm::Gcra { burst } => drained(burst.unwrap_or(rate.count())),
        Algorithm::LeakyBucket { queue, .. } => drained(queue.saturating_add(1)),
    }
}

/// Describes the effect of a flood of new keys, contract C3, and the capacity that withstands it.
fn when_full(limit: &LimitRules, held: u64) -> String {
    if limit.key.0 == [KeyPart::Global] {
        return "It has one key and cannot be full.".to_owned();
    }
    let keys = limit.capacity.keys();
    format!(
        "A key keeps its slot for up to {} after its last request, so {} new keys a second fit; for R a second set capacity to \
         at least R × {}. Beyond that new keys share counters: every request is counted, some may be rejected because of others, \
         and metric, log and /status report it.{}",
        span(held),
        count(keys / held.max(1)),
        count(held.max(1)),
        when_invented(limit)
    )
}

/// Describes the treatment of a client that invents keys.
fn when_invented(limit: &LimitRules) -> String {
    if !limit.key.can_be_invented() {
        return String::new();
    }
    format!(
        " Clients can invent keys: a client with {} keys gets further ones only while enough slots are free for others.",
        count(Limit::share_of(limit.capacity))
    )
}
