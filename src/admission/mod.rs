//! Stage 4, may it pass: which limits apply to the request, their keys, the verdict.
//!
//! The limits of a route are judged together, once a request: all are charged or none is (contract C2). Passing yields
//! [`Admitted`], which the origin stage asks for; nothing else makes one, so no request reaches an origin undecided. Where a limit
//! counts by the answer, `Admitted` also owes: it is settled when the answer is known, or by being dropped.
//!
//! A route whose limits are all plain is decided straight; `weighed` judges the others, and `barrier` has what stands before them:
//! bans, and the number of requests in flight.

mod barrier;
mod body;
mod gap;
mod judged;
mod key;
mod limit;
mod normal;
mod overrides;
mod pending;
mod route;
mod terms;
#[cfg(test)]
mod tests;
mod tier;
mod value;
mod weighed;

use std::sync::Arc;

use arrayvec::ArrayVec;
use sluicegate_limiter::{Ask, MAX_ASKS, Outcome, Timestamp};

pub use barrier::{Bar, Barred};
pub use body::{BodyKind, KnownBody, reading as body_kind};
pub use gap::{Gap, Gaps, Why};
pub use judged::{Beside, Finding, Judged, Mark, Note};
pub(crate) use key::normal_text;
pub use key::{KeySeed, RequestFacts, normal_value};
pub use limit::{ActiveBans, ActiveLimit, OverflowNews};
pub use overrides::Found;
pub use pending::Admitted;
pub use route::RouteLimits;
pub use terms::{Answer, Terms};

use barrier::Facing;

/// What admission says of a request.
#[derive(Debug)]
pub enum Admission {
    /// It may pass; nothing was judged where the route has no limits.
    Admitted(Admitted, Option<Judged>),
    /// It may not; nothing was charged.
    Refused(Refused),
    /// The overrides of a limit block the key; no limit was asked.
    Blocked(Judged),
    /// It lacks a part of a key; [`Gaps::refusing`] says which.
    Incomplete,
}

/// Why a request is refused.
#[derive(Debug)]
pub enum Refused {
    /// Some limit has no room. Where it bans, the ban is in force now, and the client is told of that.
    ByLimit(Judged, Option<Barred>),
    /// It did not come as far as the limits.
    Barred(Barred),
}

impl Refused {
    /// What the limits said, where they were asked.
    #[must_use]
    pub fn judged(&self) -> Option<&Judged> {
        match self {
            Self::ByLimit(judged, _) => Some(judged),
            Self::Barred(_) => None,
        }
    }

    /// What the client is told of instead of its standing.
    #[must_use]
    pub fn barred(&self) -> Option<&Barred> {
        match self {
            Self::ByLimit(_, ban) => ban.as_ref(),
            Self::Barred(barred) => Some(barred),
        }
    }
}

/// Decides over `limits` and charges them, all or none; `gaps` is told what their keys lack.
#[must_use]
pub fn admit(
    limits: &RouteLimits,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    now: Timestamp,
    gaps: &mut Gaps,
) -> Admission {
    if limits.is_empty() {
        return Admission::Admitted(Admitted::settled(), None);
    }
    if !limits.are_plain() {
        return weighed::admit(limits, facts, seed, now, gaps);
    }
    let verdict = sluicegate_limiter::decide(&asks(limits, facts, seed, gaps), now);
    match verdict.outcome() {
        Outcome::Admitted => Admission::Admitted(Admitted::settled(), Some(Judged::plain(verdict))),
        Outcome::Refused { .. } => {
            Admission::Refused(Refused::ByLimit(Judged::plain(verdict), None))
        }
    }
}

/// What [`admit`] would say, if it is a refusal that leaves nothing to be done and has no gaps; charges nothing, takes nothing and bans
/// nobody.
#[must_use]
pub fn foresee_refusal(
    limits: &RouteLimits,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    now: Timestamp,
) -> Option<Refused> {
    if limits.is_empty() || !limits.are_foreseeable() {
        return None;
    }
    let mut gaps = Gaps::default();
    let asks = asks(limits, facts, seed, &mut gaps);
    if !gaps.0.is_empty() {
        return None;
    }
    if !limits.are_plain() {
        // Without gaps there is an ask for each limit.
        let mut each = limits.iter().zip(&asks);
        if each.any(|(active, ask)| active.is_otherwise(ask.key, facts)) {
            return None;
        }
        let faced = (0..).zip(limits.iter()).zip(&asks);
        let faced = faced.map(|((limit, active), ask)| Facing {
            limit,
            active,
            ask: *ask,
        });
        if let Some(barred) = barrier::foresee(faced, now) {
            return Some(Refused::Barred(barred));
        }
    }
    let verdict = sluicegate_limiter::peek(&asks, now);
    let refused = matches!(verdict.outcome(), Outcome::Refused { .. });
    // A ban is yet to be begun.
    let ends_here = refused && limits.iter().all(|limit| limit.bans.is_none());
    ends_here.then(|| Refused::ByLimit(Judged::plain(verdict), None))
}

/// What a request asks of limits that all of them are asked.
fn asks<'a>(
    limits: &'a [Arc<ActiveLimit>],
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    gaps: &mut Gaps,
) -> ArrayVec<Ask<'a>, MAX_ASKS> {
    // The configuration allows a route at most MAX_ASKS limits, so `take` cuts nothing.
    limits
        .iter()
        .take(MAX_ASKS)
        .enumerate()
        .filter_map(|(index, active)| ask(index, active, facts, seed, gaps))
        .collect()
}

/// What a request asks of the limit at `index` of its route; nothing where it lacks a part of the key for which there is no substitute.
fn ask<'a>(
    index: usize,
    active: &'a ActiveLimit,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    gaps: &mut Gaps,
) -> Option<Ask<'a>> {
    let key = match seed.hash(&active.key, facts) {
        Ok(key) => key,
        Err(lack) => {
            let by = gaps.fill(index, active.on_missing, &lack)?;
            seed.substitute(&active.key, by, facts.client)
        }
    };
    Some(Ask {
        limit: &active.limit,
        key,
        cost: active.cost,
    })
}
