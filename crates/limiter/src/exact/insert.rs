//! Seats a key that has no slot: in one that owes nothing, already charged; or counts it with others.

use arrayvec::ArrayVec;

use crate::rate::Rates;
use crate::share::{Account, RESERVED};
use crate::status::KeyPlacement;
use crate::sync::{Ordering, fence};
use crate::table::tag::Tag;

use super::change::{Applied, Change};
use super::control::Control;
use super::evaluate::{Answer, Moment, longest};
use super::layout::{Memory, SLOTS};
use super::log::{Log, Raced, Tenure};
use super::{LogTable, wait};

/// The entries that a key inherits with a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Heritage {
    /// All that the overflow log counts, if it may have been charged there.
    Overflow,
    /// Nothing: everything that the key used is in the change.
    Nothing,
}

/// A slot that owed nothing when its log was `seen`.
struct Vacancy {
    slot: usize,
    seen: Control,
}

/// A key that wants a slot, and what for.
pub(super) struct Newcomer<'c> {
    pub(super) tag: Tag,
    pub(super) homes: [usize; 2],
    pub(super) rates: &'c Rates,
    pub(super) change: &'c Change<'c>,
    pub(super) heritage: Heritage,
    pub(super) moment: Moment,
    /// The account that pays for the slot, or for its part in an overflow log.
    pub(super) account: Option<Account<'c>>,
}

/// The reason why a slot was not claimed; the slot is released, or held by another claim.
enum Failed {
    /// Somebody else took it: another one may do.
    Taken,
    /// The key has a slot elsewhere, or is refused by now: look again.
    Outdated,
}

impl From<Raced> for Failed {
    fn from(_: Raced) -> Self {
        Self::Taken
    }
}

/// Returns whether a bucket with these vacancies has room for the new keys of payers that have taken their share.
fn is_roomy(vacancies: &[Vacancy]) -> bool {
    vacancies.len() > RESERVED
}

impl LogTable {
    /// Predicts the counter of a key that has no slot.
    pub(super) fn prospect(
        &self,
        tag: Tag,
        homes: [usize; 2],
        rates: &Rates,
        moment: Moment,
    ) -> KeyPlacement {
        let vacant = |home: &usize| !self.vacancies(*home, tag, rates, moment).is_empty();
        if homes.iter().any(vacant) {
            KeyPlacement::OwnSlot
        } else {
            KeyPlacement::Overflow
        }
    }

    /// Returns whether a key without a slot gets none because its payer has taken its share.
    pub(super) fn is_short(
        &self,
        tag: Tag,
        homes: [usize; 2],
        rates: &Rates,
        moment: Moment,
        account: Option<Account<'_>>,
    ) -> bool {
        let is_roomy = |home: &usize| is_roomy(&self.vacancies(*home, tag, rates, moment));
        account.is_some_and(|account| account.is_over()) && !homes.iter().any(is_roomy)
    }

    /// Returns whether the overflow log may count something of a key; after the fence of a claim, no other answer is
    /// wrong.
    pub(super) fn was_in_overflow(&self, tag: Tag, rates: &Rates, moment: Moment) -> bool {
        self.overflow_filter(rates).contains(tag, moment.now())
    }

    /// Makes a change to a key that was not found; `None` when it has a slot after all.
    pub(super) fn change_newcomer(&self, newcomer: Newcomer<'_>) -> Option<Applied> {
        let Newcomer {
            tag,
            homes,
            rates,
            moment,
            account,
            ..
        } = newcomer;
        if let Some(refused) = self.refuse(&newcomer) {
            return Some(refused);
        }
        let mut vacancies = homes.map(|home| self.vacancies(home, tag, rates, moment));
        // The emptier bucket first: two choices keep the fullest bucket close to the average one.
        if vacancies[1].len() > vacancies[0].len() {
            vacancies.swap(0, 1);
        }
        let is_over = account.is_some_and(|account| account.is_over());
        let open = vacancies.iter().filter(|home| !is_over || is_roomy(home));
        for vacancy in open.flatten() {
            match self.claim(vacancy, &newcomer) {
                Ok(applied) => {
                    if let Some(account) = account {
                        account.enter();
                    }
                    return Some(applied);
                }
                Err(Failed::Taken) => {}
                Err(Failed::Outdated) => return None,
            }
        }
        if is_over {
            return Some(Applied::Refused(Answer::over_share(rates)));
        }
        let applied = self.change_overflow(&newcomer)?;
        if let (Applied::Made { .. }, Some(account)) = (&applied, account) {
            account.enter();
        }
        Some(applied)
    }

    /// The refusal of a newcomer by what it would inherit: it needs no slot.
    fn refuse(&self, newcomer: &Newcomer<'_>) -> Option<Applied> {
        let Newcomer {
            tag,
            homes,
            rates,
            change,
            heritage: Heritage::Overflow,
            moment,
            ..
        } = *newcomer
        else {
            return None;
        };
        let log = self.memory.overflow(homes[0]);
        // Lock-free: another round means that another thread changed the log.
        loop {
            let seen = log.control();
            let view = log.view(seen);
            if change.fits(&view, rates, moment) {
                return None;
            }
            if !self.was_in_overflow(tag, rates, moment)
                && change.fits(&view.emptied(), rates, moment)
                && self.prospect(tag, homes, rates, moment) == KeyPlacement::OwnSlot
            {
                return None;
            }
            let answer = change.refusal(&view, rates, moment);
            if answer.refusing().is_some() && log.is(seen) {
                let placement = if change.fits(&view.emptied(), rates, moment) {
                    // An empty slot would take the change: the refusal is due to what new keys share.
                    KeyPlacement::Overflow
                } else {
                    self.prospect(tag, homes, rates, moment)
                };
                return Some(Applied::Refused(answer.with_placement(placement)));
            }
        }
    }

    /// The slots of a bucket that owe nothing, in the order of `tag`.
    fn vacancies(
        &self,
        home: usize,
        tag: Tag,
        rates: &Rates,
        moment: Moment,
    ) -> ArrayVec<Vacancy, SLOTS> {
        let vacancy = |slot| {
            let log = self.memory.slot(slot);
            let seen = log.control();
            let owes = seen.is_held() || log.view(seen).owes(longest(rates), moment);
            (!owes).then_some(Vacancy { slot, seen })
        };
        Memory::slots_of(home, tag).filter_map(vacancy).collect()
    }

    /// Takes a vacant slot over, with what the newcomer inherits and the change made.
    fn claim(&self, vacancy: &Vacancy, newcomer: &Newcomer<'_>) -> Result<Applied, Failed> {
        let Newcomer { tag, moment, .. } = *newcomer;
        let log = self.memory.slot(vacancy.slot);
        let before = log.owner();
        // Invariant 2: fails if anything happened here since the log was seen to owe nothing. Emptied at once: what it
        // shows until the claim is made is nobody's.
        let tenure = log.take(vacancy.seen, moment.rounded_up(), 0)?;
        tenure.name(tag)?;
        // Pairs with the same fence of a rival's claim (invariant 1) and of a charge in overflow (invariant 4).
        fence(Ordering::SeqCst);
        if !self.outlasts_rivals(vacancy.slot, newcomer) {
            tenure.abandon()?;
            return Err(Failed::Outdated);
        }
        let applied = self.endow(tenure, newcomer)?;
        if before.is_some() {
            self.counts.reused();
        }
        Ok(applied)
    }

    /// Returns whether the key has no other slot, once no other claim for it is under way that would go before this
    /// one.
    fn outlasts_rivals(&self, mine: usize, newcomer: &Newcomer<'_>) -> bool {
        let mut patience = self.patience;
        loop {
            let rival = self.find_beside(Some(mine), newcomer.tag, newcomer.homes);
            let Some(rival) = rival else { return true };
            let log = self.memory.slot(rival);
            // After the tag: a claim that wrote the tag still holds the log, or is complete.
            let seen = log.control();
            if rival < mine || !seen.is_held() {
                return false;
            }
            // It sees this claim and gives way, or has not seen it and completes its own.
            wait(log, seen, &mut patience);
        }
    }

    /// Writes what the newcomer inherits and the change on top, if it still fits.
    fn endow(&self, tenure: Tenure<'_>, newcomer: &Newcomer<'_>) -> Result<Applied, Failed> {
        let Newcomer {
            tag,
            homes,
            rates,
            change,
            heritage,
            moment,
            ..
        } = *newcomer;
        let log = self.memory.overflow(homes[0]);
        // Lock-free: another round means that another thread changed the overflow log.
        loop {
            // Held or not: a charge that is still being made there looks for this claim's tag when it is done.
            let seen = log.control();
            // Invariant 4: asked behind the fence.
            let view = match heritage {
                Heritage::Overflow if self.was_in_overflow(tag, rates, moment) => log.view(seen),
                _ => log.view(seen).emptied(),
            };
            if !change.fits(&view, rates, moment) {
                tenure.abandon()?;
                return Err(Failed::Outdated);
            }
            let at = view.enters_as(moment);
            let answer = change.consent(&view, rates, at, moment);
            let plain = match change {
                Change::Charge(cost) | Change::ChargeUnchecked(cost) => {
                    let free = !view.owes(longest(rates), moment);
                    (free && cost.get() <= view.size()).then_some(cost.get())
                }
                Change::Set(_) | Change::Absorb(_) | Change::Adopt(_) => None,
            };
            let written = match plain {
                Some(cost) if log.is(seen) => tenure.append(at, cost),
                None => {
                    let composed = change.on_top_of(&view, rates, moment);
                    if !log.is(seen) {
                        continue;
                    }
                    tenure.fill(&composed)
                }
                Some(_) => continue,
            };
            return Ok(written.map(|()| Applied::Made { answer, at })?);
        }
    }

    /// Counts a newcomer with others; `None` when it has a slot after all.
    fn change_overflow(&self, newcomer: &Newcomer<'_>) -> Option<Applied> {
        let Newcomer {
            tag,
            homes,
            rates,
            change,
            moment,
            ..
        } = *newcomer;
        // What others used stays.
        let change = match change {
            Change::Set(used) => &Change::ChargeUnchecked(*used),
            other => other,
        };
        let log = self.memory.overflow(homes[0]);
        let applied = self.change_shared(log, rates, change, moment)?;
        if let Applied::Made { at, .. } = applied {
            let until = moment.expiry(at, longest(rates));
            self.overflow_filter(rates).insert(tag, moment.now(), until);
        }
        // Invariant 4: pairs with the fence of a claim.
        fence(Ordering::SeqCst);
        if let Applied::Made { at, .. } = &applied {
            if self.find(tag, homes).is_some() {
                if let Change::Charge(cost) | Change::ChargeUnchecked(cost) = change {
                    self.remove_from(log, None, *at, *cost);
                }
                return None;
            }
            self.counts.admitted_in_overflow();
        }
        Some(applied)
    }

    /// Makes a change to a log that newcomers share, and remembers since when they do.
    pub(super) fn change_shared(
        &self,
        log: Log<'_>,
        rates: &Rates,
        change: &Change<'_>,
        moment: Moment,
    ) -> Option<Applied> {
        let applied = self.change_log(log, None, rates, change, moment)?;
        if let Applied::Made { .. } = applied {
            self.counts.shared(moment.spell(longest(rates)));
        }
        Some(applied)
    }

    /// Takes `change` in overflow unless the key has a slot.
    pub(super) fn change_unseated(
        &self,
        tag: Tag,
        rates: &Rates,
        change: &Change<'_>,
        moment: Moment,
    ) -> KeyPlacement {
        let homes = self.memory.homes(tag);
        let newcomer = Newcomer {
            tag,
            homes,
            rates,
            change,
            heritage: Heritage::Overflow,
            moment,
            account: None,
        };
        // As in `change`: another round means that another thread seated or unseated this key.
        loop {
            let applied = match self.find(tag, homes) {
                Some(slot) => {
                    self.change_log(self.memory.slot(slot), Some(tag), rates, change, moment)
                }
                None => self.change_overflow(&newcomer),
            };
            if let Some(Applied::Made { answer, .. }) = applied {
                return answer.placement();
            }
        }
    }
}
