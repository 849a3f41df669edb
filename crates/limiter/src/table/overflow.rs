//! Counts newcomers that find no slot, together: two rows of counters, of which the smaller decides.
//!
//! Each bucket has one word a rate. A newcomer is counted in the words of both its buckets, and is admitted if the one
//! that used less has room: that is a count-min sketch of two rows. Each word counts at least what any of its keys used
//! (invariant 5), so nobody passes uncounted; it may count others too, so it errs towards refusing.
//!
//! # Concurrency
//! A key comes here under the lock of its first bucket, so it does not race with itself. Other keys may add between the
//! reading and the adding; they are other keys, so no limit is exceeded by it.

use crate::algorithm::{Judge, Word};
use crate::cost::Cost;
use crate::status::KeyPlacement;
use crate::sync::Ordering;
use crate::time::Timestamp;

use super::layout::Memory;
use super::overflow_period::OverflowPeriod;
use super::tag::Tag;
use super::update::revise;
use super::{Change, Charged, Made, Seat, State, Table};

impl<const K: usize> Table<K> {
    /// The overflow words of both buckets, one pair a rate.
    pub(super) fn rows(&self, homes: [usize; 2]) -> [[Word; 2]; K] {
        let buckets = homes.map(|home| self.memory.bucket(home));
        // Acquire: orders these loads before what the caller reads next; the words themselves are whole facts.
        std::array::from_fn(|rate| {
            buckets.map(|bucket| Word::from_bits(bucket.overflow(rate).load(Ordering::Acquire)))
        })
    }

    /// Makes a change that the smaller words admitted to both.
    pub(super) fn change_overflow(
        &self,
        tag: Tag,
        homes: [usize; 2],
        judges: &[Judge; K],
        change: Change<'_, K>,
    ) -> Charged<K> {
        let mut rows = [[Word::UNUSED; 2]; K];
        for (rate, judge) in judges.iter().enumerate() {
            for (row, home) in Memory::<K>::distinct(homes) {
                let word = self.memory.bucket(home).overflow(rate);
                let written = revise(word, |word| Some(change.force_shared(judge, rate, word)));
                rows[rate][row] = written.unwrap_or(Word::UNUSED);
            }
            if homes[0] == homes[1] {
                rows[rate][1] = rows[rate][0];
            }
        }
        // A mark for a charge that is undone does no harm; see `overflow_filter`.
        if let Some(until) = self.note_shared(judges, rows.as_flattened()) {
            let now = judges[0].now();
            self.overflow_filter(judges).insert(tag, now, until);
        }
        Charged::Admitted(
            State::Shared(rows, KeyPlacement::Overflow),
            Seat::Overflow(homes),
        )
    }

    /// Remembers that these words of overflow, as many for each rate, count from now on for as long as they owe; until when.
    pub(super) fn note_shared(&self, judges: &[Judge; K], words: &[Word]) -> Option<Timestamp> {
        let (since, until) = (judges[0].now(), self.last_of(judges, words)?);
        self.counts.shared(OverflowPeriod { since, until });
        Some(until)
    }

    /// The moment at which the last of these overflow words, as many for each rate, will count nothing.
    fn last_of(&self, judges: &[Judge; K], words: &[Word]) -> Option<Timestamp> {
        let each = words.len() / K;
        let owing = words.iter().enumerate().map(|(index, word)| {
            let standing = judges[index / each].standing(*word, None);
            standing.reset
        });
        Some(judges[0].now().saturating_add(owing.max()?))
    }

    /// Keeps the keys that were counted in overflow words in the filter for as long as these words count by the rates of now.
    pub(crate) fn prolong_overflow(&self, judges: &[Judge; K]) {
        let (now, filter) = (judges[0].now(), self.overflow_filter(judges));
        if filter.false_positives(now) == 0 {
            return;
        }
        let words = (0..self.memory.buckets()).map(|home| self.shared(home));
        let last = words.filter_map(|words| self.last_of(judges, &words)).max();
        if let Some(last) = last {
            filter.copy_into(&filter, now, last);
        }
    }

    /// Takes `cost` of the charge made at `made` back.
    pub(super) fn undo_overflow(
        &self,
        homes: [usize; 2],
        judges: &[Judge; K],
        made: &Made<K>,
        cost: Cost,
    ) {
        for (rate, judge) in judges.iter().enumerate().rev() {
            for (row, home) in Memory::<K>::distinct(homes) {
                let charge = made.charge(made.left[rate][row], cost);
                let word = self.memory.bucket(home).overflow(rate);
                revise(word, |word| judge.undo_forced(word, charge));
            }
        }
    }
}
