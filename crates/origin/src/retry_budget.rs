//! Bounds the retries of an origin: a share of its requests plus a floor, so that retries do not multiply the load of a failing origin.
//!
//! Every second the allowance is set anew, from the requests of the second before. A retry takes one from it; when none is left, the
//! response of the first attempt is final. In any span of T seconds there are at most share × requests + floor × (T + 1) retries, whatever
//! fails.
//!
//! # Concurrency
//! The allowance is one word; the requests are another, which is only ever added to. A request that is counted a second late earns its
//! share a second late.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use sluicegate_config::rules::RetryRules;

/// The retries of one origin.
#[derive(Debug, Default)]
pub struct RetryBudget {
    /// Retries that are left in this second.
    left: AtomicU32,
    /// Requests so far, and those of them that the allowance was computed from.
    requests: AtomicU64,
    settled: AtomicU64,
    retries: AtomicU64,
    exhausted: AtomicU64,
}

impl RetryBudget {
    /// Returns a budget with its floor.
    pub(super) fn new(rules: Option<&RetryRules>) -> Self {
        Self {
            left: AtomicU32::new(rules.map_or(0, |rules| rules.min_per_second)),
            ..Self::default()
        }
    }

    /// Counts a request, once, however many attempts it makes.
    pub(super) fn earn(&self) {
        // Relaxed, here and below: numbers that publish nothing.
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets the allowance of the next second; called once a second, by one task.
    pub(super) fn renew(&self, rules: &RetryRules) {
        let requests = self.requests.load(Ordering::Relaxed);
        let new = requests.wrapping_sub(self.settled.swap(requests, Ordering::Relaxed));
        let earned = new.saturating_mul(rules.budget.0.into()) / 100;
        let allowed = earned.saturating_add(rules.min_per_second.into());
        let allowed = u32::try_from(allowed).unwrap_or(u32::MAX);
        self.left.store(allowed, Ordering::Relaxed);
    }

    /// Takes a retry; returns false where none is left.
    #[must_use]
    pub(super) fn spend(&self) -> bool {
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            })
            .is_ok();
        let counter = if taken {
            &self.retries
        } else {
            &self.exhausted
        };
        counter.fetch_add(1, Ordering::Relaxed);
        taken
    }

    /// Counts a retry that needs no budget.
    pub(super) fn note(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of retries so far.
    #[must_use]
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// Returns the number of retries refused by the budget.
    #[must_use]
    pub fn exhausted(&self) -> u64 {
        self.exhausted.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use sluicegate_config::rules::Percent;

    proptest! {
        /// Goal: the bound of the module's doc. Method: seconds of requests and attempts to retry in any order; every span of them.
        #[test]
        fn retries_stay_below_share_and_floor(
            seconds in prop::collection::vec((0u64..300, 0u64..300), 1..20),
            share in 0u8..=100,
            floor in 0u32..20,
        ) {
            let rules = RetryRules { on: Vec::new(), budget: Percent(share), min_per_second: floor, deadline: None };
            let budget = RetryBudget::new(Some(&rules));
            let mut made = Vec::new();
            for (requests, attempts) in &seconds {
                (0..*requests).for_each(|_| budget.earn());
                made.push((0..*attempts).filter(|_| budget.spend()).count() as u64);
                budget.renew(&rules);
            }
            for from in 0..made.len() {
                for to in from..made.len() {
                    // The first second's allowance comes from the second before it.
                    let earning = &seconds[from.saturating_sub(1)..to];
                    let earned: u64 = earning.iter().map(|(requests, _)| requests * u64::from(share) / 100).sum();
                    let floors = u64::from(floor) * (to - from + 1) as u64;
                    let spent: u64 = made[from..=to].iter().sum();
                    prop_assert!(spent <= earned + floors, "{from}..={to}: {spent} > {earned} + {floors}");
                }
            }
        }
    }
}
