//! Opens a limit whose counters survive the process, and edits it so that they go on surviving.
//!
//! The counters lie in a file of a [`StateDir`], named after the limit and after everything that the counts mean: its
//! name, what the caller says of its key, the algorithm, the periods, the capacity, the layout of the table. Counts,
//! bursts and queues are not part of it, since no state depends on them.
//!
//! # Limits
//! An edit of algorithm, periods or capacity carries the counts over while the process runs ([`Limit::edited_in`]). One
//! that is made while no process runs starts from zero: the file of before means something else. A reservation is a
//! handle of this process: killed with it, it leaves its charge as it is.

use std::sync::Arc;

use crate::algorithm::{Algorithm, Policy};
use crate::capacity::Capacity;
use crate::rate::Rates;
use crate::region::{Adopted, Identity, Layout, Region, StateDir, StateError};
use crate::sync::AtomicU64;
use crate::table::{Table, Tallies};
use crate::time::Timestamp;

use super::{AnyTable, Counters, Limit, Size};

/// What tells a limit's counters from all others, beside its policy and its capacity.
#[derive(Clone, Copy, Debug)]
pub struct Meaning<'a> {
    /// The limit's name.
    pub name: &'a str,
    /// What its keys are: the template that they are made from.
    pub key: &'a str,
}

impl Meaning<'_> {
    /// The identity of the counters of a limit of this meaning. A sweep asks for those in use.
    #[must_use]
    pub fn identity(&self, policy: &Policy, capacity: Capacity) -> Identity {
        fn shape<const K: usize>(capacity: Capacity) -> (Layout, usize) {
            (Layout(Table::<K>::LAYOUT), Table::<K>::words_for(capacity))
        }
        let (layout, words) = match policy.rates().len() {
            1 => shape::<1>(capacity),
            2 => shape::<2>(capacity),
            3 => shape::<3>(capacity),
            _ => shape::<4>(capacity),
        };
        let keys = capacity.keys().to_le_bytes();
        let states = policy.meaning_of_states();
        let meaning: [&[u8]; 3] = [self.key.as_bytes(), &states, &keys];
        Identity::new(self.name, layout, words, &meaning)
    }
}

/// Where the counters of a limit can lie.
enum Home {
    File,
    Memory,
}

impl Home {
    /// The seam where the log of `exact` joins: as soon as its table can be laid into a [`Region`], told its length in
    /// words and healed, [`AnyTable::within`], [`Meaning::identity`] and [`AnyTable::heal`] take it, and this goes.
    fn of(policy: &Policy) -> Self {
        match policy.algorithm() {
            Algorithm::Exact => Self::Memory,
            Algorithm::SlidingWindow
            | Algorithm::FixedWindow(_)
            | Algorithm::TokenBucket { .. }
            | Algorithm::Gcra { .. }
            | Algorithm::LeakyBucket { .. } => Self::File,
        }
    }
}

impl AnyTable {
    /// The table for `rates` that lies in `region`.
    fn within(rates: &Rates, region: Region, before: Tallies) -> Self {
        match rates.len() {
            1 => Self::One(Table::within(region, before)),
            2 => Self::Two(Table::within(region, before)),
            3 => Self::Three(Table::within(region, before)),
            _ => Self::Four(Table::within(region, before)),
        }
    }

    /// Finishes what killed processes have left in the words of a table for `rates`.
    fn heal(rates: &Rates, words: &[AtomicU64]) {
        match rates.len() {
            1 => Table::<1>::heal(words),
            2 => Table::<2>::heal(words),
            3 => Table::<3>::heal(words),
            _ => Table::<4>::heal(words),
        }
    }
}

impl Limit {
    /// A limit that goes on from the counters in `state`, or begins new ones there.
    ///
    /// Its keys must be hashed under the directory's seed, and its moments come from the directory's clock. When `now`
    /// is only tells who looks into a new file when that was made. [`Adopted::MemoryOnly`] says that there is no file:
    /// an `exact` limit counts as [`Limit::new`] does.
    ///
    /// # Errors
    /// No room for the counters, or the system's. [`Limit::new`] counts without a file.
    pub fn open(
        state: &StateDir,
        meaning: Meaning<'_>,
        policy: impl Into<Policy>,
        capacity: Capacity,
        now: Timestamp,
    ) -> Result<(Self, Adopted), StateError> {
        let policy = policy.into();
        if let Home::Memory = Home::of(&policy) {
            return Ok((Self::new(policy, capacity), Adopted::MemoryOnly));
        }
        let identity = meaning.identity(&policy, capacity);
        let heal = |region: &Region| AnyTable::heal(policy.rates(), region);
        let (region, adopted) = state.region(&identity, now, heal)?;
        let table = AnyTable::within(policy.rates(), region, Tallies::default());
        let limit = Self {
            meters: policy.meters(),
            policy,
            capacity,
            counters: Arc::new(Counters::new(table)),
        };
        Ok((limit, adopted))
    }

    /// As [`edited`](Self::edited); where that takes another table, it gets a file, which is found under its name once
    /// all counts are in it.
    ///
    /// # Errors
    /// The limit is edited and counts whatever becomes of the file. An error says that what it counts from now on will
    /// not survive; [`StateError::MemoryOnly`], that its algorithm keeps no file.
    pub fn edited_in(
        &self,
        state: &StateDir,
        meaning: Meaning<'_>,
        policy: impl Into<Policy>,
        capacity: Capacity,
        now: Timestamp,
    ) -> (Self, Result<(), StateError>) {
        let draft = |policy: &Policy| match Home::of(policy) {
            Home::File => state.draft(&meaning.identity(policy, capacity), now),
            Home::Memory => Err(StateError::MemoryOnly),
        };
        let mut drafted = Ok(None);
        let edited = self.edited_with(policy.into(), capacity, now, |policy, before| {
            match draft(policy) {
                Ok((region, draft)) => {
                    drafted = Ok(Some(draft));
                    AnyTable::within(policy.rates(), region, before)
                }
                Err(error) => {
                    drafted = Err(error);
                    AnyTable::new(policy, Size::Keys(capacity), before)
                }
            }
        });
        let kept = drafted.and_then(|draft| match draft {
            Some(draft) => state.publish(&draft),
            None => Ok(()),
        });
        (edited, kept)
    }
}
