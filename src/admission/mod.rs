//! Stage 4, may it pass: computes the keys of the request for the limits of its route, evaluates the limits and charges them.
//!
//! The limits of a route are evaluated together, once a request: all are charged or none is (contract C2). Passing yields
//! [`Admitted`], which the origin stage requires; nothing else makes one, so no request reaches an origin undecided. Where a charge
//! depends on the response, `Admitted` also owns it, and settles it when the response is known, or when it is dropped.
//!
//! A route whose limits are all plain takes one call to the limiter. `evaluate` handles the others: `precheck` has bans and the number of
//! requests in flight, `transaction` charges all backends or none, `admitted` holds them until they are settled. Where a limit is
//! decided in a store, a [`LimitEvaluation`] is made first, and deciding it takes a wait.

mod admitted;
mod announced;
mod backend;
mod body;
mod challenge_check;
mod content_type;
mod cookie;
mod evaluate;
mod inspect;
mod json;
mod key;
mod key_rules;
mod key_texts;
mod key_values;
mod limit;
mod limit_check;
mod limit_keys;
mod limit_texts;
mod multipart;
mod next_request;
mod overrides;
mod payer;
mod precheck;
mod ranked_keys;
mod rate_scaling;
mod recorded_keys;
mod report;
mod request_key;
mod reserved_units;
mod route;
mod settlement;
mod share_news;
#[cfg(test)]
mod tests;
mod tier;
mod transaction;
mod value;

use std::sync::Arc;

use arrayvec::ArrayVec;
use futures_util::FutureExt;
use sluicegate_limiter::{Ask, KeyHash, MAX_ASKS, Outcome, Timestamp, Verdict};

pub use admitted::Admitted;
pub use body::{BodyKind, KnownBody, is_read as body_is_read, reading as body_kind};
pub use evaluate::{ChargeTiming, LimitEvaluation, plan};
pub use inspect::{KeyState, NamedKey};
pub use key::{KeySeed, RequestFacts, normal_value};
pub use key_texts::{KeyNamer, KeyTextRules, KeyTexts};
pub use key_values::key_values;
pub use limit::{ActiveBans, ActiveLimit, LimitEnvironment, OverflowNews};
pub use limit_keys::{MAX_LIMIT_KEYS, limit_keys};
pub use limit_texts::RejectedKey;
pub use next_request::NextRequest;
pub use overrides::TierMatch;
pub use ranked_keys::RankedKey;
pub use rate_scaling::{RateScaling, ScaledLimit, ScaledRates};
pub use recorded_keys::{RecordedKey, RecordedReserve, own_key, record_keys, record_reserves};
pub use report::{AdmissionReport, LimitEvent, LimitNote, OriginMark, QueuePlace, ReportDetails};
pub use reserved_units::ReservedUnits;
pub use route::RouteLimits;
pub use settlement::{
    FinalResponse, LoggedCost, OriginContact, RequestEnd, ResponseSource, SettlementRule,
};
pub use share_news::OverShare;

use request_key::request_key;
use sluicegate_decide::rejection::{LimitRejection, MissingKeys, Rejection, RejectionReason};

/// The decision of admission over a request.
#[derive(Debug)]
pub enum Admission {
    /// The request may pass; without a report where the route has no limits.
    Admitted(Admitted, Option<AdmissionReport>),
    /// The request may not pass, and nothing is charged; without a report where no limit was asked.
    Rejected(Rejection, Option<AdmissionReport>),
}

/// Decides over `limits` and charges them, all or none; parts of keys that the request lacks are added to `missing`. It never waits:
/// where one of the limits is decided in a store, callers use [`plan`], and here the store counts as one that cannot be reached.
#[must_use]
pub fn admit(
    limits: &RouteLimits,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    now: Timestamp,
    missing: &mut MissingKeys,
) -> Admission {
    if limits.is_empty() {
        return Admission::Admitted(Admitted::without_charges(), None);
    }
    if !limits.are_plain() {
        return admit_as(ChargeTiming::AtOnce, limits, facts, seed, now, missing);
    }
    let mut asks = ArrayVec::<_, MAX_ASKS>::new();
    add_asks(&mut asks, limits, facts, seed, missing);
    let mut verdict = sluicegate_limiter::decide(&asks, now);
    match verdict.outcome() {
        Outcome::Admitted => Admission::Admitted(
            Admitted::without_charges(),
            Some(AdmissionReport::plain(verdict)),
        ),
        Outcome::Refused { ask, rate } => {
            verdict.compute();
            let rejection = rate_limited(&verdict, rate, asked_as(&asks, ask));
            let report = AdmissionReport::plain(verdict);
            Admission::Rejected(Rejection::ByLimit(rejection), Some(report))
        }
    }
}

/// Decides as [`admit`] does, with charges that stand at this time.
#[must_use]
pub fn admit_as(
    charging: ChargeTiming,
    limits: &RouteLimits,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    now: Timestamp,
    missing: &mut MissingKeys,
) -> Admission {
    if limits.is_empty() {
        return Admission::Admitted(Admitted::without_charges(), None);
    }
    match plan(limits, facts, seed, missing) {
        Ok(plan) => (plan.charging(charging).decide(now))
            .now_or_never()
            .unwrap_or(WITHOUT_STORE),
        Err(admission) => *admission,
    }
}

/// The rejection by a limit that would have to wait for its store.
const WITHOUT_STORE: Admission = Admission::Rejected(
    Rejection::ByLimit(LimitRejection {
        limit: 0,
        key: KeyHash::from_bits(0),
        reason: RejectionReason::StoreUnavailable,
        wait: LimitRejection::SOON,
    }),
    None,
);

/// Returns the rejection of a `verdict` that refuses by this rate of the limit at this index of the route, for this key.
fn rate_limited(verdict: &Verdict, rate: usize, (limit, key): (u8, KeyHash)) -> LimitRejection {
    LimitRejection {
        limit,
        key,
        reason: RejectionReason::RateLimited(rate),
        wait: verdict.retry_after().unwrap_or_default(),
    }
}

/// Returns the index on the route and the key of one ask of a verdict that is over all limits of the route.
fn asked_as(asks: &[Ask<'_>], ask: usize) -> (u8, KeyHash) {
    // A verdict refuses by one of its asks, and a route has at most `2 * MAX_ASKS` limits.
    let key = asks.get(ask).map(|ask| ask.key);
    let limit = u8::try_from(ask).unwrap_or(u8::MAX);
    (limit, key.unwrap_or(KeyHash::from_bits(0)))
}

/// Adds the asks of a request on a route whose limits are all asked.
fn add_asks<'a>(
    asks: &mut ArrayVec<Ask<'a>, MAX_ASKS>,
    limits: &'a [Arc<ActiveLimit>],
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    missing: &mut MissingKeys,
) {
    // The configuration allows a route at most MAX_ASKS limits, so `take` cuts nothing.
    for (index, active) in limits.iter().take(MAX_ASKS).enumerate() {
        if let Some(key) = request_key(index, active, facts, seed, missing) {
            asks.push(active.ask(&key, facts));
        }
    }
}
