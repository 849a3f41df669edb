//! Holds the state that all connections and tasks of a link share.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio::sync::Notify;

use crate::call::LinkScript;
use crate::epoch::StoreEpochs;
use crate::membership::Membership;
use crate::observer::LinkObserver;
use crate::settings::HashSeed;

/// The state that all connections of a link share.
pub(crate) struct LinkState {
    /// The script that calls run.
    pub(crate) script: LinkScript,
    pub(crate) nodes: Membership,
    pub(crate) epochs: StoreEpochs,
    pub(crate) observer: Arc<dyn LinkObserver>,
    pub(crate) seed: ArcSwapOption<[u8; 16]>,
    /// The seed of the store before, offered where there is none yet.
    pub(crate) inherited_seed: Option<HashSeed>,
    /// Wakes the task that keeps the map of the servers.
    pub(crate) topology_changed: Notify,
    /// Wakes the task that fetches the seed, when there is a connection.
    pub(crate) reached: Notify,
}

impl LinkState {
    pub(crate) fn refresh_topology(&self) {
        self.topology_changed.notify_one();
    }
}
