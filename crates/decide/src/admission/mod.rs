//! Stage 4, may it pass: computes the keys of the request for the limits of its route, evaluates the limits and charges them.
//!
//! The limits of a route are evaluated together, once a request: all are charged or none is (contract C2). Passing yields
//! [`Admitted`], which the origin stage requires; nothing else makes one, so no request reaches an origin undecided. Where a charge
//! depends on the response, `Admitted` also owns it, and settles it when the response is known, or when it is dropped.
//!
//! A route whose limits are all plain takes one call to the limiter. `evaluate` computes the checks of the others, and `limit_progress`
//! decides them: `precheck` has bans and the number of requests in flight, `transaction` charges all backends or none, `admitted` holds
//! them until they are settled. Nothing here waits: where a limit is decided in a store, the result is a [`StoreQuestion`].

mod admitted;
mod announced;
mod backend;
mod body;
mod challenge_check;
mod content_type;
mod cookie;
mod evaluate;
mod facts;
mod inspect;
mod json;
mod key;
mod key_rules;
mod key_texts;
mod key_values;
mod limit;
mod limit_check;
mod limit_event;
mod limit_keys;
mod limit_progress;
mod limit_texts;
mod multipart;
mod named_key;
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
use sluicegate_limiter::{Ask, KeyHash, MAX_ASKS, Outcome, Verdict};

pub use admitted::Admitted;
pub use body::{BodyKind, is_read as body_is_read, reading as body_kind};
pub use evaluate::ChargeTiming;
pub use facts::{KnownBody, RecordedKey, RecordedReserve, RequestFacts};
pub use inspect::KeyState;
pub use key::{KeySeed, normal_value};
pub use key_texts::{KeyNamer, KeyTextRules, KeyTexts};
pub use key_values::key_values;
pub use limit::{ActiveBans, ActiveLimit, LimitEnvironment, OverflowNews};
pub use limit_event::{LimitEvent, LimitNote};
pub use limit_keys::{MAX_LIMIT_KEYS, limit_keys};
pub use limit_progress::{LimitProgress, StoreQuestion};
pub use limit_texts::RejectedKey;
pub use named_key::NamedKey;
pub use next_request::NextRequest;
pub use overrides::TierMatch;
pub use ranked_keys::RankedKey;
pub use rate_scaling::{RateScaling, ScaledLimit, ScaledRates};
pub use recorded_keys::{own_key, record_keys, record_reserves};
pub use report::{AdmissionReport, OriginMark, QueuePlace, ReportDetails};
pub use reserved_units::ReservedUnits;
pub use route::RouteLimits;
pub use settlement::{
    FinalResponse, LoggedCost, OriginContact, RequestEnd, ResponseSource, SettlementRule,
};
pub use share_news::OverShare;

use crate::rejection::{LimitRejection, MissingKeys, Rejection, RejectionReason};
use evaluate::plan;
use request_key::request_key;

/// The decision of admission over a request.
#[derive(Debug)]
pub enum Admission {
    /// The request may pass; without a report where the route has no limits.
    Admitted(Admitted, Option<AdmissionReport>),
    /// The request may not pass, and nothing is charged; without a report where no limit was asked.
    Rejected(Rejection, Option<AdmissionReport>),
}

/// Evaluates `limits` and charges them, all or none, with charges that stand at this time, as far as no store need be asked. Parts of keys
/// that the request lacks are added to `missing`.
pub fn evaluate<'a>(
    limits: &'a RouteLimits,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    charging: ChargeTiming,
    missing: &mut MissingKeys,
) -> LimitProgress<'a> {
    if limits.is_empty() {
        return LimitProgress::Decided(Admission::Admitted(Admitted::without_charges(), None));
    }
    if limits.are_plain() && charging == ChargeTiming::AtOnce {
        return LimitProgress::Decided(decide_plain(limits, facts, seed, missing));
    }
    match plan(limits, facts, seed, charging, missing) {
        Ok(evaluation) => evaluation.decide(facts.now),
        Err(admission) => LimitProgress::Decided(*admission),
    }
}

/// Decides over limits that are all plain, by one call to the limiter.
fn decide_plain(
    limits: &RouteLimits,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    missing: &mut MissingKeys,
) -> Admission {
    let mut asks = ArrayVec::<_, MAX_ASKS>::new();
    add_asks(&mut asks, limits, facts, seed, missing);
    let mut verdict = sluicegate_limiter::decide(&asks, facts.now);
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
