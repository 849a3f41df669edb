//! Counts requests of untrusted peers that claim to forward for a client, and logs the peers that are probably the operator's own
//! proxies.
//!
//! Behind a load balancer that is missing in `client.trusted_proxies` all clients are one, and share every limit by address. But any
//! client may send `X-Forwarded-For`, so the process log names only peers with private addresses: a balancer has one, a client on the
//! Internet has none. A CDN that is missing shows in the metric alone.
//!
//! # Limits
//! [`UNTRUSTED_PEERS`](bounds::UNTRUSTED_PEERS) addresses are logged in the life of the process, each once.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use arrayvec::ArrayVec;
use sluicegate_base::bounds;
use sluicegate_telemetry::exposition::SampledFamily;
use tracing::warn;

/// The counts, and the peers that were logged.
#[derive(Debug, Default)]
pub struct UntrustedForwarding {
    private: AtomicU64,
    public: AtomicU64,
    logged: RwLock<ArrayVec<IpAddr, { bounds::UNTRUSTED_PEERS }>>,
}

impl UntrustedForwarding {
    /// Counts a request of `peer`.
    pub fn count(&self, peer: IpAddr) {
        // Relaxed, here and below: counts for the scrape, each on its own.
        if !is_private(peer) {
            self.public.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.private.fetch_add(1, Ordering::Relaxed);
        if self.is_news(peer) {
            warn!(
                "client: {peer} sends X-Forwarded-For and is not trusted, so everybody behind it counts as one client with its address; if \
                 it is your proxy or load balancer, write [client] trusted_proxies = [\"{peer}\"]"
            );
        }
    }

    /// Notes a peer and returns whether it is to be logged.
    fn is_news(&self, peer: IpAddr) -> bool {
        // Addresses are only ever added, so a poisoned lock still holds whole ones.
        let logged = self.logged.read().unwrap_or_else(PoisonError::into_inner);
        if logged.contains(&peer) || logged.is_full() {
            return false;
        }
        drop(logged);
        let mut logged = self.logged.write().unwrap_or_else(PoisonError::into_inner);
        !logged.contains(&peer) && logged.try_push(peer).is_ok()
    }

    /// Returns the metric.
    pub(super) fn family(&self) -> SampledFamily {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        SampledFamily::counter(
            "sluicegate_untrusted_forwarded_total",
            "Requests with X-Forwarded-For or its like from peers that are not in client.trusted_proxies, by the peer's address.",
        )
        .series(&[("peer", "private")], read(&self.private))
        .series(&[("peer", "public")], read(&self.public))
    }
}

/// Returns whether an address is one that the Internet does not route: loopback, link-local, private (RFC 1918,
/// RFC 4193) or shared (RFC 6598).
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let is_shared = first == 100 && (64..128).contains(&second);
            address.is_private() || address.is_loopback() || address.is_link_local() || is_shared
        }
        IpAddr::V6(address) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: peers fill neither memory nor log. Method: peers of every kind, more private ones than are kept, and each twice.
    #[test]
    fn a_private_peer_is_logged_once_and_no_more_than_fit() {
        let seen = UntrustedForwarding::default();
        for public in ["192.0.2.1", "100.128.0.1", "2001:db8::1", "172.32.0.1"] {
            assert!(!is_private(public.parse().expect("an address")), "{public}");
        }
        for private in [
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.9",
            "169.254.1.1",
            "::1",
            "fd00::1",
            "fe80::1",
        ] {
            let private = private.parse().expect("an address");
            assert!(is_private(private) && seen.is_news(private) && !seen.is_news(private));
        }
        let more = (0..200_u8).map(|last| IpAddr::from([10, 0, 0, last]));
        let news = more.filter(|peer| seen.is_news(*peer)).count();
        assert_eq!(news, bounds::UNTRUSTED_PEERS - 7);
    }
}
