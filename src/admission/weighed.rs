//! Decides over the limits of a route of which some are not plain: each plays its part.
//!
//! Limits that may refuse are judged together, all or none, whatever else there is. A limit that marks belongs to them while it has
//! room; once it is exceeded it stands aside, its request is marked, and the limit that it names takes its place. What is in shadow
//! is judged after them and each by itself, so that it neither refuses nor takes anything from the others: a request that is
//! refused would not have come so far.
//!
//! What bars a request from its limits ([`barrier`]) comes before each time that they are judged together. A limit in shadow bars nobody:
//! a request that finds no permit there is reported as refused, and none of its refusals begins a ban.
//!
//! Rates in shadow stand for the rates of their limit. So they also see what these refuse, unless another limit refuses it too.
//!
//! # Limits
//! A look at a limit that marks comes before the charge. When another request takes the last room in between, the limits are judged
//! again without it; each round exceeds one more mark, so there are at most as many rounds as limits, and one.

use std::sync::Arc;

use arrayvec::ArrayVec;
use sluicegate_limiter::{
    Ask, Judgement, MAX_ASKS, Outcome, Permit, Reservation, Timestamp, Verdict,
};

use super::barrier::{self, Barred, Facing};
use super::gap::Gaps;
use super::judged::{Beside, Finding, Judged, Mark, Note};
use super::key::{KeySeed, RequestFacts};
use super::limit::ActiveLimit;
use super::overrides::{ActiveTier, Found};
use super::pending::{Admitted, Pending, Voice};
use super::route::RouteLimits;
use super::{Admission, Refused, ask};
use crate::config::Action;
use crate::config::rules::{Name, TierIndex};

/// One limit, and what the request asks of it.
#[derive(Clone, Copy)]
struct Seat<'a> {
    /// Its index on the route.
    limit: u8,
    active: &'a Arc<ActiveLimit>,
    ask: Ask<'a>,
    /// The tier that the key is in.
    tier: Option<TierIndex>,
}

type Seats<'a> = ArrayVec<Seat<'a>, MAX_ASKS>;
/// The limits of the route, and those that stand in for some of them.
type Faced<'a> = ArrayVec<Seat<'a>, { 2 * MAX_ASKS }>;
/// The limits that are exceeded and mark.
type Marks = ArrayVec<Mark, MAX_ASKS>;

/// The limits that may refuse, and what they said together.
struct Together<'a> {
    seats: Seats<'a>,
    verdict: Verdict,
    reservation: Option<Reservation>,
    /// None where nothing is reserved.
    permits: Vec<Permit>,
}

/// Decides over `limits` and charges them, all or none.
pub(super) fn admit(
    limits: &RouteLimits,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    now: Timestamp,
    gaps: &mut Gaps,
) -> Admission {
    // The limits that stand in for others are looked at too: whether one of them is asked is known later.
    let mut notes = Vec::new();
    let mut named = Vec::new();
    let all: ArrayVec<Option<Seat<'_>>, { 2 * MAX_ASKS }> = (0..)
        .zip(limits.iter())
        .map(|(limit, active)| {
            let ask = ask(usize::from(limit), active, facts, seed, gaps)?;
            let tier = None;
            let seat = Seat {
                limit,
                active,
                ask,
                tier,
            };
            let found = seat.tier(facts);
            named.extend(found.and_then(|found| Some((limit, found.name?.clone()))));
            seat.in_tier(found).map_err(|note| notes.push(note)).ok()
        })
        .collect();
    if gaps.refusing().is_some() {
        return Admission::Incomplete;
    }
    if notes.iter().any(|note| note.finding == Finding::Blocked) {
        return Admission::Blocked(nothing_asked(notes, named));
    }
    let seat = |limit: u8| *all.get(usize::from(limit))?;
    let written: Seats<'_> = limits.written().filter_map(seat).collect();
    let real: Seats<'_> = written
        .iter()
        .copied()
        .filter(|seat| !seat.is_in_shadow())
        .collect();

    let second = |mark: &Mark| seat(limits.second(mark.limit)?);
    let (together, marks) = match Together::charge(&real, second, now) {
        Ok(charged) => charged,
        Err(barred) => return Admission::Refused(Refused::Barred(barred)),
    };

    // Limits that stand in for others may be in shadow too, and have rates in shadow.
    let mut faced: Faced<'_> = written.iter().copied().collect();
    for seat in marks.iter().filter_map(second) {
        if faced.iter().all(|other| other.limit != seat.limit) {
            // Each limit of the route names at most one.
            let _ = faced.try_push(seat);
        }
    }
    let beside = Box::new(Beside {
        asked: together.seats.iter().map(|seat| seat.limit).collect(),
        tiers: together.seats.iter().map(|seat| seat.tier).collect(),
        named,
        notes,
        marks: Vec::new(),
    });
    let ban = together.strike(now);
    let mut judged = Judged {
        verdict: together.verdict,
        beside: Some(beside),
    };
    let Some(reservation) = together.reservation else {
        for seat in &faced {
            if only_refusal(&judged.verdict, &together.seats, seat.limit) {
                judged.note(seat.try_shadow_rates(now));
            }
        }
        return Admission::Refused(Refused::ByLimit(judged, ban));
    };
    let mut pending = Pending::before(judged.verdict.delay());
    let asked = together.seats.iter().map(Seat::owed).collect();
    pending.add(reservation, asked, Voice::Heard);
    judged.mark(marks);
    let mut permits = together.permits;
    for seat in &faced {
        judged.note(seat.charge_in_shadow(&mut pending, &mut permits, now));
        judged.note(seat.charge_shadow_rates(&mut pending, now));
    }
    Admission::Admitted(Admitted::owing(pending, permits), Some(judged))
}

impl<'a> Together<'a> {
    /// Charges those of `real` that have room or may refuse, and what stands in for the others, all or none, unless something bars
    /// the request. The others are told as marks.
    fn charge(
        real: &Seats<'a>,
        second: impl Fn(&Mark) -> Option<Seat<'a>>,
        now: Timestamp,
    ) -> Result<(Self, Marks), Barred> {
        let mut marks = Marks::new();
        for seat in real.iter().filter(|seat| seat.marks().is_some()) {
            let decision = seat.ask.limit.peek(seat.ask.key, seat.ask.cost, now);
            if decision.outcome() != Judgement::Admitted {
                marks.extend(seat.mark(&decision));
            }
        }
        loop {
            let together = Self::judge(real, &marks, &second, now)?;
            let late = together.late_marks();
            if late.is_empty() {
                return Ok((together, marks));
            }
            marks.extend(late);
        }
    }

    /// Judges `real` without those that are exceeded, and with what stands in for them.
    fn judge(
        real: &Seats<'a>,
        exceeded: &Marks,
        second: impl Fn(&Mark) -> Option<Seat<'a>>,
        now: Timestamp,
    ) -> Result<Self, Barred> {
        let is_exceeded = |seat: &&Seat<'_>| exceeded.iter().any(|mark| mark.limit == seat.limit);
        let mut seats: Seats<'a> = real
            .iter()
            .filter(|seat| !is_exceeded(seat))
            .copied()
            .collect();
        for seat in exceeded.iter().filter_map(second) {
            // Two limits may name the same second one, which is asked once.
            if !seat.is_in_shadow() && seats.iter().all(|other| other.limit != seat.limit) {
                // Each stands in for one that was left out, so there is room.
                let _ = seats.try_push(seat);
            }
        }
        if let Some(barred) = barrier::ban(seats.iter().map(Seat::facing), now) {
            return Err(barred);
        }
        let mut permits = barrier::permits(seats.iter().map(Seat::facing))?;
        let asks: ArrayVec<Ask<'_>, MAX_ASKS> = seats.iter().map(|seat| seat.ask).collect();
        let (verdict, reservation) = sluicegate_limiter::reserve(&asks, now);
        if reservation.is_none() {
            permits.clear();
        }
        Ok(Self {
            seats,
            verdict,
            reservation,
            permits,
        })
    }

    /// Bans the keys that exceeded a limit, if they are refused for it; the ban that holds longest.
    fn strike(&self, now: Timestamp) -> Option<Barred> {
        if self.reservation.is_some() {
            return None;
        }
        let wait = self.verdict.retry_after().unwrap_or_default();
        let judged = self.seats.iter().zip(self.verdict.decisions());
        let refusing = judged.filter(|(_, decision)| decision.outcome() != Judgement::Admitted);
        let strikes = refusing.filter_map(|(seat, _)| seat.facing().strike(wait, now));
        strikes.max_by_key(|barred| barred.wait)
    }

    /// Marks that turn out to be exceeded only now.
    fn late_marks(&self) -> Marks {
        if self.reservation.is_some() {
            return Marks::new();
        }
        let judged = self.seats.iter().zip(self.verdict.decisions());
        judged
            .filter(|(_, decision)| decision.outcome() != Judgement::Admitted)
            .filter_map(|(seat, decision)| seat.mark(decision))
            .collect()
    }
}

/// Whether the limit at `limit`, and no other, refuses.
fn only_refusal(verdict: &Verdict, seats: &Seats<'_>, limit: u8) -> bool {
    let judged = seats.iter().zip(verdict.decisions());
    let mut refusing = judged.filter(|(_, decision)| decision.outcome() != Judgement::Admitted);
    refusing.next().is_some_and(|(seat, _)| seat.limit == limit) && refusing.next().is_none()
}

/// Nothing was asked, and the notes say why.
#[cold]
fn nothing_asked(notes: Vec<Note>, named: Vec<(u8, Name)>) -> Judged {
    let beside = Beside {
        notes,
        named,
        ..Beside::default()
    };
    Judged {
        verdict: sluicegate_limiter::peek(&[], Timestamp::default()),
        beside: Some(Box::new(beside)),
    }
}

impl<'a> Seat<'a> {
    /// The tier that the request is in.
    fn tier(&self, facts: &RequestFacts<'_>) -> Option<Found<'a>> {
        self.active.overrides.as_ref()?.of(self.ask.key, facts)
    }

    /// With the rates of this tier; or why the limit is not asked.
    fn in_tier(self, found: Option<Found<'_>>) -> Result<Self, Note> {
        let Some(Found { index, .. }) = found else {
            return Ok(self);
        };
        let overrides = self.active.overrides.as_ref();
        match overrides.and_then(|overrides| overrides.tier(index)) {
            None => Ok(self),
            Some(ActiveTier::Rates(rates)) => Ok(Self {
                ask: Ask {
                    limit: &rates.0,
                    ..self.ask
                },
                tier: Some(index),
                ..self
            }),
            Some(ActiveTier::Unlimited) => Err(self.found(Finding::Unlimited)),
            Some(ActiveTier::Blocked) if self.is_in_shadow() => {
                Err(self.found(Finding::ShadowRefused))
            }
            Some(ActiveTier::Blocked) => Err(self.found(Finding::Blocked)),
        }
    }

    fn is_in_shadow(&self) -> bool {
        self.active.action == Action::Shadow || !self.active.enforce.takes(self.ask.key)
    }

    /// The field with which the limit marks what it has no room for.
    fn marks(&self) -> Option<&'a http::HeaderName> {
        match &self.active.action {
            Action::Mark { field, .. } => Some(field),
            _ => None,
        }
    }

    /// The mark of a limit that is exceeded, if it marks.
    fn mark(&self, decision: &sluicegate_limiter::Decision) -> Option<Mark> {
        Some(Mark {
            limit: self.limit,
            field: self.marks()?.clone(),
            value: self.active.items_for(self.tier).standing(decision),
        })
    }

    fn facing(&self) -> Facing<'a> {
        Facing {
            limit: self.limit,
            active: self.active,
            ask: self.ask,
        }
    }

    fn owed(&self) -> (u8, Arc<ActiveLimit>) {
        (self.limit, Arc::clone(self.active))
    }

    /// What the request asks of the rates in shadow.
    fn shadow_rates(&self) -> Option<Ask<'a>> {
        // They stand for the limit's own rates.
        let own = self.active.shadow_rates.as_ref();
        let limit = own.filter(|_| self.tier.is_none())?;
        Some(Ask { limit, ..self.ask })
    }

    /// Charges `ask` by itself; what settles the charges of the request settles this one.
    fn charge_beside(
        &self,
        ask: Ask<'_>,
        pending: &mut Pending,
        voice: Voice,
        now: Timestamp,
    ) -> Outcome {
        if self.active.terms.is_none() && pending.is_under_way() {
            return sluicegate_limiter::decide(&[ask], now).outcome();
        }
        let (verdict, reservation) = sluicegate_limiter::reserve(&[ask], now);
        if let Some(reservation) = reservation {
            pending.add(reservation, std::iter::once(self.owed()).collect(), voice);
        }
        verdict.outcome()
    }

    /// Charges the limit if it is in shadow, and takes its permit.
    fn charge_in_shadow(
        &self,
        pending: &mut Pending,
        permits: &mut Vec<Permit>,
        now: Timestamp,
    ) -> Option<Note> {
        if !self.is_in_shadow() {
            return None;
        }
        match self.facing().permit() {
            Ok(permit) => permits.extend(permit),
            Err(_) => return Some(self.found(Finding::ShadowRefused)),
        }
        let finding = match self.charge_beside(self.ask, pending, Voice::Heard, now) {
            Outcome::Admitted => Finding::ShadowAdmitted,
            Outcome::Refused { .. } => Finding::ShadowRefused,
        };
        Some(self.found(finding))
    }

    /// Charges its rates in shadow, if there are any.
    fn charge_shadow_rates(&self, pending: &mut Pending, now: Timestamp) -> Option<Note> {
        let outcome = self.charge_beside(self.shadow_rates()?, pending, Voice::Silent, now);
        Some(self.found(by_rates(outcome)))
    }

    /// As [`charge_shadow_rates`](Self::charge_shadow_rates), for a request that the limit itself refuses. What would be settled by
    /// the answer is not charged, since there will be none.
    fn try_shadow_rates(&self, now: Timestamp) -> Option<Note> {
        let ask = [self.shadow_rates()?];
        let verdict = match self.active.terms {
            None => sluicegate_limiter::decide(&ask, now),
            Some(_) => sluicegate_limiter::peek(&ask, now),
        };
        Some(self.found(by_rates(verdict.outcome())))
    }

    fn found(&self, finding: Finding) -> Note {
        Note {
            limit: self.limit,
            finding,
        }
    }
}

fn by_rates(outcome: Outcome) -> Finding {
    match outcome {
        Outcome::Admitted => Finding::ShadowRatesAdmitted,
        Outcome::Refused { .. } => Finding::ShadowRatesRefused,
    }
}
