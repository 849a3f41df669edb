//! Judges together the limits over which this node decides at once: those that count here alone, and those whose counts it exchanges with
//! other nodes. All are charged or none; nobody waits.
//!
//! They are two questions to the limiter, since the second kind is judged by the store's time. Both are looked at before either is charged,
//! so a refusal takes nothing; where another request comes between look and charge, what was charged goes back.

use arrayvec::ArrayVec;
use sluicegate_limiter::{
    Ask, Decision, MAX_ASKS, Outcome, Reservation, Settle, Timestamp, Verdict, peek, reserve,
};

use super::limit_check::LimitCheck;
use super::pending::{Pending, Voice};
use super::report::{LimitEvent, LimitNote};
use super::transaction::{LimitChecks, Taken};
use crate::rejection::LimitRejection;
use crate::store::{
    BackendDecisions, ReplicatedCharge, ReplicatedCheck, ReplicatedRuling, reserve_synced,
};

/// What limits said that this node decides.
pub(super) struct Here {
    /// One a seat, in their order.
    pub(super) decisions: ArrayVec<Decision, MAX_ASKS>,
    /// What was charged; `None` where some limit refuses.
    pub(super) taken: Option<TakenHere>,
    /// Who decided, where it was not as usual.
    pub(super) notes: Vec<LimitNote>,
}

/// What a request took from limits that this node decides.
pub(super) struct TakenHere {
    /// From those that count here alone, in their order.
    pub(super) local: Reservation,
    /// From those whose counts are exchanged, in their order.
    pub(super) synced: ReplicatedCharge,
}

impl TakenHere {
    /// Gives all of it back.
    pub(super) fn release(self, now: Timestamp) {
        self.local.release(now);
        self.synced.settle_each(now, |_| Settle::Refund);
    }
}

/// Judges `seats`, none of which is decided in a store, and charges all or none.
///
/// # Errors
/// The store is away, and a limit lets nobody pass meanwhile.
pub(super) fn judge(seats: &[LimitCheck<'_>], now: Timestamp) -> Result<Here, LimitRejection> {
    let synced = synced(seats);
    let local = local(seats);
    let looked = peek(&local, now);
    if looked.outcome() != Outcome::Admitted {
        let not_asked = synced.iter().map(|ask| ask.look(now));
        return Ok(Here::refused(seats, &looked, not_asked));
    }
    let (answers, charge) = match reserve_synced(&synced, now) {
        ReplicatedRuling::Admitted(answers, charge) => (answers, charge),
        ReplicatedRuling::Refused(answers) => {
            let notes = notes(seats, &answers);
            let decisions = answers.into_iter().map(|answer| answer.decision);
            let refused = Here::refused(seats, &looked, decisions);
            return Ok(Here { notes, ..refused });
        }
        ReplicatedRuling::Away(ask) => {
            let closed = exchanged(seats).nth(ask).or(seats.first());
            return match closed {
                Some(seat) => Err(seat.facing().without_store()),
                // Whoever faces no limit is refused by none.
                None => Ok(Here::refused(seats, &looked, std::iter::empty())),
            };
        }
    };
    let (verdict, reservation) = reserve(&local, now);
    let Some(local) = reservation else {
        charge.settle_each(now, |_| Settle::Refund);
        let not_asked = synced.iter().map(|ask| ask.look(now));
        return Ok(Here::refused(seats, &verdict, not_asked));
    };
    let notes = notes(seats, &answers);
    let decisions = answers.into_iter().map(|answer| answer.decision);
    Ok(Here {
        decisions: woven(seats, &verdict, decisions),
        taken: Some(TakenHere {
            local,
            synced: charge,
        }),
        notes,
    })
}

/// What `seats` would say.
pub(super) fn look(seats: &[LimitCheck<'_>], now: Timestamp) -> ArrayVec<Decision, MAX_ASKS> {
    let verdict = peek(&local(seats), now);
    let decisions = synced(seats).into_iter().map(|ask| ask.look(now));
    woven(seats, &verdict, decisions)
}

/// Charges a limit in shadow by itself; what settles the charges of the request settles this one. What it said, nothing where it would
/// have let nobody pass, and who decided.
pub(super) fn charge_in_shadow(
    seat: &LimitCheck<'_>,
    pending: &mut Pending,
    now: Timestamp,
) -> (Option<Verdict>, Vec<LimitNote>) {
    let seats = LimitChecks::from_iter([*seat]);
    let Ok(here) = judge(&seats, now) else {
        return (None, Vec::new());
    };
    if let Some(taken) = here.taken {
        Taken::from(taken).owe(&seats, pending, Voice::Heard);
    }
    (Some(Verdict::of(here.decisions)), here.notes)
}

impl Here {
    fn refused(
        seats: &[LimitCheck<'_>],
        local: &Verdict,
        synced: impl Iterator<Item = Decision>,
    ) -> Self {
        Self {
            decisions: woven(seats, local, synced),
            taken: None,
            notes: Vec::new(),
        }
    }
}

fn local<'a>(seats: &[LimitCheck<'a>]) -> ArrayVec<Ask<'a>, MAX_ASKS> {
    let local = seats.iter().filter(|seat| seat.is_local());
    local.map(|seat| seat.ask).collect()
}

fn exchanged<'s, 'a>(seats: &'s [LimitCheck<'a>]) -> impl Iterator<Item = &'s LimitCheck<'a>> {
    seats.iter().filter(|seat| seat.synced().is_some())
}

fn synced<'a>(seats: &[LimitCheck<'a>]) -> ArrayVec<ReplicatedCheck<'a>, MAX_ASKS> {
    seats.iter().filter_map(LimitCheck::synced).collect()
}

/// Who decided over each seat whose counts are exchanged, where that was not this node as usual.
fn notes(seats: &[LimitCheck<'_>], answers: &BackendDecisions) -> Vec<LimitNote> {
    let note = |(seat, answer): (&LimitCheck<'_>, &crate::store::BackendDecision)| {
        Some(seat.found(LimitEvent::Decided(answer.by?)))
    };
    exchanged(seats).zip(answers).filter_map(note).collect()
}

/// The decisions over `seats`, from those of either kind, each in the order of its seats.
fn woven(
    seats: &[LimitCheck<'_>],
    local: &Verdict,
    synced: impl Iterator<Item = Decision>,
) -> ArrayVec<Decision, MAX_ASKS> {
    let (mut local, mut synced) = (local.decisions().iter().cloned(), synced);
    let decisions = seats.iter().filter_map(|seat| match seat.synced() {
        Some(_) => synced.next(),
        None => local.next(),
    });
    decisions.take(MAX_ASKS).collect()
}
