//! Judges the limits of a request that may refuse it: all are charged, or none is.
//!
//! Where all of them count here, that is one question to the limiter, and nobody waits. Where the counts of some are exchanged,
//! [`here`](super::here) asks both kinds; where some are decided in a store, [`strict`](super::strict) asks all three.
//!
//! # Limits
//! A look at a limit that marks comes before the charge. When another request takes the last room in between, the limits are judged
//! again without it; each round exceeds one more mark, so there are at most as many rounds as limits, and one.

use arrayvec::ArrayVec;
use sluicegate_limiter::{Ask, KeyPlacement, MAX_ASKS, Permit, Reservation, Timestamp, Verdict};

use super::here::{self, Here, TakenHere};
use super::limit_check::LimitCheck;
use super::pending::{Pending, Voice};
use super::precheck;
use super::report::{LimitEvent, LimitNote, Mark};
use super::strict;
use crate::rejection::LimitRejection;
use crate::store::{DecisionSource, RemoteCharge, ReplicatedCharge};

/// Limits that a request faces.
pub(super) type LimitChecks<'a> = ArrayVec<LimitCheck<'a>, MAX_ASKS>;
/// The limits that are exceeded and mark.
pub(super) type Marks = ArrayVec<Mark, MAX_ASKS>;

/// The limits that may refuse, and what they said together.
pub(super) struct Together<'a> {
    /// Those that were asked.
    pub(super) seats: LimitChecks<'a>,
    pub(super) said: Said,
    /// None where nothing is taken.
    pub(super) permits: Vec<Permit>,
}

/// What limits said together.
pub(super) struct Said {
    pub(super) verdict: Verdict,
    /// What was charged; `None` where some limit refuses.
    pub(super) taken: Option<Taken>,
    /// Who decided, of limits that are not decided here.
    pub(super) notes: Vec<LimitNote>,
}

/// What a request took from its limits.
pub(super) struct Taken {
    /// From those that count here, in their order.
    pub(super) here: Reservation,
    /// From those whose counts are exchanged, in their order.
    pub(super) synced: ReplicatedCharge,
    /// From those that are decided in a store, in their order.
    pub(super) abroad: Option<RemoteCharge>,
}

impl<'a> Together<'a> {
    /// Charges those of `real` that have room or may refuse, and what stands in for the others, all or none, unless something bars
    /// the request. The others are told as marks.
    pub(super) async fn charge(
        real: &LimitChecks<'a>,
        second: impl Fn(&Mark) -> Option<LimitCheck<'a>>,
        now: Timestamp,
    ) -> Result<(Self, Marks), LimitRejection> {
        let mut marks = Marks::new();
        for seat in real.iter().filter(|seat| seat.marks().is_some()) {
            if let Some(refusal) = seat.known_refusal(now) {
                marks.extend(seat.mark(&refusal));
            }
        }
        loop {
            let together = Self::judge(real, &marks, &second, now).await?;
            let late = together.late_marks();
            if late.is_empty() {
                return Ok((together, marks));
            }
            marks.extend(late);
        }
    }

    /// Judges `real` without those that are exceeded, and with what stands in for them.
    async fn judge(
        real: &LimitChecks<'a>,
        exceeded: &Marks,
        second: impl Fn(&Mark) -> Option<LimitCheck<'a>>,
        now: Timestamp,
    ) -> Result<Self, LimitRejection> {
        let is_exceeded =
            |seat: &&LimitCheck<'_>| exceeded.iter().any(|mark| mark.limit == seat.limit);
        let mut seats: LimitChecks<'a> = real
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
        if let Some(barred) = precheck::ban(seats.iter().map(LimitCheck::facing), now) {
            return Err(barred);
        }
        let mut permits = precheck::permits(seats.iter().map(LimitCheck::facing))?;
        let said = if seats.iter().any(LimitCheck::is_strict) {
            // Boxed: whoever is decided here should not carry the room that a question to a store needs.
            Box::pin(strict::judge(&seats, now)).await?
        } else {
            Said::here(&seats, now)?
        };
        if said.taken.is_none() {
            permits.clear();
        }
        Ok(Self {
            seats,
            said,
            permits,
        })
    }

    /// Bans the keys that exceeded a limit, if they are refused for it; the ban that holds longest.
    pub(super) fn strike(&self, now: Timestamp) -> Option<LimitRejection> {
        if self.said.taken.is_some() {
            return None;
        }
        let wait = self.said.verdict.retry_after().unwrap_or_default();
        let judged = self.seats.iter().zip(self.said.verdict.decisions());
        let refusing = judged.filter(|(seat, decision)| {
            // Whoever exceeds a share of the limit, or meets what other keys used, may be far from the limit itself.
            decision.is_refused()
                && decision.placement() == KeyPlacement::OwnSlot
                && !self.said.fell_back(seat)
        });
        let strikes = refusing.filter_map(|(seat, _)| seat.facing().strike(wait, now));
        strikes.max_by_key(|barred| barred.wait)
    }

    /// Marks that turn out to be exceeded only now.
    fn late_marks(&self) -> Marks {
        if self.said.taken.is_some() {
            return Marks::new();
        }
        let judged = self.seats.iter().zip(self.said.verdict.decisions());
        judged
            .filter(|(_, decision)| decision.is_refused())
            .filter_map(|(seat, decision)| seat.mark(decision))
            .collect()
    }
}

impl Said {
    /// What limits say over all of which this node decides.
    fn here(seats: &LimitChecks<'_>, now: Timestamp) -> Result<Self, LimitRejection> {
        if seats.iter().all(|seat| seat.is_local()) {
            let asks: ArrayVec<Ask<'_>, MAX_ASKS> = seats.iter().map(|seat| seat.ask).collect();
            let (verdict, reservation) = sluicegate_limiter::reserve(&asks, now);
            let taken = reservation.map(|here| Taken {
                here,
                synced: ReplicatedCharge::default(),
                abroad: None,
            });
            let notes = Vec::new();
            return Ok(Self {
                verdict,
                taken,
                notes,
            });
        }
        let Here {
            decisions,
            taken,
            notes,
        } = here::judge(seats, now)?;
        Ok(Self {
            verdict: Verdict::of(decisions),
            taken: taken.map(Taken::from),
            notes,
        })
    }

    /// That some limit refuses.
    pub(super) fn refused(verdict: Verdict, notes: Vec<LimitNote>) -> Self {
        Self {
            verdict,
            taken: None,
            notes,
        }
    }

    /// Whether the limit was judged without its store.
    fn fell_back(&self, seat: &LimitCheck<'_>) -> bool {
        let fallen = seat.found(LimitEvent::Decided(DecisionSource::Fallback));
        self.notes.contains(&fallen)
    }
}

impl Taken {
    /// Has `pending` owe what `seats` took.
    pub(super) fn owe(self, seats: &[LimitCheck<'_>], pending: &mut Pending, voice: Voice) {
        let asked = |is_one: fn(&LimitCheck<'_>) -> bool| {
            let asked = seats.iter().filter(|seat| is_one(seat));
            asked.map(LimitCheck::owed).collect()
        };
        pending.add(self.here, asked(|seat| seat.is_local()), voice);
        if !self.synced.is_empty() {
            pending.add(self.synced, asked(|seat| seat.synced().is_some()), voice);
        }
        if let Some(abroad) = self.abroad {
            pending.add(abroad, asked(|seat| seat.is_strict()), voice);
        }
    }
}

impl From<TakenHere> for Taken {
    fn from(TakenHere { local, synced }: TakenHere) -> Self {
        Self {
            here: local,
            synced,
            abroad: None,
        }
    }
}
