//! Says how a limit's table is doing: since when new keys share counters, and how old what it holds is.
//!
//! Keys in overflow have no slot, so they cannot be listed. Of one key
//! [`Limit::peek`] tells by [`Decision::placement`](crate::Decision::placement) whether it would be counted so; of all
//! of them this tells since when, [`Limit::stats`] how many decisions it was, and [`Limit::occupancy`] in how many
//! buckets.

use crate::capacity::Capacity;
use crate::decision::Decision;
use crate::key::KeyHash;
use crate::share;
use crate::status::KeyPlacement;
use crate::table::tag::Tag;
use crate::table::{KeyAges, OverflowPeriod};
use crate::time::Timestamp;

use super::{AnyTable, Limit, with_table};

impl Limit {
    /// The slots that one payer may take however crowded the table is; `None` where payers have [no shares](Self::with_payer_shares).
    #[must_use]
    pub fn share(&self) -> Option<u64> {
        let shares = self.counters.shares.get();
        shares.map(|_| share::share(self.capacity))
    }

    /// Size of a payer's share where [shares](Self::with_payer_shares) are enabled, in keys.
    #[must_use]
    pub fn share_of(capacity: Capacity) -> u64 {
        share::share(capacity)
    }

    /// Since when new keys have been counted together, and until when at the latest that weighs on any of them; `None` when
    /// none is. Reads one word.
    #[must_use]
    pub fn overflow(&self, now: Timestamp) -> Option<OverflowPeriod> {
        self.stats().overflow.filter(|period| now < period.until)
    }

    /// Estimates the false positives of the overflow filter: of 1000 new keys that were never counted in overflow, the
    /// number that begin with the overflow counts although they find a slot. Reads the filter, 128 KiB and more.
    #[must_use]
    pub fn overflow_false_positives(&self, now: Timestamp) -> u64 {
        with_table!(
            &self.counters.table,
            table => table.overflow_filter(&self.rates_at(now)).false_positives(now),
            logs => logs.overflow_filter(self.rates()).false_positives(now),
        )
    }

    /// Returns whether the counts of a key that was charged at this time may include those of others, with which it shared counters while
    /// the table was full.
    #[must_use]
    pub fn may_count_others(&self, key: KeyHash, charged: Timestamp) -> bool {
        let tag = Tag::new(key);
        let was_full = self.stats().overflow.is_some();
        was_full
            && with_table!(
                &self.counters.table,
                table => table.overflow_filter(&self.rates_at(charged)).contained(tag, charged),
                logs => logs.overflow_filter(self.rates()).contained(tag, charged),
            )
    }

    /// Adds a decision of this limit to the [`TableStats`](crate::TableStats) if it refuses by a counter that new keys share, or since the
    /// payer has taken its share. For each refusal that is enforced, whether it was peeked at or came from [`decide`](fn@crate::decide) or
    /// [`reserve`](crate::reserve).
    pub fn count_refusal(&self, decision: &Decision) {
        if decision.is_refused() {
            self.count_refusal_as(decision.placement());
        }
    }

    /// Counts like [`count_refusal`](Self::count_refusal), for a decision that is known to refuse a key with this
    /// placement.
    pub fn count_refusal_as(&self, placement: KeyPlacement) {
        with_table!(
            &self.counters.table,
            table => table.count_refusal(placement),
            logs => logs.count_refusal(placement),
        );
    }

    /// Ages of the latest charges of keys that still count; `None` for algorithms whose states do not hold them.
    /// Those of `sliding-window` do, to the second, and those of `exact`. Reads as much of the table as
    /// [`occupancy`](Self::occupancy).
    #[must_use]
    pub fn ages(&self, now: Timestamp) -> Option<KeyAges> {
        with_table!(
            &self.counters.table,
            table => table.ages(&self.rates_at(now)),
            logs => Some(logs.ages(self.rates(), now)),
        )
    }
}
