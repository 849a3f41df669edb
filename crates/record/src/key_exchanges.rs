//! Counts the key exchanges of clients' TLS handshakes by group, for `/metrics`.
//!
//! The groups themselves count, since QUIC's library does not say which of them it used. A handshake that fails behind its key exchange is
//! counted too, and one of TLS 1.2 that resumes a session has none.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::crypto::{ActiveKeyExchange, CompletedKeyExchange, CryptoProvider, SupportedKxGroup};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::{Error, NamedGroup, ProtocolVersion};
use sluicegate_base::pki::crypto_provider;
use sluicegate_telemetry::exposition::SampledFamily;

/// The groups of the process, since rustls asks for some that live as long as it does.
static GROUPS: LazyLock<Vec<CountedGroup>> = LazyLock::new(|| {
    let groups = crypto_provider().kx_groups.clone();
    let counted = groups.into_iter().map(|group| CountedGroup {
        group,
        exchanges: AtomicU64::new(0),
    });
    counted.collect()
});

/// A group that counts its key exchanges.
#[derive(Debug)]
struct CountedGroup {
    group: &'static dyn SupportedKxGroup,
    exchanges: AtomicU64,
}

/// Returns the cryptography of listeners.
pub fn counting_provider() -> CryptoProvider {
    let groups = GROUPS.iter().map(|group| group as &dyn SupportedKxGroup);
    CryptoProvider {
        kx_groups: groups.collect(),
        ..(*crypto_provider()).clone()
    }
}

/// Returns the metric: no series before the first key exchange.
pub(super) fn family() -> SampledFamily {
    let mut family = SampledFamily::counter(
        "sluicegate_tls_key_exchanges_total",
        "Key exchanges of TLS handshakes, by group.",
    );
    for counted in GROUPS.iter() {
        // Relaxed, here and below: counts for the scrape, each on its own.
        let exchanges = counted.exchanges.load(Ordering::Relaxed);
        if exchanges > 0 {
            let name = counted.name();
            let name = name.as_str().unwrap_or_default();
            family.push(&[("group", name)], exchanges);
        }
    }
    family
}

impl CountedGroup {
    fn count(&self) {
        self.exchanges.fetch_add(1, Ordering::Relaxed);
    }
}

impl SupportedKxGroup for CountedGroup {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        self.count();
        self.group.start()
    }

    fn start_and_complete(&self, peer_pub_key: &[u8]) -> Result<CompletedKeyExchange, Error> {
        self.count();
        self.group.start_and_complete(peer_pub_key)
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        self.group.ffdhe_group()
    }

    fn name(&self) -> NamedGroup {
        self.group.name()
    }

    fn fips(&self) -> bool {
        self.group.fips()
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        self.group.usable_for_version(version)
    }
}
