//! Decides how the gateway connects to a server of an origin: protocol, trust, the time for it, and keep-alive.
//!
//! # Invariants
//! 1. A connection is reused only for an origin with the same protocol, windows, trust, name, identity and bound on connections. Pingora
//!    distinguishes connections by address, name and the serials of the gateway's own certificate, but neither by trust anchors
//!    nor by protocol, so all of that is hashed into the group of a peer: a new file of certificates makes a new group, and its
//!    old connections are not reused.
//! 2. A peer with TLS has a name. Without one Pingora would verify nothing.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use pingora::protocols::{ALPN, TcpKeepalive};
use pingora::upstreams::peer::HttpPeer;
use pingora::utils::tls::{CertKey, WrappedX509, parse_x509};
use sluicegate_base::bounds;

use sluicegate_config::rules::{
    Certificate, OriginAddress, OriginRules, OriginTls, PoolServer, Protocol, Verify,
};

/// Probes of idle connections to origins: below the five minutes after which most firewalls forget a connection.
///
/// The PING of HTTP/2 is not used: gRPC servers treat one more often than every five minutes as an attack.
const PROBES: TcpKeepalive = TcpKeepalive {
    idle: Duration::from_secs(60),
    interval: Duration::from_secs(10),
    count: 3,
    #[cfg(target_os = "linux")]
    user_timeout: UNACKNOWLEDGED,
};

/// The longest time for which a server may acknowledge nothing of what was sent, or give no window for it, unless `write` of the `timeouts`
/// is longer. Linux tries for a quarter of an hour by default. It is as long as the probes take to find an idle connection dead, which it
/// ends too (`tcp(7)`, `TCP_USER_TIMEOUT`).
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(90);

/// Returns the peer for the server at `address`; `entry` is the entry of `servers`, if it is a name. `None` for a path that the operating
/// system takes for no socket, which no [`OriginAddress`] has.
pub(super) fn peer(
    address: &OriginAddress,
    entry: Option<&PoolServer>,
    rules: &OriginRules,
) -> Option<HttpPeer> {
    let timeouts = &rules.timeouts;
    let tls = rules.transport.tls.as_ref();
    let name = tls.map_or_else(String::new, |tls| proven_name(tls, address, entry));
    let mut peer = match address {
        OriginAddress::Tcp(address) => HttpPeer::new(address, tls.is_some(), name),
        OriginAddress::Unix(path) => HttpPeer::new_uds(path.as_str(), tls.is_some(), name).ok()?,
    };
    peer.options.connection_timeout = Some(timeouts.connect);
    peer.options.total_connection_timeout = Some(timeouts.connect);
    // A timer per request, so only if configured; the kernel's probes detect connections that a firewall forgot.
    peer.options.idle_timeout = timeouts.idle;
    peer.options.tcp_keepalive = Some(TcpKeepalive {
        #[cfg(target_os = "linux")]
        user_timeout: UNACKNOWLEDGED.max(timeouts.write),
        ..PROBES
    });
    set_protocol(&mut peer, rules.transport.protocol);
    if let Some(tls) = tls {
        set_verification(&mut peer, tls);
    }
    peer.group_key = group(rules);
    Some(peer)
}

/// Returns the name that a server's certificate must have: the configured one, the server's own, or its address; `localhost` at a socket.
fn proven_name(tls: &OriginTls, address: &OriginAddress, entry: Option<&PoolServer>) -> String {
    let named = entry.and_then(|entry| entry.name.as_deref());
    let own = named
        .and_then(|name| name.rsplit_once(':'))
        .map(|(host, _)| host);
    match (tls.server_name.as_deref(), own) {
        (Some(name), _) | (None, Some(name)) => name.to_owned(),
        (None, None) => address.host(),
    }
}

fn set_protocol(peer: &mut HttpPeer, protocol: Protocol) {
    peer.options.alpn = match protocol {
        Protocol::Http1 => ALPN::H1,
        // Without TLS there is no negotiation, so HTTP/2 alone means prior knowledge.
        Protocol::H2 | Protocol::H2c => ALPN::H2,
        Protocol::Auto => ALPN::H2H1,
    };
    peer.options.max_h2_streams = bounds::ORIGIN_STREAMS;
}

fn set_verification(peer: &mut HttpPeer, tls: &OriginTls) {
    peer.options.verify_cert = tls.verify != Verify::Off;
    peer.options.verify_hostname = tls.verify == Verify::Full;
    let parsed = |one: &Certificate| WrappedX509::new(one.0.to_vec(), parse_x509);
    peer.options.ca = tls
        .ca_file
        .as_ref()
        .map(|trust| trust.iter().map(parsed).collect());
    peer.client_cert_key = tls.identity.as_ref().map(|identity| {
        let chain = identity.chain.iter().map(|one| one.0.to_vec()).collect();
        Arc::new(CertKey::new(chain, identity.key.to_vec()))
    });
}

/// Returns the part of a group that belongs to the origin `name` alone.
pub(super) fn group_of(name: &str, group: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (name, group).hash(&mut hasher);
    hasher.finish()
}

/// Returns the group of peers that may share connections, given one address and name (invariant 1). It is the same in every run
/// of one build.
fn group(rules: &OriginRules) -> u64 {
    let bound = rules
        .circuit_breaker
        .and_then(|circuit| circuit.max_connections);
    if rules.transport.protocol == Protocol::Http1
        && rules.transport.tls.is_none()
        && bound.is_none()
    {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    (rules.transport.protocol, &rules.transport.tls, bound).hash(&mut hasher);
    rules.stream_window.hash(&mut hasher);
    hasher.finish()
}
