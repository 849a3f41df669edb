//! Stage 4, may it pass: which limits apply to the request, their keys, the verdict.
//!
//! The limits of a route are judged together, once a request: all are charged or none is (contract C2). Passing yields
//! [`Admitted`], which the origin stage asks for; nothing else makes one, so no request reaches an origin undecided.

mod body;
mod gap;
mod key;
mod limit;
mod normal;
mod value;

use arrayvec::ArrayVec;
use sluicegate_limiter::{Ask, Cost, KeyHash, MAX_ASKS, Outcome, Timestamp, Verdict};

use key::{Lack, Substitute};

use crate::config::rules::OnMissing;

pub use body::{BodyKind, KnownBody, reading as body_kind};
pub use gap::{Asked, Gap, Gaps, Why};
pub use key::{KeySeed, RequestFacts};
pub use limit::{ActiveLimit, OverflowNews};

/// The evidence that a request passed admission.
#[derive(Debug)]
pub struct Admitted(());

/// What admission says of a request. A verdict is about the limits that [`Gaps::asked`] names.
#[derive(Debug)]
pub enum Admission {
    /// It may pass; the verdict is absent where no limit was asked.
    Admitted(Admitted, Option<Verdict>),
    /// Some limit refuses it; nothing was charged.
    Refused(Verdict),
    /// It lacks a part of a key, [`Gaps::refusing`] says which; nothing was charged.
    Incomplete,
}

/// Decides over `limits` and charges them, all or none; `gaps` is told what their keys lack.
#[must_use]
pub fn admit(
    limits: &[std::sync::Arc<ActiveLimit>],
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    now: Timestamp,
    gaps: &mut Gaps,
) -> Admission {
    let asks = asks(limits, facts, seed, gaps);
    if gaps.refusing().is_some() {
        return Admission::Incomplete;
    }
    if asks.is_empty() {
        return Admission::Admitted(Admitted(()), None);
    }
    let verdict = sluicegate_limiter::decide(&asks, now);
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
    gaps: &mut Gaps,
) -> Option<Verdict> {
    let asks = asks(limits, facts, seed, gaps);
    if asks.is_empty() || gaps.refusing().is_some() {
        return None;
    }
    let verdict = sluicegate_limiter::peek(&asks, now);
    matches!(verdict.outcome(), Outcome::Refused { .. }).then_some(verdict)
}

fn asks<'a>(
    limits: &'a [std::sync::Arc<ActiveLimit>],
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    gaps: &mut Gaps,
) -> ArrayVec<Ask<'a>, MAX_ASKS> {
    // The configuration allows a route at most MAX_ASKS limits, so `take` cuts nothing.
    limits
        .iter()
        .take(MAX_ASKS)
        .enumerate()
        .filter_map(|(index, active)| {
            let key = match seed.hash(&active.key, facts) {
                Ok(key) => key,
                Err(lack) => gaps.fill(index, active, &lack, facts, seed)?,
            };
            Some(Ask {
                limit: &active.limit,
                key,
                cost: Cost::ONE,
            })
        })
        .collect()
}

impl Gaps {
    /// The counter of a request that lacks a part of the limit's key; `None` where it has none.
    #[cold]
    fn fill(
        &mut self,
        index: usize,
        active: &ActiveLimit,
        lack: &Lack<'_>,
        facts: &RequestFacts<'_>,
        seed: &KeySeed,
    ) -> Option<KeyHash> {
        // The rules have a choice wherever a part can be absent; without one nothing passes uncounted.
        let then = active.on_missing.unwrap_or(OnMissing::Shared);
        self.list.push(Gap {
            limit: index,
            source: lack.source.clone(),
            why: lack.why,
            then,
        });
        let by = match then {
            OnMissing::Ip => Substitute::Address,
            OnMissing::Skip if !lack.why.is_absence() => Substitute::None,
            OnMissing::Shared => Substitute::None,
            OnMissing::Refuse | OnMissing::Skip => {
                self.asked.skip(index);
                return None;
            }
        };
        Some(seed.substitute(&active.key, by, facts.client))
    }
}
