//! Gives back what was charged, and forgets what a key used.

use crate::cost::Cost;
use crate::key::KeyHash;
use crate::rate::Rates;
use crate::status::KeyPlacement;
use crate::table::tag::Tag;
use crate::time::Timestamp;

use super::control::SpillState;
use super::log::Log;
use super::{LogTable, wait};

/// The data needed to give a charge back. Dropping it keeps the charge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogReceipt {
    key: KeyHash,
    /// The moment under which it was entered, in milliseconds since the epoch.
    at: u64,
    /// Units that were not given back yet.
    units: u32,
    placement: KeyPlacement,
}

impl LogReceipt {
    pub(super) fn new(key: KeyHash, at: u64, cost: Cost, placement: KeyPlacement) -> Self {
        Self {
            key,
            at,
            units: cost.get(),
            placement,
        }
    }

    /// Units of cost that were charged and not given back.
    #[must_use]
    pub fn units(&self) -> u32 {
        self.units
    }

    /// The moment under which it was entered, in milliseconds since the epoch.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// The counter that the charge was made in.
    #[must_use]
    pub fn placement(&self) -> KeyPlacement {
        self.placement
    }
}

/// The result of forgetting a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForgetOutcome {
    /// Its log is empty.
    Forgotten,
    /// The key has no log of its own; what it may have used is counted with other keys, and stays.
    Shared,
    /// The table holds nothing of the key.
    Unknown,
}

impl LogTable {
    /// Takes a charge back.
    pub fn undo(&self, mut receipt: LogReceipt) {
        if let Some(units) = Cost::new(receipt.units) {
            self.release(&mut receipt, units);
        }
    }

    /// Gives back up to `units` of a charge, now or later; how many still counted.
    ///
    /// Entries of the charge's moment are removed: those of one log and one millisecond are interchangeable. What is
    /// gone already stays gone, with one exception: a receipt from before a [`reset`](Self::reset) that is released
    /// after another charge of the same key in the same millisecond takes that one. A log that stands for more than it
    /// shows, since a unchecked charge exceeded it, gives nothing back.
    pub fn release(&self, receipt: &mut LogReceipt, units: Cost) -> u32 {
        let Some(units) = Cost::new(units.get().min(receipt.units)) else {
            return 0;
        };
        receipt.units -= units.get();
        let tag = Tag::new(receipt.key);
        let candidate_buckets = self.memory.candidate_buckets(tag);
        let at = receipt.at;
        // Another round means that another thread took over the slot or seated the key.
        loop {
            // Looked for first: a slot that the key has now began with the charge, if that was made in overflow. One
            // that it gets from here on may begin with it, and then keeps it.
            let slot = self
                .find(tag, candidate_buckets)
                .map(|slot| self.memory.slot(slot));
            let own = match slot {
                Some(log) => match self.remove_from(log, Some(tag), at, units) {
                    Some(removed) => removed,
                    None => continue,
                },
                None => 0,
            };
            let shared = match receipt.placement {
                KeyPlacement::OwnSlot | KeyPlacement::OverShare => 0,
                KeyPlacement::Overflow => {
                    let log = self.memory.overflow(candidate_buckets[0]);
                    self.remove_from(log, None, at, units).unwrap_or(0)
                }
            };
            return own.max(shared);
        }
    }

    /// Removes up to `units` entries of the moment `at`; how many there were, `None` if the log is not `owner`'s.
    pub(super) fn remove_from(
        &self,
        log: Log<'_>,
        owner: Option<Tag>,
        at: u64,
        units: Cost,
    ) -> Option<u32> {
        let mut backoff = self.backoff;
        // As in `change_log`.
        loop {
            let seen = log.control();
            if !log.belongs_to(owner) {
                return None;
            }
            if seen.is_held() {
                wait(log, seen, &mut backoff);
                continue;
            }
            let view = log.view(seen);
            let later = view.later_than(at);
            let since = match at.checked_sub(1) {
                Some(before) => view.later_than(before),
                None => view.len(),
            };
            let count = match view.spill() {
                SpillState::None => since.saturating_sub(later).min(units.get()),
                SpillState::Some => 0,
            };
            let removed = match count {
                0 => log.is(seen),
                // No later moment is entered, so the era stays.
                _ => log
                    .take(seen, 0, view.len())
                    .and_then(|guard| guard.remove(later..later + count))
                    .is_ok(),
            };
            if removed {
                return Some(count);
            }
        }
    }

    /// Forgets like [`reset`](Self::reset); returns the counter of the key afterwards.
    pub(crate) fn forget(&self, key: KeyHash, rates: &Rates, now: Timestamp) -> KeyPlacement {
        match self.reset(key) {
            ForgetOutcome::Forgotten => KeyPlacement::OwnSlot,
            ForgetOutcome::Shared | ForgetOutcome::Unknown => {
                self.peek(key, rates, Cost::ONE, now).placement()
            }
        }
    }

    /// Forgets what a key used.
    pub fn reset(&self, key: KeyHash) -> ForgetOutcome {
        let tag = Tag::new(key);
        let candidate_buckets = self.memory.candidate_buckets(tag);
        let mut backoff = self.backoff;
        // As in `release`.
        loop {
            let Some(slot) = self.find(tag, candidate_buckets) else {
                let log = self.memory.overflow(candidate_buckets[0]);
                return match log.view(log.control()).len() {
                    0 => ForgetOutcome::Unknown,
                    _ => ForgetOutcome::Shared,
                };
            };
            let log = self.memory.slot(slot);
            let seen = log.control();
            if !log.belongs_to(Some(tag)) {
                continue;
            }
            if seen.is_held() {
                wait(log, seen, &mut backoff);
            } else if log
                .take(seen, 0, u32::MAX)
                .and_then(|guard| guard.clear())
                .is_ok()
            {
                return ForgetOutcome::Forgotten;
            }
        }
    }
}
