//! Carries over what was used between a table of logs and the words of another algorithm, when a limit is edited from one
//! to the other.
//!
//! *From words to logs.* A word knows how much was used, not when. So a log gets the latest moments at which each rate has
//! used exactly as much as its word says: what the shortest rate counts was made now, what only a longer one counts was
//! made when the next shorter one had just stopped to count it. Any log that agrees with the words is at most as late, so
//! nothing frees before its time.
//!
//! *From logs to words.* Each rate takes over what the log has in its own period, as far back as the log goes, as if all
//! of it was made now. Of the new keys that share a log only the first bucket is known, and words are shared by both
//! buckets of a key: every bucket gets the largest of all. So a key that was counted there begins with that after such an
//! edit, for two periods at most.

use crate::algorithm::{RateAt, Word};
use crate::cost::Cost;
use crate::key::KeyHash;
use crate::rate::{MAX_RATES, Rates};
use crate::status::KeyPlacement;
use crate::table::layout::overlapping;
use crate::table::migrate::origin;
use crate::table::overflow_filter::OverflowFilter;
use crate::table::{self, Table};
use crate::time::Timestamp;

use super::change::LogChange;
use super::control::SpillState;
use super::evaluate::{LogTime, NANOS_PER_MILLI, longest};
use super::inherited_entries::InheritedEntries;
use super::insert::SlotInheritance;
use super::log::LogView;
use super::migrate::settled;
use super::{LogReceipt, LogTable};

/// Units that each rate of a limit has used; behind the last they mean nothing.
pub(crate) type UsedUnits = [u64; MAX_RATES];

impl<const K: usize> Table<K> {
    /// Copies like [`copy_into`](Self::copy_into), into logs that are judged by `rates`.
    pub(crate) fn copy_into_logs(
        &self,
        rates_at: &[RateAt; K],
        new: &LogTable,
        rates: &Rates,
        now: Timestamp,
    ) {
        let used = |words: [Word; K]| {
            let mut used = UsedUnits::default();
            for (used, rate) in used.iter_mut().zip(rates) {
                let origin = origin(rates_at, rate.period());
                *used = rates_at[origin].used_units(words[origin]);
            }
            used
        };
        for bucket_index in 0..new.buckets() {
            let mut most = UsedUnits::default();
            for old_home in overlapping(bucket_index, new.buckets(), self.buckets()) {
                let old = used(self.shared(old_home));
                most = std::array::from_fn(|rate| most[rate].max(old[rate]));
            }
            new.absorb_shared(bucket_index, &most, rates, now);
        }
        new.absorb_filter(self.overflow_filter(rates_at), rates, now);
        for slot in 0..self.slots() {
            if let Some((key, words)) = self.occupant(slot, rates_at) {
                new.absorb(key, &used(words), rates, now);
            }
        }
    }
}

impl LogTable {
    pub(crate) fn buckets(&self) -> usize {
        self.memory.buckets()
    }

    /// Adds what another table counts for `key`.
    pub(crate) fn absorb(&self, key: KeyHash, used: &UsedUnits, rates: &Rates, now: Timestamp) {
        let inherited = self.latest_of(used, rates, LogTime::new(now));
        if !inherited.moments.is_empty() {
            let change = LogChange::Absorb(&inherited);
            // It is all that the key used, in overflow too.
            self.change(key, rates, &change, SlotInheritance::Nothing, now);
        }
    }

    /// Adds what another table counts for new keys whose first bucket is `bucket_index`.
    pub(crate) fn absorb_shared(
        &self,
        bucket_index: usize,
        used: &UsedUnits,
        rates: &Rates,
        now: Timestamp,
    ) {
        let moment = LogTime::new(now);
        let inherited = self.latest_of(used, rates, moment);
        if !inherited.moments.is_empty() {
            let log = self.memory.overflow(bucket_index);
            self.change_shared(log, rates, &LogChange::Absorb(&inherited), moment);
        }
    }

    /// Finds in its filter what that of another table finds, for as long as what was told of that table now counts.
    pub(crate) fn absorb_filter(&self, old: OverflowFilter<'_>, rates: &Rates, now: Timestamp) {
        let until = LogTime::new(now).overflow_period(longest(rates)).until;
        old.copy_into(&self.overflow_filter(rates), now, until);
    }

    /// The latest moments at which each rate has used so much.
    fn latest_of(&self, used: &UsedUnits, rates: &Rates, moment: LogTime) -> InheritedEntries {
        let mut told = 0;
        let mut at = moment.rounded_up();
        let mut parts = [(0, 0_usize); MAX_RATES];
        for ((part, rate), used) in parts.iter_mut().zip(rates).zip(used) {
            let more = used.saturating_sub(told);
            // One beyond a log's size tells that there was more.
            *part = (at, more.min(u64::from(self.memory.entries()) + 1) as usize);
            told += more;
            at = moment.expired(rate.period()).unwrap_or(0);
        }
        let moments = parts
            .into_iter()
            .flat_map(|(at, units)| std::iter::repeat_n(at, units));
        InheritedEntries::from_moments(moments, SpillState::None, self.memory.entries())
    }

    /// Adds everything that this table counts to `new`, whose rates are judged by `rates_at`. Charges made meanwhile are the
    /// caller's concern, as in [`copy_into`](Self::copy_into).
    pub(crate) fn copy_into_words<const N: usize>(
        &self,
        rates: &Rates,
        new: &Table<N>,
        rates_at: &[RateAt; N],
        now: Timestamp,
    ) {
        let moment = LogTime::new(now);
        let used = |view: &LogView<'_>| -> [u32; N] {
            std::array::from_fn(|rate| view.used(rates_at[rate].period(), moment))
        };
        let words = |used: [u32; N]| -> [Word; N] {
            std::array::from_fn(|rate| {
                let used = Cost::new(used[rate]);
                used.map_or(Word::UNUSED, |used| {
                    rates_at[rate].charge_unchecked(Word::UNUSED, used)
                })
            })
        };
        let mut most = [0; N];
        for bucket_index in 0..self.memory.buckets() {
            let (_, shared) = settled(self.memory.overflow(bucket_index), used);
            most = std::array::from_fn(|rate| most[rate].max(shared[rate]));
        }
        if most != [0; N]
            && let Some(last) = new.share_with_all(rates_at, &words(most))
        {
            let filter = new.overflow_filter(rates_at);
            self.overflow_filter(rates).copy_into(&filter, now, last);
        }
        for slot in 0..self.memory.slots() {
            let (owner, used) = settled(self.memory.slot(slot), used);
            if let Some(tag) = owner
                && used != [0; N]
            {
                new.change(tag.key(), rates_at, table::WordChange::Absorb(&words(used)));
            }
        }
    }
}

impl LogReceipt {
    /// The receipt of a charge that was made in another table and told to this one.
    pub(crate) fn of_told(
        key: KeyHash,
        made: Timestamp,
        cost: Cost,
        placement: KeyPlacement,
    ) -> Self {
        Self::new(key, LogTime::new(made).rounded_up(), cost, placement)
    }

    /// Converts the charge to the words that it would have left where nobody charged before, if it still counts for
    /// these rates.
    pub(crate) fn in_words<const N: usize>(
        &self,
        rates_at_moment: impl Fn(Timestamp) -> [RateAt; N],
        rates: &Rates,
        now: Timestamp,
    ) -> Option<(Timestamp, [Word; N])> {
        let expired = LogTime::new(now).is_expired(self.at(), longest(rates));
        let cost = Cost::new(self.units()).filter(|_| !expired)?;
        let made = Timestamp::from_nanos(self.at().saturating_mul(NANOS_PER_MILLI));
        Some((
            made,
            rates_at_moment(made).map(|rate_at| rate_at.charge_unchecked(Word::UNUSED, cost)),
        ))
    }
}
