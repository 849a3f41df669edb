//! Evaluates the limits of a route of which some are not plain: each takes its part.
//!
//! Limits that may reject are charged in one [`Transaction`](super::transaction::Transaction), all or none. A limit that marks belongs to
//! it while it has room; once it is exceeded it is left out, the request is marked, and its fallback limit takes its place. Limits in
//! shadow are charged after the transaction and each by itself, so that they neither reject nor take anything from the others: a request
//! that is rejected would not have come so far. They reject no request: one that finds no permit there is reported as rejected, and none of
//! their rejections begins a ban.
//!
//! Where every limit that has no room gives browsers a challenge, a browser gets a page with one, and the limit that counts pages is
//! charged in place of all others. Where another limit rejects too, no solution would help, and there is no page.
//!
//! A [`LimitEvaluation`] computes the checks of the request at once, and then decides. Where a limit is decided in a store, it ends with a
//! question to the store (`limit_progress`), which borrows nothing of the request.
//!
//! Rates in shadow stand for the rates of their limit. So they also count requests that these reject, unless another limit rejects them
//! too.
//!
//! # Limits
//! A look at a limit that marks comes before the charge. When another request takes the last room in between, the limits are decided again
//! without it; each round exceeds one more mark, so there are at most as many rounds as limits, and one.

use std::sync::Arc;
use std::time::Duration;

use crate::challenge::PageVisit;
use crate::rejection::{LimitRejection, MissingKeys, Rejection, RejectionReason};
use crate::temporary_rules::{RuleEffect, TemporaryRule};
use arrayvec::ArrayVec;
use sluicegate_limiter::{
    ActiveBan, Cost, Decision, KeyHash, KeyPlacement, MAX_ASKS, NEVER, Outcome, Rate, Timestamp,
    Verdict,
};

use super::challenge_check::ChallengeCheck;
use super::facts::RequestFacts;
use super::key::KeySeed;
use super::limit_check::{LimitCheck, LimitChecks};
use super::limit_event::{LimitEvent, LimitNote};
use super::limit_progress::{ChargingRequest, LimitProgress};
use super::report::{AdmissionReport, OriginMark, QueuePlace, ReportDetails};
use super::route::RouteLimits;
use super::transaction::JointDecision;
use super::{Admission, rate_limited};
use sluicegate_config::rules::{Name, OnMissing};

/// The limits of a route and the fallback limits of some of them.
pub(super) const MAX_CHECKS: usize = 2 * MAX_ASKS;

/// Marks of the limits that are exceeded.
pub(super) type Marks = ArrayVec<OriginMark, MAX_ASKS>;

/// The checks of a request against the limits of its route, before any limit is asked.
pub(super) struct LimitEvaluation<'a> {
    pub(super) limits: &'a RouteLimits,
    /// By index on the route; `None` for limits that do not apply to the request.
    checks: ArrayVec<Option<LimitCheck<'a>>, MAX_CHECKS>,
    /// The challenges of its limits; empty on most routes.
    challenges: Vec<ChallengeCheck<'a>>,
    notes: Vec<LimitNote>,
    /// The tiers that the request names, by index on the route.
    named: Vec<(u8, Name)>,
    /// The rejection by a temporary rule that bans the key of a limit.
    banned: Option<LimitRejection>,
    pub(super) charging: ChargeTiming,
}

/// The time from which the charges of a request stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChargeTiming {
    /// Its admission.
    #[default]
    AtOnce,
    /// The call of [`Admitted::start`](super::Admitted::start): before, they are refunded if the request is dropped.
    Held,
}

/// A page with a challenge that a request is to get.
pub(super) struct PageToGive<'a> {
    pub(super) challenge: ChallengeCheck<'a>,
    pub(super) visit: PageVisit,
    /// The check that rejects.
    pub(super) check: LimitCheck<'a>,
}

/// Computes the checks of a request against each of `limits`, to be decided by [`LimitEvaluation::decide`], and repeats what operators have
/// changed of its keys at other gateways. Parts of keys that the request lacks are added to `missing`.
///
/// # Errors
/// The admission, where no limit need be asked.
pub(super) fn plan<'a>(
    limits: &'a RouteLimits,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    charging: ChargeTiming,
    missing: &mut MissingKeys,
) -> Result<LimitEvaluation<'a>, Box<Admission>> {
    let mut evaluation = LimitEvaluation {
        limits,
        checks: ArrayVec::new(),
        challenges: Vec::new(),
        notes: Vec::new(),
        named: Vec::new(),
        banned: None,
        charging,
    };
    // Fallback limits have checks too: whether one of them is asked is known later.
    for (limit, active) in (0..).zip(limits.iter()) {
        let check = LimitCheck::new(limit, active, facts, seed, missing);
        let last = missing
            .0
            .last()
            .filter(|part| part.limit == usize::from(limit));
        let is_passed_over = last.is_some_and(|part| part.then == OnMissing::Skip)
            && active.on_missing == Some(OnMissing::Refuse);
        if is_passed_over {
            // Without shadow the request would be answered with 400.
            let event = LimitEvent::ShadowRefused;
            evaluation.notes.push(LimitNote { limit, event });
        }
        let check = check.inspect(|check| check.catch_up(facts.now));
        let check = check.and_then(|check| evaluation.apply_tier(check, facts));
        let activity = check.as_ref().and_then(LimitCheck::activity);
        evaluation.notes.extend(activity);
        let check = check.map(|check| evaluation.apply_challenge(check, facts, seed));
        evaluation.checks.push(check);
    }
    if missing.refusing().is_some() {
        return Err(Box::new(Admission::Rejected(Rejection::KeyMissing, None)));
    }
    let mut notes = evaluation.notes.iter();
    if notes.any(|note| note.event == LimitEvent::Blocked) {
        let report = nothing_asked(evaluation.notes, evaluation.named);
        let rejection = Rejection::KeyBlocked;
        return Err(Box::new(Admission::Rejected(rejection, Some(report))));
    }
    if let Some(banned) = evaluation.banned {
        let rejection = Rejection::ByLimit(banned);
        return Err(Box::new(Admission::Rejected(rejection, None)));
    }
    Ok(evaluation)
}

impl<'a> LimitEvaluation<'a> {
    /// Returns the check with the rates of its tier, and records the name of the tier; `None` where the limit is not asked, with a note.
    fn apply_tier(
        &mut self,
        check: LimitCheck<'a>,
        facts: &RequestFacts<'_>,
    ) -> Option<LimitCheck<'a>> {
        if let Some(rule) = check.key_rule() {
            self.apply_key_rule(&check, rule, facts.now);
            return None;
        }
        let found = check.tier(facts);
        let name = found.and_then(|found| found.name);
        (self.named).extend(name.map(|name| (check.limit, name.clone())));
        let in_tier = check.in_tier(found);
        in_tier.map_err(|note| self.notes.push(note)).ok()
    }

    /// Notes what a temporary rule makes of the check, which is not asked.
    fn apply_key_rule(&mut self, check: &LimitCheck<'a>, rule: &TemporaryRule, now: Timestamp) {
        rule.count_hit();
        let event = match rule.effect {
            RuleEffect::Exempt | RuleEffect::Scale(_) => LimitEvent::Unlimited,
            RuleEffect::Block | RuleEffect::Ban if check.is_in_shadow() => {
                LimitEvent::ShadowRefused
            }
            RuleEffect::Block => LimitEvent::Blocked,
            RuleEffect::Ban => {
                let left = rule.until.saturating_since(now);
                let ban = ActiveBan { left, level: 1 };
                let rejection = check.rejection(RejectionReason::Banned(ban), left);
                let longest = self.banned.filter(|banned| banned.wait >= left);
                self.banned = longest.or(Some(rejection));
                return;
            }
        };
        self.notes.push(check.note(event));
    }

    /// Returns the check with the key of the solution that the request carries, if its limit has a challenge.
    fn apply_challenge(
        &mut self,
        check: LimitCheck<'a>,
        facts: &RequestFacts<'_>,
        seed: &KeySeed,
    ) -> LimitCheck<'a> {
        let Some(challenge) = ChallengeCheck::new(&check, facts, seed) else {
            return check;
        };
        let event = challenge.event();
        self.notes.extend(event.map(|event| check.note(event)));
        self.challenges.push(challenge);
        challenge.with_pass(check)
    }

    /// Decides over the limits and charges them, all or none, as far as no store need be asked.
    pub(super) fn decide(self, now: Timestamp) -> LimitProgress<'a> {
        let written: LimitChecks<'_> = (self.limits.written())
            .filter_map(|limit| self.check(limit))
            .collect();
        let mut marks = Marks::new();
        for check in enforced(&written).filter(|check| check.marks().is_some()) {
            if let Some(decision) = check.known_rejection(now) {
                marks.extend(check.mark(&decision));
            }
        }
        let charging = ChargingRequest {
            checks: self.without_exceeded(&written, &marks),
            written,
            marks,
            evaluation: self,
        };
        charging.begin(now)
    }

    /// Returns the page for a request that `verdict` rejects, if every limit that does has a challenge, and a person would see it.
    pub(super) fn page_to_give(
        &self,
        checks: &LimitChecks<'a>,
        verdict: &Verdict,
    ) -> Option<PageToGive<'a>> {
        if self.challenges.is_empty() {
            return None;
        }
        let page = |check: &LimitCheck<'a>| {
            let mut challenges = self.challenges.iter();
            let challenge = *challenges.find(|one| one.limit == check.limit)?;
            Some(PageToGive {
                challenge,
                visit: challenge.visit()?,
                check: *check,
            })
        };
        let mut pages = rejecting(checks, verdict).map(|(check, _)| page(check));
        let first = pages.next()??;
        pages.all(|page| page.is_some()).then_some(first)
    }

    /// Returns the check against the limit that counts pages, if it rejects.
    pub(super) fn counting(&self, page: &PageToGive<'a>) -> LimitChecks<'a> {
        let counting = (self.limits.fallback(page.check.limit))
            .and_then(|limit| self.check(limit))
            .filter(|check| !check.is_in_shadow());
        counting.into_iter().collect()
    }

    /// Returns the rejection by `ban`, or by the limits that reject in `joint`. Charges the shadow rates of a limit that alone rejects.
    pub(super) fn reject(
        self,
        checks: &LimitChecks<'a>,
        applicable: &[LimitCheck<'a>],
        joint: JointDecision,
        ban: Option<LimitRejection>,
        now: Timestamp,
    ) -> Admission {
        let mut report = self.report(checks, joint);
        for check in applicable {
            if only_rejection(&report.verdict, checks, check.limit) {
                report.note(check.try_shadow_rates(now));
            }
        }
        let rejection = ban.unwrap_or_else(|| rejection(checks, &report.verdict));
        Admission::Rejected(Rejection::ByLimit(rejection), Some(report))
    }

    /// Returns the report of a decision over `checks`.
    pub(super) fn report(self, checks: &LimitChecks<'a>, joint: JointDecision) -> AdmissionReport {
        let mut notes = self.notes;
        notes.extend(joint.notes);
        let details = ReportDetails {
            asked: checks.iter().map(|check| check.limit).collect(),
            tiers: checks.iter().map(|check| check.tier).collect(),
            named: self.named,
            notes,
            queues: queues(checks, &joint.verdict),
            marks: Vec::new(),
        };
        AdmissionReport::with_details(joint.verdict, details)
    }

    /// Returns the check against the limit at this index of the route, if it applies to the request.
    pub(super) fn check(&self, limit: u8) -> Option<LimitCheck<'a>> {
        *self.checks.get(usize::from(limit))?
    }

    /// Returns the check against the fallback limit of one that marks.
    fn fallback(&self, mark: &OriginMark) -> Option<LimitCheck<'a>> {
        self.check(self.limits.fallback(mark.limit)?)
    }

    /// Returns the checks of `written` that may reject and whose limits are not exceeded, and those against the fallback limits of the
    /// exceeded ones.
    pub(super) fn without_exceeded(
        &self,
        written: &LimitChecks<'a>,
        exceeded: &Marks,
    ) -> LimitChecks<'a> {
        let is_exceeded = |check: &LimitCheck<'_>| {
            let mut marks = exceeded.iter();
            marks.any(|mark| mark.limit == check.limit)
        };
        let mut checks: LimitChecks<'a> = enforced(written)
            .filter(|check| !is_exceeded(check))
            .copied()
            .collect();
        for check in exceeded.iter().filter_map(|mark| self.fallback(mark)) {
            // Two limits may name the same fallback, which is asked once.
            if !check.is_in_shadow() && checks.iter().all(|other| other.limit != check.limit) {
                // Each takes the place of one that was left out, so there is room.
                let _ = checks.try_push(check);
            }
        }
        checks
    }

    /// Returns all checks that apply to the request: fallback limits may be in shadow too, and have rates in shadow.
    pub(super) fn applicable(
        &self,
        written: &LimitChecks<'a>,
        marks: &Marks,
    ) -> ArrayVec<LimitCheck<'a>, MAX_CHECKS> {
        let mut applicable: ArrayVec<_, MAX_CHECKS> = written.iter().copied().collect();
        for check in marks.iter().filter_map(|mark| self.fallback(mark)) {
            if applicable.iter().all(|other| other.limit != check.limit) {
                // Each limit of the route names at most one.
                let _ = applicable.try_push(check);
            }
        }
        applicable
    }
}

/// Returns the checks that may reject.
fn enforced<'c, 'a>(written: &'c LimitChecks<'a>) -> impl Iterator<Item = &'c LimitCheck<'a>> {
    written.iter().filter(|check| !check.is_in_shadow())
}

/// Returns the marks of limits that were found to be exceeded only when they were charged.
pub(super) fn late_marks(checks: &LimitChecks<'_>, joint: &JointDecision) -> Marks {
    if joint.charged.is_some() {
        return Marks::new();
    }
    rejecting(checks, &joint.verdict)
        .filter_map(|(check, decision)| check.mark(decision))
        .collect()
}

/// Records the rejections of a request with the limits that ban. Returns the ban that holds longest.
pub(super) fn strike(
    checks: &LimitChecks<'_>,
    joint: &JointDecision,
    now: Timestamp,
) -> Option<LimitRejection> {
    // A request that no waiting helps is banned as long as any other.
    let wait = (joint.verdict.retry_after()).filter(|wait| *wait < NEVER);
    let wait = wait.unwrap_or_default();
    // A key that exceeds a share of the limit, or meets the counts of other keys, may be far from the limit itself.
    let own = rejecting(checks, &joint.verdict).filter(|(check, decision)| {
        decision.placement() == KeyPlacement::OwnSlot && !joint.fell_back(check)
    });
    let strikes = own.filter_map(|(check, _)| check.strike(wait, now));
    strikes.max_by_key(|rejection| rejection.wait)
}

/// Returns the checks that reject, with their decisions.
fn rejecting<'c, 'a>(
    checks: &'c LimitChecks<'a>,
    verdict: &'c Verdict,
) -> impl Iterator<Item = (&'c LimitCheck<'a>, &'c Decision)> {
    let decided = checks.iter().zip(verdict.decisions());
    decided.filter(|(_, decision)| decision.is_refused())
}

/// Returns the rejection by the limit that rejects in `verdict`.
fn rejection(checks: &LimitChecks<'_>, verdict: &Verdict) -> LimitRejection {
    let (ask, rate) = match verdict.outcome() {
        Outcome::Refused { ask, rate } => (ask, rate),
        // Callers have a verdict that rejects.
        Outcome::Admitted => (0, 0),
    };
    let by = checks.get(ask).map(|check| (check.limit, check.ask.key));
    rate_limited(verdict, rate, by.unwrap_or((0, KeyHash::from_bits(0))))
}

/// Returns whether the limit at `limit`, and no other, rejects.
pub(super) fn only_rejection(verdict: &Verdict, checks: &LimitChecks<'_>, limit: u8) -> bool {
    let mut rejecting = rejecting(checks, verdict);
    rejecting
        .next()
        .is_some_and(|(check, _)| check.limit == limit)
        && rejecting.next().is_none()
}

/// Returns the queues in which limits hold an admitted request back.
fn queues(checks: &LimitChecks<'_>, verdict: &Verdict) -> Vec<QueuePlace> {
    if verdict.delay().is_zero() {
        return Vec::new();
    }
    let decided = checks.iter().zip(verdict.decisions());
    decided
        .filter(|(_, decision)| !decision.delay().is_zero())
        .map(|(check, decision)| QueuePlace {
            limit: Arc::clone(&check.active.name),
            key: check.ask.key,
            delay: decision.delay(),
            spacing: check
                .is_local()
                .then(|| spacing(decision, check.ask.cost))
                .flatten(),
        })
        .collect()
}

/// Returns how long one request of this cost keeps the next one of its queue waiting: the time in which its cost drains, by the slowest
/// rate.
fn spacing(decision: &Decision, cost: Cost) -> Option<Duration> {
    let drains = |rate: Rate| {
        Duration::from_secs(rate.period().as_secs().into()) * cost.get() / rate.count()
    };
    decision
        .statuses()
        .iter()
        .map(|status| drains(status.rate))
        .max()
}

/// Returns the report of a request for which no limit was asked; the notes have the reason.
#[cold]
fn nothing_asked(notes: Vec<LimitNote>, named: Vec<(u8, Name)>) -> AdmissionReport {
    let details = ReportDetails {
        notes,
        named,
        ..ReportDetails::default()
    };
    let verdict = sluicegate_limiter::peek(&[], Timestamp::default());
    AdmissionReport::with_details(verdict, details)
}
