//! Owns the storage of bans: beside the counters of their limit, in a file of their own.
//!
//! A ban lasts longer than the period of its rate, mostly by hours, so it must survive the process more than any counter. The
//! rest is as with counters: bans always work, and where their file fails they are kept in memory, and the failure is reported.

use sluicegate_limiter::{BanRules, Bans, Capacity, StateError, TableId, Timestamp};
use tracing::warn;

use super::{CounterStorage, Persistence, StateDirectory, StorageKind, announce, handover};

impl CounterStorage {
    /// Returns the bans of a limit; they continue those of `before`, the same ones ahead of an edit, or without it those of
    /// their file.
    #[must_use]
    pub fn bans(
        &self,
        meaning: TableId<'_>,
        rules: BanRules,
        capacity: Capacity,
        before: Option<(&Bans, &Persistence)>,
        now: Timestamp,
    ) -> (Bans, Persistence) {
        match (&self.kept, before) {
            (StorageKind::Directory(directory), None) => {
                directory.open_bans(meaning, rules, capacity, now)
            }
            (StorageKind::Directory(directory), Some(before)) => {
                directory.edit_bans(meaning, rules, capacity, before, now)
            }
            (StorageKind::Anonymous(files), None) => {
                handover::open_bans(files, meaning, rules, capacity, now)
            }
            (StorageKind::Anonymous(files), Some((before, _))) => {
                handover::edit_bans(files, meaning, rules, capacity, before, now)
            }
            (StorageKind::Here, None) => (Bans::new(rules, capacity), Persistence::unasked()),
            (StorageKind::Here, Some((before, survival))) => {
                (before.edited(rules, capacity, now), survival.clone())
            }
        }
    }
}

impl StateDirectory {
    fn open_bans(
        &self,
        meaning: TableId<'_>,
        rules: BanRules,
        capacity: Capacity,
        now: Timestamp,
    ) -> (Bans, Persistence) {
        match Bans::open(&self.files, meaning, rules, capacity, now) {
            Ok((bans, adopted)) => {
                announce(&format_args!("limit {}: bans", meaning.name), &adopted);
                let file = Bans::identity(meaning, capacity);
                (bans, Persistence::of(&adopted, file))
            }
            Err(error) => {
                let bans = Bans::new(rules, capacity);
                (bans, failed(meaning.name, &error))
            }
        }
    }

    fn edit_bans(
        &self,
        meaning: TableId<'_>,
        rules: BanRules,
        capacity: Capacity,
        (before, survival): (&Bans, &Persistence),
        now: Timestamp,
    ) -> (Bans, Persistence) {
        let (edited, kept) = before.edited_in(&self.files, meaning, rules, capacity, now);
        // Only another capacity needs another table; the report on this one still applies.
        if before.capacity() == capacity {
            return (edited, survival.clone());
        }
        let survival = match kept {
            Ok(()) => Persistence::InFile {
                file: Bans::identity(meaning, capacity),
                found: "carried over from before an edit".to_owned(),
            },
            Err(error) => failed(meaning.name, &error),
        };
        (edited, survival)
    }
}

fn failed(limit: &str, error: &StateError) -> Persistence {
    warn!("limit {limit}: its bans will not survive this process: {error}");
    Persistence::InMemory {
        reason: error.to_string(),
    }
}
