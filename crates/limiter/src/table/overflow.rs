//! Counts new keys that find no slot, together: two rows of counters, of which the smaller decides.
//!
//! Each bucket has one word a rate. A new key is counted in the words of both its buckets, and is admitted if the one
//! that used less has room: that is a count-min sketch of two rows. Each word counts at least what any of its keys used
//! (invariant 5), so no request passes uncounted; it may count others too, so it errs towards refusing.
//!
//! # Concurrency
//! A key comes here under the lock of its first bucket, so it does not race with itself. Other keys may add between the
//! reading and the adding; they are other keys, so no limit is exceeded by it.

use crate::algorithm::{RateAt, Word};
use crate::cost::Cost;
use crate::status::KeyPlacement;
use crate::sync::Ordering;
use crate::time::Timestamp;

use super::layout::TableMemory;
use super::overflow_period::OverflowPeriod;
use super::update::revise;
use super::{ChargeOutcome, KeyAddress, KeyState, MadeCharge, SlotRef, Table, WordChange};

impl<const K: usize> Table<K> {
    /// The overflow words of both buckets, one pair a rate.
    pub(super) fn rows(&self, candidate_buckets: [usize; 2]) -> [[Word; 2]; K] {
        let buckets = candidate_buckets.map(|bucket_index| self.memory.bucket(bucket_index));
        // Acquire: orders these loads before what the caller reads next; the words themselves are whole facts.
        std::array::from_fn(|rate| {
            buckets.map(|bucket| Word::from_bits(bucket.overflow(rate).load(Ordering::Acquire)))
        })
    }

    /// Makes a change that the smaller words admitted to both.
    pub(super) fn change_overflow(
        &self,
        at: KeyAddress,
        rates_at: &[RateAt; K],
        change: WordChange<'_, K>,
    ) -> ChargeOutcome<K> {
        let candidate_buckets = at.candidate_buckets;
        let mut rows = [[Word::UNUSED; 2]; K];
        for (rate, rate_at) in rates_at.iter().enumerate() {
            for (row, bucket_index) in TableMemory::<K>::distinct(candidate_buckets) {
                let word = self.memory.bucket(bucket_index).overflow(rate);
                let written = revise(word, |word| Some(change.charge_shared(rate_at, rate, word)));
                rows[rate][row] = written.unwrap_or(Word::UNUSED);
            }
            if candidate_buckets[0] == candidate_buckets[1] {
                rows[rate][1] = rows[rate][0];
            }
        }
        // A mark for a charge that is undone does no harm; see `overflow_filter`.
        if let Some(until) = self.note_shared(rates_at, rows.as_flattened()) {
            let now = rates_at[0].now();
            self.overflow_filter(rates_at).insert(at.tag, now, until);
        }
        ChargeOutcome::Admitted(
            KeyState::Shared(rows, KeyPlacement::Overflow),
            SlotRef::Overflow(candidate_buckets),
        )
    }

    /// Remembers that these words of overflow, as many for each rate, count from now on for as long as they owe; until when.
    pub(super) fn note_shared(&self, rates_at: &[RateAt; K], words: &[Word]) -> Option<Timestamp> {
        let since = rates_at[0].now();
        let until = self.last_of(rates_at, words)?;
        self.counts.shared(OverflowPeriod { since, until });
        Some(until)
    }

    /// The moment at which the last of these overflow words, as many for each rate, will count nothing.
    fn last_of(&self, rates_at: &[RateAt; K], words: &[Word]) -> Option<Timestamp> {
        let each = words.len() / K;
        let owing = words.iter().enumerate().map(|(index, word)| {
            let status = rates_at[index / each].status(*word, None);
            status.reset
        });
        Some(rates_at[0].now().saturating_add(owing.max()?))
    }

    /// Keeps the keys that were counted in overflow words in the filter for as long as these words count by the rates of now.
    pub(crate) fn prolong_overflow(&self, rates_at: &[RateAt; K]) {
        let now = rates_at[0].now();
        let filter = self.overflow_filter(rates_at);
        if filter.false_positives(now) == 0 {
            return;
        }
        let words = (0..self.memory.buckets()).map(|bucket_index| self.shared(bucket_index));
        let last = words
            .filter_map(|words| self.last_of(rates_at, &words))
            .max();
        if let Some(last) = last {
            filter.copy_into(&filter, now, last);
        }
    }

    /// Takes `cost` of the charge made at `made` back.
    pub(super) fn undo_overflow(
        &self,
        candidate_buckets: [usize; 2],
        rates_at: &[RateAt; K],
        made: &MadeCharge<K>,
        cost: Cost,
    ) {
        for (rate, rate_at) in rates_at.iter().enumerate().rev() {
            for (row, bucket_index) in TableMemory::<K>::distinct(candidate_buckets) {
                let charge = made.charge(made.left[rate][row], cost);
                let word = self.memory.bucket(bucket_index).overflow(rate);
                revise(word, |word| rate_at.undo_unchecked(word, charge));
            }
        }
    }
}
