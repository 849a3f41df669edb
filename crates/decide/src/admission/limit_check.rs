//! Owns the check of one request against one limit: its key, cost and tier, and what the limit's action makes of the decision.

use std::sync::Arc;

use crate::rejection::{LimitRejection, MissingKeys};
use crate::temporary_rules::TemporaryRule;
use arrayvec::ArrayVec;
use sluicegate_limiter::{Ask, Decision, KeyHash, MAX_ASKS, Outcome, Timestamp, Verdict};

use super::backend::{Backend, BackendKind};
use super::facts::RequestFacts;
use super::key::KeySeed;
use super::limit::ActiveLimit;
use super::limit_event::{LimitEvent, LimitNote};
use super::overrides::{ActiveTier, TierMatch};
use super::report::OriginMark;
use super::request_key::request_key;
use super::transaction::{
    JointDecision, JointProgress, JointQuestion, RequestProgress, Transaction,
};
use crate::store::{RemoteBackend, ReplicatedBackend, StoreCheck};
use sluicegate_config::Action;
use sluicegate_config::rules::TierIndex;

/// The checks of a request that are decided together.
pub(super) type LimitChecks<'a> = ArrayVec<LimitCheck<'a>, MAX_ASKS>;

/// The check of a request against one limit.
#[derive(Clone, Copy)]
pub(super) struct LimitCheck<'a> {
    /// The index of the limit on the route.
    pub(super) limit: u8,
    /// The limit.
    pub(super) active: &'a Arc<ActiveLimit>,
    /// The key, the cost and the payer, and the counters with the policy of the key's tier.
    pub(super) ask: Ask<'a>,
    /// The tier of the request.
    pub(super) tier: Option<TierIndex>,
    /// Set unless the limit has a condition that did not hold when the request came; what changes later does not change the request.
    pub(super) is_active: bool,
    /// The key in the store; `None` where the limit does not count there, or before the seed of the store is known.
    pub(super) remote_key: Option<KeyHash>,
}

/// The progress of a limit in shadow that is charged by itself.
pub(super) enum ShadowProgress<'a> {
    /// It is decided, with these notes.
    Decided(Vec<LimitNote>),
    /// Its store is to be asked.
    AskStore(Box<JointQuestion<'a>>),
}

impl<'a> LimitCheck<'a> {
    /// Computes the check of `facts` against the limit at the index `limit` of the route; `None` where the request lacks a part of the key
    /// for which there is no substitute. Missing parts are added to `missing`.
    pub(super) fn new(
        limit: u8,
        active: &'a Arc<ActiveLimit>,
        facts: &RequestFacts<'_>,
        seed: &KeySeed,
        missing: &mut MissingKeys,
    ) -> Option<Self> {
        let key = request_key(usize::from(limit), active, facts, seed, missing)?;
        Some(Self {
            limit,
            active,
            ask: active.ask(&key, facts),
            tier: None,
            is_active: active.is_active(),
            remote_key: active.remote_key(facts, key.by),
        })
    }

    /// Repeats the change of the key that an operator has made at another gateway since the last request with it came here.
    pub(super) fn catch_up(&self, now: Timestamp) {
        (self.active).catch_up_with(self.ask.key, self.remote_key, now);
    }

    /// Returns the temporary rule about the key.
    pub(super) fn key_rule(&self) -> Option<&'a Arc<TemporaryRule>> {
        self.active.key_rules.as_ref()?.rule(self.ask.key)
    }

    /// Returns the tier of the request, if it is active.
    pub(super) fn tier(&self, facts: &RequestFacts<'_>) -> Option<TierMatch<'a>> {
        let found = self.active.overrides.as_ref()?.find(self.ask.key, facts);
        found.filter(TierMatch::is_active)
    }

    /// Returns the note that the limit has a condition, which holds for this request.
    pub(super) fn activity(&self) -> Option<LimitNote> {
        let is_conditional = self.active.activation.is_some();
        (is_conditional && self.is_active).then(|| self.note(LimitEvent::Active))
    }

    /// Returns the check with the rates of this tier.
    ///
    /// # Errors
    /// The reason why the limit is not asked.
    pub(super) fn in_tier(self, found: Option<TierMatch<'_>>) -> Result<Self, LimitNote> {
        let Some(TierMatch { index, name, .. }) = found else {
            return Ok(self);
        };
        // A key that the operator has written in a row is not invented by a client.
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
            Some(ActiveTier::Unlimited) => Err(self.note(LimitEvent::Unlimited)),
            Some(ActiveTier::Blocked) if self.is_in_shadow() => {
                Err(self.note(LimitEvent::ShadowRefused))
            }
            Some(ActiveTier::Blocked) => Err(self.note(LimitEvent::Blocked)),
        }
    }

    /// Returns the kind of backend in which the limit counts.
    pub(super) fn kind(&self) -> BackendKind {
        self.active.backend.kind()
    }

    /// Returns whether the limit counts on this node alone.
    pub(super) fn is_local(&self) -> bool {
        self.kind() == BackendKind::Local
    }

    /// Returns whether the counts of the limit are exchanged with other nodes.
    pub(super) fn is_replicated(&self) -> bool {
        self.kind() == BackendKind::Replicated
    }

    /// Returns whether the limit is decided in a store.
    pub(super) fn is_remote(&self) -> bool {
        self.kind() == BackendKind::Remote
    }

    /// Returns the check for the backend of a replicated limit.
    pub(super) fn replicated(&self) -> Option<StoreCheck<'a, ReplicatedBackend>> {
        match &self.active.backend {
            Backend::Replicated(backend) => Some(self.store_check(backend)),
            Backend::Local | Backend::Remote(_) => None,
        }
    }

    /// Returns the check for the backend of a remote limit.
    pub(super) fn remote(&self) -> Option<StoreCheck<'a, RemoteBackend>> {
        match &self.active.backend {
            Backend::Remote(backend) => Some(self.store_check(backend)),
            Backend::Local | Backend::Replicated(_) => None,
        }
    }

    fn store_check<B>(&self, backend: &'a Arc<B>) -> StoreCheck<'a, B> {
        StoreCheck {
            limit: self.limit,
            backend,
            ask: self.ask,
            remote_key: self.remote_key,
        }
    }

    /// Returns the decision of the limit by the tables of this node. Charges nothing.
    pub(super) fn peek(&self, now: Timestamp) -> Decision {
        if let Some(check) = self.replicated() {
            return check.peek(now);
        }
        let Ask {
            limit, key, cost, ..
        } = self.ask;
        let at = self.active.moment(now);
        let verdict = sluicegate_limiter::peek(&[self.ask], at);
        let decision = verdict.decisions().first().cloned();
        // There is one for each ask.
        decision.unwrap_or_else(|| limit.peek(key, cost, at))
    }

    /// Returns the decision of the table to which the ask belongs. Charges nothing.
    pub(super) fn peek_table(&self, now: Timestamp) -> Decision {
        let Ask {
            limit, key, cost, ..
        } = self.ask;
        limit.peek(key, cost, self.active.moment(now))
    }

    /// Returns the decision if it is a rejection that needs no call to a store.
    pub(super) fn known_rejection(&self, now: Timestamp) -> Option<Decision> {
        let decision = self.peek(now);
        let is_known = match &self.active.backend {
            Backend::Local | Backend::Replicated(_) => decision.is_refused(),
            Backend::Remote(backend) => backend.is_cached_rejection(self.ask.key, &decision, now),
        };
        is_known.then_some(decision)
    }

    /// Returns the cached rejection of the store, unless a second look at it is due, which this charges.
    pub(super) fn charge_second_look(&self, now: Timestamp) -> Option<Decision> {
        let Backend::Remote(backend) = &self.active.backend else {
            return None;
        };
        backend.charge_second_look(self.ask.key, self.peek(now), now)
    }

    /// Returns whether the limit rejects no request with this key.
    pub(super) fn is_in_shadow(&self) -> bool {
        !self.is_active
            || self.active.action == Action::Shadow
            || !self.active.enforce.takes(self.ask.key)
    }

    /// Returns the field with which the limit marks requests that it has no room for.
    pub(super) fn marks(&self) -> Option<&'a http::HeaderName> {
        match &self.active.action {
            Action::Mark { field, .. } => Some(field),
            _ => None,
        }
    }

    /// Returns the mark of a limit that is exceeded, if it marks.
    pub(super) fn mark(&self, decision: &Decision) -> Option<OriginMark> {
        Some(OriginMark {
            limit: self.limit,
            field: self.marks()?.clone(),
            value: self.active.items_for(self.tier).status(decision),
            counted: decision.placement(),
        })
    }

    /// Returns a note about the limit.
    pub(super) fn note(&self, event: LimitEvent) -> LimitNote {
        LimitNote {
            limit: self.limit,
            event,
        }
    }

    /// Returns the ask for the rates in shadow.
    fn shadow_rates(&self) -> Option<Ask<'a>> {
        // They stand for the limit's own rates.
        let own = self.active.shadow_rates.as_ref();
        let limit = own.filter(|_| self.tier.is_none())?;
        Some(Ask { limit, ..self.ask })
    }

    /// Charges `ask` by itself. The charge is settled with those of the request, and reported by the index `reported_as`.
    fn charge_separately(
        &self,
        ask: Ask<'_>,
        transaction: &mut Transaction,
        reported_as: Option<u8>,
        now: Timestamp,
    ) -> Verdict {
        let is_under_way = transaction.progress() == RequestProgress::UnderWay;
        if self.active.settlement.is_none() && is_under_way {
            return sluicegate_limiter::decide(&[ask], now);
        }
        let (verdict, charge) = sluicegate_limiter::reserve(&[ask], now);
        if let Some(charge) = charge {
            transaction.add_separate_local(self, charge, reported_as);
        }
        verdict
    }

    /// Charges the limit if it is in shadow, by itself, and takes its permit.
    pub(super) fn charge_in_shadow(
        &self,
        transaction: &mut Transaction,
        now: Timestamp,
    ) -> ShadowProgress<'a> {
        if !self.is_in_shadow() {
            return ShadowProgress::Decided(Vec::new());
        }
        match self.take_permit() {
            Ok(permit) => transaction.add_permit(permit),
            Err(_) => {
                return ShadowProgress::Decided(vec![self.note(LimitEvent::ShadowRefused)]);
            }
        }
        if self.is_local() {
            let verdict = self.charge_separately(self.ask, transaction, Some(self.limit), now);
            return ShadowProgress::Decided(self.shadow_notes(Some(&verdict), Vec::new()));
        }
        let alone = LimitChecks::from_iter([*self]);
        match Transaction::reserve(&alone, now) {
            Ok(JointProgress::AskStore(question)) => ShadowProgress::AskStore(question),
            Ok(JointProgress::Decided(joint)) => {
                ShadowProgress::Decided(self.end_shadow(Ok(joint), transaction))
            }
            Err(rejection) => ShadowProgress::Decided(self.end_shadow(Err(rejection), transaction)),
        }
    }

    /// Adds the charge of a limit in shadow that counts with other nodes, and returns the notes about it. Without its store, such a limit
    /// may admit nothing.
    pub(super) fn end_shadow(
        &self,
        decided: Result<JointDecision, LimitRejection>,
        transaction: &mut Transaction,
    ) -> Vec<LimitNote> {
        let Ok(joint) = decided else {
            return self.shadow_notes(None, Vec::new());
        };
        if let Some(charged) = joint.charged {
            transaction.add_separate(&[*self], charged);
        }
        self.shadow_notes(Some(&joint.verdict), joint.notes)
    }

    /// Returns the notes about what a limit in shadow would do, after those about the source of its decision.
    fn shadow_notes(&self, verdict: Option<&Verdict>, mut notes: Vec<LimitNote>) -> Vec<LimitNote> {
        let admits = verdict.is_some_and(|verdict| verdict.outcome() == Outcome::Admitted);
        notes.push(self.note(match admits {
            true => LimitEvent::ShadowAdmitted,
            false => LimitEvent::ShadowRefused,
        }));
        let decisions = verdict.into_iter().flat_map(Verdict::decisions);
        notes.extend(
            decisions
                .filter(|_| !admits)
                .filter_map(|decision| LimitEvent::of_refusal(decision.placement()))
                .map(|event| self.note(event)),
        );
        notes
    }

    /// Charges the rates in shadow, if there are any.
    pub(super) fn charge_shadow_rates(
        &self,
        transaction: &mut Transaction,
        now: Timestamp,
    ) -> Option<LimitNote> {
        let ask = self.shadow_rates()?;
        // The report names the settlement of the limit's own charge.
        let verdict = self.charge_separately(ask, transaction, None, now);
        Some(self.note(by_rates(verdict.outcome())))
    }

    /// Charges the rates in shadow for a request that the limit itself rejects. A charge that would be settled by the response is not
    /// made, since there will be no response.
    pub(super) fn try_shadow_rates(&self, now: Timestamp) -> Option<LimitNote> {
        let ask = [self.shadow_rates()?];
        let verdict = match self.active.settlement {
            None => sluicegate_limiter::decide(&ask, now),
            Some(_) => sluicegate_limiter::peek(&ask, now),
        };
        Some(self.note(by_rates(verdict.outcome())))
    }
}

fn by_rates(outcome: Outcome) -> LimitEvent {
    match outcome {
        Outcome::Admitted => LimitEvent::ShadowRatesAdmitted,
        Outcome::Refused { .. } => LimitEvent::ShadowRatesRefused,
    }
}
