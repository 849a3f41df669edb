//! Decides limits with `store = "shared"`: at once, by the state of this node, which is exchanged with the store afterwards.
//!
//! Such a limit has the two tables of a remote one: a *view*, the last state of the store and what this node admitted since, and this
//! node's *own*, what it admitted itself. Both decide: the view since it has the counts of other nodes, the own since it is exact, and
//! since neither a store that lost its counts nor one that the limit has just been given to may refill a key. The view is decided by the
//! store's time, which its words carry, so that nodes whose clocks differ agree about the end of a window.
//!
//! While the store cannot be reached, `on_store_failure` holds: this node's own counters decide by the node's share, or every request
//! passes, or none. The view is charged all the same, so that it is not empty when the store is back.
//!
//! A cost that may be refunded ([`ReplicatedCharge::open`]) counts here at once, and is sent once it is settled
//! ([`super::pending_writes`]).

use std::sync::Arc;

use arrayvec::ArrayVec;
use sluicegate_limiter::{
    Ask, Cost, Decision, KeyHash, Limit, MAX_ASKS, Payer, RemoteOutcome, RemoteState, Reservation,
    Settle, Timestamp, charge_unchecked, reserve,
};

use super::Store;
use super::pending_writes::{
    ChargeState, ClockPair, CounterCharge, Enqueued, ReplicatedLimit, ShardSequence,
};
use super::script::KeyName;
use super::strict::{
    BackendDecision, BackendDecisions, DecisionSource, Reserved, Revalidation, Unavailable,
};
use crate::clock;
use crate::config::rules::{Name, OnStoreFailure};

/// The part of a limit that only replicated limits have.
#[derive(Debug)]
pub struct ReplicatedBackend {
    store: Arc<Store>,
    account: Arc<ReplicatedLimit>,
    on_failure: OnStoreFailure,
    revalidation: Revalidation,
}

/// The check of a request against one replicated limit.
#[derive(Clone, Copy, Debug)]
pub struct ReplicatedCheck<'a> {
    /// The index of the limit on the route.
    pub limit: u8,
    /// The limit.
    pub synced: &'a Arc<ReplicatedBackend>,
    /// The cached state of the store, with the policy of the key.
    pub view: &'a Limit,
    /// The key in the tables of this node.
    pub key: KeyHash,
    /// The key in the store; `None` before the store has said how keys are hashed.
    pub name: Option<KeyHash>,
    /// The cost.
    pub cost: Cost,
    /// The payer of a slot for a new key; `None` where no client can invent keys.
    pub payer: Option<Payer>,
}

/// The charge of a request. Dropped without being settled it stands, and is sent to the store.
#[must_use = "dropped, it leaves everything charged"]
#[derive(Debug, Default)]
pub struct ReplicatedCharge(Vec<Part>);

#[derive(Debug)]
struct Part {
    synced: Arc<ReplicatedBackend>,
    account: Arc<ReplicatedLimit>,
    key: KeyHash,
    name: Option<KeyHash>,
    cost: Cost,
    /// Its charges in this node's own table and in the view, until they are settled.
    tables: Option<(Reservation, Reservation)>,
    /// Read before the charge.
    seen: ShardSequence,
    made: ClockPair,
    /// `None` until the charge is entered as one that may change.
    open: Option<Enqueued>,
}

/// One check with the tables that decide it.
struct Judge<'a> {
    ask: ReplicatedCheck<'a>,
    account: Arc<ReplicatedLimit>,
    way: Way,
}

/// The tables that decide a check.
enum Way {
    /// Both tables.
    Known,
    /// This node's own, with its share of the counts: the store cannot be reached.
    Share(Limit),
    /// None: the store cannot be reached, and every request passes.
    Open,
}

/// The store cannot be reached, and no request passes.
struct Closed;

impl ReplicatedBackend {
    /// Returns the replicated part of the limit `limit`; `own` counts for this node, `view` caches the state of the store.
    #[must_use]
    pub fn new(
        limit: &Name,
        store: &Arc<Store>,
        (own, view): (Limit, Limit),
        on_failure: OnStoreFailure,
        revalidation: Revalidation,
    ) -> Self {
        let tally = store.owed().tally(limit);
        Self {
            store: Arc::clone(store),
            account: Arc::new(ReplicatedLimit { tally, view, own }),
            on_failure,
            revalidation,
        }
    }

    /// Returns the counters of what this node itself admitted.
    #[must_use]
    pub fn own(&self) -> &Limit {
        &self.account.own
    }

    /// Forgets the pending counts of a key, since an operator has changed what it counts.
    pub fn forget_key(&self, key: KeyHash) {
        self.store.owed().forget_key(&self.account, key);
    }

    /// Returns the store through which the counts are exchanged.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Returns the decision over a request that asks so much, if a rejection by it need not be sent to the store.
    #[must_use]
    pub fn peek_rejection(
        self: &Arc<Self>,
        ask: &Ask<'_>,
        now: Timestamp,
    ) -> Option<BackendDecision> {
        if self.revalidation == Revalidation::EverySecond {
            // A rejection has the store asked about the key.
            return None;
        }
        let ask = ReplicatedCheck {
            limit: 0,
            synced: self,
            view: ask.limit,
            key: ask.key,
            name: None,
            cost: ask.cost,
            payer: ask.payer,
        };
        let is_up = self.store.is_up();
        if !is_up && self.store.has_slots() {
            return None;
        }
        let account = Arc::clone(&self.account);
        let way = if is_up {
            Way::Known
        } else {
            ask.fallback(&account).ok()?
        };
        let answer = Judge { ask, account, way }.look(self.moments(now));
        Some(answer)
    }

    fn moments(&self, now: Timestamp) -> ClockPair {
        self.store.moments(now)
    }
}

impl<'a> ReplicatedCheck<'a> {
    /// Returns the decision without a charge.
    #[must_use]
    pub fn look(&self, now: Timestamp) -> Decision {
        match self.judge() {
            Ok(judge) => judge.look(self.synced.moments(now)).decision,
            Err(Closed) => self
                .view
                .peek(self.key, self.cost, self.synced.store.moment(now)),
        }
    }

    /// Returns the tables that decide, those of the limit itself or with the policy of the key.
    fn account(&self) -> Arc<ReplicatedLimit> {
        let account = &self.synced.account;
        if self.view.policy() == account.view.policy() {
            return Arc::clone(account);
        }
        let own = account.own.with_policy(self.view.policy().clone());
        Arc::new(ReplicatedLimit {
            tally: Arc::clone(&account.tally),
            view: self.view.clone(),
            // Both tables are made for the same policies; if one did not fit, its keys would have the limit's own.
            own: own.unwrap_or_else(|| account.own.clone()),
        })
    }

    fn judge(&self) -> Result<Judge<'a>, Closed> {
        let (account, store) = (self.account(), &self.synced.store);
        let reached = self.name.is_some_and(|name| {
            let limit = &account.tally.limit;
            store.reaches(|| KeyName::new(store.prefix(), name, limit).as_str().into())
        });
        let way = match reached {
            true => Way::Known,
            false => self.fallback(&account)?,
        };
        let ask = *self;
        Ok(Judge { ask, account, way })
    }

    fn fallback(&self, account: &ReplicatedLimit) -> Result<Way, Closed> {
        match self.synced.on_failure {
            OnStoreFailure::Closed => Err(Closed),
            OnStoreFailure::Open => Ok(Way::Open),
            OnStoreFailure::Local => {
                let share = self.view.policy().share(self.synced.store.nodes());
                let own = account.own.with_policy(share);
                Ok(Way::Share(own.unwrap_or_else(|| account.own.clone())))
            }
        }
    }

    fn of<'t>(&self, limit: &'t Limit) -> Ask<'t> {
        Ask {
            limit,
            key: self.key,
            cost: self.cost,
            payer: self.payer,
        }
    }
}

impl Judge<'_> {
    /// Returns the decision without a charge.
    fn look(&self, at: ClockPair) -> BackendDecision {
        let ReplicatedCheck {
            key, cost, view, ..
        } = self.ask;
        let decision = match &self.way {
            Way::Known => {
                let own = self.account.own.peek(key, cost, at.here);
                if own.is_refused() {
                    own
                } else {
                    view.peek(key, cost, at.store)
                }
            }
            Way::Share(share) => share.peek(key, cost, at.here),
            Way::Open => self.alone(at),
        };
        self.answer(decision)
    }

    /// Charges the check, if it has room.
    fn charge(&self, at: ClockPair) -> (BackendDecision, Option<Part>) {
        let ReplicatedCheck {
            synced,
            key,
            view,
            name,
            cost,
            ..
        } = self.ask;
        let seen = synced.store.owed().adoptions(&self.account, key);
        let own_by = |limit: &Limit| taken(&self.ask.of(limit), at.here);
        let (decision, made) = match &self.way {
            Way::Known => match own_by(&self.account.own) {
                (refused, None) => (refused, None),
                (_, Some(own)) => match taken(&self.ask.of(view), at.store) {
                    (decision, Some(view)) => (decision, Some((own, view))),
                    (refused, None) => {
                        own.release(at.here);
                        (refused, None)
                    }
                },
            },
            Way::Share(share) => {
                let (decision, own) = own_by(share);
                (
                    decision,
                    own.map(|own| (own, charge_unchecked(&[self.ask.of(view)], at.store))),
                )
            }
            Way::Open => {
                let own = charge_unchecked(&[self.ask.of(&self.account.own)], at.here);
                let view = charge_unchecked(&[self.ask.of(view)], at.store);
                (self.alone(at), Some((own, view)))
            }
        };
        let part = made.map(|(own, view)| Part {
            synced: Arc::clone(synced),
            account: Arc::clone(&self.account),
            key,
            name,
            cost,
            tables: Some((own, view)),
            seen,
            made: at,
            open: None,
        });
        (self.answer(decision), part)
    }

    /// Returns the decision about a key of which only this request is known.
    fn alone(&self, at: ClockPair) -> Decision {
        let none = RemoteState::default();
        Decision::remote(
            self.ask.view.policy(),
            &none,
            RemoteOutcome::Peeked,
            at.store,
        )
    }

    fn answer(&self, decision: Decision) -> BackendDecision {
        let by = match self.way {
            Way::Known => None,
            Way::Share(_) | Way::Open => Some(DecisionSource::Fallback),
        };
        BackendDecision { decision, by }
    }

    /// Queues a read of a key that is rejected, if another node may have refunded since.
    fn look_again(&self, answer: &BackendDecision, at: ClockPair) {
        let ReplicatedCheck {
            synced,
            key,
            name,
            cost,
            ..
        } = self.ask;
        if synced.revalidation == Revalidation::EverySecond
            && is_refusal(answer)
            && let Some(name) = name
        {
            let account = &self.account;
            let share = CounterCharge {
                account,
                key,
                name,
                cost,
            };
            synced.store.owed().look(&share, at.here);
        }
    }
}

/// Charges one limit, if it has room.
fn taken(ask: &Ask<'_>, now: Timestamp) -> (Decision, Option<Reservation>) {
    let (verdict, reservation) = reserve(&[*ask], now);
    let decision = verdict.decisions().first().cloned();
    // There is one for each ask.
    let decision = decision.unwrap_or_else(|| ask.limit.peek(ask.key, ask.cost, now));
    (decision, reservation)
}

fn is_refusal(answer: &BackendDecision) -> bool {
    answer.decision.is_refused()
}

/// Decides over `checks`, which are of one store, and charges all or none. All are looked at first, so that one that is rejected takes
/// nothing from others; one that loses its room between look and charge refunds the others.
///
/// # Errors
/// The store cannot be reached, and a limit admits nothing without it.
pub fn reserve_replicated(
    checks: &[ReplicatedCheck<'_>],
    now: Timestamp,
) -> Result<Reserved<ReplicatedCharge>, Unavailable> {
    let mut charge = ReplicatedCharge::default();
    let mut decisions = BackendDecisions::new();
    let Some(first) = checks.first() else {
        let charge = Some(charge);
        return Ok(Reserved { decisions, charge });
    };
    let at = first.synced.moments(now);
    let mut judges = ArrayVec::<Judge<'_>, MAX_ASKS>::new();
    for check in checks.iter().take(MAX_ASKS) {
        let (limit, key) = (check.limit, check.key);
        judges.push(check.judge().map_err(|Closed| Unavailable { limit, key })?);
    }
    let looked = || -> BackendDecisions { judges.iter().map(|judge| judge.look(at)).collect() };
    let rejected = |decisions| {
        let charge = None;
        Ok(Reserved { decisions, charge })
    };
    let first_look = looked();
    if first_look.iter().any(is_refusal) {
        for (judge, answer) in judges.iter().zip(&first_look) {
            judge.look_again(answer, at);
        }
        return rejected(first_look);
    }
    for judge in &judges {
        let (answer, part) = judge.charge(at);
        let Some(part) = part else {
            charge.settle_each(now, |_| Settle::Refund);
            let mut looked = looked();
            looked[decisions.len()] = answer;
            return rejected(looked);
        };
        decisions.push(answer);
        charge.0.push(part);
    }
    let charge = Some(charge);
    Ok(Reserved { decisions, charge })
}

impl ReplicatedCharge {
    /// Marks the charge as one that may still change: it is sent once it is settled, or dropped.
    pub fn open(&mut self) {
        for part in &mut self.0 {
            if let (None, Some(share)) = (part.open, part.share(part.cost)) {
                let owed = part.synced.store.owed();
                part.open = Some(owed.add(&share, ChargeState::Tentative, part.seen, part.made));
            }
        }
    }

    /// Settles each check, by its index among those that were reserved together.
    pub fn settle_each(mut self, now: Timestamp, due: impl Fn(usize) -> Settle) {
        for (ask, part) in std::mem::take(&mut self.0).into_iter().enumerate() {
            part.settle(due(ask), now);
        }
    }
}

impl Drop for ReplicatedCharge {
    fn drop(&mut self) {
        for part in std::mem::take(&mut self.0) {
            let now = match part.open {
                None => part.made.here,
                Some(_) => clock::now(),
            };
            part.settle(Settle::Keep, now);
        }
    }
}

impl Part {
    fn share(&self, cost: Cost) -> Option<CounterCharge<'_>> {
        Some(CounterCharge {
            account: &self.account,
            key: self.key,
            name: self.name?,
            cost,
        })
    }

    fn settle(mut self, due: Settle, now: Timestamp) {
        let at = self.synced.moments(now);
        let made = self.tables.take().filter(|_| due != Settle::Keep);
        if let Some((own, view)) = made {
            own.settle_each(at.here, |_| due);
            view.settle_each(at.store, |_| due);
        }
        // An answer that is adopted before this counts what was given back until the next one: it errs towards refusing.
        self.tell(due, at);
    }

    /// Enters the settled cost.
    fn tell(&self, due: Settle, at: ClockPair) {
        let owed = self.synced.store.owed();
        let actual = match due {
            Settle::Keep => Some(self.cost),
            Settle::Refund => None,
            Settle::Adjust(cost) => Some(cost),
        };
        let units = actual.map_or(0, |cost| cost.get().into());
        match (self.share(self.cost), self.open, actual) {
            (Some(share), Some(entered), _) => owed.settle(&share, entered, units, at),
            (Some(share), None, Some(cost)) => {
                _ = owed.add(
                    &CounterCharge { cost, ..share },
                    ChargeState::Final,
                    self.seen,
                    at,
                );
            }
            (None, _, Some(_)) => _ = owed.lose(units),
            (_, None, None) | (None, Some(_), None) => {}
        }
    }
}
