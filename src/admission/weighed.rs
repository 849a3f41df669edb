//! Decides over the limits of a route of which some are not plain: their charges may wait for the answer, and keys may have rates of
//! their own, or none.

use std::sync::Arc;

use arrayvec::ArrayVec;
use sluicegate_limiter::{Ask, MAX_ASKS, Outcome, Timestamp, Verdict};

use super::judged::{Beside, Finding, Judged, Note};
use super::key::{KeySeed, RequestFacts};
use super::limit::ActiveLimit;
use super::overrides::ActiveTier;
use super::pending::{Admitted, Pending};
use super::route::RouteLimits;
use super::{Admission, Refused, ask};

/// The limits that are judged together, with their index on the route.
type Together = ArrayVec<(u8, Arc<ActiveLimit>), MAX_ASKS>;

/// What is to be asked of the limits of a route.
#[derive(Default)]
struct Weighed<'a> {
    asks: ArrayVec<Ask<'a>, MAX_ASKS>,
    together: Together,
    beside: Beside,
}

/// Decides over `limits` and charges them, all or none.
pub(super) fn admit(
    limits: &RouteLimits,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    now: Timestamp,
) -> Admission {
    let weighed = match weigh(limits, facts, seed) {
        Ok(weighed) => weighed,
        Err(note) => return Admission::Refused(Refused::Blocked(blocked(note))),
    };
    let (verdict, reservation) = sluicegate_limiter::reserve(&weighed.asks, now);
    let Weighed {
        together, beside, ..
    } = weighed;
    let judged = Judged {
        verdict,
        beside: Some(Box::new(beside)),
    };
    let Some(reservation) = reservation else {
        return Admission::Refused(Refused::ByLimit(judged));
    };
    let mut pending = Pending::default();
    pending.add(reservation, together);
    Admission::Admitted(Admitted::owing(pending), Some(judged))
}

/// What [`admit`] would say, if limits have no room; charges nothing.
pub(super) fn foresee(
    limits: &RouteLimits,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    now: Timestamp,
) -> Option<Judged> {
    let weighed = weigh(limits, facts, seed).ok()?;
    let verdict = sluicegate_limiter::peek(&weighed.asks, now);
    matches!(verdict.outcome(), Outcome::Refused { .. }).then(|| Judged {
        verdict,
        beside: Some(Box::new(weighed.beside)),
    })
}

/// What is to be asked, or the block that a limit's overrides put on the key.
fn weigh<'a>(
    limits: &'a RouteLimits,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
) -> Result<Weighed<'a>, Note> {
    let mut weighed = Weighed::default();
    for (index, limit) in (0..).zip(limits.iter()).take(MAX_ASKS) {
        let mut ask = ask(limit, facts, seed);
        let overrides = limit.overrides.as_ref();
        let mut own = None;
        let note = |finding| Note {
            limit: index,
            finding,
        };
        match overrides.and_then(|overrides| overrides.of(ask.key)) {
            None => {}
            Some((tier, ActiveTier::Rates(rates))) => {
                ask.limit = &rates.0;
                own = Some(tier);
            }
            Some((_, ActiveTier::Unlimited)) => {
                weighed.beside.notes.push(note(Finding::Unlimited));
                continue;
            }
            Some((_, ActiveTier::Blocked)) => return Err(note(Finding::Blocked)),
        }
        weighed.asks.push(ask);
        weighed.together.push((index, Arc::clone(limit)));
        weighed.beside.asked.push(index);
        weighed.beside.tiers.push(own);
    }
    Ok(weighed)
}

/// Nothing was asked, and that is why.
#[cold]
fn blocked(note: Note) -> Judged {
    let beside = Beside {
        notes: vec![note],
        ..Beside::default()
    };
    Judged {
        verdict: nothing_asked(),
        beside: Some(Box::new(beside)),
    }
}

/// The verdict over no limit at all.
fn nothing_asked() -> Verdict {
    sluicegate_limiter::peek(&[], Timestamp::from_secs(0))
}
