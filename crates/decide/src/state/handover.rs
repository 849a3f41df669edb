//! Owns the handover from a process without a state directory to the next one: the counters, the seed of their keys, the time.
//!
//! Where an upgrade is possible, counters are in memory that the next process can be given (`AnonymousFiles`), from the start:
//! nothing is copied in an upgrade, and both processes count in the same words while the old one drains. Where it is not, they
//! are in memory of the process alone. All else works as with a directory: a limit whose memory cannot be shared counts all the
//! same, and reports it.

use std::io;
use std::os::fd::OwnedFd;

use sluicegate_base::clock;
use sluicegate_limiter::{
    AnonymousFiles, Clock, ClockMark, OpenOutcome, Seed, StateError, Timestamp,
};
use tracing::{info, warn};

use super::table::StoredTable;
use super::{CounterPersistence, CounterStorage, CounterStorageError, StorageKind, fresh_seed};

/// The target of process logs, below that of the counters.
const LOG_TARGET: &str = "sluicegate::state::handover";

/// The counters and the clock that a process hands over to the next one.
#[derive(Debug)]
pub struct CounterHandover {
    /// The secret that keys are hashed under.
    pub seed: Seed,
    /// The clock mark at the handover.
    pub clock: ClockMark,
    /// The memory of counters and bans, by the name of their table.
    pub counters: Vec<(String, OwnedFd)>,
}

impl CounterStorage {
    /// Returns storage in memory that the next process can be given; continues the handover of the old process, if there is one.
    pub(super) fn of_upgrades(
        handed_over: Option<CounterHandover>,
    ) -> Result<(Self, Seed), CounterStorageError> {
        let seed = match &handed_over {
            Some(handover) => handover.seed,
            None => fresh_seed()?,
        };
        let files = AnonymousFiles::new(seed);
        if let Some(handover) = handed_over {
            clock::follow(Clock::continued(handover.clock, clock::reading()));
            for (name, file) in handover.counters {
                let taken = files.take(name, file);
                taken.map_err(CounterStorageError::Handover)?;
            }
        }
        Ok((Self::new(StorageKind::Anonymous(files)), seed))
    }

    /// Returns the handover of this process; `None` where there is nothing to hand over.
    ///
    /// # Errors
    /// The system's error, for lack of descriptors.
    pub fn handover(&self) -> io::Result<Option<CounterHandover>> {
        let StorageKind::Anonymous(files) = &self.kind else {
            return Ok(None);
        };
        Ok(Some(CounterHandover {
            seed: files.seed(),
            clock: clock::mark(),
            counters: files.in_use()?,
        }))
    }

    /// Drops the counters of the handover that no limit of this process has taken. To be called once its limits are made.
    pub fn settle(&self) {
        if let StorageKind::Anonymous(files) = &self.kind {
            for name in files.forget_unused() {
                info!(target: LOG_TARGET, "{name}: no limit goes on with what the old process has counted there");
            }
        }
    }
}

/// Opens a table in `files`, or creates it there.
pub(super) fn open<T: StoredTable>(
    files: &AnonymousFiles,
    table: &T,
    now: Timestamp,
) -> (T::Opened, CounterPersistence) {
    let opened = match table.open_in(files, now) {
        Ok((opened, found)) => {
            // New memory is not logged: without a directory every process begins so.
            if found == OpenOutcome::Joined {
                let limit = table.limit();
                let contents = T::CONTENTS;
                info!(target: LOG_TARGET, "limit {limit}: {contents} taken over from the old process");
            }
            opened
        }
        Err(error) => {
            warn_of_loss(table, &error);
            table.create()
        }
    };
    (opened, CounterPersistence::not_configured())
}

/// Returns a table after an edit.
pub(super) fn edit<T: StoredTable>(
    files: &AnonymousFiles,
    table: &T,
    before: &T::Opened,
    now: Timestamp,
) -> (T::Opened, CounterPersistence) {
    let (edited, stored) = table.edit_in(files, before, now);
    if let Err(error) = stored {
        warn_of_loss(table, &error);
    }
    (edited, CounterPersistence::not_configured())
}

fn warn_of_loss<T: StoredTable>(table: &T, error: &StateError) {
    let limit = table.limit();
    let contents = T::CONTENTS;
    warn!(target: LOG_TARGET, "limit {limit}: its {contents} will not be handed over in an upgrade: {error}");
}

#[cfg(test)]
mod tests {
    use sluicegate_limiter::{Ask, Cost, KeyHash, Limit, Outcome, decide};

    use super::super::PersistenceMode;
    use super::super::test_limits::{NOW, open, policy, table};
    use super::*;

    fn admits(limit: &Limit) -> bool {
        let ask = Ask {
            limit,
            key: KeyHash::from_bits(7),
            cost: Cost::ONE,
            payer: None,
        };
        decide(&[ask], NOW).outcome() == Outcome::Admitted
    }

    /// Returns the storage of the process after this one. The clock of the tests' process stays unchanged.
    fn new_process_of(storage: &CounterStorage) -> CounterStorage {
        let left = storage
            .handover()
            .expect("descriptors")
            .expect("something is left");
        let files = AnonymousFiles::new(left.seed);
        for (name, file) in left.counters {
            files.take(name, file).expect("it is sealed");
        }
        CounterStorage::new(StorageKind::Anonymous(files))
    }

    /// Goal: two processes admit together, while one drains, what one would. Method: requests to both in turn; a limit whose
    /// count was edited in between still shares, one whose period was edited moves with its counts, and is handed over so.
    #[test]
    fn old_and_new_count_together() {
        let (old, _) =
            CounterStorage::open(PersistenceMode::Upgrades(None)).expect("a random source");
        let before = open(&old, &policy(5, 60));
        assert_eq!(before.1, CounterPersistence::not_configured());
        assert!(admits(&before.0));
        let new = new_process_of(&old);
        let (after, _) = open(&new, &policy(3, 60));
        new.settle();
        assert!(admits(&after) && admits(&before.0));
        assert!(!admits(&after), "three were admitted");
        assert!(admits(&before.0), "by the old count one more may");

        let edited = new.table(&table(&policy(5, 90)), Some((&after, &before.1)), NOW);
        let third = new_process_of(&new);
        let (last, _) = open(&third, &policy(5, 90));
        assert!(admits(&last) && !admits(&last) && !admits(&edited.0));
    }

    /// Goal: an upgrade hands over nothing where a directory has it, or where no upgrade is possible. Method: both storages.
    #[test]
    fn only_counters_in_memory_are_handed_over() {
        let (alone, _) = CounterStorage::open(PersistenceMode::Process).expect("a random source");
        assert!(alone.handover().expect("nothing to do").is_none());
        let (storage, seed) =
            CounterStorage::open(PersistenceMode::Upgrades(None)).expect("a random source");
        let left = storage.handover().expect("nothing to do").expect("a seed");
        assert_eq!(left.seed.bytes(), seed.bytes());
        assert!(left.counters.is_empty());
    }
}
