//! Owns the storage of counters: the memory of this process, memory that can be handed over to the next process, or the files of `[server]
//! state_dir`, which outlive every process (contract C4).
//!
//! The limiter verifies, recovers, edits and shares the files between two processes; this module opens them for the gateway. It
//! opens the directory before any socket: counters that cannot be persisted as configured are an error then. Later no failure of
//! a file stops the gateway: a limit whose file fails continues in memory, and log, `/status` and metrics report it.
//!
//! # Concurrency
//! The start and the reload service open and edit limits, the `Maintenance` of the process stores the time; requests call nothing here.

use std::fmt;
use std::num::NonZeroU32;
use std::path::Path;

use sluicegate_base::clock;
use sluicegate_limiter::{
    AnonymousFiles, ClockDrift, FileIdentity, OpenOutcome, Seed, StateDir, Timestamp,
};
use tracing::{info, warn};

mod directory;
mod error;
mod fleet_size;
mod handover;
mod table;
#[cfg(test)]
mod test_limits;

pub use directory::DirectoryHealth;
pub use error::CounterStorageError;
pub use handover::CounterHandover;
pub use table::{BanTable, CounterTable, StoredTable};

use directory::StateDirectory;
use fleet_size::FleetSize;

/// The target of process logs: the module of the gateway that had the counters, so that filters on it go on.
const LOG_TARGET: &str = "sluicegate::state";

/// The storage of all counters.
pub struct CounterStorage {
    kind: StorageKind,
    fleet_size: FleetSize,
}

/// The persistence that the configuration asks for.
#[derive(Debug)]
pub enum PersistenceMode<'a> {
    /// Counters end with the process.
    Process,
    /// Counters are handed over to the next process in an upgrade, and start from those of the old process, if there was one.
    Upgrades(Option<CounterHandover>),
    /// Counters last as long as this directory.
    Directory(&'a Path),
}

enum StorageKind {
    Process,
    Anonymous(AnonymousFiles),
    Directory(StateDirectory),
}

/// The persistence of the counters of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterPersistence {
    /// They are in a file.
    InFile {
        /// The file.
        file: FileIdentity,
        /// The state in which the file was found, for the operator.
        found: String,
    },
    /// They end with the process.
    InMemory {
        /// The reason, for the operator.
        reason: String,
    },
}

impl CounterStorage {
    const fn new(kind: StorageKind) -> Self {
        Self {
            kind,
            fleet_size: FleetSize::UNKNOWN,
        }
    }

    /// The memory of this process.
    pub const MEMORY: Self = Self::new(StorageKind::Process);

    /// Opens or creates the storage of counters. The process then follows the clock of a directory, or of a handover. Also returns
    /// the seed under which keys must be hashed.
    ///
    /// # Errors
    /// There is no random source, or the existing state cannot be used.
    pub fn open(lasting: PersistenceMode<'_>) -> Result<(Self, Seed), CounterStorageError> {
        match lasting {
            PersistenceMode::Process => Ok((Self::MEMORY, fresh_seed()?)),
            PersistenceMode::Upgrades(handover) => Self::of_upgrades(handover),
            PersistenceMode::Directory(path) => Self::in_directory(path),
        }
    }

    fn in_directory(path: &Path) -> Result<(Self, Seed), CounterStorageError> {
        let files = StateDir::open(path, fresh_seed()?).map_err(CounterStorageError::Directory)?;
        let (clock, clock_found) = files
            .clock(clock::reading())
            .map_err(CounterStorageError::Directory)?;
        clock::follow(clock);
        announce(
            &format_args!("{}: seed", path.display()),
            files.seed_found(),
        );
        announce(&format_args!("{}: clock", path.display()), &clock_found);
        let seed = files.seed();
        let storage = Self {
            kind: StorageKind::Directory(StateDirectory::new(files)),
            fleet_size: FleetSize::in_directory(path),
        };
        Ok((storage, seed))
    }

    /// Adds the number of gateways that the old process of an upgrade knew, which is newer than that of a file.
    #[must_use]
    pub fn with_known_gateways(mut self, known: Option<NonZeroU32>) -> Self {
        self.fleet_size.known = known.or(self.fleet_size.known);
        self
    }

    /// Returns the number of gateways that shared the store before this process; `None` where no process has left it.
    #[must_use]
    pub fn known_gateways(&self) -> Option<NonZeroU32> {
        self.fleet_size.known
    }

    /// Keeps the number of gateways for the next process.
    pub fn keep_gateways(&self, number: NonZeroU32) {
        self.fleet_size.keep(number);
    }

    /// Opens a table here; it continues `before`, the same table ahead of an edit, or without it what its file holds.
    ///
    /// This always succeeds: where the file fails, in memory, and the failure is logged once.
    #[must_use]
    pub fn table<T: StoredTable>(
        &self,
        table: &T,
        before: Option<(&T::Opened, &CounterPersistence)>,
        now: Timestamp,
    ) -> (T::Opened, CounterPersistence) {
        match (&self.kind, before) {
            (StorageKind::Directory(directory), None) => directory.open(table, now),
            (StorageKind::Directory(directory), Some(before)) => directory.edit(table, before, now),
            (StorageKind::Anonymous(files), None) => handover::open(files, table, now),
            (StorageKind::Anonymous(files), Some((before, _))) => {
                handover::edit(files, table, before, now)
            }
            (StorageKind::Process, None) => (table.create(), CounterPersistence::not_configured()),
            (StorageKind::Process, Some((before, persistence))) => {
                (table.edit(before, now), persistence.clone())
            }
        }
    }

    /// Reads the wall clock and stores the time; `None` where the process follows no stored clock. For a tick, once a second.
    pub fn store_clock(&self) -> Option<ClockDrift> {
        let reading = clock::reading();
        let clock = clock::followed()?.retuned(reading);
        clock::follow(clock);
        if let Some(directory) = self.directory() {
            directory.note(directory.files.tick(&clock, reading));
        }
        Some(clock.drift(reading))
    }

    fn directory(&self) -> Option<&StateDirectory> {
        match &self.kind {
            StorageKind::Directory(directory) => Some(directory),
            StorageKind::Anonymous(_) | StorageKind::Process => None,
        }
    }

    /// Removes files that none of these limits, or their bans, uses and no process has used for 30 days. Once a day.
    pub fn sweep<'a>(&self, limits: impl Iterator<Item = &'a CounterPersistence>) {
        let Some(directory) = self.directory() else {
            return;
        };
        let in_use: Vec<FileIdentity> = limits
            .filter_map(CounterPersistence::file)
            .cloned()
            .collect();
        directory.sweep(&in_use);
    }

    /// Returns the health of the state directory; `None` without one.
    #[must_use]
    pub fn health(&self) -> Option<DirectoryHealth> {
        self.directory().map(StateDirectory::health)
    }
}

impl CounterPersistence {
    /// Returns the persistence of counters that need none.
    #[must_use]
    pub fn not_configured() -> Self {
        Self::InMemory {
            reason: "[server] state_dir is not set".to_owned(),
        }
    }

    /// Returns the file, if there is one.
    #[must_use]
    pub fn file(&self) -> Option<&FileIdentity> {
        match self {
            Self::InFile { file, .. } => Some(file),
            Self::InMemory { .. } => None,
        }
    }

    fn from_adopted(adopted: &OpenOutcome, file: FileIdentity) -> Self {
        let found = adopted.to_string();
        Self::InFile { file, found }
    }
}

/// Draws a secret seed.
fn fresh_seed() -> Result<Seed, CounterStorageError> {
    let mut fresh = [0; 16];
    getrandom::fill(&mut fresh).map_err(CounterStorageError::Random)?;
    Ok(Seed::from_bytes(fresh))
}

/// Logs how a file was found; an unexpected state is a warning.
fn announce(what: &fmt::Arguments<'_>, adopted: &OpenOutcome) {
    match adopted {
        OpenOutcome::SetAside { .. } => warn!(target: LOG_TARGET, "{what} {adopted}"),
        OpenOutcome::Fresh | OpenOutcome::Continued | OpenOutcome::Joined => {
            info!(target: LOG_TARGET, "{what} {adopted}")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluicegate_limiter::{Clock, Limit, Policy};

    use super::test_limits::{NOW, open, policy, table};
    use super::*;

    /// Returns storage without a clock, so that the tests of this process keep theirs.
    fn storage(path: &Path) -> CounterStorage {
        let files = StateDir::open(path, Seed::from_bytes([7; 16])).expect("a directory");
        CounterStorage::new(StorageKind::Directory(StateDirectory::new(files)))
    }

    /// Returns the time 31 days before `now`, since the epoch.
    fn long_before(now: Timestamp) -> Duration {
        Duration::from_nanos(now.as_nanos()) - Duration::from_secs(31 * 24 * 60 * 60)
    }

    fn edit(
        storage: &CounterStorage,
        (limit, persistence): &(Limit, CounterPersistence),
        policy: &Policy,
    ) -> CounterPersistence {
        let before = Some((limit, persistence));
        storage.table(&table(policy), before, NOW).1
    }

    fn found(persistence: &CounterPersistence) -> &str {
        match persistence {
            CounterPersistence::InFile { found, .. } => found,
            CounterPersistence::InMemory { reason } => reason,
        }
    }

    /// Goal: the report says where counters come from. Method: a file that is new, shared, kept by an edit of the count,
    /// replaced by one of the period, and found again.
    #[test]
    fn a_limit_says_where_its_counters_come_from() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state");
        let storage = storage(&path);
        let first = open(&storage, &policy(5, 60));
        assert_eq!(found(&first.1), "made");
        assert_eq!(
            found(&open(&storage, &policy(5, 60)).1),
            "shared with another process"
        );
        assert_eq!(edit(&storage, &first, &policy(8, 60)), first.1);
        let moved = edit(&storage, &first, &policy(8, 90));
        assert_eq!(found(&moved), "carried over from before an edit");
        assert_ne!(moved.file(), first.1.file());
        drop(first);
        assert_eq!(found(&open(&storage, &policy(9, 60)).1), "continued");
    }

    /// Goal: a limit survives the loss of its files. Method: the directory vanishes; a new limit and an edited one count in
    /// memory and report it, one whose table stays does not, and a clock that cannot be stored is an error until it can.
    #[test]
    fn a_limit_whose_file_fails_continues_in_memory() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state");
        let storage = storage(&path);
        let before = open(&storage, &policy(5, 60));
        std::fs::remove_dir_all(&path).expect("it is ours");
        for persistence in [
            open(&storage, &policy(5, 30)).1,
            edit(&storage, &before, &policy(5, 90)),
        ] {
            assert_eq!(persistence.file(), None);
            assert!(
                found(&persistence).starts_with("cannot open "),
                "{persistence:?}"
            );
        }
        let kept = open(&storage, &policy(5, 60));
        assert_eq!(kept.1.file(), None);

        storage.sweep(std::iter::empty());
        let there = storage.directory().expect("a directory");
        let clock = Clock::started(clock::reading());
        there.note(there.files.tick(&clock, clock::reading()));
        let health = storage.health().expect("a directory");
        assert_eq!(health.errors, 2);
        let last_error = health.last_error.expect("time cannot be kept");
        assert!(
            last_error.starts_with("the time is not kept: "),
            "{last_error}"
        );
        there.note(Ok(()));
        let health = storage.health().expect("a directory");
        assert_eq!((health.last_error, health.errors), (None, 2));
    }

    /// Goal: the directory does not grow with the history of its configuration. Method: two files that no process has open, both
    /// dated 31 days ago, of which one belongs to a limit in force, and a third of today.
    #[test]
    fn a_sweep_removes_what_no_limit_has_used_for_long() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state");
        let storage = storage(&path);
        let [used, old, young] = [60, 90, 120].map(|secs| open(&storage, &policy(5, secs)).1);
        let place = |persistence: &CounterPersistence| {
            path.join(persistence.file().expect("a file").file_name())
        };
        let long_ago = std::time::UNIX_EPOCH + long_before(clock::wall());
        for persistence in [&used, &old] {
            let file = std::fs::File::options()
                .write(true)
                .open(place(persistence));
            file.and_then(|file| file.set_modified(long_ago))
                .expect("it is ours");
        }
        storage.sweep([&used, &CounterPersistence::not_configured()].into_iter());
        let there = [&used, &old, &young].map(|persistence| place(persistence).exists());
        assert_eq!(there, [true, false, true]);
        assert_eq!(storage.health().map(|health| health.errors), Some(0));
    }

    /// Goal: without a directory there are no files. Method: storage without a directory, opened and edited.
    #[test]
    fn without_a_directory_counters_are_in_memory() {
        let (storage, _) = CounterStorage::open(PersistenceMode::Process).expect("a random source");
        let before = open(&storage, &policy(5, 60));
        assert_eq!(before.1, CounterPersistence::not_configured());
        assert_eq!(
            edit(&storage, &before, &policy(5, 90)),
            CounterPersistence::not_configured()
        );
        assert_eq!((storage.store_clock(), storage.health()), (None, None));
    }
}
