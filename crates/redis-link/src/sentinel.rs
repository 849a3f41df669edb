//! Queries Sentinels for the address of the master.

use std::fmt;

use crate::address::{HostPort, ServerAddress};
use crate::call::Reply;
use crate::connect::{DialError, Handshake, connect};
use crate::error::{ErrorReply, RefusalReason, StoreError, read};
use crate::settings::{LinkSettings, Login};
use crate::time::deadline;

/// The cause for which a Sentinel does not name the master.
#[derive(Debug)]
pub(crate) enum SentinelError {
    /// The Sentinel cannot be reached.
    Unreachable(HostPort, DialError),
    /// The Sentinel answered with an error.
    Refused(HostPort, ErrorReply),
    /// The Sentinel knows no master of that name, or did not answer in time.
    Unnamed(HostPort),
}

/// Returns the address of the master from the first Sentinel that names one. Each attempt begins with another Sentinel, so that a wrong
/// one is not believed for ever.
pub(crate) async fn find_master(
    name: &str,
    nodes: &[HostPort],
    login: &Login,
    first: usize,
    settings: &LinkSettings,
) -> Result<HostPort, Vec<SentinelError>> {
    let mut errors = Vec::new();
    let begin = first % nodes.len().max(1);
    for node in nodes.iter().skip(begin).chain(nodes.iter().take(begin)) {
        match query(name, node, login, settings).await {
            Ok(address) => return Ok(address),
            Err(error) => errors.push(error),
        }
    }
    Err(errors)
}

async fn query(
    name: &str,
    node: &HostPort,
    login: &Login,
    settings: &LinkSettings,
) -> Result<HostPort, SentinelError> {
    let address = ServerAddress::Tcp(node.clone());
    let connected = connect(&address, Handshake::Sentinel(login), settings)
        .await
        .map_err(|error| SentinelError::Unreachable(node.clone(), error))?;
    let mut multiplexed = connected.multiplexed;
    let mut command = redis::cmd("SENTINEL");
    command.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    let deadline = deadline(settings.connect_timeout);
    let answer = tokio::select! {
        answer = tokio::time::timeout_at(deadline, multiplexed.send_packed_command(&command)) => answer.ok(),
        () = connected.driver => None,
    };
    let reply = answer.map(read).transpose();
    let reply = reply.map_err(|error| SentinelError::Refused(node.clone(), error))?;
    let address = reply.as_ref().and_then(parse_address);
    address.ok_or_else(|| SentinelError::Unnamed(node.clone()))
}

/// Parses `["10.0.0.1", "6379"]`.
fn parse_address(reply: &Reply) -> Option<HostPort> {
    let Reply::Rows(fields) = reply else {
        return None;
    };
    let [Reply::Bytes(host), Reply::Bytes(port)] = &fields[..] else {
        return None;
    };
    Some(HostPort {
        host: str::from_utf8(host).ok()?.into(),
        port: str::from_utf8(port).ok()?.parse().ok()?,
    })
}

impl SentinelError {
    /// Returns whether the Sentinel refused the login.
    pub(crate) fn is_denied(&self) -> bool {
        match self {
            Self::Unreachable(_, error) => error.is_denied(),
            Self::Refused(_, error) => {
                *error == ErrorReply::Failed(StoreError::Refused(RefusalReason::Denied))
            }
            Self::Unnamed(_) => false,
        }
    }
}

impl fmt::Display for SentinelError {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(node, error) => write!(into, "the Sentinel {node}: {error}"),
            Self::Refused(node, error) => write!(into, "the Sentinel {node}: {error}"),
            Self::Unnamed(node) => {
                write!(into, "the Sentinel {node} knows no master of that name")
            }
        }
    }
}
