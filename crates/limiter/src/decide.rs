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
use crate::limit::{Glance, Receipt};
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
    let mut made = Made::new();
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
    let made: ArrayVec<(&Ask<'_>, Receipt), MAX_ASKS> = asks
        .iter()
        .take(MAX_ASKS)
        .map(|ask| (ask, ask.limit.charge_unchecked(ask.key, ask.cost, now)))
        .collect();
    Reservation::new(made.into_iter())
}

/// Decides over any number of asks.
#[inline(never)]
fn decide_together(asks: &[Ask<'_>], now: Timestamp) -> Verdict {
    charge_all(asks, now, &mut Made::new())
}

/// The charges that were made, in the order of the asks.
type Made<'a> = ArrayVec<(&'a Ask<'a>, Receipt), MAX_ASKS>;

/// Charges all asks or none; what was charged goes to `made`.
fn charge_all<'a>(asks: &'a [Ask<'a>], now: Timestamp, made: &mut Made<'a>) -> Verdict {
    let mut glances = Glances::new();
    look_at_all(asks, now, &mut glances);
    if asks.len() > MAX_ASKS || glances.iter().any(Glance::refuses) {
        return say(asks, &glances, now);
    }
    let mut decisions = Vec::with_capacity(asks.len());
    for (ask, glance) in asks.iter().zip(&glances) {
        if let Some((decision, receipt)) = ask.limit.charge_ready(glance, ask.key, ask.cost, now) {
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
            let mut glances = Glances::new();
            look_at_all(asks, now, &mut glances);
            say(asks, &glances, now)
        }
    }
}

/// The results of peeking at the first [`MAX_ASKS`] asks.
type Glances = ArrayVec<Glance, MAX_ASKS>;

fn look_at_all(asks: &[Ask<'_>], now: Timestamp, glances: &mut Glances) {
    let asked = asks.iter().take(MAX_ASKS);
    // All of them first: their misses overlap.
    asked.clone().for_each(|ask| ask.limit.prefetch(ask.key));
    for ask in asked {
        let joint = ask.joint_cost(asks);
        glances.push(ask.limit.look(ask.payer, ask.key, joint, now));
        if joint != ask.cost
            && let Some(glance) = glances.last_mut()
        {
            glance.forget_charge();
        }
    }
}

/// The verdict over what was seen.
fn say(asks: &[Ask<'_>], glances: &[Glance], now: Timestamp) -> Verdict {
    let mut decisions = Vec::with_capacity(glances.len());
    for (ask, glance) in asks.iter().zip(glances) {
        decisions.push(ask.limit.say(glance, now));
    }
    let mut verdict = Verdict::over(decisions);
    if asks.len() > MAX_ASKS {
        verdict.refuse_surplus();
    }
    verdict
}
