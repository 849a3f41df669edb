//! Copies what a table of logs counts into its successor, which has logs of another size, other buckets, or both.
//!
//! Moments do not depend on the rates, so nothing is converted: a rate with a new period goes on from what really
//! happened, as far back as the old log has it. What the new log has no room for is older than what it keeps; it then
//! gives nothing back until a charge fits (`control::SpillState`).

use crate::cost::Cost;
use crate::key::KeyHash;
use crate::rate::Rates;
use crate::status::KeyPlacement;
use crate::table::layout::overlapping;
use crate::table::tag::Tag;
use crate::time::Timestamp;

use super::LogTable;
use super::change::{LogChange, LogUpdate};
use super::evaluate::{LogTime, longest};
use super::insert::SlotInheritance;
use super::log::{Log, LogView};

impl LogTable {
    /// Adds everything that this table counts by its rates to `new`, which has others. Charges made meanwhile are the caller's
    /// concern: he tells `new` of each ([`take_over`](Self::take_over)), and such a charge may count twice.
    pub fn copy_into(&self, old_rates: &Rates, new: &Self, rates: &Rates, now: Timestamp) {
        let period = longest(rates);
        let moment = LogTime::new(now);
        let counting = |view: &LogView<'_>| view.inheritance(period, moment);
        let mut last = now;
        for bucket_index in 0..new.memory.buckets() {
            for old in overlapping(bucket_index, new.memory.buckets(), self.memory.buckets()) {
                let inherited = settled(self.memory.overflow(old), counting).1;
                if !inherited.moments.is_empty() {
                    last = last.max(moment.expiry(inherited.latest(), longest(rates)));
                    // All of them, not the largest: a receipt may still take any of these entries out again.
                    let log = new.memory.overflow(bucket_index);
                    new.change_shared(log, rates, &LogChange::Absorb(&inherited), moment);
                }
            }
        }
        let filter = new.overflow_filter(rates);
        self.overflow_filter(old_rates)
            .copy_into(&filter, now, last);
        for slot in 0..self.memory.slots() {
            let (owner, inherited) = settled(self.memory.slot(slot), counting);
            if let (Some(tag), false) = (owner, inherited.moments.is_empty()) {
                let change = LogChange::Absorb(&inherited);
                // Its log has all that it used, in overflow too.
                new.change(tag.key(), rates, &change, SlotInheritance::Nothing, now);
            }
        }
    }

    /// Adds a charge that was made in the table before this one; where it is counted in this one.
    pub fn take_over(
        &self,
        key: KeyHash,
        rates: &Rates,
        cost: Cost,
        from: KeyPlacement,
        now: Timestamp,
    ) -> KeyPlacement {
        match from {
            // What it used in overflow before it had that slot may not be told otherwise, if the copy has passed by the slot.
            KeyPlacement::OwnSlot | KeyPlacement::OverShare => {
                let change = LogChange::ChargeUnchecked(cost);
                match self.change(key, rates, &change, SlotInheritance::Overflow, now) {
                    LogUpdate::Made { answer, .. } | LogUpdate::Refused(answer) => {
                        answer.placement()
                    }
                }
            }
            // Not seated: before the overflow logs are copied, it would not inherit from them.
            KeyPlacement::Overflow => {
                let tag = Tag::new(key);
                let moment = LogTime::new(now);
                self.change_without_slot(tag, rates, &LogChange::ChargeUnchecked(cost), moment)
            }
        }
    }
}

/// Reads the owner of a log and the result of `count` once the log is not held.
pub(super) fn settled<T>(log: Log<'_>, count: impl Fn(&LogView<'_>) -> T) -> (Option<Tag>, T) {
    // Lock-free: another round means that another thread changed the log. A log while it is held is read as it is:
    // what is not complete yet will be told to the successor.
    loop {
        let seen = log.control();
        let owner = log.owner();
        let counted = count(&log.view(seen));
        if log.is(seen) {
            return (owner, counted);
        }
    }
}
