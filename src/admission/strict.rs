//! Judges limits together of which some are decided in a store: no store is asked about a request that is refused without it.
//!
//! First comes what the node remembers of the store's refusals, since that costs nothing; then the limits that count here are charged,
//! and held while the store is asked; a refusal by the store gives them back. So all is charged or nothing (contract C2), and an attack
//! on one key, or on a limit that counts here, does not reach the store.
//!
//! # Concurrency
//! Whoever stops waiting gives back what was charged here. Of the store's part [`store::reserve`] tells.

use arrayvec::ArrayVec;
use sluicegate_limiter::{Ask, Decision, MAX_ASKS, Timestamp, Verdict};

use super::here::{self, TakenHere};
use super::limit::Backend;
use super::limit_check::LimitCheck;
use super::pending::{Pending, Voice};
use super::report::{AdmissionReport, LimitEvent, LimitNote, ReportDetails};
use super::route::RouteLimits;
use super::transaction::{LimitChecks, Said, Taken};
use crate::clock;
use crate::rejection::LimitRejection;
use crate::store::{self, BackendDecisions, DecisionSource, KeyName, RemoteCheck, Ruling};

/// What was charged here while the store is asked; dropped, it goes back.
struct Held(Option<TakenHere>);

/// The names in the store of the keys of strict seats, in their order.
type Names = ArrayVec<Option<KeyName>, MAX_ASKS>;

/// Judges `seats`, of which some are decided in a store, and charges all or none.
///
/// # Errors
/// The store is away, and a limit lets nobody pass meanwhile.
pub(super) async fn judge(seats: &LimitChecks<'_>, now: Timestamp) -> Result<Said, LimitRejection> {
    let remembered: Vec<LimitNote> = seats
        .iter()
        .filter(|seat| seat.is_refused_by_view(now))
        .map(|seat| seat.found(LimitEvent::Decided(DecisionSource::Cached)))
        .collect();
    if !remembered.is_empty() {
        let verdict = Verdict::of(seats.iter().map(|seat| seat.peek(now)));
        return Ok(Said::refused(verdict, remembered));
    }
    let others: LimitChecks<'_> = seats
        .iter()
        .filter(|seat| !seat.is_strict())
        .copied()
        .collect();
    let here = here::judge(&others, now)?;
    let Some(mut taken) = here.taken else {
        let not_asked = strict(seats).map(|seat| seat.peek(now));
        return Ok(Said::refused(
            woven(seats, here.decisions, not_asked),
            here.notes,
        ));
    };
    // It may go back, and others are not told of it before it is known.
    taken.synced.open();
    let held = Held(Some(taken));
    let names = names(seats);
    let (answers, abroad) = match store::reserve(&asks(seats, &names), now).await {
        Ruling::Admitted(answers, charge) => (answers, Some(charge)),
        Ruling::Refused(answers) => (answers, None),
        Ruling::Away(ask) => {
            let closed = strict(seats).nth(ask).or(seats.first());
            return match closed {
                Some(seat) => Err(seat.facing().without_store()),
                // Whoever faces no limit asks no store.
                None => Ok(Said::refused(Verdict::of(here.decisions), Vec::new())),
            };
        }
    };
    let mut notes = notes(seats, &answers);
    notes.extend(here.notes);
    let decisions = answers.into_iter().map(|answer| answer.decision);
    let Some(abroad) = abroad else {
        drop(held);
        let looked = here::look(&others, now);
        return Ok(Said::refused(woven(seats, looked, decisions), notes));
    };
    Ok(Said {
        verdict: woven(seats, here.decisions, decisions),
        taken: held.stand().map(|here| Taken {
            abroad: Some(abroad),
            ..Taken::from(here)
        }),
        notes,
    })
}

/// Charges a limit in shadow by itself; what settles the charges of the request settles this one. What it said, nothing where it would
/// have let nobody pass, and who decided.
pub(super) async fn charge_in_shadow(
    seat: &LimitCheck<'_>,
    pending: &mut Pending,
    now: Timestamp,
) -> (Option<Verdict>, Vec<LimitNote>) {
    let seats = LimitChecks::from_iter([*seat]);
    let Ok(said) = judge(&seats, now).await else {
        return (None, Vec::new());
    };
    if let Some(taken) = said.taken {
        taken.owe(&seats, pending, Voice::Heard);
    }
    (Some(said.verdict), said.notes)
}

/// What [`judge`] would say of all `limits` of a route, which `asks` are about, if that is a refusal for which no store need be asked.
pub(super) fn foresee(
    limits: &RouteLimits,
    asks: &[Ask<'_>],
    now: Timestamp,
) -> Option<AdmissionReport> {
    let mut notes = Vec::new();
    let mut is_refused = false;
    let decisions: ArrayVec<Decision, MAX_ASKS> = (0..)
        .zip(limits.iter())
        .zip(asks)
        .map(|((limit, active), ask)| {
            if let Backend::Replicated(synced) = &active.backend
                && let Some(answer) = synced.foresee(ask, now)
            {
                is_refused |= answer.decision.is_refused();
                let event = answer.by.map(LimitEvent::Decided);
                notes.extend(event.map(|event| LimitNote { limit, event }));
                return answer.decision;
            }
            let decision = ask.limit.peek(ask.key, ask.cost, active.moment(now));
            match &active.backend {
                Backend::Local => is_refused |= decision.is_refused(),
                Backend::Remote(shared) if shared.is_cached_rejection(ask.key, &decision, now) => {
                    let event = LimitEvent::Decided(DecisionSource::Cached);
                    notes.push(LimitNote { limit, event });
                    is_refused = true;
                }
                // Somebody else has to be asked.
                Backend::Remote(_) | Backend::Replicated(_) => {}
            }
            decision
        })
        .collect();
    if !is_refused {
        return None;
    }
    let beside = ReportDetails {
        asked: (0..).take(decisions.len()).collect(),
        notes,
        ..ReportDetails::default()
    };
    Some(AdmissionReport {
        verdict: Verdict::of(decisions),
        beside: Some(Box::new(beside)),
    })
}

impl Held {
    fn stand(mut self) -> Option<TakenHere> {
        self.0.take()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(taken) = self.0.take() {
            taken.release(clock::now());
        }
    }
}

impl LimitCheck<'_> {
    /// Whether the store has refused the key, and nothing but time can have changed that.
    fn is_refused_by_view(&self, now: Timestamp) -> bool {
        let Some(shared) = self.shared() else {
            return false;
        };
        shared.skip_remote_call(self.ask.key, &self.peek(now), now)
    }
}

/// The seats that are decided in a store.
fn strict<'s, 'a>(seats: &'s [LimitCheck<'a>]) -> impl Iterator<Item = &'s LimitCheck<'a>> {
    seats.iter().filter(|seat| seat.is_strict())
}

fn names(seats: &[LimitCheck<'_>]) -> Names {
    let name = |seat: &LimitCheck<'_>| Some(seat.shared()?.name(seat.abroad?));
    strict(seats).map(name).collect()
}

/// What strict seats ask, in their order.
fn asks<'s>(seats: &'s [LimitCheck<'_>], names: &'s Names) -> ArrayVec<RemoteCheck<'s>, MAX_ASKS> {
    let ask = |(seat, name): (&'s LimitCheck<'_>, &'s Option<KeyName>)| {
        Some(RemoteCheck {
            shared: seat.shared()?,
            view: seat.ask.limit,
            key: seat.ask.key,
            name: name.as_ref(),
            cost: seat.ask.cost,
            payer: seat.ask.payer,
        })
    };
    strict(seats).zip(names).filter_map(ask).collect()
}

/// Who decided over each strict seat that was asked.
fn notes(seats: &[LimitCheck<'_>], answers: &BackendDecisions) -> Vec<LimitNote> {
    let note = |(seat, answer): (&LimitCheck<'_>, &store::BackendDecision)| {
        Some(seat.found(LimitEvent::Decided(answer.by?)))
    };
    strict(seats).zip(answers).filter_map(note).collect()
}

/// The verdict over `seats`, of decisions `here` and of those in the store, each in the order of its seats.
fn woven(
    seats: &[LimitCheck<'_>],
    here: impl IntoIterator<Item = Decision>,
    abroad: impl Iterator<Item = Decision>,
) -> Verdict {
    let (mut here, mut abroad) = (here.into_iter(), abroad);
    Verdict::of(seats.iter().filter_map(|seat| match seat.is_strict() {
        true => abroad.next(),
        false => here.next(),
    }))
}

#[cfg(test)]
mod tests {
    use sluicegate_limiter::{Capacity, Cost, KeyHash, Limit, Period, Rate, Rates};

    use super::*;
    use crate::store::ReplicatedCharge;

    /// Goal: whoever leaves while the store is asked gives back what was charged here; whoever passes does not. Method: hold a charge and
    /// drop it, hold one and let it stand.
    #[test]
    fn what_is_held_goes_back_unless_it_stands() {
        let rate = Rate::new(5, Period::from_secs(3_600).unwrap()).unwrap();
        let limit = Limit::new(Rates::new([rate]).unwrap(), Capacity::new(10).unwrap());
        let (key, cost, now) = (KeyHash::from_bits(7), Cost::ONE, clock::now());
        let hold = || {
            let limit = &limit;
            let (_, reservation) = sluicegate_limiter::reserve(
                &[Ask {
                    limit,
                    key,
                    cost,
                    payer: None,
                }],
                now,
            );
            let synced = ReplicatedCharge::default();
            Held(reservation.map(|local| TakenHere { local, synced }))
        };
        let left = || limit.peek(key, cost, now).statuses()[0].remaining;
        let held = hold();
        assert_eq!(left(), 4);
        drop(held);
        assert_eq!(left(), 5);
        drop(hold().stand());
        assert_eq!(left(), 4);
    }
}
