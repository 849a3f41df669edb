//! Owns the part that one limit plays for one request: what is asked of it, and what its action and its overrides make of that.

use std::sync::Arc;

use sluicegate_limiter::{Ask, Decision, KeyHash, Outcome, Permit, Timestamp, Verdict};

use super::key::RequestFacts;
use super::limit::{ActiveLimit, Backend};
use super::overrides::{ActiveTier, TierMatch};
use super::pending::{Pending, Voice};
use super::precheck::Facing;
use super::report::{LimitEvent, LimitNote, Mark};
use super::{here, strict};
use crate::config::Action;
use crate::config::rules::TierIndex;
use crate::store::{RemoteBackend, ReplicatedCheck};

/// One limit, and what the request asks of it.
#[derive(Clone, Copy)]
pub(super) struct LimitCheck<'a> {
    /// Its index on the route.
    pub(super) limit: u8,
    /// The limit.
    pub(super) active: &'a Arc<ActiveLimit>,
    /// What is asked of it.
    pub(super) ask: Ask<'a>,
    /// The tier that the key is in.
    pub(super) tier: Option<TierIndex>,
    /// The key in the store; `None` where the limit does not count there, or nobody knows yet how keys are hashed there.
    pub(super) abroad: Option<KeyHash>,
}

impl<'a> LimitCheck<'a> {
    /// The tier that the request is in.
    pub(super) fn tier(&self, facts: &RequestFacts<'_>) -> Option<TierMatch<'a>> {
        self.active.overrides.as_ref()?.of(self.ask.key, facts)
    }

    /// With the rates of this tier; or why the limit is not asked.
    pub(super) fn in_tier(self, found: Option<TierMatch<'_>>) -> Result<Self, LimitNote> {
        let Some(TierMatch { index, name }) = found else {
            return Ok(self);
        };
        // A key that the operator has written in a row is nobody's invention.
        let payer = self.ask.payer.filter(|_| name.is_some());
        let overrides = self.active.overrides.as_ref();
        match overrides.and_then(|overrides| overrides.tier(index)) {
            None => Ok(self),
            Some(ActiveTier::Rates(rates)) => Ok(Self {
                ask: Ask {
                    limit: &rates.0,
                    payer,
                    ..self.ask
                },
                tier: Some(index),
                ..self
            }),
            Some(ActiveTier::Unlimited) => Err(self.found(LimitEvent::Unlimited)),
            Some(ActiveTier::Blocked) if self.is_in_shadow() => {
                Err(self.found(LimitEvent::ShadowRefused))
            }
            Some(ActiveTier::Blocked) => Err(self.found(LimitEvent::Blocked)),
        }
    }

    /// Whether the limit counts on this node alone.
    pub(super) fn is_local(&self) -> bool {
        matches!(self.active.backend, Backend::Local)
    }

    /// How the limit is decided in a store, if it is.
    pub(super) fn shared(&self) -> Option<&'a Arc<RemoteBackend>> {
        match &self.active.backend {
            Backend::Remote(shared) => Some(shared),
            Backend::Local | Backend::Replicated(_) => None,
        }
    }

    /// Whether the limit is decided in a store.
    pub(super) fn is_strict(&self) -> bool {
        self.shared().is_some()
    }

    /// What is asked of a limit whose counts are exchanged.
    pub(super) fn synced(&self) -> Option<ReplicatedCheck<'a>> {
        let Backend::Replicated(synced) = &self.active.backend else {
            return None;
        };
        Some(ReplicatedCheck {
            synced,
            view: self.ask.limit,
            key: self.ask.key,
            name: self.abroad,
            cost: self.ask.cost,
            payer: self.ask.payer,
        })
    }

    /// What the limit would say, as far as this node knows.
    pub(super) fn peek(&self, now: Timestamp) -> Decision {
        if let Some(ask) = self.synced() {
            return ask.look(now);
        }
        let verdict = sluicegate_limiter::peek(&[self.ask], self.active.moment(now));
        let decision = verdict.decisions().first().cloned();
        // There is one for each ask.
        decision.unwrap_or_else(|| {
            let Ask {
                limit, key, cost, ..
            } = self.ask;
            limit.peek(key, cost, self.active.moment(now))
        })
    }

    /// That the limit has no room, if nobody else need be asked about it.
    pub(super) fn known_refusal(&self, now: Timestamp) -> Option<Decision> {
        let decision = self.peek(now);
        let is_known = match self.shared() {
            None => decision.is_refused(),
            Some(shared) => shared.is_cached_rejection(self.ask.key, &decision, now),
        };
        is_known.then_some(decision)
    }

    pub(super) fn is_in_shadow(&self) -> bool {
        self.active.action == Action::Shadow || !self.active.enforce.takes(self.ask.key)
    }

    /// The field with which the limit marks what it has no room for.
    pub(super) fn marks(&self) -> Option<&'a http::HeaderName> {
        match &self.active.action {
            Action::Mark { field, .. } => Some(field),
            _ => None,
        }
    }

    /// The mark of a limit that is exceeded, if it marks.
    pub(super) fn mark(&self, decision: &sluicegate_limiter::Decision) -> Option<Mark> {
        Some(Mark {
            limit: self.limit,
            field: self.marks()?.clone(),
            value: self.active.items_for(self.tier).standing(decision),
            counted: decision.placement(),
        })
    }

    pub(super) fn facing(&self) -> Facing<'a> {
        Facing {
            limit: self.limit,
            active: self.active,
            ask: self.ask,
        }
    }

    pub(super) fn owed(&self) -> (u8, Arc<ActiveLimit>) {
        (self.limit, Arc::clone(self.active))
    }

    /// What the request asks of the rates in shadow.
    pub(super) fn shadow_rates(&self) -> Option<Ask<'a>> {
        // They stand for the limit's own rates.
        let own = self.active.shadow_rates.as_ref();
        let limit = own.filter(|_| self.tier.is_none())?;
        Some(Ask { limit, ..self.ask })
    }

    /// Charges `ask` by itself; what settles the charges of the request settles this one.
    pub(super) fn charge_beside(
        &self,
        ask: Ask<'_>,
        pending: &mut Pending,
        voice: Voice,
        now: Timestamp,
    ) -> Verdict {
        if self.active.settlement.is_none() && pending.is_under_way() {
            return sluicegate_limiter::decide(&[ask], now);
        }
        let (verdict, reservation) = sluicegate_limiter::reserve(&[ask], now);
        if let Some(reservation) = reservation {
            pending.add(reservation, std::iter::once(self.owed()).collect(), voice);
        }
        verdict
    }

    /// Charges the limit if it is in shadow, and takes its permit.
    pub(super) async fn charge_in_shadow(
        &self,
        pending: &mut Pending,
        permits: &mut Vec<Permit>,
        now: Timestamp,
    ) -> Vec<LimitNote> {
        if !self.is_in_shadow() {
            return Vec::new();
        }
        match self.facing().permit() {
            Ok(permit) => permits.extend(permit),
            Err(_) => return vec![self.found(LimitEvent::ShadowRefused)],
        }
        let (verdict, mut notes) = match self.active.backend {
            Backend::Remote(_) => Box::pin(strict::charge_in_shadow(self, pending, now)).await,
            Backend::Replicated(_) => here::charge_in_shadow(self, pending, now),
            Backend::Local => {
                let verdict = self.charge_beside(self.ask, pending, Voice::Heard, now);
                (Some(verdict), Vec::new())
            }
        };
        // Without its store, a limit would let nobody pass.
        let admits = verdict
            .as_ref()
            .is_some_and(|verdict| verdict.outcome() == Outcome::Admitted);
        notes.push(self.found(match admits {
            true => LimitEvent::ShadowAdmitted,
            false => LimitEvent::ShadowRefused,
        }));
        let decisions = verdict.iter().flat_map(|verdict| verdict.decisions());
        notes.extend(
            decisions
                .filter(|_| !admits)
                .filter_map(|decision| LimitEvent::of_refusal(decision.placement()))
                .map(|event| self.found(event)),
        );
        notes
    }

    /// Charges its rates in shadow, if there are any.
    pub(super) fn charge_shadow_rates(
        &self,
        pending: &mut Pending,
        now: Timestamp,
    ) -> Option<LimitNote> {
        let verdict = self.charge_beside(self.shadow_rates()?, pending, Voice::Silent, now);
        Some(self.found(by_rates(verdict.outcome())))
    }

    /// As [`charge_shadow_rates`](Self::charge_shadow_rates), for a request that the limit itself refuses. What would be settled by
    /// the answer is not charged, since there will be none.
    pub(super) fn try_shadow_rates(&self, now: Timestamp) -> Option<LimitNote> {
        let ask = [self.shadow_rates()?];
        let verdict = match self.active.settlement {
            None => sluicegate_limiter::decide(&ask, now),
            Some(_) => sluicegate_limiter::peek(&ask, now),
        };
        Some(self.found(by_rates(verdict.outcome())))
    }

    pub(super) fn found(&self, event: LimitEvent) -> LimitNote {
        LimitNote {
            limit: self.limit,
            event,
        }
    }
}

fn by_rates(outcome: Outcome) -> LimitEvent {
    match outcome {
        Outcome::Admitted => LimitEvent::ShadowRatesAdmitted,
        Outcome::Refused { .. } => LimitEvent::ShadowRatesRefused,
    }
}
