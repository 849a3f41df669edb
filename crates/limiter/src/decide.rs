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
use crate::decision::{MAX_ASKS, Outcome, Verdict};
use crate::limit::{ChargeReceipt, PeekedKey};
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
    let mut made = MadeCharges::new();
    let verdict = charge_all(asks, now, &mut made);
    let admitted = verdict.outcome() == Outcome::Admitted;
    (
        verdict,
        admitted.then(|| Reservation::new(made.into_iter())),
    )
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
    charge_all(asks, now, &mut MadeCharges::new())
}

/// The charges that were made, in the order of the asks.
type MadeCharges<'a> = ArrayVec<(&'a Ask<'a>, ChargeReceipt), MAX_ASKS>;

/// Charges all asks or none; what was charged goes to `made`.
fn charge_all<'a>(asks: &'a [Ask<'a>], now: Timestamp, made: &mut MadeCharges<'a>) -> Verdict {
    let mut peeked = PeekedKeys::new();
    peek_all(asks, now, &mut peeked);
    if asks.len() > MAX_ASKS || peeked.iter().any(PeekedKey::refuses) {
        return verdict_of(asks, &peeked, now);
    }
    let mut decisions = Vec::with_capacity(asks.len());
    for (ask, peeked) in asks.iter().zip(&peeked) {
        if let Some((decision, receipt)) = ask.limit.charge_ready(peeked, ask.key, ask.cost, now) {
            made.push((ask, receipt));
            decisions.push(decision);
            continue;
        }
        let (decision, receipt) = {
            let Ask {
                limit,
                key,
                cost,
                payer,
            } = *ask;
            limit.reserve(payer, key, cost, now)
        };
        let Some(receipt) = receipt else {
            for (ask, receipt) in made.drain(..).rev() {
                ask.limit.undo(ask.key, &receipt, ask.cost, now);
            }
            let mut verdict = peek(asks, now);
            verdict.replace(decisions.len(), decision);
            return verdict;
        };
        made.push((ask, receipt));
        decisions.push(decision);
    }
    Verdict::over(decisions)
}

/// The verdict that [`decide`] would give now. Charges nothing, so every standing is before the charge.
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
            let mut peeked = PeekedKeys::new();
            peek_all(asks, now, &mut peeked);
            verdict_of(asks, &peeked, now)
        }
    }
}

/// The results of peeking at the first [`MAX_ASKS`] asks.
type PeekedKeys = ArrayVec<PeekedKey, MAX_ASKS>;

fn peek_all(asks: &[Ask<'_>], now: Timestamp, peeked: &mut PeekedKeys) {
    let asked = asks.iter().take(MAX_ASKS);
    // All of them first: their misses overlap.
    asked.clone().for_each(|ask| ask.limit.prefetch(ask.key));
    for ask in asked {
        let joint = ask.joint_cost(asks);
        peeked.push(ask.limit.peek_key(ask.payer, ask.key, joint, now));
        if joint != ask.cost
            && let Some(peeked) = peeked.last_mut()
        {
            peeked.forget_charge();
        }
    }
}

/// The verdict over what was seen.
fn verdict_of(asks: &[Ask<'_>], peeked: &[PeekedKey], now: Timestamp) -> Verdict {
    let mut decisions = Vec::with_capacity(peeked.len());
    for (ask, peeked) in asks.iter().zip(peeked) {
        decisions.push(ask.limit.decision_of(peeked, now));
    }
    let mut verdict = Verdict::over(decisions);
    if asks.len() > MAX_ASKS {
        verdict.refuse_surplus();
    }
    verdict
}
