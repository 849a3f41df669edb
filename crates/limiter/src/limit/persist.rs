//! Opens a limit whose counters survive the process, and edits it so that they go on surviving.
//!
//! The counters lie in a file of a [`StateLocation`], named after the limit and after everything that the counts mean: its
//! name, what the caller says of its key, the algorithm, the periods, the capacity, the layout of the table. Counts,
//! bursts and queues are not part of it, since no state depends on them.
//!
//! Logs of `exact` hold moments, which mean the same under all rates: of their periods only the longest is part of the
//! name, and their length is not. A file whose logs are too short or twice too long for the counts of now, which another
//! configuration had left, is copied into one that fits, before any request is counted there.
//!
//! # Limits
//! An edit of algorithm, periods or capacity carries the counts over while the process runs ([`Limit::edited_in`]). One
//! that is made while no process runs starts from zero: the file of before means something else. Where logs are copied
//! into a file that fits while another process still counts in theirs, as one that drains does, what it charges from then on
//! counts there alone. A reservation is a
//! handle of this process: killed with it, it leaves its charge as it is.

use std::sync::Arc;

use crate::algorithm::{Algorithm, Policy};
use crate::capacity::Capacity;
use crate::exact::LogTable;
use crate::region::{FileIdentity, LayoutId, OpenOutcome, Region, StateError, StateLocation};
use crate::sync::AtomicU64;
use crate::table::{Table, TableStats, overflow_filter};
use crate::time::Timestamp;

use super::{AnyTable, Limit, LimitCounters, TableSize};

/// Identifies a limit's counters, beside its policy and its capacity.
#[derive(Clone, Copy, Debug)]
pub struct TableId<'a> {
    /// The limit's name.
    pub name: &'a str,
    /// The template that its keys are made from.
    pub key: &'a str,
}

impl TableId<'_> {
    /// The identity of the counters of a limit of this meaning. A sweep asks for those in use.
    #[must_use]
    pub fn identity(&self, policy: &Policy, capacity: Capacity) -> FileIdentity {
        let rates = policy.rates();
        let keys = capacity.keys().to_le_bytes();
        let states = policy.meaning_of_states();
        let meaning: [&[u8]; 3] = [self.key.as_bytes(), &states, &keys];
        let (layout, bucket_words) = match (policy.algorithm(), rates.len()) {
            (Algorithm::Exact, _) => {
                let layout = LayoutId(LogTable::LAYOUT | overflow_filter::LAYOUT);
                let words = LogTable::words_for(capacity, rates);
                let lengths = LogTable::lengths_for(capacity);
                return FileIdentity::of_lengths(self.name, layout, lengths, words, &meaning);
            }
            (_, 1) => (Table::<1>::LAYOUT, Table::<1>::bucket_words_for(capacity)),
            (_, 2) => (Table::<2>::LAYOUT, Table::<2>::bucket_words_for(capacity)),
            (_, 3) => (Table::<3>::LAYOUT, Table::<3>::bucket_words_for(capacity)),
            _ => (Table::<4>::LAYOUT, Table::<4>::bucket_words_for(capacity)),
        };
        let layout = LayoutId(layout | overflow_filter::LAYOUT);
        let words = bucket_words + overflow_filter::words_for(Some(capacity));
        FileIdentity::new(self.name, layout, words, &meaning)
    }
}

impl AnyTable {
    /// The table for `policy` that lies in `region`.
    fn within(policy: &Policy, capacity: Capacity, region: Region, before: TableStats) -> Self {
        let filter = overflow_filter::words_for(Some(capacity));
        match (policy.algorithm(), policy.rates().len()) {
            (Algorithm::Exact, _) => Self::Log(LogTable::within(region, capacity, before)),
            (_, 1) => Self::One(Table::within(region, filter, before)),
            (_, 2) => Self::Two(Table::within(region, filter, before)),
            (_, 3) => Self::Three(Table::within(region, filter, before)),
            _ => Self::Four(Table::within(region, filter, before)),
        }
    }

    /// Finishes what killed processes have left in the words of a table for `policy`, and drops what lies further ahead of `now` than a
    /// window; how many states that concerned.
    fn heal(policy: &Policy, capacity: Capacity, words: &[AtomicU64], now: Timestamp) -> u64 {
        fn heal<const K: usize>(policy: &Policy, words: &[AtomicU64], now: Timestamp) -> u64 {
            Table::<K>::heal(words);
            let mut compiled_rates = policy.compiled_rates();
            if let Some((zone, unit)) = policy.calendar() {
                let shape = zone.window(unit, now);
                compiled_rates = compiled_rates.map(|compiled| compiled.in_window(shape));
            }
            Table::<K>::drop_ahead(
                words,
                &std::array::from_fn(|rate| compiled_rates[rate].at(now)),
            )
        }
        // No word of a filter makes anything wait or panic.
        let filter = overflow_filter::words_for(Some(capacity));
        let words = &words[..words.len().saturating_sub(filter)];
        match (policy.algorithm(), policy.rates().len()) {
            (Algorithm::Exact, _) => LogTable::heal(words, capacity, policy.rates(), now),
            (_, 1) => heal::<1>(policy, words, now),
            (_, 2) => heal::<2>(policy, words, now),
            (_, 3) => heal::<3>(policy, words, now),
            _ => heal::<4>(policy, words, now),
        }
    }
}

impl Limit {
    /// A limit that goes on from the counters in a [`StateDir`](crate::StateDir) or in [`AnonymousFiles`](crate::AnonymousFiles), or
    /// begins new ones there.
    ///
    /// Its keys must be hashed under the place's seed, and its moments come from one clock with those of earlier charges there
    /// before, `now` too.
    ///
    /// # Errors
    /// No room for the counters, or the system's. [`Limit::new`] counts without a file.
    pub fn open<'a>(
        place: impl Into<StateLocation<'a>>,
        meaning: TableId<'_>,
        policy: impl Into<Policy>,
        capacity: Capacity,
        now: Timestamp,
    ) -> Result<(Self, OpenOutcome), StateError> {
        let policy = policy.into();
        let identity = meaning.identity(&policy, capacity);
        let mut found = TableStats::default();
        let heal = |region: &Region| {
            found.dropped = AnyTable::heal(&policy, capacity, region, now);
        };
        // One lock for all: a process that starts at the same time finds the file of before, or the one that took its place.
        let mut turn = place.into().turn()?;
        let (region, mut adopted) = turn.region(&identity, now, heal)?;
        let mut table = AnyTable::within(&policy, capacity, region, found);
        if let AnyTable::Log(logs) = &table
            && !logs.suits(policy.rates())
        {
            let fitting = turn.replace(&identity, now, |region| {
                let fitting = LogTable::within(region, capacity, found);
                logs.copy_into(policy.rates(), &fitting, policy.rates(), now);
                fitting
            })?;
            (table, adopted) = (AnyTable::Log(fitting), OpenOutcome::Continued);
        }
        drop(turn);
        let limit = Self {
            compiled_rates: policy.compiled_rates(),
            policy,
            capacity,
            counters: Arc::new(LimitCounters::new(table)),
        };
        Ok((limit, adopted))
    }

    /// Edits like [`edited`](Self::edited); where that takes another table, it gets a file, which is found under its
    /// name once all counts are in it.
    ///
    /// # Errors
    /// The limit is edited and counts whatever becomes of the file. An error says that what it counts from now on will
    /// not survive.
    pub fn edited_in<'a>(
        &self,
        place: impl Into<StateLocation<'a>>,
        meaning: TableId<'_>,
        policy: impl Into<Policy>,
        capacity: Capacity,
        now: Timestamp,
    ) -> (Self, Result<(), StateError>) {
        let place = place.into();
        let mut drafted = Ok(None);
        let edited = self.edited_with(policy.into(), capacity, now, |policy, before| {
            match place.draft(&meaning.identity(policy, capacity), now) {
                Ok((region, draft)) => {
                    drafted = Ok(Some(draft));
                    AnyTable::within(policy, capacity, region, before)
                }
                Err(error) => {
                    drafted = Err(error);
                    AnyTable::new(policy, TableSize::Keys(capacity), before)
                }
            }
        });
        let kept = drafted.and_then(|draft| match draft {
            Some(draft) => draft.publish(),
            None => Ok(()),
        });
        (edited, kept)
    }
}
