//! Edits a limit in use without forgetting a charge.
//!
//! An edit of the counts alone keeps the table: states do not depend on them. Logs do not even depend on the periods, and
//! stay while they are long enough and the longest period is the same. Another capacity or another set of
//! periods needs another table, and requests go on charging the old one while it is copied. So the old counters get a
//! *successor* first; from then on every charge made in the old is also added to the new; then all that the old counts
//! is added to the new; then the new limit is returned.
//!
//! # Concurrency
//! A charge writes its words and then looks whether there is a successor. The edit publishes the successor and then
//! reads the words. All four are SeqCst, so in their one order either the charge comes before the reading, and is
//! copied, or the look comes after the publishing, and the charge is forwarded. Both may happen: charges that race with
//! an edit of the structure may count twice, never not at all. Edits of one limit take turns.
//!
//! A charge is taken back in the new table too if the copy was complete before it was taken back in the old one: only then was it
//! copied or forwarded for sure.
//!
//! # Limits
//! A request that still holds the old limit when the new one is in use does not see what was charged only there: for
//! the time of such a request, both limits' rooms count apart. A request that is refused by another limit after all,
//! or whose charge is taken back, during an edit, may stay charged in the new table.

use std::sync::{Arc, PoisonError};

use crate::algorithm::Policy;
use crate::capacity::Capacity;
use crate::cost::Cost;
use crate::key::KeyHash;
use crate::share::PayerShares;
use crate::status::KeyPlacement;
use crate::sync::{Ordering, in_one_order};
use crate::table::{ChargeOutcome, TableStats, WordChange};
use crate::time::Timestamp;

use super::{AnyTable, Limit, LimitCounters, TableSize, with_table};

impl Limit {
    /// The limit after an edit of its numbers: whatever was counted still counts.
    ///
    /// With the same periods and the same capacity the counters are shared, so that both limits see all charges.
    /// Otherwise a new table is filled from the old one, which takes about half a second for a million keys and does
    /// not hold up requests; a rate with a new period goes on from the counts of the next longer old period, or the
    /// longest, and errs towards refusing for up to two of its periods, but knows nothing older than was counted. Logs are
    /// judged anew by the moments that they keep; `exact::convert` says what goes from them to other algorithms and back.
    /// Editing a limit that was replaced edits its replacement.
    #[must_use]
    pub fn edited(&self, policy: impl Into<Policy>, capacity: Capacity, now: Timestamp) -> Self {
        self.edited_with(policy.into(), capacity, now, |policy, before| {
            AnyTable::new(policy, TableSize::Keys(capacity), before)
        })
    }

    /// A handle of the same counters that judges them by another policy, for keys that may do more or less than the others: what one
    /// handle charges, all see. `None` where the counters mean nothing to the policy: another algorithm or other periods, or logs that
    /// are too short for its counts.
    ///
    /// Where a token bucket refills at intervals and its burst is more than a count, the counts should be the same: by the handle that
    /// refills faster a key may be free, and its slot another's, that still owes by its own.
    #[must_use]
    pub fn with_policy(&self, policy: impl Into<Policy>) -> Option<Self> {
        let policy = policy.into();
        let is_held =
            with_table!(&self.counters.table, _table => true, logs => logs.holds(policy.rates()));
        (is_held && policy.keeps_states_of(&self.policy)).then(|| Self {
            compiled_rates: policy.compiled_rates(),
            policy,
            capacity: self.capacity,
            counters: Arc::clone(&self.counters),
        })
    }

    /// Edits like [`edited`](Self::edited), with a table from `make` where a new one is needed.
    pub(super) fn edited_with(
        &self,
        policy: Policy,
        capacity: Capacity,
        now: Timestamp,
        make: impl FnOnce(&Policy, TableStats) -> AnyTable,
    ) -> Self {
        let mut latest = self;
        loop {
            // Held until the copy is complete: a table that is still being filled must not be copied on. The lock
            // guards no data, so a poisoned one is as good.
            let turn = latest
                .counters
                .edits
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if let Some(next) = latest.counters.successor.get() {
                drop(turn);
                latest = next;
                continue;
            }
            if capacity == latest.capacity && latest.counters.table.serves(&latest.policy, &policy)
            {
                let edited = Self {
                    compiled_rates: policy.compiled_rates(),
                    policy,
                    capacity,
                    counters: Arc::clone(&latest.counters),
                };
                edited.prolong_overflow(now);
                return edited;
            }
            let table = make(&policy, latest.stats());
            let shares = latest.counters.shares.get().map(PayerShares::anew);
            let next = Self {
                compiled_rates: policy.compiled_rates(),
                policy,
                capacity,
                counters: Arc::new(LimitCounters::new(table).with_shares(shares)),
            };
            let next = latest.counters.successor.get_or_init(|| next).clone();
            // SeqCst: see above; after the successor is set, so that a thread that sees the flag finds it.
            latest.counters.moved.store(true, Ordering::SeqCst);
            in_one_order();
            latest.copy_into(&next, now);
            // Release: a thread that finds this set finds in the new table what the old one had.
            latest.counters.copied.store(true, Ordering::Release);
            return next;
        }
    }

    /// Keeps the keys in the overflow filter for as long as what they share counts by these rates: a bucket that is refilled at intervals
    /// may need more of them than when it was charged. With other algorithms that depends on no count.
    fn prolong_overflow(&self, now: Timestamp) {
        with_table!(&self.counters.table, table => table.prolong_overflow(&self.rates_at(now)), _logs => {});
    }

    fn copy_into(&self, next: &Self, now: Timestamp) {
        let rates = next.rates();
        with_table!(&self.counters.table, old => with_table!(
            &next.counters.table,
            new => old.copy_into(&self.rates_at(now), new, &next.rates_at(now)),
            logs => old.copy_into_logs(&self.rates_at(now), logs, rates, now),
        ), old => with_table!(
            &next.counters.table,
            new => old.copy_into_words(self.rates(), new, &next.rates_at(now), now),
            logs => old.copy_into(self.rates(), logs, rates, now),
        ));
    }

    /// Adds a charge that was made in the table before this one, where it was `placement`; how it is counted in this one.
    pub(super) fn take_over(
        &self,
        key: KeyHash,
        placement: KeyPlacement,
        cost: Cost,
        now: Timestamp,
    ) -> KeyPlacement {
        with_table!(&self.counters.table, table => {
            let rates_at = self.rates_of(key, now);
            match placement {
                KeyPlacement::OwnSlot | KeyPlacement::OverShare => match table.change(key, &rates_at, WordChange::ChargeUnchecked(cost)) {
                    // Force is never refused.
                    ChargeOutcome::Admitted(state, _) | ChargeOutcome::Refused(state) => state.placement(),
                },
                KeyPlacement::Overflow => table.charge_in_overflow(key, &rates_at, cost).placement(),
            }
        }, logs => logs.take_over(key, self.rates(), cost, placement, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Algorithm;
    use crate::ask::Ask;
    use crate::decide::decide;
    use crate::decision::Outcome;
    use crate::rate::{Period, Rate, Rates};

    /// Goal: tiers of one limit share its counters, each by its own counts. Method: with words and with logs, what one handle admits the
    /// other counts; policies that cannot read the counters are not taken.
    #[test]
    fn handles_with_other_counts_judge_the_same_counters() {
        let now = Timestamp::from_secs(1_800_000_000);
        let policy = |algorithm, count, secs| {
            let period = Period::from_secs(secs).expect("a period");
            let rates = Rates::new([Rate::new(count, period).expect("a rate")]).expect("rates");
            Policy::new(algorithm, rates).expect("a policy")
        };
        for algorithm in [Algorithm::SlidingWindow, Algorithm::Exact] {
            let rated = |count, secs| policy(algorithm.clone(), count, secs);
            let capacity = Capacity::new(10).expect("a capacity");
            let many = Limit::new(rated(5, 60), capacity);
            let few = many.with_policy(rated(2, 60)).expect("the same counters");
            let admits = |limit: &Limit| {
                let ask = Ask {
                    limit,
                    key: KeyHash::from_bits(7),
                    cost: Cost::ONE,
                    payer: None,
                };
                decide(&[ask], now).outcome() == Outcome::Admitted
            };
            assert!(admits(&few) && admits(&many));
            assert!(!admits(&few), "both charges count");
            assert!(admits(&many) && admits(&many) && admits(&many) && !admits(&many));
            assert!(many.with_policy(rated(5, 61)).is_none());
        }
        let short = Limit::new(
            policy(Algorithm::Exact, 5, 60),
            Capacity::new(10).expect("a capacity"),
        );
        assert!(
            short
                .with_policy(policy(Algorithm::Exact, 500, 60))
                .is_none()
        );
        assert!(
            short
                .with_policy(policy(Algorithm::SlidingWindow, 5, 60))
                .is_none()
        );
    }

    /// Goal: memory goes with the requests that use it. Method: many edits of the structure; all tables but the last
    /// are gone.
    #[test]
    fn a_chain_of_edits_keeps_no_old_table_alive() {
        let rates = |secs| {
            Rates::new([Rate::new(5, Period::from_secs(secs).expect("a period")).expect("a rate")])
                .expect("rates")
        };
        let capacity = Capacity::new(10).expect("a capacity");
        let mut limit = Limit::new(rates(1), capacity);
        let mut before = Vec::new();
        for secs in 2..10 {
            before.push(Arc::downgrade(&limit.counters));
            limit = limit.edited(rates(secs), capacity, Timestamp::from_secs(1_800_000_000));
        }
        assert!(before.iter().all(|counters| counters.upgrade().is_none()));
    }
}
