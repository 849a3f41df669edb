//! Lays a table of logs into a file's region, and finishes what killed processes have left there.
//!
//! Moments mean the same whatever the rates, so a file goes on under other counts as long as its logs are long enough, and
//! if not, they are copied into longer ones: length is no part of what a file means. How long they are follows from the
//! file's own length ([`LogShape::found`]). The longest period is part of it: two processes that count in one file must agree
//! on who owes nothing any more.
//!
//! # What a process leaves when it is killed
//! Whatever it was at, the log that it held is held, and is mended as it would be for one who waited (`log`, invariant 1).
//!
//! | while it | is left | which counts |
//! |---|---|---|
//! | charged | entries behind what counts | nothing: the request was never answered |
//! | charged the log of new keys, but had not yet looked for a slot | the charge, perhaps beside one in the slot | an unanswered request |
//! | charged by force, set, or took over what another table counts | some entries later than they were | too long, for at most a period |
//! | gave back | entries that were to go, some of them later | too much, for at most a period |
//! | claimed a slot | an empty log under the old name or the new one | nothing; the slot is nobody's |
//!
//! So what was admitted and answered counts, always. After a loss of power words may be of different ages: a log may then
//! count what it counted at some earlier moment. No pattern of words makes a table panic or wait for ever.

use crate::sync::AtomicU64;

use super::LogTable;
use super::layout::LogShape;

#[cfg(feature = "mmap")]
use super::{
    LogMemory,
    control::SpillState,
    evaluate::{LogTime, longest, millis},
    inherited_entries::InheritedEntries,
    shape_for,
};
#[cfg(feature = "mmap")]
use crate::{
    capacity::Capacity,
    rate::{Period, Rates},
    region::{Region, WordLengths},
    sync::BoundedBackoff,
    table::TableStats,
    table::overflow_filter,
    table::stats::StatCounters,
    time::Timestamp,
};

impl LogShape {
    /// Drops the entries that lie more than a `period` ahead of `now`, as in a damaged file, and puts the others in order; how many logs
    /// that concerned. The caller must be alone with the words; runs after [`heal`](Self::heal).
    #[cfg(feature = "mmap")]
    fn drop_ahead(self, words: &[AtomicU64], period: Period, now: Timestamp) -> u64 {
        let last = LogTime::new(now)
            .rounded_up()
            .saturating_add(millis(period));
        let mut dropped = 0;
        for log in self.logs(words) {
            let seen = log.control();
            let view = log.view(seen);
            let entries = || (0..view.len()).map(|age| view.entry(age));
            if entries().is_sorted_by(|later, earlier| later >= earlier)
                && view.latest().is_none_or(|latest| latest <= last)
            {
                continue;
            }
            let mut kept: Vec<u64> = entries().filter(|entry| *entry <= last).collect();
            kept.sort_unstable_by(|one, other| other.cmp(one));
            let kept =
                InheritedEntries::from_moments(kept.into_iter(), SpillState::None, view.size());
            // Alone, nobody comes between.
            let _ = log
                .take(seen, kept.latest(), 0)
                .and_then(|guard| guard.fill(&kept));
            dropped += 1;
        }
        dropped
    }

    /// Takes every log in the words of a table out of the hands that it is in. For who is alone with them.
    fn heal(self, words: &[AtomicU64]) {
        for log in self.logs(words) {
            let seen = log.control();
            if seen.is_held() {
                log.mend(seen);
            }
        }
    }
}

#[cfg(feature = "mmap")]
impl LogTable {
    /// Names the layout of the words, as that of a table of words does, which never has no rate. Another arrangement,
    /// another meaning of an entry, or another hash of keys, takes another number than 3.
    pub(crate) const LAYOUT: u64 = 3 << 8;

    /// Words of a table for `capacity` keys, with logs for these rates, and of its filter.
    pub(crate) fn words_for(capacity: Capacity, rates: &Rates) -> usize {
        let buckets = LogMemory::buckets_for(capacity);
        shape_for(rates).words_of(buckets) + overflow_filter::words_for(Some(capacity))
    }

    /// The lengths in words that a table for `capacity` keys may have.
    pub(crate) fn lengths_for(capacity: Capacity) -> WordLengths {
        let buckets = LogMemory::buckets_for(capacity);
        let filter = overflow_filter::words_for(Some(capacity));
        let [least, next, most] = [LogShape::SHORTEST, LogShape::NEXT, LogShape::LONGEST]
            .map(|shape| shape.words_of(buckets) + filter);
        WordLengths {
            least,
            step: next - least,
            most,
        }
    }

    /// The table for `capacity` keys that lies in `region`, which has one of its [lengths](Self::lengths_for).
    pub(crate) fn within(region: Region, capacity: Capacity, before: TableStats) -> Self {
        let buckets = LogMemory::buckets_for(capacity);
        let words = region.len() - overflow_filter::words_for(Some(capacity));
        let shape = LogShape::found(words, buckets).expect("each of the lengths is a shape's");
        Self {
            memory: LogMemory::within(region, buckets, shape),
            counts: StatCounters::new(before),
            // Holders may die with their process.
            backoff: BoundedBackoff::default(),
        }
    }

    /// Finishes what killed processes have left in the words of the buckets for `capacity` keys. For who is alone with them.
    /// What lies more than the longest period ahead of `now` is dropped; how many logs that concerned.
    pub(crate) fn heal(
        words: &[AtomicU64],
        capacity: Capacity,
        rates: &Rates,
        now: Timestamp,
    ) -> u64 {
        let Some(shape) = LogShape::found(words.len(), LogMemory::buckets_for(capacity)) else {
            return 0;
        };
        shape.heal(words);
        shape.drop_ahead(words, longest(rates), now)
    }
}

#[cfg(all(test, not(loom)))]
impl LogTable {
    /// Overwrites all words with any bits; the first slot of each bucket belongs to one of `keys` then.
    pub(crate) fn scrawl(
        &self,
        bits: &mut impl Iterator<Item = u64>,
        keys: &[crate::key::KeyHash],
    ) {
        use crate::sync::Ordering;
        use crate::table::tag::Tag;

        // Relaxed: there is one thread.
        for (word, bits) in self.memory.words().iter().zip(bits) {
            word.store(bits, Ordering::Relaxed);
        }
        for (bucket_index, key) in (0..self.memory.buckets()).zip(keys.iter().cycle()) {
            let first = self.memory.slot(bucket_index * super::layout::SLOTS);
            if let Some(tag) = first.tag {
                first.words[tag].store(Tag::new(*key).bits(), Ordering::Relaxed);
            }
        }
    }

    /// Runs [`heal`](LogShape::heal) on the table's own words.
    pub(crate) fn healed(&self) {
        let words = self.memory.words();
        let filter = self.memory.filter().len();
        self.memory.shape().heal(&words[..words.len() - filter]);
    }
}
