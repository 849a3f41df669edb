//! Stage 4, may it pass: which limits apply to the request, their keys, the verdict.
//!
//! The limits of a route are judged together, once a request: all are charged or none is (contract C2). Passing yields
//! [`Admitted`], which the origin stage asks for; nothing else makes one, so no request reaches an origin undecided.

mod key;
mod limit;

use arrayvec::ArrayVec;
use sluicegate_limiter::{Ask, Cost, MAX_ASKS, Outcome, Timestamp, Verdict};

pub use key::{KeySeed, RequestFacts};
pub use limit::{ActiveLimit, OverflowNews};

/// The evidence that a request passed admission.
#[derive(Debug)]
pub struct Admitted(());

/// What admission says of a request.
#[derive(Debug)]
pub enum Admission {
    /// It may pass; the verdict is absent where the route has no limits.
    Admitted(Admitted, Option<Verdict>),
    /// Some limit refuses it; nothing was charged.
    Refused(Verdict),
}

/// Decides over `limits` and charges them, all or none.
#[must_use]
pub fn admit(
    limits: &[std::sync::Arc<ActiveLimit>],
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    now: Timestamp,
) -> Admission {
    if limits.is_empty() {
        return Admission::Admitted(Admitted(()), None);
    }
    let verdict = sluicegate_limiter::decide(&asks(limits, facts, seed), now);
    match verdict.outcome() {
        Outcome::Admitted => Admission::Admitted(Admitted(()), Some(verdict)),
        Outcome::Refused { .. } => Admission::Refused(verdict),
    }
}

/// The verdict that [`admit`] would give, if it is a refusal; charges nothing.
#[must_use]
pub fn foresee_refusal(
    limits: &[std::sync::Arc<ActiveLimit>],
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    now: Timestamp,
) -> Option<Verdict> {
    if limits.is_empty() {
        return None;
    }
    let verdict = sluicegate_limiter::peek(&asks(limits, facts, seed), now);
    matches!(verdict.outcome(), Outcome::Refused { .. }).then_some(verdict)
}

fn asks<'a>(
    limits: &'a [std::sync::Arc<ActiveLimit>],
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
) -> ArrayVec<Ask<'a>, MAX_ASKS> {
    // The configuration allows a route at most MAX_ASKS limits, so `take` cuts nothing.
    limits
        .iter()
        .take(MAX_ASKS)
        .map(|active| Ask {
            limit: &active.limit,
            key: seed.hash(&active.key, facts),
            cost: Cost::ONE,
        })
        .collect()
}
