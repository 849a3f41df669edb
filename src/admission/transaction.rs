//! Runs the transaction of a request: its checks are charged in all backends, or in none (contract C2).
//!
//! In this order: bans and permits ([`precheck`](super::precheck)); the cached rejections of the store, which cost nothing; the limits that
//! this node decides, local and replicated, which are both looked at before either is charged; then the remote groups, in the store. A
//! request that this node rejects never reaches the store. A rejection by the store refunds the charges of this node.
//!
//! # Invariants
//! 1. A [`Transaction`] that is not committed refunds its charges and gives back its permits when it is dropped.
//! 2. A replicated charge is opened before the store is asked: other nodes learn of it when it is settled.
//!
//! # Concurrency
//! Cancelling the future drops the transaction, so the charges of this node are refunded. For the charges in the store see
//! [`store::reserve`].

use arrayvec::ArrayVec;
use sluicegate_limiter::{
    Ask, Decision, MAX_ASKS, Outcome, Permit, Settle, Timestamp, Verdict, peek, reserve,
};

use super::backend::{Backend, BackendCharge};
use super::limit_check::{LimitCheck, LimitChecks};
use super::pending::{PendingCharges, Reporting};
use super::precheck;
use super::report::{LimitEvent, LimitNote};
use crate::clock;
use crate::rejection::LimitRejection;
use crate::store::{
    self, BackendDecision, DecisionSource, RemoteCheck, ReplicatedCheck, Reserved, Unavailable,
    reserve_replicated,
};

/// Charges and permits that a request holds until it is decided.
#[must_use = "dropped, it refunds everything"]
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// At most one of each kind of backend.
    charges: ArrayVec<BackendCharge, 3>,
    permits: Vec<Permit>,
}

/// The decision over several checks together.
#[derive(Debug)]
pub(super) struct JointDecision {
    /// The verdict over the checks, in their order.
    pub(super) verdict: Verdict,
    /// The transaction that was charged; `None` where some limit rejects.
    pub(super) charged: Option<Transaction>,
    /// The source of each decision that was not made as usual.
    pub(super) notes: Vec<LimitNote>,
}

impl Transaction {
    /// Decides over `checks` and charges them, all or none, unless a ban, a full limit or an unreachable store rejects the request.
    ///
    /// # Errors
    /// That rejection. Nothing is charged.
    pub(super) async fn run(
        checks: &[LimitCheck<'_>],
        now: Timestamp,
    ) -> Result<JointDecision, LimitRejection> {
        if let Some(rejection) = precheck::ban(checks, now) {
            return Err(rejection);
        }
        let permits = precheck::permits(checks)?;
        let mut joint = Self::reserve(checks, now).await?;
        if let Some(transaction) = &mut joint.charged {
            transaction.permits = permits;
        }
        Ok(joint)
    }

    /// The same without bans and permits.
    pub(super) async fn reserve(
        checks: &[LimitCheck<'_>],
        now: Timestamp,
    ) -> Result<JointDecision, LimitRejection> {
        if checks.iter().any(LimitCheck::is_remote) {
            // Boxed: a request that is decided here does not carry the room that a call to a store needs.
            Box::pin(reserve_remote(checks, now)).await
        } else {
            reserve_here(checks, now)
        }
    }

    /// The request passes: charges that may still change become pending, the others stand. Returns the permits.
    pub(super) fn commit(
        mut self,
        checks: &[LimitCheck<'_>],
        pending: &mut PendingCharges,
        reporting: Reporting,
    ) -> Vec<Permit> {
        for charge in std::mem::take(&mut self.charges) {
            let charged = checks
                .iter()
                .filter(|check| charge.is_of(&check.active.backend));
            let charged = charged.map(LimitCheck::charged).collect();
            pending.add(charge, charged, reporting);
        }
        std::mem::take(&mut self.permits)
    }

    /// Refunds all charges.
    fn refund(&mut self, now: Timestamp) {
        for charge in std::mem::take(&mut self.charges) {
            charge.settle_each(now, |_| Settle::Refund);
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.charges.is_empty() {
            self.refund(clock::now());
        }
    }
}

impl JointDecision {
    fn rejected(verdict: Verdict, notes: Vec<LimitNote>) -> Self {
        Self {
            verdict,
            charged: None,
            notes,
        }
    }

    /// Returns whether the limit was decided without its store.
    pub(super) fn fell_back(&self, check: &LimitCheck<'_>) -> bool {
        let fallback = check.note(LimitEvent::Decided(DecisionSource::Fallback));
        self.notes.contains(&fallback)
    }
}

/// Reserves `checks`, none of which is remote.
fn reserve_here(
    checks: &[LimitCheck<'_>],
    now: Timestamp,
) -> Result<JointDecision, LimitRejection> {
    let (local, replicated) = (local(checks), replicated(checks));
    let mut transaction = Transaction::default();
    let mut notes = Vec::new();
    let mut decisions = store::BackendDecisions::new();
    if !replicated.is_empty() {
        // Local limits and replicated ones are two calls, since the second kind is decided by the store's time. Both are looked at before
        // either is charged, so a rejection takes nothing.
        let looked = peek(&local, now);
        if looked.outcome() != Outcome::Admitted {
            let verdict = with_replicated(checks, &looked, look_at(&replicated, now));
            return Ok(JointDecision::rejected(verdict, notes));
        }
        let reserved = reserve_replicated(&replicated, now)?;
        notes = sources(
            checks.iter().filter(|check| check.is_replicated()),
            &reserved.decisions,
        );
        let Some(charge) = reserved.charge else {
            let verdict = with_replicated(checks, &looked, bare(reserved.decisions));
            return Ok(JointDecision::rejected(verdict, notes));
        };
        transaction.charges.push(BackendCharge::Replicated(charge));
        decisions = reserved.decisions;
    }
    let (verdict, charge) = reserve(&local, now);
    let Some(charge) = charge else {
        // Another request took the last room between look and charge.
        transaction.refund(now);
        let verdict = with_replicated(checks, &verdict, look_at(&replicated, now));
        return Ok(JointDecision::rejected(verdict, Vec::new()));
    };
    transaction.charges.insert(0, BackendCharge::Local(charge));
    let verdict = match replicated.is_empty() {
        true => verdict,
        false => with_replicated(checks, &verdict, bare(decisions)),
    };
    Ok(JointDecision {
        verdict,
        charged: Some(transaction),
        notes,
    })
}

/// Reserves `checks`, of which some are remote: no store is asked about a request that is rejected without it.
async fn reserve_remote(
    checks: &[LimitCheck<'_>],
    now: Timestamp,
) -> Result<JointDecision, LimitRejection> {
    let cached: ArrayVec<Option<Decision>, MAX_ASKS> = checks
        .iter()
        .map(|check| check.cached_rejection(now))
        .collect();
    if cached.iter().any(Option::is_some) {
        let rejecting = checks.iter().zip(&cached).filter(|(_, is)| is.is_some());
        let note = |check: &LimitCheck<'_>| check.note(LimitEvent::Decided(DecisionSource::Cached));
        let notes = rejecting.map(|(check, _)| note(check)).collect();
        let each = checks.iter().zip(cached);
        let decisions = each.map(|(check, cached)| cached.unwrap_or_else(|| check.peek(now)));
        return Ok(JointDecision::rejected(Verdict::of(decisions), notes));
    }
    let is_remote = LimitCheck::is_remote;
    let here: LimitChecks<'_> = (checks.iter().copied())
        .filter(|check| !check.is_remote())
        .collect();
    let decided = reserve_here(&here, now)?;
    let remote = || checks.iter().filter(|check| check.is_remote());
    let Some(mut transaction) = decided.charged else {
        let not_asked = remote().map(|check| check.peek(now));
        let verdict = merge_in_order(checks, is_remote, not_asked, all(&decided.verdict));
        return Ok(JointDecision::rejected(verdict, decided.notes));
    };
    transaction.charges.iter_mut().for_each(BackendCharge::open);
    let asked: ArrayVec<RemoteCheck<'_>, MAX_ASKS> =
        remote().filter_map(LimitCheck::remote).collect();
    let Reserved { decisions, charge } = store::reserve(&asked, now).await?;
    let mut notes = sources(remote(), &decisions);
    notes.extend(decided.notes);
    let Some(charge) = charge else {
        transaction.refund(clock::now());
        let here = here.iter().map(|check| check.peek(now));
        let verdict = merge_in_order(checks, is_remote, bare(decisions), here);
        return Ok(JointDecision::rejected(verdict, notes));
    };
    transaction.charges.push(BackendCharge::Remote(charge));
    Ok(JointDecision {
        verdict: merge_in_order(checks, is_remote, bare(decisions), all(&decided.verdict)),
        charged: Some(transaction),
        notes,
    })
}

/// Returns the verdict and the sources of the rejection that [`Transaction::reserve`] would come to, if no store need be asked for it.
pub(super) fn peek_rejection(
    checks: &[LimitCheck<'_>],
    now: Timestamp,
) -> Option<(Verdict, Vec<LimitNote>)> {
    let mut notes = Vec::new();
    let mut is_rejected = false;
    let decisions = checks.iter().map(|check| {
        if let Backend::Replicated(backend) = &check.active.backend
            && let Some(answer) = backend.peek_rejection(&check.ask, now)
        {
            is_rejected |= answer.decision.is_refused();
            notes.extend(answer.by.map(|by| check.note(LimitEvent::Decided(by))));
            return answer.decision;
        }
        let (ask, at) = (check.ask, check.active.moment(now));
        let decision = ask.limit.peek(ask.key, ask.cost, at);
        match &check.active.backend {
            Backend::Local => is_rejected |= decision.is_refused(),
            Backend::Remote(backend) if backend.is_cached_rejection(ask.key, &decision, now) => {
                notes.push(check.note(LimitEvent::Decided(DecisionSource::Cached)));
                is_rejected = true;
            }
            // The store has to be asked.
            Backend::Remote(_) | Backend::Replicated(_) => {}
        }
        decision
    });
    let decisions: ArrayVec<Decision, MAX_ASKS> = decisions.collect();
    is_rejected.then(|| (Verdict::of(decisions), notes))
}

fn local<'a>(checks: &[LimitCheck<'a>]) -> ArrayVec<Ask<'a>, MAX_ASKS> {
    let local = checks.iter().filter(|check| check.is_local());
    local.map(|check| check.ask).collect()
}

fn replicated<'a>(checks: &[LimitCheck<'a>]) -> ArrayVec<ReplicatedCheck<'a>, MAX_ASKS> {
    checks.iter().filter_map(LimitCheck::replicated).collect()
}

fn look_at(replicated: &[ReplicatedCheck<'_>], now: Timestamp) -> impl Iterator<Item = Decision> {
    replicated.iter().map(move |check| check.look(now))
}

fn bare(decisions: impl IntoIterator<Item = BackendDecision>) -> impl Iterator<Item = Decision> {
    decisions.into_iter().map(|answer| answer.decision)
}

fn all(verdict: &Verdict) -> impl Iterator<Item = Decision> {
    verdict.decisions().iter().cloned()
}

/// Returns a note for each decision that was not made as usual; `decisions` are those over `checks`.
fn sources<'c, 'a: 'c>(
    checks: impl Iterator<Item = &'c LimitCheck<'a>>,
    decisions: &[BackendDecision],
) -> Vec<LimitNote> {
    let noted = checks.zip(decisions);
    noted
        .filter_map(|(check, answer)| Some(check.note(LimitEvent::Decided(answer.by?))))
        .collect()
}

/// Returns the verdict over `checks`, none of which is remote.
fn with_replicated(
    checks: &[LimitCheck<'_>],
    local: &Verdict,
    replicated: impl Iterator<Item = Decision>,
) -> Verdict {
    merge_in_order(checks, LimitCheck::is_replicated, replicated, all(local))
}

/// Returns the verdict over `checks`, of the decisions over those that are `of_first` and over the others, each in the order of its checks.
fn merge_in_order<'a>(
    checks: &[LimitCheck<'a>],
    of_first: impl Fn(&LimitCheck<'a>) -> bool,
    mut first: impl Iterator<Item = Decision>,
    mut others: impl Iterator<Item = Decision>,
) -> Verdict {
    Verdict::of(checks.iter().filter_map(|check| match of_first(check) {
        true => first.next(),
        false => others.next(),
    }))
}

impl From<Unavailable> for LimitRejection {
    fn from(Unavailable { limit, key }: Unavailable) -> Self {
        Self {
            limit,
            key,
            reason: crate::rejection::RejectionReason::StoreUnavailable,
            wait: Self::SOON,
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_limiter::{Capacity, Cost, KeyHash, Limit, Period, Rate, Rates};

    use super::*;

    /// Goal: a request that ends while the store is asked gives back what was charged here; one that passes does not. Method: drop one
    /// transaction, commit another.
    #[test]
    fn an_open_transaction_is_refunded_when_it_is_dropped() {
        let rate = Rate::new(5, Period::from_secs(3_600).unwrap()).unwrap();
        let limit = Limit::new(Rates::new([rate]).unwrap(), Capacity::new(10).unwrap());
        let (key, cost, now) = (KeyHash::from_bits(7), Cost::ONE, clock::now());
        let open = || {
            let payer = None;
            let limit = &limit;
            let (_, charge) = reserve(
                &[Ask {
                    limit,
                    key,
                    cost,
                    payer,
                }],
                now,
            );
            let mut transaction = Transaction::default();
            transaction.charges.extend(charge.map(BackendCharge::Local));
            transaction
        };
        let left = || limit.peek(key, cost, now).statuses()[0].remaining;
        let transaction = open();
        assert_eq!(left(), 4);
        drop(transaction);
        assert_eq!(left(), 5);
        let mut pending = PendingCharges::before(std::time::Duration::ZERO);
        let _ = open().commit(&[], &mut pending, Reporting::Yes);
        assert_eq!(left(), 4);
    }
}
