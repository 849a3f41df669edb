//! Defines the reasons for which a gateway could not start, each with its cure.

use std::net::SocketAddr;
use std::path::PathBuf;

use sluicegate_decide::state::CounterStorageError;

use sluicegate_budgets::OpenFiles;

/// The cure where no upgrade is possible.
pub(crate) const NO_UPGRADE_SOCKET: &str = "there is no socket to hand over by; write [server] \
     state_dir = \"/var/lib/sluicegate/state\", or \
     upgrade_socket = \"/run/sluicegate/upgrade.sock\", and restart once";

/// The reason for which the gateway could not start.
#[derive(Debug)]
pub enum StartError {
    /// The address of a listener cannot be bound.
    Bind(SocketAddr, std::io::Error),
    /// The UDP address of a listener that speaks HTTP/3 cannot be bound.
    BindUdp(SocketAddr, std::io::Error),
    /// The address of the admin listener cannot be bound.
    Admin(SocketAddr, std::io::Error),
    /// The access log cannot be opened.
    AccessLog(std::io::Error),
    /// The audit log cannot be opened.
    AuditLog(std::io::Error),
    /// The system has no random bytes, which HTTP/3 needs.
    NoRandomBytes(getrandom::Error),
    /// There is no storage for counters.
    Counters(CounterStorageError),
    /// A socket of the service manager cannot be used.
    Activation(std::io::Error),
    /// Signal handlers cannot be installed.
    Signals(std::io::Error),
    /// There is no socket at which a running gateway accepts an upgrade.
    NoUpgradeSocket,
    /// The configuration needs so many descriptors, and the limit is lower.
    FewFiles(u64),
    /// The gateway at this path does not hand over.
    Takeover(PathBuf, std::io::Error),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bind(address, cause) => {
                write!(f, "cannot listen on {address}: {cause}")?;
                low_port(*address, cause, f)
            }
            Self::BindUdp(address, cause) => {
                write!(f, "cannot receive HTTP/3 on UDP {address}: {cause}")?;
                low_port(*address, cause, f)
            }
            Self::Admin(address, cause) => {
                write!(
                    f,
                    "cannot listen on {address}, the address of the operator's listener: {cause}; write another one \
                     ([admin] address = \"127.0.0.1:9181\"), or \"off\""
                )?;
                low_port(*address, cause, f)
            }
            Self::AccessLog(cause) => write!(f, "cannot open the access log: {cause}"),
            Self::AuditLog(cause) => write!(f, "cannot open the audit log: {cause}"),
            Self::NoRandomBytes(cause) => write!(f, "no random bytes for HTTP/3: {cause}"),
            Self::Counters(cause) => cause.fmt(f),
            Self::Activation(cause) => {
                write!(f, "a socket of the service manager cannot be used: {cause}")
            }
            Self::Signals(cause) => write!(f, "signal handlers cannot be installed: {cause}"),
            Self::FewFiles(fewest) => write!(
                f,
                "{} files may be open, and the process needs {fewest}: raise the limit (LimitNOFILE={fewest}, ulimit -n {fewest}, or more)",
                OpenFiles::raise().now
            ),
            Self::NoUpgradeSocket => f.write_str(NO_UPGRADE_SOCKET),
            Self::Takeover(path, cause) => write!(
                f,
                "no gateway hands over at {}: {cause}; without --upgrade this one starts alone",
                path.display()
            ),
        }
    }
}

impl std::error::Error for StartError {}

/// Returns the privilege that ports below 1024 need, where its lack is the cause.
fn low_port(
    address: SocketAddr,
    cause: &std::io::Error,
    f: &mut std::fmt::Formatter<'_>,
) -> std::fmt::Result {
    if address.port() >= 1024 || cause.kind() != std::io::ErrorKind::PermissionDenied {
        return Ok(());
    }
    f.write_str(
        "; ports below 1024 need CAP_NET_BIND_SERVICE: AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit, or \
         setcap cap_net_bind_service=+ep for the program",
    )
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    /// Goal: an operator without the right to bind port 80 gets the cure. Method: the system's error, for a low port and for a
    /// high one.
    #[test]
    fn a_low_port_that_is_refused_names_the_capability() {
        let refused = |port| {
            let address = SocketAddr::from(([0, 0, 0, 0], port));
            StartError::Bind(address, Error::from(ErrorKind::PermissionDenied)).to_string()
        };
        assert!(refused(80).contains("CAP_NET_BIND_SERVICE"));
        assert!(!refused(8080).contains("CAP_NET_BIND_SERVICE"));
    }
}
