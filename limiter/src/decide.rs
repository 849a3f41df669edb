//! Decides over all limits of a request: every rate of every ask is charged, or none is.
//!
//! One ask goes straight to its table, which is all-or-nothing over its rates. For several, all are judged first and a
//! refusal writes nothing. Then they are charged in order; if one refuses now, since another request came between,
//! those before it are undone, last first.
//!
//! # Guarantee
//! No rate ever admits more than it has room for, under any interleaving: a charge is one compare-and-swap from a state
//! that was judged. A request that is refused leaves every count as it was. A request may be refused wrongly only if it
//! races with one that is itself refused: between that one's charge and its undo the room looks taken.

use arrayvec::ArrayVec;

use crate::cost::Cost;
use crate::decision::{MAX_ASKS, Outcome, Verdict};
use crate::key::KeyHash;
use crate::limit::{Limit, Reservation};
use crate::time::Timestamp;

/// What a request asks of one limit.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The limit.
    pub limit: &'a Limit,
    /// Whose counter.
    pub key: KeyHash,
    /// How much.
    pub cost: Cost,
}

impl Ask<'_> {
    /// What all of `asks` together take from this one's counter; two asks may name the same.
    fn joint_cost(&self, asks: &[Self]) -> Cost {
        let same =
            |other: &&Self| other.key == self.key && other.limit.shares_counters_with(self.limit);
        let others = asks
            .iter()
            .filter(|other| !std::ptr::eq(*other, self))
            .filter(same);
        others.fold(self.cost, |sum, other| sum.saturating_add(other.cost))
    }
}

/// Decides over `asks` and charges them, all or none.
///
/// More than [`MAX_ASKS`] are refused: nothing passes uncounted. No asks are admitted.
#[must_use]
pub fn decide(asks: &[Ask<'_>], now: Timestamp) -> Verdict {
    match asks {
        [ask] => {
            let (decision, _) = ask.limit.charge(ask.key, ask.cost, now);
            Verdict::of(decision)
        }
        asks => decide_together(asks, now),
    }
}

/// Decides over any number of asks.
fn decide_together(asks: &[Ask<'_>], now: Timestamp) -> Verdict {
    let foreseen = peek(asks, now);
    if foreseen.outcome() != Outcome::Admitted {
        return foreseen;
    }
    let mut verdict = Verdict::default();
    let mut reservations: ArrayVec<(&Ask<'_>, Reservation), MAX_ASKS> = ArrayVec::new();
    for ask in asks {
        let (decision, reservation) = ask.limit.charge(ask.key, ask.cost, now);
        match reservation {
            Some(reservation) => reservations.push((ask, reservation)),
            None => {
                let refusing = reservations.len();
                for (ask, reservation) in reservations.iter().rev() {
                    ask.limit.undo(reservation, now);
                }
                return foreseen.with_decision(refusing, decision);
            }
        }
        verdict.push(decision);
    }
    verdict
}

/// The verdict that [`decide`] would give now. Charges nothing, so every standing is before the charge.
#[must_use]
pub fn peek(asks: &[Ask<'_>], now: Timestamp) -> Verdict {
    let mut verdict = Verdict::default();
    for ask in asks.iter().take(MAX_ASKS) {
        verdict.push(ask.limit.peek(ask.key, ask.joint_cost(asks), now));
    }
    if asks.len() > MAX_ASKS {
        verdict.refuse_surplus();
    }
    verdict
}
