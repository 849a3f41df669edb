//! Owns the typed rules of `[store]`, and what a limit says about it. They are plain values: `crates/store/` makes the settings of a
//! link of them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use sluicegate_base::secret::Secret;

/// The way to the servers of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreTopology {
    /// One server.
    Single {
        /// Where it listens.
        address: StoreAddress,
        /// The number of its database.
        database: u16,
    },
    /// The master that Sentinels name.
    Sentinel {
        /// The name of the master.
        master: String,
        /// The Sentinels, at least one.
        nodes: Vec<StoreNode>,
        /// The login at the Sentinels.
        login: StoreLogin,
    },
    /// The masters of a Cluster.
    Cluster {
        /// Some of its nodes, at least one.
        nodes: Vec<StoreNode>,
    },
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAddress {
    /// A TCP port.
    Tcp(StoreNode),
    /// A Unix socket on this machine.
    Unix(PathBuf),
}

/// A name or address with a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreNode {
    /// A name, or an address without brackets.
    pub host: Arc<str>,
    /// The port.
    pub port: u16,
}

/// The user and password of the gateway at a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreLogin {
    /// The user; `None`: the default user.
    pub user: Option<String>,
    /// The password of that user; `None`: the server asks for none.
    pub password: Option<Secret>,
}

/// The seed under which keys are hashed. `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StoreSeed(pub [u8; 16]);

impl fmt::Debug for StoreSeed {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str("StoreSeed")
    }
}

impl fmt::Display for StoreNode {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(into, "[{}]:{}", self.host, self.port)
        } else {
            write!(into, "{}:{}", self.host, self.port)
        }
    }
}

/// When a gateway with a store is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadyWhen {
    /// The gateway is ready as soon as it serves: without its store it decides by itself.
    #[default]
    Serving,
    /// Once it was connected to its store.
    Connected,
}

/// That a limit counts in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedRules {
    /// The place of the decision.
    pub mode: SharedMode,
    /// The decision while the store is unavailable.
    pub on_failure: OnStoreFailure,
}

/// The place of the decision over a limit that counts in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedMode {
    /// The node, at once; counts are exchanged every `[store] sync_interval`.
    Synced,
    /// The store, in one round trip.
    Strict,
}

/// The decision of a limit while the store is unavailable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStoreFailure {
    /// The node judges by its share of the rates.
    #[default]
    Local,
    /// Everything passes.
    Open,
    /// Nothing passes.
    Closed,
}

impl SharedMode {
    /// Returns the word of the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Synced => "shared",
            Self::Strict => "shared-strict",
        }
    }
}

impl OnStoreFailure {
    /// Returns the word of the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}
