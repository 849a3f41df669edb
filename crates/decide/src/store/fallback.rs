//! Decides checks of one slot while the store cannot be reached, by the rule of each limit: this node's share, every request, or none.
//!
//! The share is the limit's policy with its counts divided by the number of nodes, applied to what this node itself admitted, so that all
//! nodes together admit about what one store would. Charges are queued, and sent when the store is back.

use crate::rejection::LimitRejection;
use arrayvec::ArrayVec;
use sluicegate_limiter::{Ask, Decision, Limit, MAX_ASKS, Outcome, Reservation, Timestamp, peek};

use super::settle::{ChargeLocation, RemoteCharge};
use super::store_call::StoreFailure;
use super::store_check::{
    BackendDecision, BackendDecisions, BackendVerdict, DecisionSource, reserve_one,
};
use super::strict::{RemoteBackend, RemoteCheck, SlotGroup};

/// The shares of limits, by check; `None` for those that admit every request.
type NodeShares = ArrayVec<Option<Limit>, MAX_ASKS>;

/// Reserves the checks of `group`, all or none, and adds their charges to `charges`; `failure` is that of the store.
///
/// # Errors
/// A limit admits nothing without the store.
pub(super) fn reserve(
    group: &SlotGroup<'_>,
    failure: StoreFailure,
    charges: &mut Vec<RemoteCharge>,
    now: Timestamp,
) -> Result<BackendVerdict, LimitRejection> {
    let checks = || group.iter().map(|(_, check)| *check);
    let shares = checks().map(|check| {
        let RemoteBackend {
            own,
            on_failure,
            store,
            ..
        } = &**check.backend;
        check.share(own, *on_failure, &**store)
    });
    let shares = shares.collect::<Result<NodeShares, _>>()?;
    let asks: ArrayVec<Ask<'_>, MAX_ASKS> = checks()
        .zip(&shares)
        .filter_map(|(check, share)| Some(check.ask_of(share.as_ref()?)))
        .collect();
    if peek(&asks, now).outcome() != Outcome::Admitted {
        return Ok(BackendVerdict::rejected(peek_all(group, &shares, now)));
    }
    let mut decisions = BackendDecisions::new();
    let mut charged = ArrayVec::<Reservation, MAX_ASKS>::new();
    for (check, share) in checks().zip(&shares) {
        let (decision, reservation) = check.charge_share(share.as_ref(), now);
        let decision = by_fallback(decision);
        let Some(reservation) = reservation else {
            // Another request took the last room since.
            charged.into_iter().for_each(|charge| charge.release(now));
            let mut peeked = peek_all(group, &shares, now);
            peeked[decisions.len()] = decision;
            return Ok(BackendVerdict::rejected(peeked));
        };
        decisions.push(decision);
        charged.push(reservation);
    }
    for ((index, check), own) in group.iter().zip(charged) {
        let location = match failure {
            StoreFailure::NotSent => check.queue(),
            StoreFailure::Unknown => ChargeLocation::Uncertain,
        };
        charges.push(RemoteCharge::new(*index, check, own, location));
    }
    Ok(BackendVerdict::charged(decisions))
}

/// Returns the decision of each, without a charge.
fn peek_all(group: &SlotGroup<'_>, shares: &NodeShares, now: Timestamp) -> BackendDecisions {
    let peek = |((_, check), share): (&(usize, &RemoteCheck<'_>), &Option<Limit>)| {
        by_fallback(match share {
            Some(share) => share.peek(check.ask.key, check.ask.cost, now),
            None => check.decision_alone(now),
        })
    };
    group.iter().zip(shares).map(peek).collect()
}

fn by_fallback(decision: Decision) -> BackendDecision {
    let by = Some(DecisionSource::Fallback);
    BackendDecision { decision, by }
}

impl RemoteCheck<'_> {
    /// Charges the share, if there is one.
    fn charge_share(
        &self,
        share: Option<&Limit>,
        now: Timestamp,
    ) -> (Decision, Option<Reservation>) {
        match share {
            Some(share) => reserve_one(&self.ask_of(share), now),
            None => (self.decision_alone(now), Some(self.charge_own(now))),
        }
    }

    /// Queues the charge for the store, which gets it as soon as it can be reached.
    fn queue(&self) -> ChargeLocation {
        let Some(name) = self.name() else {
            return ChargeLocation::Uncertain;
        };
        (self.backend.store.replay_queue()).add(&self.store_ask(&name));
        ChargeLocation::Queued(name, self.ask.cost)
    }
}
