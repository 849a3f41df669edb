//! Holds the phase of the process, between its start and its end.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use sluicegate_limiter::Timestamp;
use tokio::sync::watch;
use tracing::warn;

use crate::snapshot::Snapshot;
use sluicegate_config::rules::{ReadyWhen, SharedMode};

/// The phases of the process, from its start to its end.
#[derive(Debug)]
pub struct Lifecycle {
    /// When the process started.
    pub started: Timestamp,
    phase: AtomicU8,
    was_ready: AtomicBool,
    is_draining: watch::Sender<bool>,
    scratch: OnceLock<PathBuf>,
}

/// One of the phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Not every listener accepts yet.
    Starting,
    /// Requests are served.
    Serving,
    /// The process is about to stop.
    Draining,
}

impl Lifecycle {
    /// A process that starts `now`.
    pub(super) fn starting(now: Timestamp) -> Self {
        Self {
            started: now,
            phase: AtomicU8::new(Phase::Starting as u8),
            was_ready: AtomicBool::new(false),
            is_draining: watch::Sender::new(false),
            scratch: OnceLock::new(),
        }
    }

    /// Returns whether the condition of `[store] required_for_ready` has been met, once for all: a later change of `[store]`, or
    /// a store that becomes unavailable, does not take a gateway out of service.
    #[must_use]
    pub fn is_store_ready(&self, snapshot: &Snapshot) -> bool {
        // Relaxed, here and below: advice to load balancers, publishes nothing.
        if self.was_ready.load(Ordering::Relaxed) {
            return true;
        }
        let has = snapshot.store.as_ref().is_none_or(|store| {
            store.rules().required_for_ready == ReadyWhen::Serving
                || match has_strict_limits(snapshot) {
                    true => store.decides_all_keys(),
                    false => store.has_all_counts(),
                }
        });
        if has && self.phase() == Phase::Serving {
            self.was_ready.store(true, Ordering::Relaxed);
        }
        has
    }

    /// Enters `phase`; never returns to an earlier one.
    pub fn enter(&self, phase: Phase) {
        // Relaxed: advice to load balancers, publishes nothing.
        self.phase.fetch_max(phase as u8, Ordering::Relaxed);
        if phase == Phase::Draining {
            self.is_draining.send_replace(true);
        }
    }

    /// Waits until the process drains.
    pub async fn drains(&self) {
        // The sender lives as long as `self`, so the wait ends with a drain alone.
        let _ = self
            .is_draining
            .subscribe()
            .wait_for(|drains| *drains)
            .await;
    }

    /// Returns the current phase.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Starting,
            1 => Phase::Serving,
            _ => Phase::Draining,
        }
    }

    /// Registers a directory that is removed when the process ends.
    pub fn remove_at_end(&self, directory: PathBuf) {
        // One a process; a second would be the same.
        let _ = self.scratch.set(directory);
    }

    /// Removes the registered directory.
    pub fn clean_up(&self) {
        if let Some(directory) = self.scratch.get()
            && let Err(error) = std::fs::remove_dir_all(directory)
        {
            warn!("{} stays: {error}", directory.display());
        }
    }
}

/// Returns whether some limit waits for the decision of the store.
fn has_strict_limits(snapshot: &Snapshot) -> bool {
    let mut modes = snapshot
        .compiled
        .rules
        .limits
        .values()
        .map(|limit| limit.shared);
    modes.any(|shared| shared.is_some_and(|shared| shared.mode == SharedMode::Strict))
}
