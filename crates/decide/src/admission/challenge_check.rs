//! Owns what a request has to do with the challenge of one limit: whether it carries a solution, and whether it may get a page.
//!
//! A request with a solution is counted by a key of the solution's own, at the same rates, in the same table. So a solution is worth one
//! ordinary quota, however many clients copy it, and the key for which it was given is not asked: a person behind a busy address is
//! counted apart from the others there.

use crate::challenge::{
    ActiveChallenge, KeyBinding, OpenChallenge, PageAudience, PageVisit, PresentedSolution,
};
use crate::rejection::MissingKeys;
use sluicegate_limiter::{KeyHash, Seed, Timestamp, Verdict};

use super::facts::RequestFacts;
use super::key::KeySeed;
use super::limit_check::LimitCheck;
use super::limit_event::LimitEvent;
use super::request_key::request_key;

/// A request and the challenge of one limit.
#[derive(Clone, Copy)]
pub(super) struct ChallengeCheck<'a> {
    /// The index of the limit on the route.
    pub(super) limit: u8,
    active: &'a ActiveChallenge,
    audience: PageAudience,
    presented: PresentedSolution,
    binding: KeyBinding,
}

impl<'a> ChallengeCheck<'a> {
    /// Reads the cookies and the head of a request for the challenge of the limit of `check`; `None` where that has none.
    pub(super) fn new(
        check: &LimitCheck<'a>,
        facts: &RequestFacts<'_>,
        seed: &KeySeed,
    ) -> Option<Self> {
        let active = check.active.challenge.as_ref()?;
        let limit = usize::from(check.limit);
        let missing = &mut MissingKeys::default();
        let by = request_key(limit, check.active, facts, seed, missing)?.by;
        let template = &check.active.key;
        let hash = |seed: Seed| -> Option<KeyHash> {
            let seed = KeySeed::from_seed(seed);
            seed.hash_remote(template, facts, by).ok()
        };
        Some(Self {
            limit: check.limit,
            active,
            audience: PageAudience::from_method(
                facts.method,
                facts.headers,
                facts.segments,
                facts.query,
            ),
            presented: active.presented(facts.headers, hash, facts.now),
            binding: active.binding(hash)?,
        })
    }

    /// Returns the check with the key of the solution, where the request carries one.
    pub(super) fn with_pass(&self, mut check: LimitCheck<'a>) -> LimitCheck<'a> {
        if let PresentedSolution::Passed(pass) = self.presented {
            check.ask.key = pass.key(check.ask.key);
            check.remote_key = check.remote_key.map(|key| pass.key(key));
        }
        check
    }

    /// Returns the event of a request that carries a solution, right or wrong.
    pub(super) fn event(&self) -> Option<LimitEvent> {
        match self.presented {
            PresentedSolution::Passed(_) => Some(LimitEvent::ChallengePassed),
            PresentedSolution::Failed(_) => Some(LimitEvent::ChallengeFailed),
            PresentedSolution::Unripe(_) | PresentedSolution::Nothing => None,
        }
    }

    /// Returns how the browser came that would see a page; `None` where no person would.
    pub(super) fn visit(&self) -> Option<PageVisit> {
        match self.audience {
            PageAudience::Browser(visit) => Some(visit),
            PageAudience::Program => None,
        }
    }

    /// Returns the challenge for the request, of the difficulty that `pages` calls for: the verdict of the limit that counts them.
    pub(super) fn open(&self, visit: PageVisit, pages: &Verdict, now: Timestamp) -> OpenChallenge {
        let used = used_percent(pages);
        (self.active).open(self.presented, visit, used, self.binding, now)
    }
}

/// Returns the share of its room that is taken, of the rate with the least left, in percent.
fn used_percent(verdict: &Verdict) -> u8 {
    let statuses = verdict.decisions().iter().flat_map(|one| one.statuses());
    let used = statuses.map(|status| {
        let count = u64::from(status.rate.count()).max(1);
        let left = u64::from(status.remaining).min(count);
        (count - left) * 100 / count
    });
    used.max()
        .and_then(|used| u8::try_from(used).ok())
        .unwrap_or(0)
}
