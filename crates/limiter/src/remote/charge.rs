//! Counts what was admitted whatever a table says of it, and tells how much was: what exchanging counts takes beside
//! [`Limit::adopt`].
//!
//! A table that is judged while another place counts too learns afterwards what was admitted there. So it may hold more than
//! its rates admit, and a caller that exchanges counts needs the excess.

use crate::algorithm::{CompiledRate, Policy};
use crate::cost::Cost;
use crate::key::KeyHash;
use crate::limit::Limit;
use crate::rate::Rate;
use crate::status::RateStatus;
use crate::time::Timestamp;

use crate::remote_state::RemoteState;

impl Limit {
    /// Counts `cost` as used, whether it fits or not. [`charge_unchecked`](crate::charge_unchecked) does so for a charge that
    /// may be taken back.
    pub fn count(&self, key: KeyHash, cost: Cost, now: Timestamp) {
        // What is not taken back needs no receipt.
        let _ = self.charge_unchecked(key, cost, now);
    }

    /// Units that `key` has used of the rate of which it has used most; of a log no more than its rates admit.
    #[must_use]
    pub fn used(&self, key: KeyHash, now: Timestamp) -> u64 {
        self.used_in_words(key, now).unwrap_or_else(|| {
            let decision = self.peek(key, Cost::ONE, now);
            let used = |status: &RateStatus| {
                u64::from(status.rate.count()).saturating_sub(status.remaining.into())
            };
            decision.statuses().iter().map(used).max().unwrap_or(0)
        })
    }
}

impl Policy {
    /// Units that the rate admits at the same time which admits most.
    #[must_use]
    pub fn most(&self) -> u32 {
        let rates = self.rates().iter().zip(self.compiled_rates());
        rates
            .map(|(rate, compiled)| compiled.most(*rate))
            .max()
            .unwrap_or(0)
    }
}

impl RemoteState {
    /// Units by which the rate that is furthest beyond what it admits is beyond it; zero if none is, and for logs, which never
    /// are.
    #[must_use]
    pub fn excess(&self, policy: &Policy, now: Timestamp) -> u64 {
        if policy.log_entries().is_some() {
            return 0;
        }
        let compiled_rates = policy.meters_at(now);
        let words = self.words(&compiled_rates);
        let rates = policy.rates().iter().zip(compiled_rates).zip(words);
        let excesses = rates.map(|((rate, compiled), word)| {
            let used = compiled.at(now).used_units(word);
            used.saturating_sub(compiled.most(*rate).into())
        });
        excesses.max().unwrap_or(0)
    }
}

impl CompiledRate {
    /// Units of `rate`, which is the meter's, that may be used at the same time.
    fn most(&self, rate: Rate) -> u32 {
        match self {
            Self::Sliding(_) | Self::Window(..) => rate.count(),
            Self::Interval(_, burst) => *burst,
            Self::Drain(_, shape) => shape.burst,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
