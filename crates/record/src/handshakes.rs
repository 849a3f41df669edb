//! Counts TLS handshakes, for `/metrics`.
//!
//! Shared by all threads rather than striped: an addition stands beside a handshake, which costs ten thousand times as much.

use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_telemetry::exposition::SampledFamily;

/// The kind of a handshake that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeKind {
    /// A full handshake.
    Full,
    /// A resumed session of the client.
    Resumed,
    /// One of QUIC, whose library does not say which of the two it was.
    Quic,
    /// The validation of a name by a certificate authority.
    Acme,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// The reason why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeFailure {
    /// It took too long.
    TimedOut,
    /// The maximum of handshakes was in progress.
    LimitReached,
    /// The client had as many handshakes in progress as one client may have.
    ClientLimitReached,
    /// The client closed the connection.
    Gone,
    /// The client sent no TLS, or messages out of order.
    NotTls,
    /// The two sides have no version, cipher suite or protocol in common.
    NothingInCommon,
    /// There is no certificate for the client's server name.
    UnknownName,
    /// The client sent no certificate, or none that is trusted.
    ClientCertificate,
    /// The client refused, mostly the server's certificate.
    RefusedByClient,
    /// Anything else.
    Other,
}

/// The counts.
#[derive(Debug, Default)]
pub struct HandshakeCounts {
    succeeded: [[AtomicU64; TlsVersion::ALL.len()]; HandshakeKind::ALL.len()],
    failed: [AtomicU64; HandshakeFailure::ALL.len()],
}

impl HandshakeKind {
    /// Every kind, in the order of the counters.
    const ALL: [Self; 4] = [Self::Full, Self::Resumed, Self::Quic, Self::Acme];

    /// Returns the value of the label `kind`.
    fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Resumed => "resumed",
            Self::Quic => "quic",
            Self::Acme => "acme",
        }
    }
}

impl TlsVersion {
    /// Every version, in the order of the counters.
    const ALL: [Self; 2] = [Self::Tls12, Self::Tls13];

    /// Returns the name in logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        }
    }
}

impl HandshakeFailure {
    /// Every reason, in the order of the counters.
    pub const ALL: [Self; 10] = [
        Self::TimedOut,
        Self::LimitReached,
        Self::ClientLimitReached,
        Self::Gone,
        Self::NotTls,
        Self::NothingInCommon,
        Self::UnknownName,
        Self::ClientCertificate,
        Self::RefusedByClient,
        Self::Other,
    ];

    /// Returns the value of the label `reason`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TimedOut => "timed_out",
            Self::LimitReached => "limit_reached",
            Self::ClientLimitReached => "client_limit_reached",
            Self::Gone => "client_closed",
            Self::NotTls => "not_tls",
            Self::NothingInCommon => "no_common_parameters",
            Self::UnknownName => "unknown_name",
            Self::ClientCertificate => "client_certificate",
            Self::RefusedByClient => "refused_by_client",
            Self::Other => "other",
        }
    }
}

impl HandshakeFailure {
    /// Returns the text for the process log; `None` where the connection only ended.
    #[must_use]
    pub fn log_text(self) -> Option<&'static str> {
        match self {
            Self::TimedOut | Self::Gone => None,
            Self::LimitReached => Some("as many as may be are in progress"),
            Self::ClientLimitReached => Some("as many as one client may have are in progress"),
            Self::NotTls => Some("what it sent is not TLS"),
            Self::NothingInCommon => Some("no version, cipher suite or protocol in common"),
            Self::UnknownName => Some("no certificate for the name that it asks for"),
            Self::ClientCertificate => Some("it showed no certificate that is believed"),
            Self::RefusedByClient => Some("it refuses, mostly the certificate that it was shown"),
            Self::Other => Some("it broke the protocol"),
        }
    }
}

impl HandshakeCounts {
    /// Counts a handshake that succeeded.
    pub fn succeeded(&self, kind: HandshakeKind, version: TlsVersion) {
        // Relaxed, here and below: counts for the scrape, each on its own.
        self.succeeded[kind as usize][version as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a handshake that failed.
    pub fn failed(&self, why: HandshakeFailure) {
        self.failed[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the metrics: no series before the first handshake.
    pub(super) fn families(&self) -> [SampledFamily; 2] {
        let mut succeeded = SampledFamily::counter(
            "sluicegate_tls_handshakes_total",
            "TLS handshakes that succeeded, by kind and version.",
        );
        let mut failed = SampledFamily::counter(
            "sluicegate_tls_handshake_failures_total",
            "TLS handshakes that failed, by reason.",
        );
        for kind in HandshakeKind::ALL {
            for version in TlsVersion::ALL {
                let labels = [("kind", kind.as_str()), ("version", version.as_str())];
                let count = &self.succeeded[kind as usize][version as usize];
                push(&mut succeeded, &labels, count);
            }
        }
        for why in HandshakeFailure::ALL {
            let labels = [("reason", why.as_str())];
            push(&mut failed, &labels, &self.failed[why as usize]);
        }
        [succeeded, failed]
    }
}

/// Adds a series with its first count.
fn push(family: &mut SampledFamily, labels: &[(&str, &str)], count: &AtomicU64) {
    let count = count.load(Ordering::Relaxed);
    if count > 0 {
        family.push(labels, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no reason is counted as another. Method: count each once more than the one before.
    #[test]
    fn every_reason_has_a_counter_of_its_own() {
        let handshakes = HandshakeCounts::default();
        for (times, why) in HandshakeFailure::ALL.into_iter().enumerate() {
            for _ in 0..times {
                handshakes.failed(why);
            }
        }
        for (times, why) in HandshakeFailure::ALL.into_iter().enumerate() {
            let count = handshakes.failed[why as usize].load(Ordering::Relaxed);
            assert_eq!(count, times as u64, "{why:?}");
        }
    }
}
