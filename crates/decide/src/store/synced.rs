//! Decides limits with `store = "shared"`: at once, by the state of this node, which is exchanged with the store afterwards.
//!
//! Such a limit has the two tables of a remote one: a *cache*, the last state of the store and what this node admitted since, and this
//! node's *own*, what it admitted itself. Both decide: the cache since it has the counts of other nodes, the own since it is exact, and
//! since neither a store that lost its counts nor one that the limit has just been given to may refill a key. The cache is decided by the
//! store's time, which its words carry, so that nodes whose clocks differ agree about the end of a window.
//!
//! While the store cannot be reached, or its counts are being restored, `on_store_failure` holds: this node's own counters decide by the
//! node's share, or every request passes, or none. The cache is charged all the same, so that it is not empty when the store is back.
//!
//! A rejection states a wait that includes what the other nodes may have admitted meanwhile. This node has not heard of it, so it takes
//! each of them to have admitted as much as it did itself in its latest exchanges; a rate with room stays as it is. The store counts a
//! unit when it is pushed, so the wait is that of units which are counted as late as a push may be.
//!
//! A cost that may be refunded ([`ReplicatedCharge::open`]) counts here at once, and is sent once it is settled
//! ([`super::pending_writes`]).

use std::sync::Arc;

use crate::rejection::LimitRejection;
use arrayvec::ArrayVec;
use sluicegate_limiter::{
    Ask, Cost, Decision, KeyHash, LateCharges, Limit, MAX_ASKS, Policy, Reservation, Settle,
    Timestamp, charge_unchecked,
};

use super::counting_store::CountingStore;
use super::pending_writes::{ChargeState, ClockPair, Enqueued, ShardSequence};
use super::replicated_limit::{ReplicatedKey, ReplicatedLimit};
use super::store_call::settled_units;
use super::store_check::{
    BackendDecision, BackendDecisions, BackendVerdict, DecisionSource, StoreCheck, reserve_one,
    with_node_share, with_policy,
};
use super::strict::Revalidation;
use sluicegate_config::rules::{Name, OnStoreFailure};

/// The part of a limit that only replicated limits have.
#[derive(Debug)]
pub struct ReplicatedBackend {
    store: Arc<dyn CountingStore>,
    replicated: Arc<ReplicatedLimit>,
    on_failure: OnStoreFailure,
    revalidation: Revalidation,
}

/// The check of a request against one replicated limit.
pub(super) type ReplicatedCheck<'a> = StoreCheck<'a, ReplicatedBackend>;

/// The charge of one check. Dropped without being settled it stands, and is sent to the store.
#[must_use = "dropped, it leaves everything charged"]
#[derive(Debug)]
pub struct ReplicatedCharge {
    store: Arc<dyn CountingStore>,
    /// `None` where the key has no name in the store.
    key: Option<ReplicatedKey>,
    cost: Cost,
    /// Its charges in this node's own table and in the cache; `None` once they are settled.
    tables: Option<TableCharges>,
    /// Read before the charge.
    seen: ShardSequence,
    made: ClockPair,
    /// `None` until the charge is entered as one that may change.
    open: Option<Enqueued>,
}

/// The charges in this node's own table and in the cache.
type TableCharges = (Reservation, Reservation);

/// Decides one check by the tables of this node.
struct TableDecider<'a> {
    check: &'a ReplicatedCheck<'a>,
    replicated: Arc<ReplicatedLimit>,
    tables: DecidingTables,
}

/// The tables that decide a check.
enum DecidingTables {
    /// Both tables.
    Both,
    /// This node's own, with its share of the counts: the store cannot be reached.
    OwnShare(Limit),
    /// None: the store cannot be reached, and every request passes.
    None,
}

impl ReplicatedBackend {
    /// Returns the replicated part of the limit `limit`; `own` counts for this node, `cache` holds the state of the store.
    #[must_use]
    pub fn new(
        limit: &Name,
        store: &Arc<dyn CountingStore>,
        (own, cache): (Limit, Limit),
        on_failure: OnStoreFailure,
        revalidation: Revalidation,
    ) -> Self {
        let registered = store.pending_writes().register(limit);
        Self {
            store: Arc::clone(store),
            replicated: Arc::new(ReplicatedLimit {
                registered,
                cache,
                own,
            }),
            on_failure,
            revalidation,
        }
    }

    /// Returns the counters of what this node itself admitted.
    #[must_use]
    pub fn own(&self) -> &Limit {
        &self.replicated.own
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
        let own = || with_node_share(self.own(), policy, &*self.store);
        (self.on_failure == OnStoreFailure::Local).then(own)
    }

    /// Forgets the pending counts of a key, since an operator has changed what it counts.
    pub fn forget_key(&self, key: KeyHash) {
        self.store
            .pending_writes()
            .forget_key(&self.replicated, key);
    }

    /// Returns the store through which the counts are exchanged.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn CountingStore> {
        &self.store
    }

    fn moments(&self, now: Timestamp) -> ClockPair {
        self.store.moments(now)
    }
}

impl ReplicatedCheck<'_> {
    /// Returns the decision without a charge.
    #[must_use]
    pub fn peek(&self, now: Timestamp) -> Decision {
        let at = self.backend.moments(now);
        match self.decider(now) {
            Ok(decider) => decider.peek(at).decision,
            Err(_) => self.peek_cache(at),
        }
    }

    fn peek_cache(&self, at: ClockPair) -> Decision {
        let Ask {
            limit, key, cost, ..
        } = self.ask;
        limit.peek(key, cost, at.store)
    }

    /// Returns the tables of the limit, or the same with the policy and the windows of the key.
    fn replicated(&self) -> Arc<ReplicatedLimit> {
        let replicated = &self.backend.replicated;
        let cache = self.ask.limit;
        let aligned = self.aligned(cache);
        if aligned.is_none() && cache.policy() == replicated.cache.policy() {
            return Arc::clone(replicated);
        }
        let own = with_policy(&replicated.own, cache.policy().clone());
        Arc::new(ReplicatedLimit {
            registered: Arc::clone(&replicated.registered),
            cache: aligned.unwrap_or_else(|| cache.clone()),
            own: self.aligned(&own).unwrap_or(own),
        })
    }

    fn decider(&self, now: Timestamp) -> Result<TableDecider<'_>, LimitRejection> {
        let ReplicatedBackend {
            store, replicated, ..
        } = &**self.backend;
        let limit = &replicated.registered.limit;
        match (self.remote_key).is_some_and(|key| store.has_counts_of_key(key, limit, now)) {
            true => Ok(self.decided_by_both()),
            false => self.decided_by_share(),
        }
    }

    fn decided_by_both(&self) -> TableDecider<'_> {
        TableDecider {
            check: self,
            replicated: self.replicated(),
            tables: DecidingTables::Both,
        }
    }

    /// Returns the decider for the time in which the store cannot be reached, or counts are being restored: pushes wait meanwhile.
    fn decided_by_share(&self) -> Result<TableDecider<'_>, LimitRejection> {
        let replicated = self.replicated();
        let backend = self.backend;
        let share = self.share(&replicated.own, backend.on_failure, &*backend.store)?;
        Ok(TableDecider {
            check: self,
            replicated,
            tables: share.map_or(DecidingTables::None, DecidingTables::OwnShare),
        })
    }
}

impl TableDecider<'_> {
    /// Returns the decision without a charge.
    fn peek(&self, at: ClockPair) -> BackendDecision {
        let Ask { key, cost, .. } = self.check.ask;
        self.by_source(match &self.tables {
            DecidingTables::Both => {
                let own = self.replicated.own.peek(key, cost, at.here);
                let cached = self.check.peek_cache(at);
                // Of two rejections the one with the longer wait tells when a request passes.
                match own.retry_after() > cached.retry_after() {
                    true => self.with_late_charges(own),
                    false => self.with_late_charges(cached),
                }
            }
            DecidingTables::OwnShare(share) => share.peek(key, cost, at.here),
            DecidingTables::None => self.check.decision_alone(at.store),
        })
    }

    /// Returns a rejection with the wait that includes the charges which the store counts late: those of this node that it has not
    /// confirmed, and those of the other nodes that this one has not heard of. Each of them is taken to have admitted as much as this one
    /// in its latest exchanges, and no more than the limit.
    fn with_late_charges(&self, decision: Decision) -> Decision {
        if decision.is_admitted() {
            return decision;
        }
        let store = &self.check.backend.store;
        let pending_writes = store.pending_writes();
        let recent = pending_writes.recent(&self.replicated, self.check.ask.key);
        let most = u64::from(self.replicated.cache.policy().most());
        let others = u64::from(store.nodes().get().saturating_sub(1));
        let others = recent.admitted.min(most).saturating_mul(others);
        if others == 0 && recent.unconfirmed == 0 {
            return decision;
        }
        decision.with_late_charges(LateCharges {
            others: units(others),
            own: units(recent.unconfirmed),
            delay: store.longest_push_delay(),
        })
    }

    /// Charges the check, if it has room.
    fn charge(&self, at: ClockPair) -> (BackendDecision, Option<ReplicatedCharge>) {
        let Ask { key, cost, .. } = self.check.ask;
        let store = &self.check.backend.store;
        let seen = store.pending_writes().sequence(&self.replicated, key);
        let (decision, tables) = self.charge_tables(at);
        let charge = tables.map(|tables| ReplicatedCharge {
            store: Arc::clone(store),
            key: self.replicated_key(),
            cost,
            tables: Some(tables),
            seen,
            made: at,
            open: None,
        });
        (self.by_source(decision), charge)
    }

    /// Charges both tables, if those that decide have room.
    fn charge_tables(&self, at: ClockPair) -> (Decision, Option<TableCharges>) {
        match &self.tables {
            DecidingTables::Both => self.charge_own_then_cache(at),
            DecidingTables::OwnShare(share) => {
                let (decision, own) = reserve_one(&self.check.ask_of(share), at.here);
                let cache = || self.charge_cache_unchecked(at);
                (decision, own.map(|own| (own, cache())))
            }
            DecidingTables::None => {
                let own = charge_unchecked(&[self.check.ask_of(&self.replicated.own)], at.here);
                let cache = self.charge_cache_unchecked(at);
                (self.check.decision_alone(at.store), Some((own, cache)))
            }
        }
    }

    fn charge_cache_unchecked(&self, at: ClockPair) -> Reservation {
        charge_unchecked(&[self.check.ask_of(&self.replicated.cache)], at.store)
    }

    fn charge_own_then_cache(&self, at: ClockPair) -> (Decision, Option<TableCharges>) {
        let (decision, own) = reserve_one(&self.check.ask_of(&self.replicated.own), at.here);
        let Some(own) = own else {
            return (decision, None);
        };
        let (decision, cache) = reserve_one(&self.check.ask_of(&self.replicated.cache), at.store);
        let Some(cache) = cache else {
            own.release(at.here);
            return (decision, None);
        };
        (decision, Some((own, cache)))
    }

    fn by_source(&self, decision: Decision) -> BackendDecision {
        let by = match self.tables {
            DecidingTables::Both => None,
            DecidingTables::OwnShare(_) | DecidingTables::None => Some(DecisionSource::Fallback),
        };
        BackendDecision { decision, by }
    }

    /// Queues a read of a key that is rejected, if another node may have refunded since.
    fn queue_read(&self, answer: &BackendDecision, at: ClockPair) {
        let backend = self.check.backend;
        if backend.revalidation == Revalidation::EverySecond
            && is_rejection(answer)
            && let Some(key) = self.replicated_key()
        {
            backend.store.pending_writes().queue_read(&key, at.here);
        }
    }

    /// Returns the key; `None` where it has no name in the store.
    fn replicated_key(&self) -> Option<ReplicatedKey> {
        Some(ReplicatedKey {
            replicated: Arc::clone(&self.replicated),
            key: self.check.ask.key,
            name: self.check.remote_key?,
        })
    }
}

/// Returns units as a limit counts them, capped at the most.
fn units(units: u64) -> u32 {
    u32::try_from(units).unwrap_or(u32::MAX)
}

fn is_rejection(answer: &BackendDecision) -> bool {
    answer.decision.is_refused()
}

/// Decides over `checks`, which are of one store, and adds their charges to `charges`, all or none. All are looked at first, so that a
/// rejected one takes nothing from others; one that loses its room between look and charge refunds the others.
///
/// # Errors
/// The store cannot be reached, and a limit admits nothing without it.
pub fn reserve_replicated(
    checks: &[ReplicatedCheck<'_>],
    charges: &mut Vec<ReplicatedCharge>,
    now: Timestamp,
) -> Result<BackendVerdict, LimitRejection> {
    let Some(first) = checks.first() else {
        return Ok(BackendVerdict::charged(BackendDecisions::new()));
    };
    let at = first.backend.moments(now);
    let deciders = checks.iter().take(MAX_ASKS);
    let deciders = deciders
        .map(|check| check.decider(now))
        .collect::<Result<ArrayVec<_, MAX_ASKS>, _>>()?;
    let peek_all =
        || -> BackendDecisions { deciders.iter().map(|decider| decider.peek(at)).collect() };
    let peeked = peek_all();
    if peeked.iter().any(is_rejection) {
        for (decider, answer) in deciders.iter().zip(&peeked) {
            decider.queue_read(answer, at);
        }
        return Ok(BackendVerdict::rejected(peeked));
    }
    let mut decisions = BackendDecisions::new();
    for decider in &deciders {
        let (answer, charge) = decider.charge(at);
        let Some(charge) = charge else {
            for charge in charges.drain(..) {
                charge.settle(Settle::Refund, now);
            }
            let mut peeked = peek_all();
            let refused = &mut peeked[decisions.len()];
            // Others may have left since.
            if !is_rejection(refused) {
                *refused = answer;
            }
            return Ok(BackendVerdict::rejected(peeked));
        };
        charges.push(charge);
        decisions.push(answer);
    }
    Ok(BackendVerdict::charged(decisions))
}

impl ReplicatedCharge {
    /// Marks the charge as one that may still change: it is sent once it is settled, or dropped.
    pub fn open(&mut self) {
        if let (None, Some(key)) = (self.open, &self.key) {
            let pending_writes = self.store.pending_writes();
            let state = ChargeState::Tentative;
            self.open = Some(pending_writes.add(key, self.cost, state, self.seen, self.made));
        }
    }

    /// Settles the charge.
    pub fn settle(mut self, settle: Settle, now: Timestamp) {
        self.settle_once(settle, now);
    }

    fn settle_once(&mut self, settle: Settle, now: Timestamp) {
        let Some((own, cache)) = self.tables.take() else {
            return;
        };
        let at = self.store.moments(now);
        if settle != Settle::Keep {
            own.settle_each(at.here, |_| settle);
            cache.settle_each(at.store, |_| settle);
        }
        // An answer that is applied before this counts what was given back until the next one: it errs towards refusing.
        self.enqueue(settle, at);
    }

    /// Queues the settled cost for the store.
    fn enqueue(&self, settle: Settle, at: ClockPair) {
        let pending_writes = self.store.pending_writes();
        let units = settled_units(self.cost, settle);
        match (&self.key, self.open, Cost::new(units)) {
            (Some(key), Some(entered), _) => {
                pending_writes.settle(key, self.cost, entered, units.into(), at);
            }
            (Some(key), None, Some(cost)) => {
                _ = pending_writes.add(key, cost, ChargeState::Final, self.seen, at);
            }
            // This node alone counts a key without a name in the store.
            (None, _, Some(_)) => pending_writes.count_lost(units.into()),
            // No other node has received the charge.
            (_, None, None) | (None, Some(_), None) => {}
        }
    }
}

impl Drop for ReplicatedCharge {
    fn drop(&mut self) {
        if self.tables.is_some() {
            let now = match self.open {
                None => self.made.here,
                Some(_) => self.store.now(),
            };
            self.settle_once(Settle::Keep, now);
        }
    }
}
