//! Decides over all limits of a request: every rate of every ask is charged, or none is.
//!
//! One ask goes straight to its table, which is all-or-nothing over its rates. For several, all are judged first and a
//! refusal writes nothing. Then they are charged in order, each from the state that was judged; where that is another by
//! now, since another request came between, it is judged anew, and if it refuses, those before it are undone, last first.
//!
//! # Guarantee
//! No rate ever admits more than it has room for, under any interleaving: a charge is one compare-and-swap from a state
//! that was judged. A request that is refused leaves every count as it was. A request may be refused wrongly only if it
//! races with one that is itself refused: between that one's charge and its undo the room looks taken.

use arrayvec::ArrayVec;

use crate::ask::Ask;
use crate::decision::{Decision, MAX_ASKS, Outcome, Verdict};
use crate::limit::{ChargeReceipt, JointDecisions};
use crate::reservation::Reservation;
use crate::time::Timestamp;

/// Decides over `asks` and charges them, all or none.
///
/// More than [`MAX_ASKS`] are refused: nothing passes uncounted. No asks are admitted.
#[must_use]
#[inline]
pub fn decide(asks: &[Ask<'_>], now: Timestamp) -> Verdict {
    match asks {
        [ask] => ask.limit.charge(ask.payer, ask.key, ask.cost, now),
        asks => decide_together(asks, now),
    }
}

/// Decides like [`decide`], for a cost that is not known yet: the charge can still be settled or released.
///
/// There is a reservation exactly if the verdict admits.
#[must_use]
pub fn reserve(asks: &[Ask<'_>], now: Timestamp) -> (Verdict, Option<Reservation>) {
    let mut joint = JointDecisions::with_capacity(asks.len());
    let verdict = charge_all(asks, now, &mut joint);
    let admitted = verdict.outcome() == Outcome::Admitted;
    let made = asks.iter().zip(joint.receipts);
    let made = made.filter_map(|(ask, receipt)| Some((ask, receipt?)));
    (verdict, admitted.then(|| Reservation::new(made)))
}

/// Charges all of `asks`, the first [`MAX_ASKS`] of them, whether they fit or not: what was admitted elsewhere is spent here
/// too. What was charged can still be settled or released.
pub fn charge_unchecked(asks: &[Ask<'_>], now: Timestamp) -> Reservation {
    let made: ArrayVec<(&Ask<'_>, ChargeReceipt), MAX_ASKS> = asks
        .iter()
        .take(MAX_ASKS)
        .map(|ask| (ask, ask.limit.charge_unchecked(ask.key, ask.cost, now)))
        .collect();
    Reservation::new(made.into_iter())
}

/// Decides over any number of asks.
#[inline(never)]
fn decide_together(asks: &[Ask<'_>], now: Timestamp) -> Verdict {
    charge_all(asks, now, &mut JointDecisions::with_capacity(asks.len()))
}

/// Charges all asks or none. `joint` is empty before; if the verdict admits, it has the receipt of each charge after.
#[inline(always)]
fn charge_all(asks: &[Ask<'_>], now: Timestamp, joint: &mut JointDecisions) -> Verdict {
    judge_all(asks, now, joint);
    if asks.len() > MAX_ASKS || joint.decisions.iter().any(Decision::is_refused) {
        return verdict_of(asks, std::mem::take(&mut joint.decisions));
    }
    let judged = joint.decisions.iter_mut().zip(&mut joint.receipts);
    for (index, (ask, (decision, receipt))) in asks.iter().zip(judged).enumerate() {
        let Ask {
            limit,
            key,
            cost,
            payer,
        } = *ask;
        let charged = limit.charge_judged(key, cost, now, decision, receipt);
        if charged.is_none() {
            (*decision, *receipt) = limit.reserve(payer, key, cost, now);
        }
        if receipt.is_none() {
            let refusal = decision.clone();
            let made = asks.iter().zip(&joint.receipts).take(index);
            for (ask, receipt) in made.rev() {
                if let Some(receipt) = receipt {
                    ask.limit.undo(ask.key, receipt, ask.cost, now);
                }
            }
            let mut verdict = peek(asks, now);
            verdict.replace(index, refusal);
            return verdict;
        }
    }
    Verdict::over(std::mem::take(&mut joint.decisions))
}

/// The verdict that [`decide`] would give now. Charges nothing, so every status is before the charge.
#[must_use]
pub fn peek(asks: &[Ask<'_>], now: Timestamp) -> Verdict {
    match asks {
        [ask] => {
            let Ask {
                limit,
                key,
                cost,
                payer,
            } = *ask;
            Verdict::over_one(limit.peek_for(payer, key, cost, now))
        }
        asks => {
            let mut joint = JointDecisions::with_capacity(asks.len());
            judge_all(asks, now, &mut joint);
            verdict_of(asks, joint.decisions)
        }
    }
}

/// Judges the first [`MAX_ASKS`] asks.
#[inline(never)]
fn judge_all(asks: &[Ask<'_>], now: Timestamp, joint: &mut JointDecisions) {
    let asked = &asks[..asks.len().min(MAX_ASKS)];
    // Before the first is searched: their misses overlap.
    for ask in asked.iter().skip(1) {
        ask.limit.prefetch(ask.key);
    }
    for ask in asked {
        let joint_cost = ask.joint_cost(asks);
        ask.limit.judge(ask.payer, ask.key, joint_cost, now, joint);
        if joint_cost != ask.cost
            && let Some(receipt) = joint.receipts.last_mut()
        {
            // Other asks charge the same counter: the key is judged again before its charge.
            *receipt = None;
        }
    }
}

/// The verdict over asks of which none is charged.
fn verdict_of(asks: &[Ask<'_>], decisions: Vec<Decision>) -> Verdict {
    let mut verdict = Verdict::over(decisions);
    if asks.len() > MAX_ASKS {
        verdict.refuse_surplus();
    }
    verdict
}
