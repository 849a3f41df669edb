//! Decides over the limits of a route of which some are not plain: each plays its part.
//!
//! Limits that may refuse are judged together, all or none, whatever else there is. A limit that marks belongs to them while it has
//! room; once it is exceeded it stands aside, its request is marked, and the limit that it names takes its place. What is in shadow
//! is judged after them and each by itself, so that it neither refuses nor takes anything from the others: a request that is
//! refused would not have come so far.
//!
//! Rates in shadow stand for the rates of their limit. So they also see what these refuse, unless another limit refuses it too.
//!
//! # Limits
//! A look at a limit that marks comes before the charge. When another request takes the last room in between, the limits are judged
//! again without it; each round exceeds one more mark, so there are at most as many rounds as limits, and one.

use std::sync::Arc;

use arrayvec::ArrayVec;
use sluicegate_limiter::{Ask, Judgement, MAX_ASKS, Outcome, Reservation, Timestamp, Verdict};

use super::judged::{Beside, Finding, Judged, Mark};
use super::key::{KeySeed, RequestFacts};
use super::limit::ActiveLimit;
use super::pending::{Admitted, Pending, Voice};
use super::route::RouteLimits;
use super::{Admission, Refused, ask};
use crate::config::Action;

/// One limit, and what the request asks of it.
#[derive(Clone, Copy)]
struct Seat<'a> {
    /// Its index on the route.
    limit: u8,
    active: &'a Arc<ActiveLimit>,
    ask: Ask<'a>,
}

type Seats<'a> = ArrayVec<Seat<'a>, MAX_ASKS>;

/// The limits that may refuse, and what they said together.
struct Together<'a> {
    seats: Seats<'a>,
    verdict: Verdict,
    reservation: Option<Reservation>,
}

/// Decides over `limits` and charges them, all or none.
pub(super) fn admit(
    limits: &RouteLimits,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    now: Timestamp,
) -> Admission {
    let seat = |limit: u8| {
        let active = limits.get(usize::from(limit))?;
        let ask = ask(active, facts, seed);
        Some(Seat { limit, active, ask })
    };
    let written: Seats<'_> = limits.written().filter_map(seat).collect();
    let (shadowed, real): (Seats<'_>, Seats<'_>) =
        written.iter().copied().partition(Seat::is_in_shadow);

    let mut marks = ArrayVec::<Mark, MAX_ASKS>::new();
    for seat in real.iter().filter(|seat| seat.marks().is_some()) {
        let decision = seat.active.limit.peek(seat.ask.key, seat.ask.cost, now);
        if decision.outcome() != Judgement::Admitted {
            marks.extend(seat.mark(&decision));
        }
    }
    let together = loop {
        let second = |mark: &Mark| seat(limits.second(mark.limit)?);
        let together = Together::judge(&real, &marks, second, now);
        let late = together.late_marks();
        if late.is_empty() {
            break together;
        }
        marks.extend(late);
    };

    let mut beside = Beside {
        asked: together.seats.iter().map(|seat| seat.limit).collect(),
        notes: Vec::new(),
        marks: Vec::new(),
    };
    let Some(reservation) = together.reservation else {
        for seat in &written {
            if only_refusal(&together.verdict, &together.seats, seat.limit) {
                seat.try_shadow_rates(&mut beside, now);
            }
        }
        return Admission::Refused(Refused::ByLimit(Judged {
            verdict: together.verdict,
            beside: Some(Box::new(beside)),
        }));
    };
    let delay = together.verdict.delay();
    let mut pending = Pending::before(delay);
    let asked = together.seats.iter().map(Seat::owed).collect();
    pending.add(reservation, asked, Voice::Heard);
    for mark in marks {
        beside.note(mark.limit, Finding::Marked);
        beside.marks.push(mark);
    }
    for seat in &shadowed {
        let outcome = seat.charge_beside(seat.ask, &mut pending, Voice::Heard, now);
        beside.note(
            seat.limit,
            match outcome {
                Outcome::Admitted => Finding::ShadowAdmitted,
                Outcome::Refused { .. } => Finding::ShadowRefused,
            },
        );
    }
    for seat in &written {
        seat.charge_shadow_rates(&mut beside, &mut pending, now);
    }
    let judged = Judged {
        verdict: together.verdict,
        beside: Some(Box::new(beside)),
    };
    Admission::Admitted(Admitted::owing(pending), Some(judged))
}

impl<'a> Together<'a> {
    /// Judges `real` without those that are exceeded, and with what stands in for them.
    fn judge(
        real: &Seats<'a>,
        exceeded: &[Mark],
        second: impl Fn(&Mark) -> Option<Seat<'a>>,
        now: Timestamp,
    ) -> Self {
        let is_exceeded = |seat: &&Seat<'_>| exceeded.iter().any(|mark| mark.limit == seat.limit);
        let mut seats: Seats<'a> = real
            .iter()
            .filter(|seat| !is_exceeded(seat))
            .copied()
            .collect();
        for seat in exceeded.iter().filter_map(second) {
            // Two limits may name the same second one, which is asked once.
            if seats.iter().all(|other| other.limit != seat.limit) {
                // Each stands in for one that was left out, so there is room.
                let _ = seats.try_push(seat);
            }
        }
        let asks: ArrayVec<Ask<'_>, MAX_ASKS> = seats.iter().map(|seat| seat.ask).collect();
        let (verdict, reservation) = sluicegate_limiter::reserve(&asks, now);
        Self {
            seats,
            verdict,
            reservation,
        }
    }

    /// Marks that turn out to be exceeded only now.
    fn late_marks(&self) -> ArrayVec<Mark, MAX_ASKS> {
        if self.reservation.is_some() {
            return ArrayVec::new();
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

impl<'a> Seat<'a> {
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
            value: self.active.items.standing(decision),
        })
    }

    fn owed(&self) -> (u8, Arc<ActiveLimit>) {
        (self.limit, Arc::clone(self.active))
    }

    /// What the request asks of the rates in shadow.
    fn shadow_rates(&self) -> Option<Ask<'a>> {
        let limit = self.active.shadow_rates.as_ref()?;
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

    fn charge_shadow_rates(&self, beside: &mut Beside, pending: &mut Pending, now: Timestamp) {
        if let Some(ask) = self.shadow_rates() {
            let outcome = self.charge_beside(ask, pending, Voice::Silent, now);
            beside.note(self.limit, by_rates(outcome));
        }
    }

    /// As [`charge_shadow_rates`](Self::charge_shadow_rates), for a request that the limit itself refuses. What would be settled by
    /// the answer is not charged, since there will be none.
    fn try_shadow_rates(&self, beside: &mut Beside, now: Timestamp) {
        if let Some(ask) = self.shadow_rates() {
            let verdict = match self.active.terms {
                None => sluicegate_limiter::decide(&[ask], now),
                Some(_) => sluicegate_limiter::peek(&[ask], now),
            };
            beside.note(self.limit, by_rates(verdict.outcome()));
        }
    }
}

fn by_rates(outcome: Outcome) -> Finding {
    match outcome {
        Outcome::Admitted => Finding::ShadowRatesAdmitted,
        Outcome::Refused { .. } => Finding::ShadowRatesRefused,
    }
}
