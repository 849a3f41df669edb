//! Stage 4, may it pass: which limits apply to the request, their keys, the verdict.
//!
//! The limits of a route are judged together, once a request: all are charged or none is (contract C2). Passing yields
//! [`Admitted`], which the origin stage asks for; nothing else makes one, so no request reaches an origin undecided. Where a limit
//! counts by the answer, `Admitted` also owes: it is settled when the answer is known, or by being dropped.
//!
//! A route whose limits are all plain is decided straight; `evaluate` judges the others, and `precheck` has what stands before them:
//! bans, and the number of requests in flight. Where a limit is decided in a store, a [`Plan`] is made first, and deciding takes a wait.

mod alias;
mod body;
mod cookie;
mod evaluate;
mod fold;
mod here;
mod inspect;
mod key;
mod key_values;
mod limit;
mod limit_check;
mod missing_key;
mod multipart;
mod normal;
mod overrides;
mod payer;
mod pending;
mod precheck;
mod report;
mod route;
mod settlement;
mod share_news;
mod strict;
#[cfg(test)]
mod tests;
mod tier;
mod transaction;
mod value;

use std::sync::Arc;

use arrayvec::ArrayVec;
use futures_util::FutureExt;
use sluicegate_limiter::{Ask, KeyHash, MAX_ASKS, Outcome, Timestamp};

pub use body::{BodyKind, KnownBody, is_read as body_is_read, reading as body_kind};
pub use evaluate::Plan;
pub use inspect::{KeyState, NamedKey};
pub use key::{KeySeed, RequestFacts, normal_value};
pub(crate) use key::{in_lower_case, in_upper_case, normal_text};
pub use key_values::key_values;
pub use limit::{ActiveBans, ActiveLimit, OverflowNews};
pub use missing_key::{MissingKey, MissingKeys, MissingReason};
pub use overrides::TierMatch;
pub use pending::Admitted;
pub use precheck::{Bar, Barred};
pub use report::{AdmissionReport, LimitEvent, LimitNote, Mark, QueuePlace, ReportDetails};
pub use route::RouteLimits;
pub use settlement::{FinalResponse, ResponseSource, SettlementRule};
pub use share_news::OverShare;

use key::KeySubstitute;
use precheck::Facing;

/// What admission says of a request.
#[derive(Debug)]
pub enum Admission {
    /// It may pass; nothing was judged where the route has no limits.
    Admitted(Admitted, Option<AdmissionReport>),
    /// It may not; nothing was charged.
    Refused(Refused),
    /// The overrides of a limit block the key; no limit was asked.
    Blocked(AdmissionReport),
    /// It lacks a part of a key; [`MissingKeys::refusing`] says which.
    Incomplete,
    /// It would have to wait for a store, and nobody waited.
    NeedsStore,
}

/// Why a request is refused.
#[derive(Debug)]
pub enum Refused {
    /// Some limit has no room. Where it bans, the ban is in force now, and the client is told of that.
    ByLimit(AdmissionReport, Option<Barred>),
    /// It did not come as far as the limits.
    Barred(Barred),
}

impl Refused {
    /// What the limits said, where they were asked.
    #[must_use]
    pub fn judged(&self) -> Option<&AdmissionReport> {
        match self {
            Self::ByLimit(judged, _) => Some(judged),
            Self::Barred(_) => None,
        }
    }

    /// The index on the route of the limit that refuses.
    #[must_use]
    pub fn limit(&self) -> Option<usize> {
        if let Some(barred) = self.barred() {
            return Some(barred.limit.into());
        }
        self.judged()?.refused_limit()
    }

    /// The key that it counts the request by.
    #[must_use]
    pub fn key(&self) -> Option<KeyHash> {
        match self.barred() {
            Some(barred) => Some(barred.key),
            None => self.judged()?.refused_key,
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

/// Decides over `limits` and charges them, all or none; `gaps` is told what their keys lack. It waits for nothing: where one of them
/// has to be decided in a store, [`plan`] is what to call.
#[must_use]
pub fn admit(
    limits: &RouteLimits,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    now: Timestamp,
    gaps: &mut MissingKeys,
) -> Admission {
    if limits.is_empty() {
        return Admission::Admitted(Admitted::settled(), None);
    }
    if !limits.are_plain() {
        let plan = match plan(limits, facts, seed, gaps) {
            Ok(plan) => plan,
            Err(admission) => return *admission,
        };
        return plan
            .decide(now)
            .now_or_never()
            .unwrap_or(Admission::NeedsStore);
    }
    let asks = asks(limits, facts, seed, gaps);
    let verdict = sluicegate_limiter::decide(&asks, now);
    match verdict.outcome() {
        Outcome::Admitted => {
            Admission::Admitted(Admitted::settled(), Some(AdmissionReport::plain(verdict)))
        }
        Outcome::Refused { .. } => {
            let judged = AdmissionReport::plain(verdict).with_keys(|ask| Some(asks.get(ask)?.key));
            Admission::Refused(Refused::ByLimit(judged, None))
        }
    }
}

/// What a request asks of `limits`, to be decided wherever they are decided.
///
/// # Errors
/// The admission, where no limit need be asked.
pub fn plan<'a>(
    limits: &'a RouteLimits,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    gaps: &mut MissingKeys,
) -> Result<Plan<'a>, Box<Admission>> {
    Plan::of(limits, facts, seed, gaps)
}

/// What [`admit`] would say, if it is a refusal that leaves nothing to be done and has no gaps; charges nothing, takes nothing and bans
/// nobody.
#[must_use]
pub fn peek_rejection(
    limits: &RouteLimits,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    now: Timestamp,
) -> Option<Refused> {
    if limits.is_empty() || !limits.are_foreseeable() {
        return None;
    }
    let mut gaps = MissingKeys::default();
    let asks = asks(limits, facts, seed, &mut gaps);
    if !gaps.0.is_empty() {
        return None;
    }
    if !limits.are_plain() {
        // Without gaps there is an ask for each limit.
        let mut each = limits.iter().zip(&asks);
        if each.any(|(active, ask)| {
            active.is_otherwise(ask.key, facts) || active.was_changed_elsewhere(facts)
        }) {
            return None;
        }
        let faced = (0..).zip(limits.iter()).zip(&asks);
        let faced = faced.map(|((limit, active), ask)| Facing {
            limit,
            active,
            ask: *ask,
        });
        if let Some(barred) = precheck::foresee(faced, now) {
            return Some(Refused::Barred(barred));
        }
    }
    if limits.iter().any(|limit| limit.bans.is_some()) {
        // A ban is yet to be begun.
        return None;
    }
    if limits.count_remotely() {
        let judged = strict::foresee(limits, &asks, now)?;
        return Some(Refused::ByLimit(judged, None));
    }
    let verdict = sluicegate_limiter::peek(&asks, now);
    let refused = matches!(verdict.outcome(), Outcome::Refused { .. });
    refused.then(|| {
        let judged = AdmissionReport::plain(verdict).with_keys(|ask| Some(asks.get(ask)?.key));
        Refused::ByLimit(judged, None)
    })
}

/// What a request asks of limits that all of them are asked.
fn asks<'a>(
    limits: &'a [Arc<ActiveLimit>],
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    gaps: &mut MissingKeys,
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
    gaps: &mut MissingKeys,
) -> Option<Ask<'a>> {
    let keyed = keyed(index, active, facts, seed, gaps)?;
    Some(active.ask(&keyed, facts))
}

/// A request's key, and what it was made of where the request lacks a part.
struct RequestKey {
    key: KeyHash,
    by: Option<KeySubstitute>,
}

/// The key of a request for the limit at `index` of its route; nothing where it lacks a part for which there is no substitute.
fn keyed(
    index: usize,
    active: &ActiveLimit,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    gaps: &mut MissingKeys,
) -> Option<RequestKey> {
    let (key, by) = match seed.hash(&active.key, facts) {
        Ok(key) => (key, None),
        Err(lack) => {
            let by = gaps.fill(index, active.on_missing, &lack)?;
            (seed.substitute(&active.key, by, facts.client), Some(by))
        }
    };
    Some(RequestKey { key, by })
}
