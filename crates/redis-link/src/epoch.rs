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
    servers: Mutex<BTreeMap<String, ServerEpoch>>,
    /// Wakes the task that recovers.
    pub(crate) changed: Notify,
}

#[derive(Clone, Debug, Default)]
struct ServerEpoch {
    seen: String,
    /// The latest epoch that this process has restored.
    restored: Option<String>,
    recovered: Option<String>,
}

/// A server whose epoch has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEpoch {
    pub(crate) hash_tag: String,
    pub(crate) epoch: String,
    /// True if there was an epoch before, so that data was lost.
    pub is_loss: bool,
}

impl StoreEpochs {
    /// Records the epoch that a heartbeat found.
    pub(crate) fn record_seen(&self, hash_tag: &str, epoch: &str) {
        let mut servers = self.lock();
        let server = servers.entry(hash_tag.to_owned()).or_default();
        if server.seen != epoch {
            epoch.clone_into(&mut server.seen);
            self.changed.notify_one();
        }
    }

    /// Returns the epochs that this process has not recovered from.
    pub(crate) fn unrecovered(&self) -> Vec<NewEpoch> {
        let servers = self.lock();
        let unrecovered = servers
            .iter()
            .filter(|(_, server)| server.recovered.as_ref() != Some(&server.seen));
        unrecovered
            .map(|(hash_tag, server)| NewEpoch {
                hash_tag: hash_tag.clone(),
                epoch: server.seen.clone(),
                is_loss: server.recovered.is_some(),
            })
            .collect()
    }

    /// Returns whether this process has restored the server of a new epoch.
    pub(crate) fn has_restored(&self, new: &NewEpoch) -> bool {
        let servers = self.lock();
        let server = servers.get(&new.hash_tag);
        server.is_some_and(|server| server.restored.as_ref() == Some(&new.epoch))
    }

    /// Records that this process has restored the server.
    pub(crate) fn restored(&self, new: &NewEpoch) {
        if let Some(server) = self.lock().get_mut(&new.hash_tag) {
            server.restored = Some(new.epoch.clone());
        }
    }

    /// Records that the recovery is complete.
    pub(crate) fn recovered(&self, from: &NewEpoch) {
        if let Some(server) = self.lock().get_mut(&from.hash_tag) {
            server.recovered = Some(from.epoch.clone());
        }
    }

    /// Returns the epoch that guarded calls name, where one server has all keys.
    pub(crate) fn current(&self) -> Option<String> {
        self.lock().get("")?.recovered.clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, ServerEpoch>> {
        // Entries are whole, so a poisoned lock still holds some.
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
