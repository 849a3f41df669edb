//! Keeps the epoch of each server, by which a server that has lost its data is told from one that has not.
//!
//! Each server keeps a marker, its *epoch*, which the first heartbeat that finds none writes. A server that comes back empty, or is
//! replaced by another, has another epoch.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The epochs of all servers, by the hash tag of each.
#[derive(Debug, Default)]
pub(crate) struct StoreEpochs {
    parts: Mutex<BTreeMap<String, PartEpoch>>,
    /// Wakes the task that recovers.
    pub(crate) changed: Notify,
}

#[derive(Clone, Debug, Default)]
struct PartEpoch {
    seen: String,
    /// The latest epoch that this process has restored.
    told: Option<String>,
    recovered: Option<String>,
}

/// A server whose epoch has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEpoch {
    pub(crate) part: String,
    pub(crate) epoch: String,
    /// True if there was an epoch before, so that data was lost.
    pub is_loss: bool,
}

impl StoreEpochs {
    /// Records the epoch that a heartbeat found.
    pub(crate) fn see(&self, part: &str, epoch: &str) {
        let mut parts = self.lock();
        let known = parts.entry(part.to_owned()).or_default();
        if known.seen != epoch {
            epoch.clone_into(&mut known.seen);
            self.changed.notify_one();
        }
    }

    /// Returns the epochs that this process has not recovered from.
    pub(crate) fn open(&self) -> Vec<NewEpoch> {
        let parts = self.lock();
        let open = parts
            .iter()
            .filter(|(_, known)| known.recovered.as_ref() != Some(&known.seen));
        open.map(|(part, known)| NewEpoch {
            part: part.clone(),
            epoch: known.seen.clone(),
            is_loss: known.recovered.is_some(),
        })
        .collect()
    }

    /// Returns whether this process has restored the server of a new epoch.
    pub(crate) fn has_told(&self, new: &NewEpoch) -> bool {
        let parts = self.lock();
        let known = parts.get(&new.part);
        known.is_some_and(|known| known.told.as_ref() == Some(&new.epoch))
    }

    /// Records that this process has restored the server.
    pub(crate) fn told(&self, new: &NewEpoch) {
        if let Some(known) = self.lock().get_mut(&new.part) {
            known.told = Some(new.epoch.clone());
        }
    }

    /// Records that the recovery is complete.
    pub(crate) fn recovered(&self, from: &NewEpoch) {
        if let Some(known) = self.lock().get_mut(&from.part) {
            known.recovered = Some(from.epoch.clone());
        }
    }

    /// Returns the epoch that guarded calls name, where one server has all keys.
    pub(crate) fn current(&self) -> Option<String> {
        self.lock().get("")?.recovered.clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, PartEpoch>> {
        // Entries are whole, so a poisoned lock still holds some.
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
