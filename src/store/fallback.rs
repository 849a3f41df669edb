//! Decides checks of one slot while the store cannot be reached, by the rule of each limit: this node's share, every request, or none.
//!
//! The share is the limit's policy with its counts divided by the number of nodes, applied to what this node itself admitted, so that all
//! nodes together admit about what one store would. Charges are queued, and sent when the store is back.

use std::num::NonZeroU32;

use arrayvec::ArrayVec;
use sluicegate_limiter::{
    Ask, Decision, Limit, MAX_ASKS, Outcome, RemoteOutcome, RemoteState, Reservation, Timestamp,
    peek,
};

use super::settle::{ChargeLocation, Part};
use super::strict::{
    BackendDecision, BackendDecisions, DecisionSource, RemoteCheck, Reserved, Unavailable,
};
use crate::config::rules::OnStoreFailure;
use sluicegate_redis_link::StoreError;

/// The shares of limits, by check; `None` for those that admit every request.
type Shares = ArrayVec<Option<Limit>, MAX_ASKS>;

/// Reserves `checks`, all or none; `trouble` is the failure of the store.
///
/// # Errors
/// A limit admits nothing without the store.
pub(super) fn reserve(
    checks: &[&RemoteCheck<'_>],
    trouble: &StoreError,
    now: Timestamp,
) -> Result<Reserved<Vec<Part>>, Unavailable> {
    let is_closed = |check: &&&RemoteCheck<'_>| check.shared.on_failure == OnStoreFailure::Closed;
    if let Some(closed) = checks.iter().find(is_closed) {
        return Err(closed.unavailable());
    }
    let shares: Shares = checks.iter().map(|check| check.share()).collect();
    let asks: ArrayVec<Ask<'_>, MAX_ASKS> = checks
        .iter()
        .zip(&shares)
        .filter_map(|(check, share)| Some(check.of(share.as_ref()?)))
        .collect();
    let rejected = |decisions| {
        let charge = None;
        Ok(Reserved { decisions, charge })
    };
    if peek(&asks, now).outcome() != Outcome::Admitted {
        return rejected(looked_at(checks, &shares, now));
    }
    let mut decisions = BackendDecisions::new();
    let mut charged = ArrayVec::<Reservation, MAX_ASKS>::new();
    for (check, share) in checks.iter().zip(&shares) {
        let (decision, reservation) = check.take(share.as_ref(), now);
        let decision = decided(decision);
        let Some(reservation) = reservation else {
            // Another request took the last room since.
            charged.into_iter().for_each(|charge| charge.release(now));
            let mut looked = looked_at(checks, &shares, now);
            looked[decisions.len()] = decision;
            return rejected(looked);
        };
        decisions.push(decision);
        charged.push(reservation);
    }
    let held = |check: &RemoteCheck<'_>| match trouble.surely_did_not_arrive() {
        true => check.queue(),
        false => ChargeLocation::Uncertain,
    };
    let parts = checks
        .iter()
        .zip(charged)
        .map(|(check, own)| check.part(own, held(check)));
    Ok(Reserved {
        decisions,
        charge: Some(parts.collect()),
    })
}

/// Returns the decision of each, without a charge.
fn looked_at(checks: &[&RemoteCheck<'_>], shares: &Shares, now: Timestamp) -> BackendDecisions {
    let looked = |(check, share): (&&RemoteCheck<'_>, &Option<Limit>)| {
        decided(match share {
            Some(share) => share.peek(check.key, check.cost, now),
            None => check.alone(now),
        })
    };
    checks.iter().zip(shares).map(looked).collect()
}

fn decided(decision: Decision) -> BackendDecision {
    let by = Some(DecisionSource::Fallback);
    BackendDecision { decision, by }
}

impl RemoteCheck<'_> {
    /// Returns this node's own counters with its share of the policy; `None` where the limit admits every request without the store.
    fn share(&self) -> Option<Limit> {
        let is_judged = self.shared.on_failure == OnStoreFailure::Local;
        let nodes: NonZeroU32 = self.shared.store.nodes();
        is_judged.then(|| self.shared.own_by(self.view.policy().share(nodes)))
    }

    /// Charges the share, if there is one.
    fn take(&self, share: Option<&Limit>, now: Timestamp) -> (Decision, Option<Reservation>) {
        let Some(share) = share else {
            return (self.alone(now), Some(self.spend(now)));
        };
        let (verdict, reservation) = sluicegate_limiter::reserve(&[self.of(share)], now);
        let decision = verdict.decisions().first().cloned();
        (decision.unwrap_or_else(|| self.alone(now)), reservation)
    }

    /// Returns the decision about a key of which only this request is known.
    fn alone(&self, now: Timestamp) -> Decision {
        let none = RemoteState::default();
        Decision::remote(self.view.policy(), &none, RemoteOutcome::Peeked, now)
    }

    /// Queues the charge for the store, which gets it as soon as it can be reached.
    fn queue(&self) -> ChargeLocation {
        let Some(ask) = self.script_ask() else {
            return ChargeLocation::Uncertain;
        };
        self.shared.store.unsent().add(&ask);
        ChargeLocation::Queued(ask.name.clone(), ask.cost)
    }
}
