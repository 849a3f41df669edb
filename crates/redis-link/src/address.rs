//! Names the addresses at which servers are reached.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ServerAddress {
    /// A TCP port.
    Tcp(HostPort),
    /// A Unix socket on this machine.
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

impl fmt::Display for HostPort {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(into, "[{}]:{}", self.host, self.port)
        } else {
            write!(into, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(into),
            Self::Unix(path) => write!(into, "unix://{}", path.display()),
        }
    }
}
