//! Keeps counters in the files of `[server] state_dir`. No failure of a file ends a limit: it continues in memory, and the failure is
//! reported.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sluicegate_base::clock;
use sluicegate_limiter::{
    Capacity, FileIdentity, Limit, Policy, RemovedFiles, StateDir, StateError, TableId, Timestamp,
};
use tracing::{info, warn};

use super::{Persistence, announce};

/// An open state directory.
pub(super) struct StateDirectory {
    pub(super) files: StateDir,
    /// The error of the latest tick; `None` when it succeeded.
    trouble: Mutex<Option<String>>,
    troubles: AtomicU64,
}

/// The health of the state directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryHealth {
    /// Its path.
    pub path: PathBuf,
    /// The error of the latest tick; `None` when it succeeded.
    pub trouble: Option<String>,
    /// Ticks and sweeps that failed since the start.
    pub troubles: u64,
}

impl StateDirectory {
    /// Returns the directory with these files, in which nothing has failed.
    pub(super) fn new(files: StateDir) -> Self {
        Self {
            files,
            trouble: Mutex::new(None),
            troubles: AtomicU64::new(0),
        }
    }

    /// Opens the counters of a limit in their file, or in memory where that fails.
    pub(super) fn open(
        &self,
        meaning: TableId<'_>,
        policy: &Policy,
        capacity: Capacity,
        now: Timestamp,
    ) -> (Limit, Persistence) {
        match Limit::open(&self.files, meaning, policy.clone(), capacity, now) {
            Ok((limit, adopted)) => {
                announce(&format_args!("limit {}: counters", meaning.name), &adopted);
                let dropped = limit.stats().dropped;
                if dropped > 0 {
                    warn!(
                        "limit {}: {dropped} counters in its file lay more than a window ahead and were dropped; the file was damaged, or \
                         time was lost",
                        meaning.name
                    );
                }
                let file = meaning.identity(policy, capacity);
                (limit, Persistence::of(&adopted, file))
            }
            Err(error) => {
                let limit = Limit::new(policy.clone(), capacity);
                (limit, Persistence::failed(meaning.name, &error))
            }
        }
    }

    /// Returns the counters of a limit after an edit: in the same table, in another file, or in memory where that fails.
    pub(super) fn edit(
        &self,
        meaning: TableId<'_>,
        policy: &Policy,
        capacity: Capacity,
        (before, survival): (&Limit, &Persistence),
        now: Timestamp,
    ) -> (Limit, Persistence) {
        let (edited, kept) = before.edited_in(&self.files, meaning, policy.clone(), capacity, now);
        // The table is the same and unmoved, so the earlier report still applies.
        if edited.shares_counters_with(before) {
            return (edited, survival.clone());
        }
        let survival = match kept {
            Ok(()) => Persistence::InFile {
                file: meaning.identity(policy, capacity),
                found: "carried over from before an edit".to_owned(),
            },
            Err(error) => Persistence::failed(meaning.name, &error),
        };
        (edited, survival)
    }

    /// Removes files that are not `in_use` and that no process has used for 30 days.
    pub(super) fn sweep(&self, in_use: &[FileIdentity]) {
        let path = self.files.path().display();
        match self.files.sweep(in_use, clock::wall()) {
            Ok(RemovedFiles { removed: 0, .. }) => {}
            Ok(RemovedFiles { removed, .. }) => {
                info!("{path}: {removed} files that no limit used for long were removed");
            }
            Err(error) => {
                // Relaxed: the number is only shown, and publishes nothing.
                self.troubles.fetch_add(1, Ordering::Relaxed);
                warn!("{path}: cannot sweep: {error}");
            }
        }
    }

    /// Returns its health.
    pub(super) fn health(&self) -> DirectoryHealth {
        DirectoryHealth {
            path: self.files.path().to_owned(),
            trouble: self.lock_trouble().clone(),
            troubles: self.troubles.load(Ordering::Relaxed),
        }
    }

    /// Records the result of a tick; logs the first error, and the first success after it.
    pub(super) fn note(&self, result: Result<(), StateError>) {
        let mut trouble = self.lock_trouble();
        match result {
            Ok(()) if trouble.take().is_some() => {
                info!("{}: in order again", self.files.path().display());
            }
            Ok(()) => {}
            Err(error) => {
                // Relaxed: the number is only shown, and publishes nothing.
                self.troubles.fetch_add(1, Ordering::Relaxed);
                let error = format!("the time is not kept: {error}");
                if trouble.is_none() {
                    warn!("{}: {error}", self.files.path().display());
                }
                *trouble = Some(error);
            }
        }
    }

    fn lock_trouble(&self) -> MutexGuard<'_, Option<String>> {
        // The text is replaced as a whole, so a poisoned lock still holds a valid one.
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
