//! Decides over the limits of a route of which some are not plain: their charges may wait for the answer.

use std::sync::Arc;

use arrayvec::ArrayVec;
use sluicegate_limiter::{MAX_ASKS, Timestamp};

use super::judged::{Beside, Judged};
use super::key::{KeySeed, RequestFacts};
use super::limit::ActiveLimit;
use super::pending::{Admitted, Pending};
use super::route::RouteLimits;
use super::{Admission, Refused, ask};

/// The limits that are judged together, with their index on the route.
type Together = ArrayVec<(u8, Arc<ActiveLimit>), MAX_ASKS>;

/// Decides over `limits` and charges them, all or none.
pub(super) fn admit(
    limits: &RouteLimits,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    now: Timestamp,
) -> Admission {
    let together: Together = (0..).zip(limits.iter().cloned()).take(MAX_ASKS).collect();
    let asks: ArrayVec<_, MAX_ASKS> = together
        .iter()
        .map(|(_, limit)| ask(limit, facts, seed))
        .collect();
    let (verdict, reservation) = sluicegate_limiter::reserve(&asks, now);
    let beside = Beside {
        asked: together.iter().map(|(index, _)| *index).collect(),
        notes: Vec::new(),
    };
    let judged = Judged {
        verdict,
        beside: Some(Box::new(beside)),
    };
    let Some(reservation) = reservation else {
        return Admission::Refused(Refused::ByLimit(judged));
    };
    drop(asks);
    let mut pending = Pending::default();
    pending.add(reservation, together);
    Admission::Admitted(Admitted::owing(pending), Some(judged))
}
