//! Stage 1, where bytes arrive: the loop over the requests of a connection, and the operator's own listener.

mod admin;
mod connection;
pub(crate) mod head;
mod http2;
mod intake;
mod repeat;
mod vigil;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::HeaderValue;
use pingora::protocols::Stream;
use pingora::protocols::http::date::get_cached_date;

pub use admin::AdminDesk;
pub(crate) use http2::note_given_up;
pub use intake::Intake;

/// The other end of a connection, IPv4-mapped addresses folded.
fn peer_address(stream: &Stream) -> Option<IpAddr> {
    let digest = stream.get_socket_digest()?;
    let address = digest.peer_addr()?.as_inet()?.ip();
    Some(address.to_canonical())
}

/// Where a listener is reached from this machine: one that listens everywhere, on the loopback.
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

/// Now, for the field `Date`.
fn http_date() -> HeaderValue {
    get_cached_date()
}
