//! Stage 4, may it pass: which limits apply to the request, their keys, the verdict.
//!
//! The limits of a route are judged together, once a request: all are charged or none is (contract C2). Passing yields
//! [`Admitted`], which the origin stage asks for; nothing else makes one, so no request reaches an origin undecided. Where a limit
//! counts by the answer, `Admitted` also owes: it is settled when the answer is known, or by being dropped.
//!
//! A route whose limits are all plain is decided straight; [`weighed`] judges the others.

mod judged;
mod key;
mod limit;
mod overrides;
mod pending;
mod route;
mod terms;
mod weighed;

use std::sync::Arc;

use arrayvec::ArrayVec;
use sluicegate_limiter::{Ask, MAX_ASKS, Outcome, Timestamp};

pub use judged::{Beside, Finding, Judged, Note};
pub use key::{KeySeed, RequestFacts};
pub use limit::{ActiveLimit, OverflowNews};
pub use pending::Admitted;
pub use route::RouteLimits;
pub use terms::{Answer, Terms};

/// What admission says of a request.
#[derive(Debug)]
pub enum Admission {
    /// It may pass; nothing was judged where the route has no limits.
    Admitted(Admitted, Option<Judged>),
    /// It may not; nothing was charged.
    Refused(Refused),
}

/// Why a request is refused.
#[derive(Debug)]
pub enum Refused {
    /// Some limit has no room.
    ByLimit(Judged),
    /// The overrides of a limit block the key; no limit was asked.
    Blocked(Judged),
}

/// Decides over `limits` and charges them, all or none.
#[must_use]
pub fn admit(
    limits: &RouteLimits,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    now: Timestamp,
) -> Admission {
    if limits.is_empty() {
        return Admission::Admitted(Admitted::settled(), None);
    }
    if !limits.are_plain() {
        return weighed::admit(limits, facts, seed, now);
    }
    let verdict = sluicegate_limiter::decide(&asks(limits, facts, seed), now);
    match verdict.outcome() {
        Outcome::Admitted => Admission::Admitted(Admitted::settled(), Some(Judged::plain(verdict))),
        Outcome::Refused { .. } => Admission::Refused(Refused::ByLimit(Judged::plain(verdict))),
    }
}

/// What [`admit`] would say, if it is a refusal that leaves nothing to be done; charges nothing.
#[must_use]
pub fn foresee_refusal(
    limits: &RouteLimits,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    now: Timestamp,
) -> Option<Judged> {
    if limits.is_empty() || !limits.refuse_plainly() {
        return None;
    }
    if !limits.are_plain() {
        return weighed::foresee(limits, facts, seed, now);
    }
    let verdict = sluicegate_limiter::peek(&asks(limits, facts, seed), now);
    matches!(verdict.outcome(), Outcome::Refused { .. }).then(|| Judged::plain(verdict))
}

fn asks<'a>(
    limits: &'a [Arc<ActiveLimit>],
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
) -> ArrayVec<Ask<'a>, MAX_ASKS> {
    // The configuration allows a route at most MAX_ASKS limits, so `take` cuts nothing.
    limits
        .iter()
        .take(MAX_ASKS)
        .map(|active| ask(active, facts, seed))
        .collect()
}

/// What a request asks of one limit.
fn ask<'a>(active: &'a ActiveLimit, facts: &RequestFacts<'_>, seed: &KeySeed) -> Ask<'a> {
    Ask {
        limit: &active.limit,
        key: seed.hash(&active.key, facts),
        cost: active.cost,
    }
}
