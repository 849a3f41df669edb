//! Says what another place needs to judge by this limiter's rules, and makes decisions of what that place answers.
//!
//! A store that several gateways share judges where the counts are: in the store, by its clock. It is told the
//! [`PolicyTerms`](crate::PolicyTerms) of a
//! policy, the integers that its algorithm judges by, and answers with the [`RemoteState`] of a key,
//! the fields of its words.
//! From these a [`Decision`] is told here by the same code as from a local table, and a local table can
//! [`apply`](crate::Limit::adopt) them. What a store does with the terms is the store's business; `crates/limiter/tests/vectors` has
//! what has to come of it.

mod apply;
mod charge;
mod state;
mod terms;

use crate::algorithm::{CompiledRate, Policy};
use crate::decision::{Decision, KeyFinding, MAX_ASKS, Verdict};
use crate::exact::ComputedAnswer;
use crate::rate::MAX_RATES;
use crate::remote_state::{RemoteOutcome, RemoteState};
use crate::status::{AskOutcome, KeyPlacement, RefusingRates};
use crate::time::Timestamp;

impl Decision {
    /// Builds a decision from a store's answer to one ask: the state of the key after it, the outcome, and the moment
    /// of the store's clock.
    #[must_use]
    pub fn remote(
        policy: &Policy,
        state: &RemoteState,
        told: RemoteOutcome,
        now: Timestamp,
    ) -> Self {
        let rates = policy.rates();
        let (asked, refusing) = match told {
            RemoteOutcome::Charged(cost) => (AskOutcome::Charged(cost), 0),
            RemoteOutcome::NotCharged { cost, refusing } => {
                (AskOutcome::NotCharged(cost), refusing)
            }
            RemoteOutcome::Peeked => (AskOutcome::Peeked, 0),
        };
        if policy.log_entries().is_some() {
            return Self::computed(ComputedAnswer::remote(rates, state, asked, refusing, now));
        }
        let compiled_rates = policy.meters_at(now);
        let finding = KeyFinding {
            asked,
            placement: KeyPlacement::OwnSlot,
            // Bits behind the last rate would name rates that there are not.
            refusing: RefusingRates::of_bits(refusing & ((1 << rates.len()) - 1)),
            words: state.words(&compiled_rates),
        };
        Self::new(now, finding, rates.len(), &compiled_rates)
    }
}

impl Verdict {
    /// The verdict over these decisions, the first [`MAX_ASKS`] of them, in the order of the asks.
    #[must_use]
    pub fn new(decisions: impl IntoIterator<Item = Decision>) -> Self {
        let mut decisions = decisions.into_iter().take(MAX_ASKS);
        match (decisions.next(), decisions.next()) {
            (Some(only), None) => Self::over_one(only),
            (first, second) => {
                Self::over(first.into_iter().chain(second).chain(decisions).collect())
            }
        }
    }
}

impl Policy {
    /// The meters of the rates with the windows of a moment.
    fn meters_at(&self, now: Timestamp) -> [CompiledRate; MAX_RATES] {
        let compiled_rates = self.compiled_rates();
        match self.calendar() {
            None => compiled_rates,
            Some((zone, unit)) => {
                let shape = zone.window(unit, now);
                compiled_rates.map(|compiled| compiled.in_window(shape))
            }
        }
    }
}
