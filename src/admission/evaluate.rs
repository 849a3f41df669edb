//! Decides over the limits of a route of which some are not plain: each plays its part.
//!
//! Limits that may refuse are judged together, all or none, whatever else there is. A limit that marks belongs to them while it has
//! room; once it is exceeded it stands aside, its request is marked, and the limit that it names takes its place. What is in shadow
//! is judged after them and each by itself, so that it neither refuses nor takes anything from the others: a request that is
//! refused would not have come so far.
//!
//! What bars a request from its limits (`precheck`) comes before each time that they are judged together. A limit in shadow bars nobody:
//! a request that finds no permit there is reported as refused, and none of its refusals begins a ban.
//!
//! A [`Plan`] is made of the request at once, and then decided: only where a limit is decided in a store does that take a wait, and what
//! it waits with borrows nothing of the request.
//!
//! Rates in shadow stand for the rates of their limit. So they also see what these refuse, unless another limit refuses it too.

use std::sync::Arc;
use std::time::Duration;

use arrayvec::ArrayVec;
use sluicegate_limiter::{Cost, Decision, KeyHash, MAX_ASKS, Outcome, Rate, Timestamp, Verdict};

use super::key::{KeySeed, RequestFacts};
use super::limit_check::LimitCheck;
use super::pending::{Admitted, Pending, Voice};
use super::report::{AdmissionReport, LimitEvent, LimitNote, Mark, QueuePlace, ReportDetails};
use super::request_key::request_key;
use super::route::RouteLimits;
use super::transaction::{LimitChecks, Together};
use super::{Admission, rate_limited};
use crate::config::rules::Name;
use crate::rejection::{LimitRejection, MissingKeys, Rejection};

/// The limits of the route, and those that stand in for some of them.
type Faced<'a> = ArrayVec<LimitCheck<'a>, { 2 * MAX_ASKS }>;

/// What a request asks of the limits of its route, before any of them is asked.
pub struct Plan<'a> {
    limits: &'a RouteLimits,
    /// By index on the route; `None` for those that it does not face.
    all: ArrayVec<Option<LimitCheck<'a>>, { 2 * MAX_ASKS }>,
    notes: Vec<LimitNote>,
    /// The tiers that the request names, by index on the route.
    named: Vec<(u8, Name)>,
}

impl<'a> Plan<'a> {
    /// What `facts` make of each of `limits`; what is said without asking any, where that is all.
    pub(super) fn of(
        limits: &'a RouteLimits,
        facts: &RequestFacts<'_>,
        seed: &KeySeed,
        gaps: &mut MissingKeys,
    ) -> Result<Self, Box<Admission>> {
        // The limits that stand in for others are looked at too: whether one of them is asked is known later.
        let mut notes = Vec::new();
        let mut named = Vec::new();
        let all = (0..)
            .zip(limits.iter())
            .map(|(limit, active)| {
                let keyed = request_key(usize::from(limit), active, facts, seed, gaps)?;
                let abroad = active.remote_key(facts, keyed.by);
                active.catch_up_with(keyed.key, abroad, facts.now);
                let seat = LimitCheck {
                    limit,
                    active,
                    ask: active.ask(&keyed, facts),
                    tier: None,
                    abroad,
                };
                let found = seat.tier(facts);
                named.extend(found.and_then(|found| Some((limit, found.name?.clone()))));
                seat.in_tier(found).map_err(|note| notes.push(note)).ok()
            })
            .collect();
        if gaps.refusing().is_some() {
            return Err(Box::new(Admission::Rejected(Rejection::KeyMissing, None)));
        }
        if notes.iter().any(|note| note.event == LimitEvent::Blocked) {
            let report = nothing_asked(notes, named);
            let rejection = Rejection::KeyBlocked;
            return Err(Box::new(Admission::Rejected(rejection, Some(report))));
        }
        Ok(Self {
            limits,
            all,
            notes,
            named,
        })
    }

    /// Decides over the limits and charges them, all or none. It waits for nothing unless some limit is decided in a store; whoever
    /// stops waiting gives back what was taken by then.
    pub async fn decide(self, now: Timestamp) -> Admission {
        let Self {
            limits,
            all,
            notes,
            named,
        } = self;
        let seat = |limit: u8| *all.get(usize::from(limit))?;
        let written: LimitChecks<'_> = limits.written().filter_map(seat).collect();
        let real: LimitChecks<'_> = written
            .iter()
            .copied()
            .filter(|seat| !seat.is_in_shadow())
            .collect();

        let second = |mark: &Mark| seat(limits.second(mark.limit)?);
        let (together, marks) = match Together::charge(&real, second, now).await {
            Ok(charged) => charged,
            Err(rejection) => return Admission::Rejected(Rejection::ByLimit(rejection), None),
        };

        // Limits that stand in for others may be in shadow too, and have rates in shadow.
        let mut faced: Faced<'_> = written.iter().copied().collect();
        for seat in marks.iter().filter_map(second) {
            if faced.iter().all(|other| other.limit != seat.limit) {
                // Each limit of the route names at most one.
                let _ = faced.try_push(seat);
            }
        }
        let ban = together.strike(now);
        let Together {
            seats,
            said,
            mut permits,
        } = together;
        let beside = Box::new(ReportDetails {
            asked: seats.iter().map(|seat| seat.limit).collect(),
            tiers: seats.iter().map(|seat| seat.tier).collect(),
            named,
            notes,
            queues: queues(&seats, &said.verdict),
            marks: Vec::new(),
        });
        let mut judged = AdmissionReport {
            verdict: said.verdict,
            beside: Some(beside),
        };
        judged.note(said.notes);
        let Some(taken) = said.taken else {
            for seat in &faced {
                if only_refusal(&judged.verdict, &seats, seat.limit) {
                    judged.note(seat.try_shadow_rates(now));
                }
            }
            let rejection = ban.unwrap_or_else(|| refusal(&seats, &judged.verdict));
            return Admission::Rejected(Rejection::ByLimit(rejection), Some(judged));
        };
        let delay = judged.verdict.delay();
        let mut pending = if limits.ask_store() {
            Pending::undecided()
        } else {
            Pending::before(delay)
        };
        taken.owe(&seats, &mut pending, Voice::Heard);
        judged.mark(marks);
        for seat in &faced {
            let in_shadow = seat.charge_in_shadow(&mut pending, &mut permits, now).await;
            judged.note(in_shadow);
            judged.note(seat.charge_shadow_rates(&mut pending, now));
        }
        pending.decided(delay);
        Admission::Admitted(Admitted::owing(pending, permits), Some(judged))
    }
}

/// Returns the rejection by the limit that refuses in `verdict`.
fn refusal(seats: &LimitChecks<'_>, verdict: &Verdict) -> LimitRejection {
    let (ask, rate) = match verdict.outcome() {
        Outcome::Refused { ask, rate } => (ask, rate),
        // Callers have a verdict that refuses.
        Outcome::Admitted => (0, 0),
    };
    let by = seats.get(ask).map(|seat| (seat.limit, seat.ask.key));
    rate_limited(verdict, rate, by.unwrap_or((0, KeyHash::from_bits(0))))
}

/// Whether the limit at `limit`, and no other, refuses.
fn only_refusal(verdict: &Verdict, seats: &LimitChecks<'_>, limit: u8) -> bool {
    let judged = seats.iter().zip(verdict.decisions());
    let mut refusing = judged.filter(|(_, decision)| decision.is_refused());
    refusing.next().is_some_and(|(seat, _)| seat.limit == limit) && refusing.next().is_none()
}

/// The queues in which limits hold an admitted request back.
fn queues(seats: &LimitChecks<'_>, verdict: &Verdict) -> Vec<QueuePlace> {
    if verdict.delay().is_zero() {
        return Vec::new();
    }
    let judged = seats.iter().zip(verdict.decisions());
    judged
        .filter(|(_, decision)| !decision.delay().is_zero())
        .map(|(seat, decision)| QueuePlace {
            limit: Arc::clone(&seat.active.name),
            key: seat.ask.key,
            delay: decision.delay(),
            spacing: seat
                .is_local()
                .then(|| spacing(decision, seat.ask.cost))
                .flatten(),
        })
        .collect()
}

/// How long one request of this cost keeps the next one of its queue waiting: as long as its cost drains, by the slowest rate.
fn spacing(decision: &Decision, cost: Cost) -> Option<Duration> {
    let drains = |rate: Rate| {
        Duration::from_secs(rate.period().as_secs().into()) * cost.get() / rate.count()
    };
    decision
        .statuses()
        .iter()
        .map(|standing| drains(standing.rate))
        .max()
}

/// Nothing was asked, and the notes say why.
#[cold]
fn nothing_asked(notes: Vec<LimitNote>, named: Vec<(u8, Name)>) -> AdmissionReport {
    let beside = ReportDetails {
        notes,
        named,
        ..ReportDetails::default()
    };
    AdmissionReport {
        verdict: sluicegate_limiter::peek(&[], Timestamp::default()),
        beside: Some(Box::new(beside)),
    }
}
