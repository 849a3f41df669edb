//! Decides how a server of an origin is reached: within which times, and what keeps the connection to it alive.

use std::net::SocketAddr;
use std::time::Duration;

use pingora::protocols::TcpKeepalive;
use pingora::upstreams::peer::HttpPeer;

use crate::config::rules::OriginRules;

/// Probes of idle connections to origins: below the five minutes after which most firewalls forget a connection.
const PROBES: TcpKeepalive = TcpKeepalive {
    idle: Duration::from_secs(60),
    interval: Duration::from_secs(10),
    count: 3,
    // The system's.
    #[cfg(target_os = "linux")]
    user_timeout: Duration::ZERO,
};

/// The way to the server at `address`.
pub(super) fn peer(address: SocketAddr, rules: &OriginRules) -> HttpPeer {
    let timeouts = &rules.timeouts;
    let mut peer = HttpPeer::new(address, false, String::new());
    peer.options.connection_timeout = Some(timeouts.connect);
    peer.options.total_connection_timeout = Some(timeouts.connect);
    // One that drips meets the total deadline between two reads; one that falls silent, at the latest a read later.
    peer.options.read_timeout = Some(
        timeouts
            .total
            .map_or(timeouts.read, |total: Duration| total.min(timeouts.read)),
    );
    peer.options.write_timeout = Some(timeouts.write);
    // A timer a request, so only for who asks; what a firewall forgets without a word, the kernel's probes find out.
    peer.options.idle_timeout = timeouts.idle;
    peer.options.tcp_keepalive = Some(PROBES);
    peer
}
