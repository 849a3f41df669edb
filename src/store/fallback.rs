//! Decides limits of one slot while the store is away, as each of them says: by this node's share, not at all, or by refusing.
//!
//! The share is the limit's policy with its counts divided by the number of nodes, judged by what this node itself admitted, so that all
//! nodes together admit about what one store would. What is admitted is owed to the store, and told to it once it is back.

use std::num::NonZeroU32;

use arrayvec::ArrayVec;
use sluicegate_limiter::{
    Ask, Decision, Limit, MAX_ASKS, Outcome, RemoteOutcome, RemoteState, Reservation, Timestamp,
    peek, reserve,
};

use super::StoreError;
use super::settle::ChargeLocation;
use super::strict::{RemoteCheck, Said};
use crate::config::rules::OnStoreFailure;

/// The shares of limits, by ask; `None` for those that are open.
type Shares = ArrayVec<Option<Limit>, MAX_ASKS>;

/// Decides over `asks`, all or none; `trouble` is why the store did not.
pub(super) fn decide(asks: &[&RemoteCheck<'_>], trouble: &StoreError, now: Timestamp) -> Said {
    let mut says = asks.iter().map(|ask| ask.shared.on_failure);
    if let Some(ask) = says.position(|says| says == OnStoreFailure::Closed) {
        return Said::Away(ask);
    }
    let shares: Shares = asks.iter().map(|ask| ask.share()).collect();
    let judged: ArrayVec<Ask<'_>, MAX_ASKS> = asks
        .iter()
        .zip(&shares)
        .filter_map(|(ask, share)| Some(ask.of(share.as_ref()?)))
        .collect();
    if peek(&judged, now).outcome() != Outcome::Admitted {
        return Said::Refused(looked_at(asks, &shares, now));
    }
    let mut decisions = ArrayVec::new();
    let mut charged = ArrayVec::<Reservation, MAX_ASKS>::new();
    for (ask, share) in asks.iter().zip(&shares) {
        let (decision, reservation) = ask.take(share.as_ref(), now);
        let index = decisions.len();
        let Some(reservation) = reservation else {
            // Another request took the last room since.
            charged.into_iter().for_each(|charge| charge.release(now));
            let mut refused = looked_at(asks, &shares, now);
            refused[index] = decision;
            return Said::Refused(refused);
        };
        decisions.push(decision);
        charged.push(reservation);
    }
    let owes = |ask: &RemoteCheck<'_>| match trouble.surely_did_not_arrive() {
        true => ask.owe(),
        false => ChargeLocation::Uncertain,
    };
    let parts = asks
        .iter()
        .zip(charged)
        .map(|(ask, own)| ask.part(own, owes(ask)));
    Said::Admitted(decisions, parts.collect())
}

/// What each would say, without a charge.
fn looked_at(
    asks: &[&RemoteCheck<'_>],
    shares: &Shares,
    now: Timestamp,
) -> ArrayVec<Decision, MAX_ASKS> {
    let decision = |(ask, share): (&&RemoteCheck<'_>, &Option<Limit>)| match share {
        Some(share) => share.peek(ask.key, ask.cost, now),
        None => ask.alone(now),
    };
    asks.iter().zip(shares).map(decision).collect()
}

impl RemoteCheck<'_> {
    /// What this node admitted, judged by its share; `None` where the limit judges nobody without the store.
    fn share(&self) -> Option<Limit> {
        let is_judged = self.shared.on_failure == OnStoreFailure::Local;
        let nodes: NonZeroU32 = self.shared.store.nodes();
        is_judged.then(|| self.shared.own_by(self.view.policy().share(nodes)))
    }

    /// Charges the share, if there is one that judges.
    fn take(&self, share: Option<&Limit>, now: Timestamp) -> (Decision, Option<Reservation>) {
        let Some(share) = share else {
            return (self.alone(now), Some(self.spend(now)));
        };
        let (verdict, reservation) = reserve(&[self.of(share)], now);
        let decision = verdict.decisions().first().cloned();
        (decision.unwrap_or_else(|| self.alone(now)), reservation)
    }

    /// What is said of a key of which only this request is known.
    fn alone(&self, now: Timestamp) -> Decision {
        let none = RemoteState::default();
        Decision::remote(self.view.policy(), &none, RemoteOutcome::Peeked, now)
    }

    /// Has the store told of the charge as soon as it is back.
    fn owe(&self) -> ChargeLocation {
        let Some(abroad) = self.abroad() else {
            return ChargeLocation::Uncertain;
        };
        self.shared.store.unsent().add(&abroad);
        ChargeLocation::Queued(abroad.name.clone(), abroad.cost)
    }
}
