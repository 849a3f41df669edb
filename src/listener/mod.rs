//! Stage 1, where bytes arrive: the loop over the requests of a connection, and the operator's own listener.

mod active;
mod admin;
mod admittance;
mod chunks;
mod connection;
pub(crate) mod head;
mod heartbeat;
mod http2;
mod intake;
mod open_files;
mod origin_requests;
mod outgoing;
pub(crate) mod proxy_protocol;
mod repeat;
mod respell;
mod target;
mod tls;
mod unread;
mod vigil;
mod watched;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use http::HeaderValue;
use pingora::protocols::IO;
use pingora::protocols::http::date::get_cached_date;
use sluicegate_limiter::KeyHash;

use crate::admission::KeySeed;
use crate::client::{PrefixBits, Secured, prefix};

pub use active::{ActiveListener, Listeners, compile};
pub use admin::AdminDesk;
pub use admittance::{Admittance, ConnectionCaps, ConnectionTallies, Crowd};
pub(crate) use http2::note_given_up;
pub use intake::Intake;
pub use open_files::{OpenFiles, OwnFiles};
pub use origin_requests::{
    FileShares, OriginRequests, RequestCap, RequestCaps, RequestPermit, RequestTallies,
};
pub(crate) use tls::secured;
use tls::secured_by;
pub use tls::{
    Certificate, CertificateError, CertificateTexts, Certificates, ClientTrust, Termination,
    Validity, served,
};
pub use unread::{UnreadAnswers, UnreadCap, UnreadPermit, UnreadTallies};

/// The other end of a connection, IPv4-mapped addresses folded.
fn peer_address(stream: &dyn IO) -> Option<IpAddr> {
    let digest = stream.get_socket_digest()?;
    let address = digest.peer_addr()?.as_inet()?.ip();
    Some(address.to_canonical())
}

/// The key by which this `kind` of thing is counted of the client at `address`: an address of IPv4, a /64 of IPv6.
fn client_key(kind: &[u8], address: IpAddr, seed: &KeySeed) -> KeyHash {
    let network = prefix(address, PrefixBits::default());
    seed.hash_parts([kind, network.as_bytes()].into_iter())
}

/// What the handshake of a connection said; `None` in clear text.
fn secured_of(stream: &dyn IO) -> Option<Arc<Secured>> {
    secured_by(stream.get_proxy_digest().as_ref()).cloned()
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
