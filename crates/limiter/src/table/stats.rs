//! Counts what goes on in a table: how full it is, and how often new keys shared a counter.

use crate::algorithm::{RateAt, Word};
use crate::key::KeyHash;
use crate::status::KeyPlacement;
use crate::sync::{AtomicU64, Ordering};

use super::Table;
use super::key_ages::KeyAges;
use super::layout::Bucket;
use super::lock::settled_owner;
use super::overflow_period::{LatestOverflow, OverflowPeriod};
use super::slot_weight::SlotWeight;
use super::tag::SlotOwner;

/// Most buckets that one estimate reads: 16 to 32 MB of memory, some ten milliseconds. A table of the default capacity is counted whole.
pub(super) const SAMPLE: usize = 131_072;

/// The occupancy of a limit's table at a moment; of a large table a sample is read and the rest extrapolated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Slots whose key still owes something.
    pub live: u64,
    /// Slots in all.
    pub slots: u64,
    /// Units of cost that count together in overflow words for the rate with the longest period; 0 as long as every key
    /// has a slot.
    pub in_overflow: u64,
    /// Buckets whose new keys share such units, which still weigh on those that were counted there, and on others as long as no slot is
    /// free.
    pub overflowing: u64,
    /// Buckets in all.
    pub buckets: u64,
}

/// Statistics of new keys since the limit was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// New keys admitted while every slot they could use owed something.
    pub admitted_in_overflow: u64,
    /// Refusals by what new keys share, as reported by [`Limit::count_refusal`](crate::Limit::count_refusal): only the caller knows
    /// whether a refusal that it has peeked at is enforced.
    pub refused_in_overflow: u64,
    /// Those of both kinds that were counted before the table of now was made, by an edit of the capacity or the periods.
    pub in_overflow_before: u64,
    /// Refusals of new keys whose payer had taken its share, as reported by [`Limit::count_refusal`](crate::Limit::count_refusal).
    pub refused_over_share: u64,
    /// Slots taken over from a key that owed nothing any more.
    pub slots_reused: u64,
    /// States that were found further than a window ahead when the counters were opened, as in a damaged file, and dropped.
    pub dropped: u64,
    /// The latest time through which new keys were counted together; it goes on until its end is past.
    pub overflow: Option<OverflowPeriod>,
}

impl TableStats {
    /// Decisions over keys that were counted together.
    #[must_use]
    pub fn in_overflow(&self) -> u64 {
        self.admitted_in_overflow
            .saturating_add(self.refused_in_overflow)
    }
}

/// The statistics as they grow, away from the buckets' lines. All Relaxed: each is a fact by itself and publishes nothing.
#[repr(align(128))]
pub(crate) struct StatCounters {
    admitted_in_overflow: AtomicU64,
    refused_in_overflow: AtomicU64,
    in_overflow_before: u64,
    refused_over_share: AtomicU64,
    slots_reused: AtomicU64,
    dropped: u64,
    period: LatestOverflow,
}

impl StatCounters {
    pub(crate) fn new(before: TableStats) -> Self {
        Self {
            admitted_in_overflow: AtomicU64::new(before.admitted_in_overflow),
            refused_in_overflow: AtomicU64::new(before.refused_in_overflow),
            in_overflow_before: before.in_overflow(),
            refused_over_share: AtomicU64::new(before.refused_over_share),
            slots_reused: AtomicU64::new(before.slots_reused),
            dropped: before.dropped,
            period: LatestOverflow::after(before.overflow),
        }
    }

    pub(crate) fn admitted_in_overflow(&self) {
        self.admitted_in_overflow.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a refusal of a key that is counted so.
    pub(crate) fn refused(&self, placement: KeyPlacement) {
        let count = match placement {
            KeyPlacement::OwnSlot => return,
            KeyPlacement::Overflow => &self.refused_in_overflow,
            KeyPlacement::OverShare => &self.refused_over_share,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn reused(&self) {
        self.slots_reused.fetch_add(1, Ordering::Relaxed);
    }

    /// Extends the overflow period: a charge in overflow counts from the beginning of `overflow_period` to its end.
    pub(crate) fn shared(&self, period: OverflowPeriod) {
        self.period.extend(period);
    }

    pub(crate) fn stats(&self) -> TableStats {
        TableStats {
            admitted_in_overflow: self.admitted_in_overflow.load(Ordering::Relaxed),
            refused_in_overflow: self.refused_in_overflow.load(Ordering::Relaxed),
            in_overflow_before: self.in_overflow_before,
            refused_over_share: self.refused_over_share.load(Ordering::Relaxed),
            slots_reused: self.slots_reused.load(Ordering::Relaxed),
            dropped: self.dropped,
            overflow: self.period.latest(),
        }
    }
}

impl<const K: usize> Table<K> {
    pub(crate) fn stats(&self) -> TableStats {
        self.counts.stats()
    }

    /// Counts a refusal of a key that is counted so.
    pub(crate) fn count_refusal(&self, placement: KeyPlacement) {
        self.counts.refused(placement);
    }

    /// Estimates the occupancy of the table at the judges' moment.
    pub(crate) fn occupancy<W: SlotWeight>(&self, rates_at: &[W; K]) -> Occupancy {
        let buckets = self.memory.buckets();
        // Every n-th bucket. Keys fall into buckets by a seeded hash, so any choice of buckets is a fair sample.
        let step = buckets.div_ceil(SAMPLE);
        let mut looked = 0;
        let mut live = 0;
        let mut units = 0;
        let mut overflowing = 0;
        for bucket_index in (0..buckets).step_by(step) {
            let bucket = self.memory.bucket(bucket_index);
            looked += 1;
            live += (0..Bucket::<K>::SLOTS)
                .filter(|slot| self.is_live(bucket_index, *slot, rates_at))
                .count() as u64;
            let used = |rate: usize| {
                let row = bucket.overflow(rate).load(Ordering::Relaxed);
                rates_at[rate].used_units(Word::from_bits(row))
            };
            units += used(K - 1);
            overflowing += u64::from((0..K).any(|rate| used(rate) > 0));
        }
        let extrapolated =
            |sampled: u64| (u128::from(sampled) * buckets as u128 / looked.max(1)) as u64;
        // Every unit counts in two buckets.
        let in_overflow = extrapolated(units).div_ceil(2);
        Occupancy {
            live: extrapolated(live),
            slots: self.memory.slots() as u64,
            in_overflow,
            overflowing: extrapolated(overflowing),
            buckets: buckets as u64,
        }
    }

    /// Ages of the latest charges of keys that still count; `None` if their states do not hold them.
    pub(crate) fn ages(&self, rates_at: &[RateAt; K]) -> Option<KeyAges> {
        let buckets = self.memory.buckets();
        // As in `occupancy`.
        let step = buckets.div_ceil(SAMPLE);
        let mut looked = 0_u64;
        let mut ages = KeyAges::default();
        for bucket_index in (0..buckets).step_by(step) {
            looked += 1;
            for slot in 0..Bucket::<K>::SLOTS {
                if let Some((_, words)) =
                    self.occupant(bucket_index * Bucket::<K>::SLOTS + slot, rates_at)
                {
                    ages.count(
                        rates_at[0]
                            .now()
                            .saturating_since(rates_at[0].charged(words[0])?),
                    );
                }
            }
        }
        let all = |sampled: u64| {
            (u128::from(sampled) * buckets as u128 / u128::from(looked.max(1))) as u64
        };
        Some(ages.scaled(all))
    }

    pub(crate) fn slots(&self) -> usize {
        self.memory.slots()
    }

    pub(crate) fn buckets(&self) -> usize {
        self.memory.buckets()
    }

    /// The key of slot `index`, counted through all buckets, and its words, if it owes something.
    pub(crate) fn occupant<W: SlotWeight>(
        &self,
        index: usize,
        rates_at: &[W; K],
    ) -> Option<(KeyHash, [Word; K])> {
        let bucket_index = index / Bucket::<K>::SLOTS;
        let slot = index % Bucket::<K>::SLOTS;
        let (key, words) = self.settled(bucket_index, slot)?;
        let owes = rates_at
            .iter()
            .zip(&words)
            .any(|(rate_at, word)| rate_at.owes(*word));
        owes.then_some((key, words))
    }

    fn is_live<W: SlotWeight>(&self, bucket_index: usize, slot: usize, rates_at: &[W; K]) -> bool {
        let place = self.place(bucket_index, slot);
        // A slot may change hands meanwhile: the result is an estimate.
        settled_owner(place.tag()) != SlotOwner::Nobody
            && rates_at
                .iter()
                .zip(place.words())
                .any(|(rate_at, word)| rate_at.owes(word))
    }
}
