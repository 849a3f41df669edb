//! Defines where the servers are, who the caller is there, and how long anything may take.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::address::{HostPort, ServerAddress};
use crate::call::CallUrgency;
use crate::environment::LinkEnvironment;

/// The settings by which a link finds and greets its servers.
#[derive(Clone, Debug)]
pub struct LinkSettings {
    /// The way to find the servers.
    pub topology: Topology,
    /// The login at servers with keys.
    pub login: Login,
    /// The encryption of connections over TCP; `None`: clear text.
    pub tls: Option<TlsSettings>,
    /// The beginning of every key that the link itself writes.
    pub prefix: String,
    /// The longest time of one call for which a request waits, redirections included.
    pub timeout: Duration,
    /// The longest time of one call for which no request waits, and of a heartbeat.
    pub exchange_timeout: Duration,
    /// The longest time to make a connection, in the background.
    pub connect_timeout: Duration,
    /// The number of processes that share the store, until the store reports it.
    pub known_nodes: NonZeroU32,
    /// The seed under which the fleet hashes keys; `None`: the one that the fleet agrees on through the server.
    pub seed: Option<HashSeed>,
    /// The library name that servers show in `CLIENT LIST`.
    pub library: LibraryName,
    /// The effect of an outage on the program, for log lines and the check, such as `"visits are not counted"`.
    pub outage_effect: &'static str,
    /// The clocks, the random numbers and the network.
    pub environment: Arc<dyn LinkEnvironment>,
}

/// A name and a version, for `CLIENT SETINFO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LibraryName {
    /// The name.
    pub name: &'static str,
    /// The version.
    pub version: &'static str,
}

/// The encryption of connections.
#[derive(Clone)]
pub struct TlsSettings {
    /// Trusted certificates, the client's own certificate, versions.
    pub config: Arc<ClientConfig>,
    /// The name that servers must prove; `None`: the one by which they are reached.
    pub server_name: Option<ServerName<'static>>,
}

/// The way to find the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Single {
        /// Where it listens.
        address: ServerAddress,
        /// The number of its database.
        database: u16,
    },
    /// The master that Sentinels name.
    Sentinel {
        /// The name of the master.
        master: String,
        /// The Sentinels, at least one.
        nodes: Vec<HostPort>,
        /// The login at the Sentinels.
        login: Login,
    },
    /// The masters of a Cluster, each of which has a part of the keys.
    Cluster {
        /// Some of its nodes, at least one; they name the others.
        nodes: Vec<HostPort>,
    },
}

/// The user and password of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// The user; `None`: the default user.
    pub user: Option<String>,
    /// The password of that user; `None`: the server asks for none.
    pub password: Option<Password>,
}

/// The password of a login. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Arc<str>);

/// A seed of keyed hashes. `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashSeed(pub [u8; 16]);

impl LinkSettings {
    /// Returns the longest time of a call.
    pub(crate) fn timeout_of(&self, urgency: CallUrgency) -> Duration {
        match urgency {
            CallUrgency::Decision => self.timeout,
            CallUrgency::Exchange => self.exchange_timeout,
        }
    }
}

impl Topology {
    /// `single`, `sentinel` or `cluster`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Single { .. } => "single",
            Self::Sentinel { .. } => "sentinel",
            Self::Cluster { .. } => "cluster",
        }
    }
}

impl Password {
    /// Wraps a text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str("Password")
    }
}

impl fmt::Debug for HashSeed {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str("HashSeed")
    }
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.debug_struct("TlsSettings")
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}
