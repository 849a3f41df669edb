//! Implements stage 1, where bytes arrive: the loop over the requests of a connection.

mod accept;
mod client_stream;
mod connection;
mod grpc;
mod grpc_health;
mod guarded_stream;
mod http2;
mod http3;
mod intake;
pub mod proxy_protocol;
mod timer_keepalive;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::gateway::ConnectionFacts;
use sluicegate_budgets::ClientAccount;
use sluicegate_config::rules::ListenerProtocol;

pub use accept::ConnectionApp;
pub use accept::{Acceptor, QueuedConnections};
use client_stream::ClientStream;
pub use http3::{Http3Address, Http3Endpoint, QuicIdentity, ThreadPlace, ThreadSockets, relay};
pub use intake::Intake;
use sluicegate_decide::client::PeerAddress;

/// Returns the facts that the requests of a connection share.
fn facts(
    stream: &ClientStream,
    protocol: ListenerProtocol,
    account: ClientAccount,
) -> ConnectionFacts {
    ConnectionFacts {
        peer: Some(PeerAddress::new(stream.peer())),
        secured: stream.secured().cloned(),
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
