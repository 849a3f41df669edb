//! Seats a key that has no slot: in one that owes nothing, already charged; or counts it with others.

use arrayvec::ArrayVec;

use crate::rate::Rates;
use crate::share::{PayerAccount, RESERVED};
use crate::status::KeyPlacement;
use crate::sync::{Ordering, fence};
use crate::table::tag::Tag;

use super::change::{LogChange, LogUpdate};
use super::control::ControlWord;
use super::evaluate::{ComputedAnswer, LogTime, longest};
use super::layout::{LogMemory, SLOTS};
use super::log::{Log, LogView, LogWriteGuard, LostRace};
use super::{LogTable, wait};

/// The entries that a key inherits with a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SlotInheritance {
    /// All that the overflow log counts, if it may have been charged there.
    Overflow,
    /// Nothing: everything that the key used is in the change.
    Nothing,
}

/// A slot that owed nothing when its log was `seen`.
struct VacantLog {
    slot: usize,
    seen: ControlWord,
}

/// A key that wants a slot, and what for.
pub(super) struct NewKey<'c> {
    pub(super) tag: Tag,
    pub(super) candidate_buckets: [usize; 2],
    pub(super) rates: &'c Rates,
    pub(super) change: &'c LogChange<'c>,
    pub(super) inherit: SlotInheritance,
    pub(super) moment: LogTime,
    /// The account that pays for the slot, or for its part in an overflow log.
    pub(super) account: Option<PayerAccount<'c>>,
}

/// The reason why a slot was not claimed; the slot is released, or held by another claim.
enum LogClaimFailure {
    /// Somebody else took it: another one may do.
    Taken,
    /// The key has a slot elsewhere, or is refused by now: look again.
    Outdated,
}

impl From<LostRace> for LogClaimFailure {
    fn from(_: LostRace) -> Self {
        Self::Taken
    }
}

/// Returns whether a bucket with these vacancies has room for the new keys of payers that have taken their share.
fn is_roomy(vacancies: &[VacantLog]) -> bool {
    vacancies.len() > RESERVED
}

impl LogChange<'_> {
    /// Units to append to an empty log, where the key inherits nothing; `None` where the entries must be composed.
    fn appended_cost(&self, view: &LogView<'_>, rates: &Rates, moment: LogTime) -> Option<u32> {
        match self {
            Self::Charge(cost) | Self::ChargeUnchecked(cost) => {
                let free = !view.owes(longest(rates), moment);
                (free && cost.get() <= view.size()).then_some(cost.get())
            }
            Self::Set(_) | Self::Absorb(_) | Self::Adopt(_) => None,
        }
    }
}

impl LogTable {
    /// Predicts the counter of a key that has no slot.
    pub(super) fn predicted_placement(
        &self,
        tag: Tag,
        candidate_buckets: [usize; 2],
        rates: &Rates,
        moment: LogTime,
    ) -> KeyPlacement {
        let vacant =
            |bucket_index: &usize| !self.vacancies(*bucket_index, tag, rates, moment).is_empty();
        if candidate_buckets.iter().any(vacant) {
            KeyPlacement::OwnSlot
        } else {
            KeyPlacement::Overflow
        }
    }

    /// Returns whether a key without a slot gets none because its payer has taken its share.
    pub(super) fn is_over_share(
        &self,
        tag: Tag,
        candidate_buckets: [usize; 2],
        rates: &Rates,
        moment: LogTime,
        account: Option<PayerAccount<'_>>,
    ) -> bool {
        let is_roomy =
            |bucket_index: &usize| is_roomy(&self.vacancies(*bucket_index, tag, rates, moment));
        account.is_some_and(|account| account.is_over()) && !candidate_buckets.iter().any(is_roomy)
    }

    /// Returns whether the overflow log may count something of a key; after the fence of a claim, no other answer is
    /// wrong.
    pub(super) fn was_in_overflow(&self, tag: Tag, rates: &Rates, moment: LogTime) -> bool {
        self.overflow_filter(rates).contains(tag, moment.now())
    }

    /// Makes a change to a key that was not found; `None` when it has a slot after all.
    pub(super) fn insert_changed(&self, new_key: NewKey<'_>) -> Option<LogUpdate> {
        let NewKey {
            tag,
            candidate_buckets,
            rates,
            moment,
            account,
            ..
        } = new_key;
        if let Some(refused) = self.refuse(&new_key) {
            return Some(refused);
        }
        let mut vacancies =
            candidate_buckets.map(|bucket_index| self.vacancies(bucket_index, tag, rates, moment));
        // The emptier bucket first: two choices keep the fullest bucket close to the average one.
        if vacancies[1].len() > vacancies[0].len() {
            vacancies.swap(0, 1);
        }
        let is_over = account.is_some_and(|account| account.is_over());
        let open = vacancies
            .iter()
            .filter(|bucket| !is_over || is_roomy(bucket));
        for vacancy in open.flatten() {
            match self.claim(vacancy, &new_key) {
                Ok(applied) => {
                    if let Some(account) = account {
                        account.enter();
                    }
                    return Some(applied);
                }
                Err(LogClaimFailure::Taken) => {}
                Err(LogClaimFailure::Outdated) => return None,
            }
        }
        if is_over {
            return Some(LogUpdate::Refused(ComputedAnswer::over_share(rates)));
        }
        let applied = self.change_overflow(&new_key)?;
        if let (LogUpdate::Made { .. }, Some(account)) = (&applied, account) {
            account.enter();
        }
        Some(applied)
    }

    /// The refusal of a new key by what it would inherit: it needs no slot.
    fn refuse(&self, new_key: &NewKey<'_>) -> Option<LogUpdate> {
        let NewKey {
            tag,
            candidate_buckets,
            rates,
            change,
            inherit: SlotInheritance::Overflow,
            moment,
            ..
        } = *new_key
        else {
            return None;
        };
        let log = self.memory.overflow(candidate_buckets[0]);
        // Lock-free: another round means that another thread changed the log.
        loop {
            let seen = log.control();
            let view = log.view(seen);
            if change.fits(&view, rates, moment) {
                return None;
            }
            if !self.was_in_overflow(tag, rates, moment)
                && change.fits(&view.emptied(), rates, moment)
                && self.predicted_placement(tag, candidate_buckets, rates, moment)
                    == KeyPlacement::OwnSlot
            {
                return None;
            }
            let answer = change.refusal(&view, rates, moment);
            if answer.refusing().is_some() && log.is(seen) {
                let placement = if change.fits(&view.emptied(), rates, moment) {
                    // An empty slot would take the change: the refusal is due to what new keys share.
                    KeyPlacement::Overflow
                } else {
                    self.predicted_placement(tag, candidate_buckets, rates, moment)
                };
                return Some(LogUpdate::Refused(answer.with_placement(placement)));
            }
        }
    }

    /// The slots of a bucket that owe nothing, in the order of `tag`.
    fn vacancies(
        &self,
        bucket_index: usize,
        tag: Tag,
        rates: &Rates,
        moment: LogTime,
    ) -> ArrayVec<VacantLog, SLOTS> {
        let vacancy = |slot| {
            let log = self.memory.slot(slot);
            let seen = log.control();
            let owes = seen.is_held() || log.view(seen).owes(longest(rates), moment);
            (!owes).then_some(VacantLog { slot, seen })
        };
        LogMemory::slots_of(bucket_index, tag)
            .filter_map(vacancy)
            .collect()
    }

    /// Takes a vacant slot over, with what the new key inherits and the change made.
    fn claim(
        &self,
        vacancy: &VacantLog,
        new_key: &NewKey<'_>,
    ) -> Result<LogUpdate, LogClaimFailure> {
        let NewKey { tag, moment, .. } = *new_key;
        let log = self.memory.slot(vacancy.slot);
        let before = log.owner();
        // Invariant 2: fails if anything happened here since the log was seen to owe nothing. Emptied at once: what it
        // shows until the claim is made is nobody's.
        let guard = log.take(vacancy.seen, moment.rounded_up(), 0)?;
        guard.name(tag)?;
        // Pairs with the same fence of a rival's claim (invariant 1) and of a charge in overflow (invariant 4).
        fence(Ordering::SeqCst);
        if !self.outlasts_rivals(vacancy.slot, new_key) {
            guard.abandon()?;
            return Err(LogClaimFailure::Outdated);
        }
        let applied = self.initialize(guard, new_key)?;
        if before.is_some() {
            self.counts.reused();
        }
        Ok(applied)
    }

    /// Returns whether the key has no other slot, once no other claim for it is under way that would go before this
    /// one.
    fn outlasts_rivals(&self, mine: usize, new_key: &NewKey<'_>) -> bool {
        let mut backoff = self.backoff;
        loop {
            let rival = self.find_beside(Some(mine), new_key.tag, new_key.candidate_buckets);
            let Some(rival) = rival else { return true };
            let log = self.memory.slot(rival);
            // After the tag: a claim that wrote the tag still holds the log, or is complete.
            let seen = log.control();
            if rival < mine || !seen.is_held() {
                return false;
            }
            // It sees this claim and gives way, or has not seen it and completes its own.
            wait(log, seen, &mut backoff);
        }
    }

    /// Writes what the new key inherits and the change on top, if it still fits.
    fn initialize(
        &self,
        guard: LogWriteGuard<'_>,
        new_key: &NewKey<'_>,
    ) -> Result<LogUpdate, LogClaimFailure> {
        let NewKey {
            tag,
            candidate_buckets,
            rates,
            change,
            inherit,
            moment,
            ..
        } = *new_key;
        let log = self.memory.overflow(candidate_buckets[0]);
        // Lock-free: another round means that another thread changed the overflow log.
        loop {
            // Held or not: a charge that is still being made there looks for this claim's tag when it is done.
            let seen = log.control();
            // Invariant 4: asked behind the fence.
            let view = match inherit {
                SlotInheritance::Overflow if self.was_in_overflow(tag, rates, moment) => {
                    log.view(seen)
                }
                _ => log.view(seen).emptied(),
            };
            if !change.fits(&view, rates, moment) {
                guard.abandon()?;
                return Err(LogClaimFailure::Outdated);
            }
            let at = view.enters_as(moment);
            let answer = change.acceptance(&view, rates, at, moment);
            if let Some(cost) = change.appended_cost(&view, rates, moment) {
                if !log.is(seen) {
                    continue;
                }
                guard.append(at, cost)?;
            } else {
                let composed = change.compose(&view, rates, moment);
                if !log.is(seen) {
                    continue;
                }
                guard.fill(&composed)?;
            }
            return Ok(LogUpdate::Made { answer, at });
        }
    }

    /// Counts a new key with others; `None` when it has a slot after all.
    fn change_overflow(&self, new_key: &NewKey<'_>) -> Option<LogUpdate> {
        let NewKey {
            tag,
            candidate_buckets,
            rates,
            change,
            moment,
            ..
        } = *new_key;
        // What others used stays.
        let change = match change {
            LogChange::Set(used) => &LogChange::ChargeUnchecked(*used),
            other => other,
        };
        let log = self.memory.overflow(candidate_buckets[0]);
        let applied = self.change_shared(log, rates, change, moment)?;
        if let LogUpdate::Made { at, .. } = applied {
            let until = moment.expiry(at, longest(rates));
            self.overflow_filter(rates).insert(tag, moment.now(), until);
        }
        // Invariant 4: pairs with the fence of a claim.
        fence(Ordering::SeqCst);
        if let LogUpdate::Made { at, .. } = &applied {
            if self.find(tag, candidate_buckets).is_some() {
                if let LogChange::Charge(cost) | LogChange::ChargeUnchecked(cost) = change {
                    self.remove_from(log, None, *at, *cost);
                }
                return None;
            }
            self.counts.admitted_in_overflow();
        }
        Some(applied)
    }

    /// Makes a change to a log that new keys share, and remembers since when they do.
    pub(super) fn change_shared(
        &self,
        log: Log<'_>,
        rates: &Rates,
        change: &LogChange<'_>,
        moment: LogTime,
    ) -> Option<LogUpdate> {
        let applied = self.change_log(log, None, rates, change, moment)?;
        if let LogUpdate::Made { .. } = applied {
            self.counts.shared(moment.overflow_period(longest(rates)));
        }
        Some(applied)
    }

    /// Takes `change` in overflow unless the key has a slot.
    pub(super) fn change_without_slot(
        &self,
        tag: Tag,
        rates: &Rates,
        change: &LogChange<'_>,
        moment: LogTime,
    ) -> KeyPlacement {
        let candidate_buckets = self.memory.candidate_buckets(tag);
        let new_key = NewKey {
            tag,
            candidate_buckets,
            rates,
            change,
            inherit: SlotInheritance::Overflow,
            moment,
            account: None,
        };
        // As in `change`: another round means that another thread seated or unseated this key.
        loop {
            let applied = match self.find(tag, candidate_buckets) {
                Some(slot) => {
                    self.change_log(self.memory.slot(slot), Some(tag), rates, change, moment)
                }
                None => self.change_overflow(&new_key),
            };
            if let Some(LogUpdate::Made { answer, .. }) = applied {
                return answer.placement();
            }
        }
    }
}
