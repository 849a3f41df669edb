//! Decides over the checks of a request in all backends, and charges them: all, or none (contract C2).
//!
//! In this order: bans and permits ([`precheck`]); the cached rejections of the store, which cost nothing; the limits that this node
//! decides, local and replicated, which are both looked at before either is charged; then the remote groups, in the store. A request that
//! this node rejects never reaches the store. A rejection by the store refunds the charges of this node.
//!
//! Where a store is to be asked, a [`JointQuestion`] holds what was charged by then, and goes on with the answer.
//!
//! # Concurrency
//! Dropping a question refunds all charges that were made by then. For a call that is under way see [`store::reserve`].

use crate::rejection::LimitRejection;
use arrayvec::ArrayVec;
use sluicegate_limiter::{Ask, Decision, MAX_ASKS, Outcome, Timestamp, Verdict, peek, reserve};

use super::{SettlementFacts, Transaction};
use crate::admission::limit_check::{LimitCheck, LimitChecks};
use crate::admission::limit_event::{LimitEvent, LimitNote};
use crate::admission::precheck;
use crate::store::{
    self, BackendDecision, DecisionSource, SlotQuestion, StoreAnswer, StoreCall, StoreFailure,
    StoreProgress, reserve_replicated,
};

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

/// The progress of checks that are decided together.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart where it is returned"
)]
pub(in crate::admission) enum JointProgress<'a> {
    /// All are decided.
    Decided(JointDecision),
    /// A store is to be asked.
    AskStore(Box<JointQuestion<'a>>),
}

/// Checks of which those of this node are charged, and those of a store are to be asked. Dropping it refunds all charges and permits.
pub(in crate::admission) struct JointQuestion<'a> {
    checks: LimitChecks<'a>,
    /// The decision over those that this node decides.
    here: JointDecision,
    /// Their charges, and those that the store has made; its permits are those of all checks.
    transaction: Transaction,
    slot: Box<SlotQuestion<'a>>,
}

impl Transaction {
    /// Decides over `checks` and charges them, all or none, unless a ban, a full limit or an unreachable store rejects the request.
    ///
    /// # Errors
    /// That rejection. Nothing is charged.
    pub(in crate::admission) fn run<'a>(
        checks: &LimitChecks<'a>,
        now: Timestamp,
    ) -> Result<JointProgress<'a>, LimitRejection> {
        if let Some(rejection) = precheck::ban(checks, now) {
            return Err(rejection);
        }
        let permits = precheck::take_permits(checks)?;
        let mut progress = Self::reserve(checks, now)?;
        match &mut progress {
            JointProgress::Decided(joint) => {
                if let Some(transaction) = &mut joint.charged {
                    transaction.permits = permits;
                }
            }
            JointProgress::AskStore(question) => question.transaction.permits = permits,
        }
        Ok(progress)
    }

    /// Decides over `checks` and charges them as [`run`](Self::run) does, without bans and permits.
    ///
    /// # Errors
    /// A store cannot be reached, and a limit admits nothing without it.
    pub(in crate::admission) fn reserve<'a>(
        checks: &LimitChecks<'a>,
        now: Timestamp,
    ) -> Result<JointProgress<'a>, LimitRejection> {
        match checks.iter().any(LimitCheck::is_remote) {
            true => reserve_remote(checks, now),
            false => reserve_here(checks, now).map(JointProgress::Decided),
        }
    }
}

impl<'a> JointQuestion<'a> {
    /// Returns the call to the store.
    pub(in crate::admission) fn call(&self) -> StoreCall<'_> {
        self.slot.call()
    }

    /// Goes on with the answer of the store.
    ///
    /// # Errors
    /// The store cannot be reached, and a limit admits nothing without it. What was charged is refunded.
    pub(in crate::admission) fn answer(
        self,
        answer: Result<StoreAnswer, StoreFailure>,
        now: Timestamp,
    ) -> Result<JointProgress<'a>, LimitRejection> {
        let Self {
            checks,
            here,
            mut transaction,
            slot,
        } = self;
        let progress = slot.answer(answer, &mut transaction.remote, now)?;
        Ok(join(checks, here, transaction, progress, now))
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
fn reserve_remote<'a>(
    checks: &LimitChecks<'a>,
    now: Timestamp,
) -> Result<JointProgress<'a>, LimitRejection> {
    if let Some(rejected) = reject_by_cache(checks, now) {
        return Ok(JointProgress::Decided(rejected));
    }
    let mut decided = reserve_here(&decided_here(checks), now)?;
    let Some(mut transaction) = decided.charged.take() else {
        let not_asked = remote(checks).map(|check| check.peek(now));
        let is_remote = LimitCheck::is_remote;
        let verdict = merge_in_order(checks, is_remote, not_asked, cloned(&decided.verdict));
        let rejected = JointDecision::rejected(verdict, decided.notes);
        return Ok(JointProgress::Decided(rejected));
    };
    transaction.open_replicated();
    let asked = remote(checks).filter_map(LimitCheck::remote);
    let progress = store::reserve(asked, &mut transaction.remote, now)?;
    Ok(join(checks.clone(), decided, transaction, progress, now))
}

/// Joins the decision `here`, whose charges `transaction` holds, with that of the store, as far as it was made.
fn join<'a>(
    checks: LimitChecks<'a>,
    here: JointDecision,
    transaction: Transaction,
    progress: StoreProgress<'a>,
    now: Timestamp,
) -> JointProgress<'a> {
    let reserved = match progress {
        StoreProgress::Decided(reserved) => reserved,
        StoreProgress::AskStore(slot) => {
            return JointProgress::AskStore(Box::new(JointQuestion {
                checks,
                here,
                transaction,
                slot,
            }));
        }
    };
    let mut notes = sources(remote(&checks), &reserved.decisions);
    notes.extend(here.notes);
    let decisions = decisions_of(reserved.decisions);
    let is_remote = LimitCheck::is_remote;
    JointProgress::Decided(if reserved.is_charged {
        let verdict = merge_in_order(&checks, is_remote, decisions, cloned(&here.verdict));
        JointDecision::admitted(verdict, transaction, notes)
    } else {
        // Before the others are looked at again.
        drop(transaction);
        let here = decided_here(&checks);
        let here = here.iter().map(|check| check.peek(now));
        let verdict = merge_in_order(&checks, is_remote, decisions, here);
        JointDecision::rejected(verdict, notes)
    })
}

/// Returns the checks that are decided in a store.
fn remote<'c, 'a>(checks: &'c [LimitCheck<'a>]) -> impl Iterator<Item = &'c LimitCheck<'a>> {
    checks.iter().filter(|check| check.is_remote())
}

/// Returns the checks that this node decides.
fn decided_here<'a>(checks: &[LimitCheck<'a>]) -> LimitChecks<'a> {
    let here = checks.iter().filter(|check| !check.is_remote());
    here.copied().collect()
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
    Some(JointDecision::rejected(Verdict::new(decisions), notes))
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
    Verdict::new(checks.iter().filter_map(|check| match of_first(check) {
        true => first.next(),
        false => others.next(),
    }))
}
