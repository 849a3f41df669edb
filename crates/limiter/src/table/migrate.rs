//! Copies what a table counts into its successor, which has another number of buckets, other rates, or both.
//!
//! Works for any two layouts because a key's buckets follow from its tag: slots are charged into the new table one by
//! one, as if their keys came in. Overflow words have no keys; those of old bucket `b` go to every new bucket that
//! takes keys from the same part of the hashes. They weigh on the keys in the filter, which is copied too; all others find the room
//! that a larger table has.

use crate::algorithm::{RateAt, Word};
use crate::cost::Cost;
use crate::key::KeyHash;
use crate::rate::{MAX_RATES, Period};
use crate::sync::Ordering;
use crate::time::Timestamp;

use super::layout::overlapping;
use super::lock::settled_owner;
use super::tag::SlotOwner;
use super::update::revise;
use super::{SlotRef, SlotSearch, Table, WordChange};

/// Selects the old rate that one with the period `wanted` goes on from: the one with its period, else the next
/// longer, else the longest.
pub(crate) fn origin<const K: usize>(old: &[RateAt; K], wanted: Period) -> usize {
    old.iter()
        .position(|rate_at| rate_at.period() >= wanted)
        .unwrap_or(K - 1)
}

/// Words of the old rates as words of the new ones.
fn convert<const K: usize, const N: usize>(
    old: &[RateAt; K],
    words: [Word; K],
    new: &[RateAt; N],
) -> [Word; N] {
    std::array::from_fn(|rate| {
        let origin = origin(old, new[rate].period());
        new[rate].convert(words[origin], &old[origin])
    })
}

impl<const K: usize> Table<K> {
    /// Converts the words after a charge to words of other rates.
    pub(crate) fn converted<const N: usize>(
        &self,
        old: &[RateAt; K],
        left: [[Word; 2]; MAX_RATES],
        new: &[RateAt; N],
    ) -> [[Word; 2]; N] {
        let row = |row: usize| convert(old, std::array::from_fn(|rate| left[rate][row]), new);
        let one = row(0);
        let two = row(1);
        std::array::from_fn(|rate| [one[rate], two[rate]])
    }

    /// Adds everything that this table counts to `new`. Charges made meanwhile are the caller's concern.
    pub(crate) fn copy_into<const N: usize>(
        &self,
        old_judges: &[RateAt; K],
        new: &Table<N>,
        rates_at: &[RateAt; N],
    ) {
        let converted = |words| convert(old_judges, words, rates_at);
        // Overflow words first, with the filter: a key that is seated in the new table inherits from them.
        let mut last = rates_at[0].now();
        for bucket_index in 0..new.memory.buckets() {
            let mut rows = [Word::UNUSED; N];
            for old_index in overlapping(bucket_index, new.memory.buckets(), self.memory.buckets())
            {
                let old = converted(self.shared(old_index));
                // The largest, not the sum: each word counts at least what any of its own keys used, and no more is
                // asked of the new one.
                rows = std::array::from_fn(|rate| rates_at[rate].larger(rows[rate], old[rate]));
            }
            last = new
                .share_with(bucket_index, rates_at, &rows)
                .map_or(last, |until| last.max(until));
        }
        let filter = new.overflow_filter(rates_at);
        self.overflow_filter(old_judges)
            .copy_into(&filter, rates_at[0].now(), last);
        for slot in 0..self.slots() {
            if let Some((key, words)) = self.occupant(slot, old_judges) {
                new.change(key, rates_at, WordChange::Absorb(&converted(words)));
            }
        }
    }

    /// The overflow words of a bucket.
    pub(crate) fn shared(&self, bucket_index: usize) -> [Word; K] {
        let bucket = self.memory.bucket(bucket_index);
        // SeqCst: a charge that this load misses sees the successor (`limit::edit`).
        std::array::from_fn(|rate| Word::from_bits(bucket.overflow(rate).load(Ordering::SeqCst)))
    }

    /// Adds what new keys without a slot used to the overflow words of a bucket; until when that counts, if it is anything.
    fn share_with(
        &self,
        bucket_index: usize,
        rates_at: &[RateAt; K],
        words: &[Word; K],
    ) -> Option<Timestamp> {
        for (rate, rate_at) in rates_at.iter().enumerate() {
            if words[rate] != Word::UNUSED {
                // Added: the word may count charges already that were told while the old table was copied.
                revise(self.memory.bucket(bucket_index).overflow(rate), |word| {
                    Some(rate_at.sum(word, words[rate]))
                });
            }
        }
        if *words == [Word::UNUSED; K] {
            return None;
        }
        self.note_shared(rates_at, words)
    }

    /// Adds what new keys without a slot used to the overflow words of all buckets; until when that counts, if it is anything.
    pub(crate) fn share_with_all(
        &self,
        rates_at: &[RateAt; K],
        words: &[Word; K],
    ) -> Option<Timestamp> {
        let candidate_buckets = 0..self.memory.buckets();
        candidate_buckets
            .filter_map(|bucket_index| self.share_with(bucket_index, rates_at, words))
            .max()
    }

    /// Reads the owner of a slot and its words; `None` if the slot has no owner.
    pub(super) fn settled(&self, bucket_index: usize, slot: usize) -> Option<(KeyHash, [Word; K])> {
        let place = self.place(bucket_index, slot);
        // Another round means that the slot went to another key: rare, and never twice within two windows.
        loop {
            let SlotOwner::Key(tag) = settled_owner(place.tag()) else {
                return None;
            };
            // SeqCst, as for the overflow words.
            let words = std::array::from_fn(|rate| {
                Word::from_bits(place.state(rate).load(Ordering::SeqCst))
            });
            if place.tag().load(Ordering::SeqCst) == tag.bits() {
                return Some((tag.key(), words));
            }
        }
    }

    /// Takes `cost` for a key that was charged in the overflow words of the table before this one.
    ///
    /// It is not seated here: until the words of that table are copied, it would not inherit from them.
    pub(crate) fn charge_in_overflow(
        &self,
        key: KeyHash,
        rates_at: &[RateAt; K],
        cost: Cost,
    ) -> SlotRef {
        let at = self.address(key);
        let change = WordChange::ChargeUnchecked(cost);
        // As in `change`: another round means that another thread inserted or removed this key.
        loop {
            if let SlotSearch::At(place) = self.find(at.tag, at.candidate_buckets) {
                if Self::change_known(place, at.tag, rates_at, change).is_some() {
                    return place.slot_ref();
                }
            } else if self.change_overflow_unless_resident(at, rates_at, change) {
                return SlotRef::Overflow(at.candidate_buckets);
            }
        }
    }
}
