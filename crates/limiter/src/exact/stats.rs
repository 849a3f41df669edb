//! Measures a table of logs: the active keys, the occupancy, the number of new keys that shared a log.

use crate::cost::Cost;
use crate::key::KeyHash;
use crate::rate::Rates;
use crate::status::KeyPlacement;
use crate::table::{KeyAges, Occupancy, TableStats};
use crate::time::Timestamp;

use super::LogTable;
use super::evaluate::{ComputedAnswer, LogOutcome, LogTime, NANOS_PER_MILLI, longest};
use super::layout::SLOTS;
use super::migrate::settled;

/// Most buckets that one estimate reads: some ten milliseconds.
pub(super) const SAMPLE: usize = 32_768;

/// A key that owes.
#[derive(Clone, Debug)]
pub struct LogUsage {
    /// A hash that stands for the key: 63 bits of the one it was charged under.
    pub key: KeyHash,
    /// The answer for one unit.
    pub answer: ComputedAnswer,
    /// Time of the latest charge, to the millisecond.
    pub charged: Timestamp,
}

impl LogTable {
    /// Statistics of new keys since the table was made.
    #[must_use]
    pub fn stats(&self) -> TableStats {
        self.counts.stats()
    }

    /// Estimates the occupancy of the table; of a large one a sample is read.
    #[must_use]
    pub fn occupancy(&self, rates: &Rates, now: Timestamp) -> Occupancy {
        let period = longest(rates);
        let moment = LogTime::new(now);
        let buckets = self.memory.buckets();
        // Every n-th: keys fall into buckets by a seeded hash, so any choice of buckets is a fair sample.
        let step = buckets.div_ceil(SAMPLE);
        let mut looked = 0_u64;
        let mut live = 0;
        let mut units = 0;
        let mut overflowing = 0;
        for bucket_index in (0..buckets).step_by(step) {
            looked += 1;
            // Logs may change meanwhile: the result is an estimate.
            let slots = (bucket_index * SLOTS..(bucket_index + 1) * SLOTS)
                .map(|slot| self.memory.slot(slot));
            live += slots
                .filter(|log| log.view(log.control()).owes(period, moment))
                .count() as u64;
            let shared = self.memory.overflow(bucket_index);
            let used = u64::from(shared.view(shared.control()).used(period, moment));
            units += used;
            overflowing += u64::from(used > 0);
        }
        let extrapolated = |sampled: u64| {
            (u128::from(sampled) * buckets as u128 / u128::from(looked.max(1))) as u64
        };
        Occupancy {
            live: extrapolated(live),
            slots: self.memory.slots() as u64,
            in_overflow: extrapolated(units),
            overflowing: extrapolated(overflowing),
            buckets: buckets as u64,
        }
    }

    /// Counts a refusal by a log that new keys share.
    pub(crate) fn count_refusal(&self, placement: KeyPlacement) {
        self.counts.refused(placement);
    }

    /// Ages of the latest charges of keys that still count; of a large table a sample is read.
    #[must_use]
    pub fn ages(&self, rates: &Rates, now: Timestamp) -> KeyAges {
        let period = longest(rates);
        let moment = LogTime::new(now);
        let buckets = self.memory.buckets();
        // As in `occupancy`.
        let step = buckets.div_ceil(SAMPLE);
        let mut looked = 0_u64;
        let mut ages = KeyAges::default();
        for bucket_index in (0..buckets).step_by(step) {
            looked += 1;
            for slot in bucket_index * SLOTS..(bucket_index + 1) * SLOTS {
                let log = self.memory.slot(slot);
                let view = log.view(log.control());
                let charged = view.latest().filter(|_| view.owes(period, moment));
                if let Some(entry) = charged {
                    ages.count(moment.age_of(entry));
                }
            }
        }
        ages.scaled(|sampled| {
            (u128::from(sampled) * buckets as u128 / u128::from(looked.max(1))) as u64
        })
    }

    /// The keys that owe and have a log of their own, in no order. Takes no log and does not wait.
    pub fn active_keys<'t>(
        &'t self,
        rates: &'t Rates,
        now: Timestamp,
    ) -> impl Iterator<Item = LogUsage> + 't {
        (0..self.slots()).filter_map(move |slot| self.occupant(slot, rates, now))
    }

    pub(crate) fn slots(&self) -> usize {
        self.memory.slots()
    }

    /// The key that has a slot, counted through all buckets, if it owes.
    pub(crate) fn occupant(&self, slot: usize, rates: &Rates, now: Timestamp) -> Option<LogUsage> {
        let moment = LogTime::new(now);
        let (owner, found) = settled(self.memory.slot(slot), |view| {
            let charged = view
                .latest()
                .filter(|_| view.owes(longest(rates), moment))?;
            Some((
                view.answer(rates, LogOutcome::NotCharged(Cost::ONE), moment),
                charged,
            ))
        });
        let (answer, charged) = found?;
        Some(LogUsage {
            key: owner?.key(),
            answer,
            charged: Timestamp::from_nanos(charged.saturating_mul(NANOS_PER_MILLI)),
        })
    }
}
