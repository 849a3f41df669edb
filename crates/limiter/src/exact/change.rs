//! Changes one log: judged as it was seen, taken only if it is still so.

use crate::cost::Cost;
use crate::rate::{Period, Rates};
use crate::status::KeyPlacement;
use crate::table::tag::Tag;

use super::control::{ControlWord, SpillState};
use super::evaluate::{ComputedAnswer, LogOutcome, LogTime, longest};
use super::inherited_entries::{EntryTimes, InheritedEntries};
use super::log::{Log, LogView, LostRace};
use super::{LogTable, wait};

/// A change to a log.
#[derive(Clone, Copy)]
pub(super) enum LogChange<'c> {
    /// Take this cost if it fits.
    Charge(Cost),
    /// Take this cost, fit or not.
    ChargeUnchecked(Cost),
    /// Have used this much, now.
    Set(Cost),
    /// Add these entries.
    Absorb(&'c InheritedEntries),
    /// Have these entries and no others; a log that several keys share has at each age the later one.
    Adopt(&'c InheritedEntries),
}

/// The result of a change.
pub(super) enum LogUpdate {
    /// Made.
    Made {
        answer: ComputedAnswer,
        /// The moment under which the change was entered.
        at: u64,
    },
    /// Not made, and nothing written.
    Refused(ComputedAnswer),
}

impl LogChange<'_> {
    /// Returns whether the change can be made to this log.
    pub(super) fn fits(&self, view: &LogView<'_>, rates: &Rates, moment: LogTime) -> bool {
        match self {
            Self::Charge(cost) => view.fits(rates, *cost, moment),
            Self::ChargeUnchecked(_) | Self::Set(_) | Self::Absorb(_) | Self::Adopt(_) => true,
        }
    }

    /// The answer when the change is refused.
    pub(super) fn refusal(
        &self,
        view: &LogView<'_>,
        rates: &Rates,
        moment: LogTime,
    ) -> ComputedAnswer {
        view.answer(rates, LogOutcome::NotCharged(self.cost()), moment)
    }

    /// The answer when the change is made.
    pub(super) fn acceptance(
        &self,
        view: &LogView<'_>,
        rates: &Rates,
        at: u64,
        moment: LogTime,
    ) -> ComputedAnswer {
        let cost = self.cost();
        view.answer(rates, LogOutcome::Charged { cost, at }, moment)
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
    pub(super) fn compose(
        &self,
        view: &LogView<'_>,
        rates: &Rates,
        moment: LogTime,
    ) -> InheritedEntries {
        let size = view.size();
        let at = view.enters_as(moment);
        let log = view.inheritance(longest(rates), moment);
        let units = |cost: Cost| std::iter::repeat_n(at, cost.get().min(size + 1) as usize);
        let old = log.moments.iter().copied();
        match self {
            Self::Charge(cost) | Self::ChargeUnchecked(cost) => {
                InheritedEntries::from_moments(units(*cost).chain(old), log.spill, size)
            }
            Self::Set(used) => InheritedEntries::from_moments(units(*used), SpillState::None, size),
            Self::Absorb(others) => {
                let spill = if log.spill == SpillState::Some {
                    log.spill
                } else {
                    others.spill
                };
                let mut one = old.peekable();
                let mut other = others.moments.iter().copied().peekable();
                let merged = std::iter::from_fn(|| {
                    if other.peek() > one.peek() {
                        other.next()
                    } else {
                        one.next()
                    }
                });
                InheritedEntries::from_moments(merged, spill, size)
            }
            Self::Adopt(told) => {
                let told = told.moments.iter().copied();
                let longer = old.len().max(told.len());
                let latest = |one: Option<u64>, other: Option<u64>| one.max(other);
                let mut old = old;
                let mut told = told;
                let joined = (0..longer).filter_map(|_| latest(old.next(), told.next()));
                InheritedEntries::from_moments(joined, log.spill, size)
            }
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
        change: &LogChange<'_>,
        moment: LogTime,
    ) -> Option<LogUpdate> {
        let placement = match owner {
            Some(_) => KeyPlacement::OwnSlot,
            None => KeyPlacement::Overflow,
        };
        let mut backoff = self.backoff;
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
                    return Some(LogUpdate::Refused(answer));
                }
                continue;
            }
            if seen.is_held() {
                wait(log, seen, &mut backoff);
                continue;
            }
            let at = view.enters_as(moment);
            let answer = change
                .acceptance(&view, rates, at, moment)
                .with_placement(placement);
            if write(log, &view, seen, rates, change, moment).is_ok() {
                return Some(LogUpdate::Made { answer, at });
            }
        }
    }
}

/// Makes a change to a log, if it is still as it was `seen`.
fn write(
    log: Log<'_>,
    view: &LogView<'_>,
    seen: ControlWord,
    rates: &Rates,
    change: &LogChange<'_>,
    moment: LogTime,
) -> Result<(), LostRace> {
    let size = view.size();
    let period = longest(rates);
    let at = view.enters_as(moment);
    match change {
        // What is pushed out is expired, since the cost fits: it has at least `size − cost` later ones.
        LogChange::Charge(cost) => log
            .take(seen, at, size - cost.get())?
            .append(at, cost.get()),
        LogChange::ChargeUnchecked(cost)
            if view.used(period, moment).saturating_add(cost.get()) <= size =>
        {
            log.take(seen, at, size - cost.get())?
                .append(at, cost.get())
        }
        // Not on top of what there was: whoever looks meanwhile finds a log in other hands, and nothing in it.
        LogChange::Adopt(told) if log.tag.is_some() => log.take(seen, told.latest(), 0)?.fill(told),
        LogChange::ChargeUnchecked(_)
        | LogChange::Set(_)
        | LogChange::Absorb(_)
        | LogChange::Adopt(_) => {
            let composed = change.compose(view, rates, moment);
            log.take(seen, composed.latest(), view.len())?
                .rewrite(&composed)
        }
    }
}

impl LogView<'_> {
    /// All that counts in `period`.
    pub(super) fn inheritance(&self, period: Period, moment: LogTime) -> InheritedEntries {
        let moments: EntryTimes = (0..self.used(period, moment))
            .map(|age| self.entry(age))
            .collect();
        // What a spill left out is older than all that the log shows.
        let spill = match self.spill() {
            SpillState::Some if moments.len() as u32 == self.len() => SpillState::Some,
            _ => SpillState::None,
        };
        InheritedEntries { moments, spill }
    }
}
