//! Defines the tables of a limit that the storage opens, edits and finds again: its counters, and its bans.
//!
//! A ban lasts longer than the period of its rate, mostly by hours, so it must survive the process more than any counter. It has a file
//! of its own beside the counters of its limit; all else is as with counters.

use sluicegate_limiter::{
    BanRules, Bans, Capacity, FileIdentity, Limit, OpenOutcome, Policy, StateError, StateLocation,
    TableId, Timestamp,
};

/// A table, without its contents.
pub trait StoredTable {
    /// The table with its contents.
    type Opened;

    /// The word for the contents in the process log.
    const CONTENTS: &'static str;

    /// Returns the limit to which it belongs.
    fn limit(&self) -> &str;

    /// Returns the file that it has in a directory.
    fn file(&self) -> FileIdentity;

    /// Creates it in the memory of this process.
    fn create(&self) -> Self::Opened;

    /// Creates it in the memory of this process, with the contents of `before`.
    fn edit(&self, before: &Self::Opened, now: Timestamp) -> Self::Opened;

    /// Opens or creates it at this location.
    ///
    /// # Errors
    /// The location cannot hold it.
    fn open_in<'a>(
        &self,
        location: impl Into<StateLocation<'a>>,
        now: Timestamp,
    ) -> Result<(Self::Opened, OpenOutcome), StateError>;

    /// Creates it at this location with the contents of `before`, or in the memory of this process, with the reason.
    fn edit_in<'a>(
        &self,
        location: impl Into<StateLocation<'a>>,
        before: &Self::Opened,
        now: Timestamp,
    ) -> (Self::Opened, Result<(), StateError>);

    /// Returns whether an edit left the contents of `before` where they were.
    fn is_in_place(&self, edited: &Self::Opened, before: &Self::Opened) -> bool;

    /// Returns how many counters of its file were dropped, since they lay too far ahead.
    fn dropped(_opened: &Self::Opened) -> u64 {
        0
    }
}

/// The table of a limit's counters.
#[derive(Clone, Copy)]
pub struct CounterTable<'a> {
    /// The meaning of the counters.
    pub id: TableId<'a>,
    /// The rates and the algorithm.
    pub policy: &'a Policy,
    /// The maximum of active keys.
    pub capacity: Capacity,
}

/// The table of a limit's bans.
#[derive(Clone, Copy)]
pub struct BanTable<'a> {
    /// The meaning of the keys.
    pub id: TableId<'a>,
    /// The durations of bans.
    pub rules: BanRules,
    /// The maximum of banned keys.
    pub capacity: Capacity,
}

impl StoredTable for CounterTable<'_> {
    type Opened = Limit;

    const CONTENTS: &'static str = "counters";

    fn limit(&self) -> &str {
        self.id.name
    }

    fn file(&self) -> FileIdentity {
        self.id.identity(self.policy, self.capacity)
    }

    fn create(&self) -> Limit {
        Limit::new(self.policy.clone(), self.capacity)
    }

    fn edit(&self, before: &Limit, now: Timestamp) -> Limit {
        before.edited(self.policy.clone(), self.capacity, now)
    }

    fn open_in<'a>(
        &self,
        location: impl Into<StateLocation<'a>>,
        now: Timestamp,
    ) -> Result<(Limit, OpenOutcome), StateError> {
        Limit::open(location, self.id, self.policy.clone(), self.capacity, now)
    }

    fn edit_in<'a>(
        &self,
        location: impl Into<StateLocation<'a>>,
        before: &Limit,
        now: Timestamp,
    ) -> (Limit, Result<(), StateError>) {
        before.edited_in(location, self.id, self.policy.clone(), self.capacity, now)
    }

    fn is_in_place(&self, edited: &Limit, before: &Limit) -> bool {
        edited.shares_counters_with(before)
    }

    fn dropped(opened: &Limit) -> u64 {
        opened.stats().dropped
    }
}

impl StoredTable for BanTable<'_> {
    type Opened = Bans;

    const CONTENTS: &'static str = "bans";

    fn limit(&self) -> &str {
        self.id.name
    }

    fn file(&self) -> FileIdentity {
        Bans::identity(self.id, self.capacity)
    }

    fn create(&self) -> Bans {
        Bans::new(self.rules, self.capacity)
    }

    fn edit(&self, before: &Bans, now: Timestamp) -> Bans {
        before.edited(self.rules, self.capacity, now)
    }

    fn open_in<'a>(
        &self,
        location: impl Into<StateLocation<'a>>,
        now: Timestamp,
    ) -> Result<(Bans, OpenOutcome), StateError> {
        Bans::open(location, self.id, self.rules, self.capacity, now)
    }

    fn edit_in<'a>(
        &self,
        location: impl Into<StateLocation<'a>>,
        before: &Bans,
        now: Timestamp,
    ) -> (Bans, Result<(), StateError>) {
        before.edited_in(location, self.id, self.rules, self.capacity, now)
    }

    fn is_in_place(&self, _: &Bans, before: &Bans) -> bool {
        // Only another capacity needs another table.
        before.capacity() == self.capacity
    }
}
