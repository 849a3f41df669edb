//! Keeps counters in the files of `[server] state_dir`. No failure of a file ends a limit: it continues in memory, and the failure is
//! reported.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sluicegate_base::clock;
use sluicegate_limiter::{FileIdentity, RemovedFiles, StateDir, StateError, Timestamp};
use tracing::{info, warn};

use super::table::StoredTable;
use super::{CounterPersistence, announce};

/// The target of process logs, below that of the counters.
const LOG_TARGET: &str = "sluicegate::state::directory";

/// An open state directory.
pub(super) struct StateDirectory {
    pub(super) files: StateDir,
    /// The error of the latest tick; `None` when it succeeded.
    last_error: Mutex<Option<String>>,
    errors: AtomicU64,
}

/// The health of the state directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryHealth {
    /// Its path.
    pub path: PathBuf,
    /// The error of the latest tick; `None` when it succeeded.
    pub last_error: Option<String>,
    /// Ticks and sweeps that failed since the start.
    pub errors: u64,
}

impl StateDirectory {
    /// Returns the directory with these files, in which nothing has failed.
    pub(super) fn new(files: StateDir) -> Self {
        Self {
            files,
            last_error: Mutex::new(None),
            errors: AtomicU64::new(0),
        }
    }

    /// Opens a table in its file, or creates it in memory where that fails.
    pub(super) fn open<T: StoredTable>(
        &self,
        table: &T,
        now: Timestamp,
    ) -> (T::Opened, CounterPersistence) {
        match table.open_in(&self.files, now) {
            Ok((opened, found)) => {
                let limit = table.limit();
                let contents = T::CONTENTS;
                announce(&format_args!("limit {limit}: {contents}"), &found);
                let dropped = T::dropped(&opened);
                if dropped > 0 {
                    warn!(
                        target: LOG_TARGET,
                        "limit {limit}: {dropped} {contents} in its file lay more than a window ahead and were dropped; the file was \
                         damaged, or time was lost"
                    );
                }
                (
                    opened,
                    CounterPersistence::from_adopted(&found, table.file()),
                )
            }
            Err(error) => (table.create(), not_persistent(table, &error)),
        }
    }

    /// Returns a table after an edit: where it was, in another file, or in memory where that fails.
    pub(super) fn edit<T: StoredTable>(
        &self,
        table: &T,
        (before, persistence): (&T::Opened, &CounterPersistence),
        now: Timestamp,
    ) -> (T::Opened, CounterPersistence) {
        let (edited, stored) = table.edit_in(&self.files, before, now);
        // The earlier report still applies.
        if table.is_in_place(&edited, before) {
            return (edited, persistence.clone());
        }
        let persistence = match stored {
            Ok(()) => CounterPersistence::InFile {
                file: table.file(),
                found: "carried over from before an edit".to_owned(),
            },
            Err(error) => not_persistent(table, &error),
        };
        (edited, persistence)
    }

    /// Removes files that are not `in_use` and that no process has used for 30 days.
    pub(super) fn sweep(&self, in_use: &[FileIdentity]) {
        let path = self.files.path().display();
        match self.files.sweep(in_use, clock::wall()) {
            Ok(RemovedFiles { removed: 0, .. }) => {}
            Ok(RemovedFiles { removed, .. }) => {
                info!(target: LOG_TARGET, "{path}: {removed} files that no limit used for long were removed");
            }
            Err(error) => {
                // Relaxed: the number is only shown, and publishes nothing.
                self.errors.fetch_add(1, Ordering::Relaxed);
                warn!(target: LOG_TARGET, "{path}: cannot sweep: {error}");
            }
        }
    }

    /// Returns its health.
    pub(super) fn health(&self) -> DirectoryHealth {
        DirectoryHealth {
            path: self.files.path().to_owned(),
            last_error: self.lock_last_error().clone(),
            errors: self.errors.load(Ordering::Relaxed),
        }
    }

    /// Records the result of a tick; logs the first error, and the first success after it.
    pub(super) fn note(&self, result: Result<(), StateError>) {
        let mut last_error = self.lock_last_error();
        match result {
            Ok(()) if last_error.take().is_some() => {
                info!(target: LOG_TARGET, "{}: in order again", self.files.path().display());
            }
            Ok(()) => {}
            Err(error) => {
                // Relaxed: the number is only shown, and publishes nothing.
                self.errors.fetch_add(1, Ordering::Relaxed);
                let error = format!("the time is not kept: {error}");
                if last_error.is_none() {
                    warn!(target: LOG_TARGET, "{}: {error}", self.files.path().display());
                }
                *last_error = Some(error);
            }
        }
    }

    fn lock_last_error(&self) -> MutexGuard<'_, Option<String>> {
        // The text is replaced as a whole, so a poisoned lock still holds a valid one.
        self.last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs that a table is in memory only, since its file failed.
fn not_persistent<T: StoredTable>(table: &T, error: &StateError) -> CounterPersistence {
    let limit = table.limit();
    let contents = T::CONTENTS;
    warn!(target: LOG_TARGET, "limit {limit}: its {contents} will not survive this process: {error}");
    CounterPersistence::InMemory {
        reason: error.to_string(),
    }
}
