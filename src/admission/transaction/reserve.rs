//! Decides over the checks of a request in all backends, and charges them: all, or none (contract C2).
//!
//! In this order: bans and permits ([`precheck`]); the cached rejections of the store, which cost nothing; the limits that this node
//! decides, local and replicated, which are both looked at before either is charged; then the remote groups, in the store. A request that
//! this node rejects never reaches the store. A rejection by the store refunds the charges of this node.
//!
//! # Concurrency
//! Cancelling a future drops the transaction, so all charges that were made by then are refunded. For a call that is under way see
//! [`store::reserve`].

use arrayvec::ArrayVec;
use sluicegate_decide::rejection::LimitRejection;
use sluicegate_limiter::{Ask, Decision, MAX_ASKS, Outcome, Timestamp, Verdict, peek, reserve};

use super::{SettlementFacts, Transaction};
use crate::admission::limit_check::{LimitCheck, LimitChecks};
use crate::admission::precheck;
use crate::admission::report::{LimitEvent, LimitNote};
use crate::store::{self, BackendDecision, DecisionSource, reserve_replicated};

/// The decision over several checks together.
#[derive(Debug)]
pub(in crate::admission) struct JointDecision {
    /// The verdict over the checks, in their order.
    pub(in crate::admission) verdict: Verdict,
    /// The transaction that was charged; `None` where some limit rejects.
    pub(in crate::admission) charged: Option<Transaction>,
    /// The source of each decision that was not made as usual.
    pub(in crate::admission) notes: Vec<LimitNote>,
}

impl Transaction {
    /// Decides over `checks` and charges them, all or none, unless a ban, a full limit or an unreachable store rejects the request.
    ///
    /// # Errors
    /// That rejection. Nothing is charged.
    pub(in crate::admission) async fn run(
        checks: &[LimitCheck<'_>],
        now: Timestamp,
    ) -> Result<JointDecision, LimitRejection> {
        if let Some(rejection) = precheck::ban(checks, now) {
            return Err(rejection);
        }
        let permits = precheck::take_permits(checks)?;
        let mut joint = Self::reserve(checks, now).await?;
        if let Some(transaction) = &mut joint.charged {
            transaction.permits = permits;
        }
        Ok(joint)
    }

    /// Decides over `checks` and charges them as [`run`](Self::run) does, without bans and permits.
    pub(in crate::admission) async fn reserve(
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
}

impl JointDecision {
    fn admitted(verdict: Verdict, charged: Transaction, notes: Vec<LimitNote>) -> Self {
        Self {
            verdict,
            charged: Some(charged),
            notes,
        }
    }

    fn rejected(verdict: Verdict, notes: Vec<LimitNote>) -> Self {
        Self {
            verdict,
            charged: None,
            notes,
        }
    }

    /// Returns whether the limit was decided without its store.
    pub(in crate::admission) fn fell_back(&self, check: &LimitCheck<'_>) -> bool {
        let fallback = check.note(LimitEvent::Decided(DecisionSource::Fallback));
        self.notes.contains(&fallback)
    }
}

/// Reserves `checks`, none of which is remote.
fn reserve_here(
    checks: &[LimitCheck<'_>],
    now: Timestamp,
) -> Result<JointDecision, LimitRejection> {
    if checks.iter().any(LimitCheck::is_replicated) {
        return reserve_local_and_replicated(checks, now);
    }
    let (verdict, charge) = reserve(&local_asks(checks), now);
    Ok(match charge {
        Some(charge) => JointDecision::admitted(verdict, Transaction::of_local(charge), Vec::new()),
        None => JointDecision::rejected(verdict, Vec::new()),
    })
}

/// Reserves `checks`, of which some are replicated and none is remote.
///
/// Local limits and replicated ones are two calls, since the second kind is decided by the store's time. Both are looked at before either
/// is charged, so a rejection takes nothing.
fn reserve_local_and_replicated(
    checks: &[LimitCheck<'_>],
    now: Timestamp,
) -> Result<JointDecision, LimitRejection> {
    let local = local_asks(checks);
    let replicated: ArrayVec<_, MAX_ASKS> =
        checks.iter().filter_map(LimitCheck::replicated).collect();
    let peek_replicated = || replicated.iter().map(|check| check.peek(now)).collect();
    let verdict = |replicated: ArrayVec<Decision, MAX_ASKS>, local: &Verdict| {
        let replicated = replicated.into_iter();
        merge_in_order(checks, LimitCheck::is_replicated, replicated, cloned(local))
    };
    let peeked = peek(&local, now);
    if peeked.outcome() != Outcome::Admitted {
        let verdict = verdict(peek_replicated(), &peeked);
        return Ok(JointDecision::rejected(verdict, Vec::new()));
    }
    let mut transaction = Transaction::default();
    let reserved = reserve_replicated(&replicated, &mut transaction.replicated, now)?;
    let asked = checks.iter().filter(|check| check.is_replicated());
    let notes = sources(asked, &reserved.decisions);
    let decisions = decisions_of(reserved.decisions).collect();
    if !reserved.is_charged {
        let verdict = verdict(decisions, &peeked);
        return Ok(JointDecision::rejected(verdict, notes));
    }
    let (decided, charge) = reserve(&local, now);
    let Some(charge) = charge else {
        // Another request took the last room between look and charge.
        transaction.settle(SettlementFacts::None, now);
        let verdict = verdict(peek_replicated(), &decided);
        return Ok(JointDecision::rejected(verdict, Vec::new()));
    };
    transaction.local = Some(charge);
    let verdict = verdict(decisions, &decided);
    Ok(JointDecision::admitted(verdict, transaction, notes))
}

/// Reserves `checks`, of which some are remote: a request that is rejected without the store causes no call.
async fn reserve_remote(
    checks: &[LimitCheck<'_>],
    now: Timestamp,
) -> Result<JointDecision, LimitRejection> {
    if let Some(rejected) = reject_by_cache(checks, now) {
        return Ok(rejected);
    }
    let is_remote = LimitCheck::is_remote;
    let remote = || checks.iter().filter(|check| check.is_remote());
    let here: LimitChecks<'_> = (checks.iter().copied())
        .filter(|check| !check.is_remote())
        .collect();
    let decided = reserve_here(&here, now)?;
    let Some(mut transaction) = decided.charged else {
        let not_asked = remote().map(|check| check.peek(now));
        let verdict = merge_in_order(checks, is_remote, not_asked, cloned(&decided.verdict));
        return Ok(JointDecision::rejected(verdict, decided.notes));
    };
    transaction.open_replicated();
    let asked: ArrayVec<_, MAX_ASKS> = remote().filter_map(LimitCheck::remote).collect();
    let reserved = store::reserve(&asked, &mut transaction.remote, now).await?;
    let mut notes = sources(remote(), &reserved.decisions);
    notes.extend(decided.notes);
    let decisions = decisions_of(reserved.decisions);
    if !reserved.is_charged {
        // Before the others are looked at again.
        drop(transaction);
        let here = here.iter().map(|check| check.peek(now));
        let verdict = merge_in_order(checks, is_remote, decisions, here);
        return Ok(JointDecision::rejected(verdict, notes));
    }
    let verdict = merge_in_order(checks, is_remote, decisions, cloned(&decided.verdict));
    Ok(JointDecision::admitted(verdict, transaction, notes))
}

/// Returns the rejection by remote limits that the store has rejected before. Charges the second looks that are due: these limits are asked
/// in the store.
fn reject_by_cache(checks: &[LimitCheck<'_>], now: Timestamp) -> Option<JointDecision> {
    let cached: ArrayVec<Option<Decision>, MAX_ASKS> = checks
        .iter()
        .map(|check| check.charge_second_look(now))
        .collect();
    if cached.iter().all(Option::is_none) {
        return None;
    }
    let rejecting = checks.iter().zip(&cached).filter(|(_, is)| is.is_some());
    let note = |check: &LimitCheck<'_>| check.note(LimitEvent::Decided(DecisionSource::Cached));
    let notes = rejecting.map(|(check, _)| note(check)).collect();
    let each = checks.iter().zip(cached);
    let decisions = each.map(|(check, cached)| cached.unwrap_or_else(|| check.peek(now)));
    Some(JointDecision::rejected(Verdict::of(decisions), notes))
}

fn local_asks<'a>(checks: &[LimitCheck<'a>]) -> ArrayVec<Ask<'a>, MAX_ASKS> {
    let local = checks.iter().filter(|check| check.is_local());
    local.map(|check| check.ask).collect()
}

fn decisions_of(
    decisions: impl IntoIterator<Item = BackendDecision>,
) -> impl Iterator<Item = Decision> {
    decisions.into_iter().map(|answer| answer.decision)
}

fn cloned(verdict: &Verdict) -> impl Iterator<Item = Decision> {
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
