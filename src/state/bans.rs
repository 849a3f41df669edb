//! Owns where bans live: beside the counters of their limit, in a file of their own.
//!
//! A ban outlasts the rate that it is for, mostly by hours, so it must outlast the process more than any counter. Everything else is as
//! with counters: bans are always made, and where their file fails they are kept in memory, and that is said.

use sluicegate_limiter::{BanRules, Bans, Capacity, Meaning, StateError, Timestamp};
use tracing::warn;

use super::{Directory, Home, Kept, Survival, announce, legacy};

impl Home {
    /// The bans of a limit; they go on from `before`, the same ones ahead of an edit, or without those from their file.
    #[must_use]
    pub fn bans(
        &self,
        meaning: Meaning<'_>,
        rules: BanRules,
        capacity: Capacity,
        before: Option<(&Bans, &Survival)>,
        now: Timestamp,
    ) -> (Bans, Survival) {
        match (&self.kept, before) {
            (Kept::Directory(directory), None) => {
                directory.open_bans(meaning, rules, capacity, now)
            }
            (Kept::Directory(directory), Some(before)) => {
                directory.edit_bans(meaning, rules, capacity, before, now)
            }
            (Kept::Anonymous(files), None) => {
                legacy::open_bans(files, meaning, rules, capacity, now)
            }
            (Kept::Anonymous(files), Some((before, _))) => {
                legacy::edit_bans(files, meaning, rules, capacity, before, now)
            }
            (Kept::Here, None) => (Bans::new(rules, capacity), Survival::unasked()),
            (Kept::Here, Some((before, survival))) => {
                (before.edited(rules, capacity, now), survival.clone())
            }
        }
    }
}

impl Directory {
    fn open_bans(
        &self,
        meaning: Meaning<'_>,
        rules: BanRules,
        capacity: Capacity,
        now: Timestamp,
    ) -> (Bans, Survival) {
        match Bans::open(&self.files, meaning, rules, capacity, now) {
            Ok((bans, adopted)) => {
                announce(&format_args!("limit {}: bans", meaning.name), &adopted);
                let file = Bans::identity(meaning, capacity);
                (bans, Survival::of(&adopted, file))
            }
            Err(error) => {
                let bans = Bans::new(rules, capacity);
                (bans, failed(meaning.name, &error))
            }
        }
    }

    fn edit_bans(
        &self,
        meaning: Meaning<'_>,
        rules: BanRules,
        capacity: Capacity,
        (before, survival): (&Bans, &Survival),
        now: Timestamp,
    ) -> (Bans, Survival) {
        let (edited, kept) = before.edited_in(&self.files, meaning, rules, capacity, now);
        // Only another capacity takes another table; what was said of this one still holds.
        if before.capacity() == capacity {
            return (edited, survival.clone());
        }
        let survival = match kept {
            Ok(()) => Survival::InFile {
                file: Bans::identity(meaning, capacity),
                found: "carried over from before an edit".to_owned(),
            },
            Err(error) => failed(meaning.name, &error),
        };
        (edited, survival)
    }
}

fn failed(limit: &str, error: &StateError) -> Survival {
    warn!("limit {limit}: its bans will not survive this process: {error}");
    Survival::InMemory {
        reason: error.to_string(),
    }
}
