//! Owns the typed rules of `[store]`, and what a limit says about it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::pki::Tls;
use crate::secret::Secret;

/// `[store]`: where counters of several gateways are.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreRules {
    /// How its servers are found.
    pub topology: Topology,
    /// Who the gateway is there.
    pub login: Login,
    /// How its connections are encrypted; `None`: not at all.
    pub tls: Option<Tls>,
    /// What every key in it begins with; default `sluicegate`.
    pub prefix: String,
    /// How long one call may take, whatever happens; default 20 ms.
    pub timeout: Duration,
    /// How long a connection may take to stand, in the background; default 1 s.
    pub connect_timeout: Duration,
    /// How often a limit with `store = "shared"` meets the store; default 250 ms.
    pub sync: Duration,
    /// What keys are hashed under; `None`: what the store keeps.
    pub secret: Option<StoreSeed>,
    /// When `/readyz` says yes.
    pub ready: ReadyWhen,
    /// The files that were read for this.
    pub files: Vec<PathBuf>,
}

/// How the servers of a store are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// There is one.
    Single {
        /// Where it listens.
        place: StorePlace,
        /// The number of its database.
        database: u16,
    },
    /// Sentinels say which is the master.
    Sentinel {
        /// What they call it.
        master: String,
        /// The sentinels, at least one.
        nodes: Vec<HostPort>,
        /// Who the gateway is to them.
        login: Login,
    },
    /// Each of several has a part of the keys.
    Cluster {
        /// Some of them, at least one: who is asked for the others.
        nodes: Vec<HostPort>,
    },
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StorePlace {
    /// Over TCP.
    Tcp(HostPort),
    /// At a path of this machine.
    Unix(PathBuf),
}

/// A name or address with a port; names are resolved whenever a connection is made.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// A name, or an address without brackets.
    pub host: Arc<str>,
    /// The port.
    pub port: u16,
}

/// Who the gateway says it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// `None`: nobody in particular.
    pub user: Option<String>,
    /// The password of that user; `None`: none is asked for.
    pub password: Option<Secret>,
}

/// What keys are hashed under, so that the store learns nobody's values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StoreSeed(pub [u8; 16]);

/// When a gateway with a store is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadyWhen {
    /// As soon as it serves: without its store it decides by itself.
    #[default]
    Serving,
    /// Once it was connected to its store.
    Connected,
}

/// That a limit counts in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedRules {
    /// Who decides.
    pub mode: SharedMode,
    /// What holds while the store is away.
    pub on_failure: OnStoreFailure,
}

/// Who decides over a limit that counts in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedMode {
    /// The node, at once; counts are exchanged every `[store] sync_interval`.
    Synced,
    /// The store, in one round trip.
    Strict,
}

/// What holds of a limit while the store is away.
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
    /// As one would write it in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Synced => "shared",
            Self::Strict => "shared-strict",
        }
    }
}

impl OnStoreFailure {
    /// As one would write it in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

impl Topology {
    /// What it is called in `/status`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Single { .. } => "single",
            Self::Sentinel { .. } => "sentinel",
            Self::Cluster { .. } => "cluster",
        }
    }
}

impl fmt::Debug for StoreSeed {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str("StoreSeed")
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(into, "[{}]:{}", self.host, self.port)
        } else {
            write!(into, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for StorePlace {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(place) => place.fmt(into),
            Self::Unix(path) => write!(into, "unix://{}", path.display()),
        }
    }
}
