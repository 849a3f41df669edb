//! Implements stage 1, where bytes arrive: the loop over the requests of a connection, and the operator's own listener.

mod accept;
mod admin;
mod connection;
mod grpc;
mod grpc_health;
mod guarded_stream;
mod http2;
mod intake;
pub(crate) mod proxy_protocol;
mod reset;
mod timer_keepalive;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use pingora::protocols::IO;

use crate::budgets::ClientAccount;
use crate::config::rules::ListenerProtocol;
use crate::gateway::ConnectionFacts;
use crate::tls::secured_by;

pub use accept::ConnectionApp;
pub(crate) use accept::{Acceptor, QueuedConnections};
pub use admin::AdminApp;
pub use intake::Intake;
use sluicegate_decide::client::{PeerAddress, TlsFacts};

/// Returns the connection's other end.
fn peer(stream: &dyn IO) -> Option<SocketAddr> {
    let digest = stream.get_socket_digest()?;
    digest.peer_addr()?.as_inet().copied()
}

/// Returns the address of the connection's other end, IPv4-mapped addresses folded.
fn peer_address(stream: &dyn IO) -> Option<IpAddr> {
    Some(peer(stream)?.ip().to_canonical())
}

/// Returns the facts of the connection's TLS handshake; `None` in clear text.
fn secured_of(stream: &dyn IO) -> Option<Arc<TlsFacts>> {
    secured_by(stream.get_proxy_digest().as_ref()).cloned()
}

/// Returns the facts that the requests of a connection share.
fn facts(stream: &dyn IO, protocol: ListenerProtocol, account: ClientAccount) -> ConnectionFacts {
    ConnectionFacts {
        peer: peer(stream).map(PeerAddress::new),
        secured: secured_of(stream),
        protocol,
        account,
    }
}

/// Returns the address at which this machine reaches a listener: the loopback for one that listens on all addresses.
#[must_use]
pub fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}
