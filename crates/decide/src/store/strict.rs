//! Decides limits with `store = "shared-strict"`: in the store, by one call for all checks that share a slot.
//!
//! A limit has two tables here. The *cache* holds the state of the store: each answer of the store updates the words of its key. It only
//! saves calls for keys that the store rejects; a key that has room in it is decided in the store. The other table is this node's *own*:
//! what this node admitted, whatever decided. It decides only while the store cannot be reached, by the limit's counts divided by the
//! number of nodes ([`fallback`]).
//!
//! Nothing here waits: a [`SlotQuestion`] describes the call that is to be made, and goes on with its answer. Checks in other slots take
//! another call. The calls follow each other. The caller holds all charges meanwhile, those of this node and those of earlier calls, and
//! refunds them when a later call rejects.
//!
//! # Concurrency
//! When a question is dropped while its call is under way, the caller refunds what was charged before. The call itself is not revoked: if
//! it arrived and fit, its charge stands, like that of a request whose client left without its response. The same holds for a call that
//! timed out. Both err towards rejecting, and by no more than the calls that were under way.
//!
//! Answers may overtake each other on their way into the cache. An older one counts less than was charged, and costs one more call; or it
//! counts more than is left after a refund, which the next revalidation corrects ([`RemoteBackend::charge_second_look`]).

use std::sync::Arc;

use crate::rejection::LimitRejection;
use arrayvec::ArrayVec;
use sluicegate_limiter::{
    Ask, Capacity, Cost, Decision, KeyHash, KeyPlacement, Limit, MAX_ASKS, Outcome, Period, Policy,
    Rate, Rates, Reservation, Timestamp, charge_unchecked, decide,
};

use super::fallback;
use super::settle::{ChargeLocation, RemoteCharge};
use super::store_call::{ChargeResult, KeyName, StoreAnswer, StoreAsk, StoreCall, StoreFailure};
use super::store_check::{
    BackendDecision, BackendDecisions, BackendVerdict, DecisionSource, StoreCheck, with_node_share,
    with_policy,
};

use super::counting_store::CountingStore;
use sluicegate_config::rules::{Name, OnStoreFailure};

/// The part of a limit that only remote limits have.
#[derive(Debug)]
pub struct RemoteBackend {
    pub(super) store: Arc<dyn CountingStore>,
    limit: Name,
    pub(super) own: Limit,
    pub(super) on_failure: OnStoreFailure,
    second_looks: Option<Limit>,
}

/// The rule by which the store is called again about cached rejections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revalidation {
    /// A rejection holds until time frees the count: no charge is ever refunded.
    Never,
    /// Every node calls the store again about a rejection once a second, since charges may be refunded meanwhile.
    EverySecond,
}

/// The check of a request against one remote limit.
pub(super) type RemoteCheck<'a> = StoreCheck<'a, RemoteBackend>;

/// The progress of checks that are decided in a store.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart where it is returned"
)]
pub enum StoreProgress<'a> {
    /// All are decided.
    Decided(BackendVerdict),
    /// The store is to be asked.
    AskStore(Box<SlotQuestion<'a>>),
}

/// Checks that are decided slot by slot, those of one slot by the call that is to be made now. Dropping it leaves the charges of earlier
/// calls to the caller.
pub struct SlotQuestion<'a> {
    checks: ArrayVec<RemoteCheck<'a>, MAX_ASKS>,
    /// By check; `None` for those that were not asked.
    decisions: ArrayVec<Option<BackendDecision>, MAX_ASKS>,
    /// The checks of slots that were not asked, by index.
    undecided: ArrayVec<usize, MAX_ASKS>,
    /// The checks of the slot that is asked now, by index.
    slot: ArrayVec<usize, MAX_ASKS>,
    /// Their names in the store.
    names: ArrayVec<KeyName, MAX_ASKS>,
    /// Set unless a limit of a slot that was asked rejects.
    is_charged: bool,
}

/// Checks that lie in one slot of the store, each with its index among those of the request.
pub(super) type SlotGroup<'c> = ArrayVec<(usize, &'c RemoteCheck<'c>), MAX_ASKS>;

impl RemoteBackend {
    /// Returns the remote part of the limit `limit`; `own` counts for this node.
    #[must_use]
    pub fn new(
        limit: &Name,
        store: &Arc<dyn CountingStore>,
        own: Limit,
        on_failure: OnStoreFailure,
        revalidation: Revalidation,
    ) -> Self {
        let revisable = revalidation == Revalidation::EverySecond || store.has_slots();
        Self {
            second_looks: revisable.then(|| second_looks(own.capacity())).flatten(),
            store: Arc::clone(store),
            limit: Name::clone(limit),
            own,
            on_failure,
        }
    }

    /// Returns the counters of what this node itself admitted.
    #[must_use]
    pub fn own(&self) -> &Limit {
        &self.own
    }

    /// Returns the store that decides.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn CountingStore> {
        &self.store
    }

    /// Returns the rule that decides while the store cannot be reached.
    #[must_use]
    pub fn store_failure_rule(&self) -> OnStoreFailure {
        self.on_failure
    }

    /// Returns the counters that decide while the store cannot be reached: this node's own, with its share of `policy`. `None` where
    /// `on_store_failure` is another than `local`.
    #[must_use]
    pub fn share_without_store(&self, policy: &Policy) -> Option<Limit> {
        let own = || with_node_share(&self.own, policy, &*self.store);
        (self.on_failure == OnStoreFailure::Local).then(own)
    }

    /// Charges a second look at `cached`, the decision of the cache about `key`, if it is a rejection and the look is due. Returns the
    /// decision that the limit comes to without a call: that rejection, unless a look is due. At `None` the caller must call the store.
    ///
    /// The store's counts fall with time, and the cache's with them, so a rejection needs no call. Where keys share a counter in the cache,
    /// it is unknown whose rejection it is. One that may have been refunded, by a response that does not count or by a limit in another
    /// slot, is looked at again once a second for each key, so that an attack on one key costs the store next to nothing.
    #[must_use]
    pub fn charge_second_look(
        &self,
        key: KeyHash,
        cached: Decision,
        now: Timestamp,
    ) -> Option<Decision> {
        let charge = |looks: &Limit| {
            let ask = Ask {
                limit: looks,
                key,
                cost: Cost::ONE,
                payer: None,
            };
            decide(&[ask], now).outcome() == Outcome::Admitted
        };
        let needs_no_call =
            is_own_refusal(&cached) && !self.second_looks.as_ref().is_some_and(charge);
        needs_no_call.then_some(cached)
    }

    /// Returns whether `cached` is a rejection that needs no call, by the rule of [`charge_second_look`](Self::charge_second_look).
    #[must_use]
    pub fn is_cached_rejection(&self, key: KeyHash, cached: &Decision, now: Timestamp) -> bool {
        let is_due = |looks: &Limit| looks.peek(key, Cost::ONE, now).is_admitted();
        is_own_refusal(cached) && !self.second_looks.as_ref().is_some_and(is_due)
    }
}

/// Returns the counters of looks at cached rejections: one rate, once a second.
fn second_looks(capacity: Capacity) -> Option<Limit> {
    let rate = Rate::new(1, Period::from_secs(1).ok()?).ok()?;
    Some(Limit::new(Rates::new([rate]).ok()?, capacity))
}

impl RemoteCheck<'_> {
    /// Returns the decision of the cache.
    fn cached_decision(&self, now: Timestamp) -> BackendDecision {
        let Ask {
            limit, key, cost, ..
        } = self.ask;
        BackendDecision {
            decision: limit.peek(key, cost, self.backend.store.moment(now)),
            by: None,
        }
    }

    /// Returns the name of the key in the store; `None` before the seed of the store is known.
    pub(super) fn name(&self) -> Option<KeyName> {
        let prefix = self.backend.store.prefix();
        let limit = &self.backend.limit;
        Some(KeyName::new(prefix, self.remote_key?, limit))
    }

    /// Returns the ask for the store, under this name.
    pub(super) fn store_ask<'n>(&'n self, name: &'n KeyName) -> StoreAsk<'n> {
        StoreAsk {
            policy: self.ask.limit.policy(),
            name,
            cost: self.ask.cost,
        }
    }

    /// Returns the hash that decides the slot of the check; `None` where the store has no slots.
    fn slot(&self) -> Option<KeyHash> {
        // The hash is the tag of the name, and is the same for equal keys of any limits.
        self.remote_key.filter(|_| self.backend.store.has_slots())
    }

    /// Charges this node's own counters, whether that fits or not.
    pub(super) fn charge_own(&self, now: Timestamp) -> Reservation {
        let own = with_policy(&self.backend.own, self.ask.limit.policy().clone());
        let own = self.aligned(&own).unwrap_or(own);
        charge_unchecked(&[self.ask_of(&own)], now)
    }
}

fn is_own_refusal(cached: &Decision) -> bool {
    cached.is_refused() && cached.placement() == KeyPlacement::OwnSlot
}

/// Begins to decide over `checks`, which are of one store, and adds their charges to `charges`: those of all checks, where the verdict is
/// that they are charged. After a rejection, or where a question is dropped, the caller refunds what `charges` holds by then.
///
/// # Errors
/// The store cannot be reached, and a limit admits nothing without it.
pub fn reserve<'a>(
    checks: impl IntoIterator<Item = RemoteCheck<'a>>,
    charges: &mut Vec<RemoteCharge>,
    now: Timestamp,
) -> Result<StoreProgress<'a>, LimitRejection> {
    let checks: ArrayVec<RemoteCheck<'a>, MAX_ASKS> = checks.into_iter().take(MAX_ASKS).collect();
    let question = SlotQuestion {
        decisions: checks.iter().map(|_| None).collect(),
        undecided: (0..checks.len()).collect(),
        slot: ArrayVec::new(),
        names: ArrayVec::new(),
        is_charged: true,
        checks,
    };
    question.ask_next(charges, now)
}

impl<'a> SlotQuestion<'a> {
    /// Returns the call to the store.
    pub fn call(&self) -> StoreCall<'_> {
        let named = self.slot.iter().zip(&self.names);
        let asks = named
            .filter_map(|(&index, name)| Some(self.checks.get(index)?.store_ask(name)))
            .collect();
        StoreCall { asks }
    }

    /// Applies the answer of the store, and goes on with the checks of the next slot.
    ///
    /// # Errors
    /// Those of [`reserve`].
    pub fn answer(
        mut self,
        answer: Result<StoreAnswer, StoreFailure>,
        charges: &mut Vec<RemoteCharge>,
        now: Timestamp,
    ) -> Result<StoreProgress<'a>, LimitRejection> {
        let verdict = match answer {
            Ok(result) => apply(&self.group(), result, charges, now),
            Err(failure) => fallback::reserve(&self.group(), failure, charges, now)?,
        };
        match self.enter(verdict) {
            true => self.ask_next(charges, now),
            false => Ok(StoreProgress::Decided(self.verdict(now))),
        }
    }

    /// Goes on with the first slot that was not asked. Checks without a name in the store are decided without it.
    fn ask_next(
        mut self,
        charges: &mut Vec<RemoteCharge>,
        now: Timestamp,
    ) -> Result<StoreProgress<'a>, LimitRejection> {
        while self.take_slot() {
            if let Some(names) = self.slot_names() {
                self.names = names;
                return Ok(StoreProgress::AskStore(Box::new(self)));
            }
            let verdict = fallback::reserve(&self.group(), StoreFailure::NotSent, charges, now)?;
            if !self.enter(verdict) {
                break;
            }
        }
        Ok(StoreProgress::Decided(self.verdict(now)))
    }

    /// Takes the checks of the next slot; returns whether there are some.
    fn take_slot(&mut self) -> bool {
        let slot_of = |index: &usize| self.checks.get(*index).and_then(StoreCheck::slot);
        let Some(slot) = self.undecided.first().map(slot_of) else {
            return false;
        };
        let undecided = std::mem::take(&mut self.undecided).into_iter();
        (self.slot, self.undecided) = undecided.partition(|index| slot_of(index) == slot);
        true
    }

    /// Returns the checks of the slot that is decided now.
    fn group(&self) -> SlotGroup<'_> {
        let each = self.slot.iter();
        each.filter_map(|&index| Some((index, self.checks.get(index)?)))
            .collect()
    }

    /// Returns the names in the store of the checks of the slot that is decided now; `None` before the seed of the store is known.
    fn slot_names(&self) -> Option<ArrayVec<KeyName, MAX_ASKS>> {
        let group = self.group();
        group.iter().map(|(_, check)| check.name()).collect()
    }

    /// Enters the decisions over the checks of a slot; returns whether they are charged.
    fn enter(&mut self, verdict: BackendVerdict) -> bool {
        for (&index, decision) in self.slot.iter().zip(verdict.decisions) {
            if let Some(entry) = self.decisions.get_mut(index) {
                *entry = Some(decision);
            }
        }
        self.is_charged = verdict.is_charged;
        verdict.is_charged
    }

    /// Returns the verdict over all checks. Of those that were not asked the cached decision is reported.
    fn verdict(self, now: Timestamp) -> BackendVerdict {
        let decided = self.checks.iter().zip(self.decisions);
        let decisions = decided
            .map(|(check, decision)| decision.unwrap_or_else(|| check.cached_decision(now)))
            .collect();
        BackendVerdict {
            decisions,
            is_charged: self.is_charged,
        }
    }
}

/// Applies what the store decided over the checks of a slot, and adds their charges to `charges`.
fn apply(
    group: &SlotGroup<'_>,
    result: StoreAnswer,
    charges: &mut Vec<RemoteCharge>,
    now: Timestamp,
) -> BackendVerdict {
    let is_charged = result.charge_result == ChargeResult::Charged;
    let mut decisions = BackendDecisions::new();
    for ((index, check), decided) in group.iter().zip(result.results) {
        let Ask { limit, key, .. } = check.ask;
        limit.adopt(key, &decided.state, result.now);
        decisions.push(BackendDecision {
            decision: decided.decision,
            by: Some(DecisionSource::Store),
        });
        if let Some(made) = decided.charge.filter(|_| is_charged) {
            let location = ChargeLocation::InStore(Box::new(made));
            let own = check.charge_own(now);
            charges.push(RemoteCharge::new(*index, check, own, location));
        }
    }
    BackendVerdict {
        decisions,
        is_charged,
    }
}
