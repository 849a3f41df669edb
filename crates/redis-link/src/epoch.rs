//! Keeps the epoch of each server, by which a server that has lost its data is told from one that has not.
//!
//! Each server keeps a marker, its *epoch*, which the first heartbeat that finds none writes. A server that comes back empty, or is
//! replaced by another, has another epoch.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The epochs of all servers, by the hash tag of each.
#[derive(Debug, Default)]
pub(crate) struct StoreEpochs {
    servers: Mutex<BTreeMap<String, ServerEpoch>>,
    /// True while some server is in recovery, for callers that ask once a request.
    are_in_recovery: AtomicBool,
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

impl NewEpoch {
    /// Returns the epoch, as guarded calls name it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.epoch
    }
}

/// The change of a server's epoch since the heartbeat before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EpochChange {
    /// The epoch is the same, or the first one.
    None,
    /// The epoch is another one: the server has lost its data.
    Loss,
}

impl StoreEpochs {
    /// Records the epoch that a heartbeat found, and returns its change.
    pub(crate) fn record_seen(&self, hash_tag: &str, epoch: &str) -> EpochChange {
        let mut servers = self.lock();
        let server = servers.entry(hash_tag.to_owned()).or_default();
        if server.seen == epoch {
            return EpochChange::None;
        }
        let change = match server.seen.is_empty() {
            true => EpochChange::None,
            false => EpochChange::Loss,
        };
        epoch.clone_into(&mut server.seen);
        self.note_recovery(&servers);
        self.changed.notify_one();
        change
    }

    /// Returns whether the counts of some server are not known to be complete.
    pub(crate) fn are_in_recovery(&self) -> bool {
        // Relaxed: a hint that stands for itself; a request that misses the change came before it.
        self.are_in_recovery.load(Ordering::Relaxed)
    }

    /// Returns whether the counts of this server are not known to be complete.
    pub(crate) fn is_in_recovery(&self, hash_tag: &str) -> bool {
        let servers = self.lock();
        let server = servers.get(hash_tag);
        server.is_some_and(|server| server.is_in_recovery(hash_tag))
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
        let mut servers = self.lock();
        if let Some(server) = servers.get_mut(&from.hash_tag) {
            server.recovered = Some(from.epoch.clone());
        }
        self.note_recovery(&servers);
    }

    fn note_recovery(&self, servers: &BTreeMap<String, ServerEpoch>) {
        let mut servers = servers.iter();
        let are_in_recovery = servers.any(|(tag, server)| server.is_in_recovery(tag));
        self.are_in_recovery
            .store(are_in_recovery, Ordering::Relaxed);
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

impl ServerEpoch {
    /// Returns whether counts may be missing in the server. A master of a Cluster that this process meets for the first time is not in
    /// recovery: calls in a Cluster are not bound to the epoch.
    fn is_in_recovery(&self, hash_tag: &str) -> bool {
        let is_new = self.recovered.as_ref() != Some(&self.seen);
        is_new && (self.recovered.is_some() || hash_tag.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a server is in recovery from the heartbeat that shows a new epoch until the recovery from that very epoch. Method: one server
    /// that is met and emptied twice, and a master of a Cluster that is met and emptied.
    #[test]
    fn a_server_is_in_recovery_until_its_latest_epoch_is_recovered() {
        let epochs = StoreEpochs::default();
        assert!(!epochs.are_in_recovery());
        for (epoch, change) in [
            ("1", EpochChange::None),
            ("1", EpochChange::None),
            ("2", EpochChange::Loss),
        ] {
            assert_eq!(epochs.record_seen("", epoch), change);
            assert!(epochs.are_in_recovery() && epochs.is_in_recovery(""));
        }
        let [latest] = &epochs.unrecovered()[..] else {
            panic!("one server");
        };
        let outdated = NewEpoch {
            epoch: "1".to_owned(),
            ..latest.clone()
        };
        epochs.recovered(&outdated);
        assert!(epochs.are_in_recovery());
        epochs.recovered(latest);
        assert!(!epochs.are_in_recovery() && !epochs.is_in_recovery(""));

        epochs.record_seen(":{7}", "1");
        assert!(!epochs.are_in_recovery(), "nothing is lost");
        epochs.recovered(&epochs.unrecovered()[0]);
        epochs.record_seen(":{7}", "2");
        assert!(epochs.is_in_recovery(":{7}") && !epochs.is_in_recovery(""));
    }
}
