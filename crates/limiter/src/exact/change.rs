//! Changes one log: judged as it was seen, taken only if it is still so.

use crate::cost::Cost;
use crate::rate::{Period, Rates};
use crate::status::KeyPlacement;
use crate::table::tag::Tag;

use super::control::{Control, Era, Spill};
use super::evaluate::{Answer, Asked, Moment, longest};
use super::log::{Log, Moments, Raced, View};
use super::{LogTable, wait};

/// A change to a log.
#[derive(Clone, Copy)]
pub(super) enum Change<'c> {
    /// Take this cost if it fits.
    Charge(Cost),
    /// Take this cost, fit or not.
    ChargeUnchecked(Cost),
    /// Have used this much, now.
    Set(Cost),
    /// Add these entries.
    Absorb(&'c Inherited),
    /// Have these entries and no others; a log that several keys share has at each age the later one.
    Adopt(&'c Inherited),
}

/// Entries with what is known of those that they leave out.
pub(super) struct Inherited {
    pub(super) moments: Moments,
    pub(super) spill: Spill,
}

/// The result of a change.
pub(super) enum Applied {
    /// Made.
    Made {
        answer: Answer,
        /// The moment under which the change was entered.
        at: u64,
    },
    /// Not made, and nothing written.
    Refused(Answer),
}

impl Change<'_> {
    /// Returns whether the change can be made to this log.
    pub(super) fn fits(&self, view: &View<'_>, rates: &Rates, moment: Moment) -> bool {
        match self {
            Self::Charge(cost) => view.fits(rates, *cost, moment),
            Self::ChargeUnchecked(_) | Self::Set(_) | Self::Absorb(_) | Self::Adopt(_) => true,
        }
    }

    /// The answer when the change is refused.
    pub(super) fn refusal(&self, view: &View<'_>, rates: &Rates, moment: Moment) -> Answer {
        view.answer(rates, Asked::Wanted(self.cost()), moment)
    }

    /// The answer when the change is made.
    pub(super) fn consent(
        &self,
        view: &View<'_>,
        rates: &Rates,
        at: u64,
        moment: Moment,
    ) -> Answer {
        let cost = self.cost();
        view.answer(rates, Asked::Taken { cost, at }, moment)
    }

    /// The cost that an answer is about.
    fn cost(&self) -> Cost {
        match self {
            Self::Charge(cost) | Self::ChargeUnchecked(cost) | Self::Set(cost) => *cost,
            Self::Absorb(_) | Self::Adopt(_) => Cost::ONE,
        }
    }

    /// Composes the log after the change: more than a few entries, so kept out of the frames of calls that never need
    /// it.
    #[cold]
    #[inline(never)]
    pub(super) fn on_top_of(&self, view: &View<'_>, rates: &Rates, moment: Moment) -> Inherited {
        let size = view.size();
        let at = view.enters_as(moment);
        let log = view.inheritance(longest(rates), moment);
        let units = |cost: Cost| std::iter::repeat_n(at, cost.get().min(size + 1) as usize);
        let old = log.moments.iter().copied();
        match self {
            Self::Charge(cost) | Self::ChargeUnchecked(cost) => {
                Inherited::of(units(*cost).chain(old), log.spill, size)
            }
            Self::Set(used) => Inherited::of(units(*used), Spill::None, size),
            Self::Absorb(others) => {
                let spill = if log.spill == Spill::Some {
                    log.spill
                } else {
                    others.spill
                };
                let (mut one, mut other) =
                    (old.peekable(), others.moments.iter().copied().peekable());
                let merged = std::iter::from_fn(|| {
                    if other.peek() > one.peek() {
                        other.next()
                    } else {
                        one.next()
                    }
                });
                Inherited::of(merged, spill, size)
            }
            Self::Adopt(told) => {
                let told = told.moments.iter().copied();
                let longer = old.len().max(told.len());
                let latest = |one: Option<u64>, other: Option<u64>| one.max(other);
                let (mut old, mut told) = (old, told);
                let joined = (0..longer).filter_map(|_| latest(old.next(), told.next()));
                Inherited::of(joined, log.spill, size)
            }
        }
    }
}

impl Inherited {
    /// The latest moment; the epoch, if there is none.
    pub(super) fn latest(&self) -> u64 {
        self.moments.first().copied().unwrap_or(0)
    }

    /// The latest of these moments, the latest first; no more than a log of `size` takes.
    pub(super) fn of(moments: impl Iterator<Item = u64>, spill: Spill, size: u32) -> Self {
        let mut moments = moments.fuse();
        let kept: Moments = moments.by_ref().take(size as usize).collect();
        let era = Era::of(kept.first().copied().unwrap_or(0));
        let left_out = moments.next().is_some();
        Self {
            moments: kept
                .into_iter()
                // Older than any period, counted from the latest.
                .take_while(|moment| *moment >= era.first_told())
                .collect(),
            spill: if left_out { Spill::Some } else { spill },
        }
    }
}

impl LogTable {
    /// Changes a log, unless the change is refused; `None` when a slot's log is not `owner`'s any more.
    pub(super) fn change_log(
        &self,
        log: Log<'_>,
        owner: Option<Tag>,
        rates: &Rates,
        change: &Change<'_>,
        moment: Moment,
    ) -> Option<Applied> {
        let placement = match owner {
            Some(_) => KeyPlacement::OwnSlot,
            None => KeyPlacement::Overflow,
        };
        let mut patience = self.patience;
        // Lock-free but for the wait, which is bounded: another round means that another thread changed this log.
        loop {
            let seen = log.control();
            if !log.belongs_to(owner) {
                return None;
            }
            let view = log.view(seen);
            if !change.fits(&view, rates, moment) {
                let answer = change
                    .refusal(&view, rates, moment)
                    .with_placement(placement);
                // A refusal must be one by the log that it shows.
                if answer.refusing().is_some() && log.is(seen) {
                    return Some(Applied::Refused(answer));
                }
                continue;
            }
            if seen.is_held() {
                wait(log, seen, &mut patience);
                continue;
            }
            let at = view.enters_as(moment);
            let answer = change
                .consent(&view, rates, at, moment)
                .with_placement(placement);
            if write(log, &view, seen, rates, change, moment).is_ok() {
                return Some(Applied::Made { answer, at });
            }
        }
    }
}

/// Makes a change to a log, if it is still as it was `seen`.
fn write(
    log: Log<'_>,
    view: &View<'_>,
    seen: Control,
    rates: &Rates,
    change: &Change<'_>,
    moment: Moment,
) -> Result<(), Raced> {
    let (size, period) = (view.size(), longest(rates));
    let at = view.enters_as(moment);
    match change {
        // What is pushed out is expired, since the cost fits: it has at least `size − cost` later ones.
        Change::Charge(cost) => log
            .take(seen, at, size - cost.get())?
            .append(at, cost.get()),
        Change::ChargeUnchecked(cost)
            if view.used(period, moment).saturating_add(cost.get()) <= size =>
        {
            log.take(seen, at, size - cost.get())?
                .append(at, cost.get())
        }
        // Not on top of what there was: whoever looks meanwhile finds a log in other hands, and nothing in it.
        Change::Adopt(told) if log.tag.is_some() => log.take(seen, told.latest(), 0)?.fill(told),
        Change::ChargeUnchecked(_) | Change::Set(_) | Change::Absorb(_) | Change::Adopt(_) => {
            let composed = change.on_top_of(view, rates, moment);
            log.take(seen, composed.latest(), view.len())?
                .rewrite(&composed)
        }
    }
}

impl View<'_> {
    /// All that counts in `period`.
    pub(super) fn inheritance(&self, period: Period, moment: Moment) -> Inherited {
        let moments: Moments = (0..self.used(period, moment))
            .map(|age| self.entry(age))
            .collect();
        // What a spill left out is older than all that the log shows.
        let spill = match self.spill() {
            Spill::Some if moments.len() as u32 == self.len() => Spill::Some,
            _ => Spill::None,
        };
        Inherited { moments, spill }
    }
}
