//! Counts headers of the PROXY protocol, for `/metrics`: one addition a connection, shared by all threads.

use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_telemetry::exposition::SampledFamily;

/// The result of reading the header of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeaderResult {
    /// The header was read.
    Read,
    /// The peer is not trusted to announce clients; the connection was closed.
    Stranger,
    /// The header is missing or malformed; the connection was closed.
    Malformed,
    /// The header did not arrive in time.
    TimedOut,
    /// The peer closed the connection before it sent the header.
    Gone,
}

/// The counts.
#[derive(Debug, Default)]
pub struct ProxyHeaderCounts([AtomicU64; ProxyHeaderResult::ALL.len()]);

impl ProxyHeaderResult {
    /// Every result, in the order of the counters.
    pub const ALL: [Self; 5] = [
        Self::Read,
        Self::Stranger,
        Self::Malformed,
        Self::TimedOut,
        Self::Gone,
    ];

    /// Returns the value of the label `result`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Stranger => "untrusted",
            Self::Malformed => "malformed",
            Self::TimedOut => "timed_out",
            Self::Gone => "client_closed",
        }
    }
}

impl ProxyHeaderResult {
    /// Returns the text for the process log; `None` where the connection only ended.
    #[must_use]
    pub fn log_text(self) -> Option<&'static str> {
        match self {
            Self::Read | Self::TimedOut | Self::Gone => None,
            Self::Stranger => {
                Some("it is no proxy that may announce clients, and the listener takes no others")
            }
            Self::Malformed => Some("its header of the PROXY protocol is missing or malformed"),
        }
    }
}

impl ProxyHeaderCounts {
    /// Counts one.
    pub fn count(&self, what: ProxyHeaderResult) {
        // Relaxed, here and below: counts for the scrape, each on its own.
        self.0[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the metric; a series appears with its first count.
    pub(super) fn family(&self) -> SampledFamily {
        let mut family = SampledFamily::counter(
            "sluicegate_proxy_protocol_total",
            "Connections that may begin with a header of the PROXY protocol, by what came of it.",
        );
        for what in ProxyHeaderResult::ALL {
            let count = self.0[what as usize].load(Ordering::Relaxed);
            if count > 0 {
                family.push(&[("result", what.as_str())], count);
            }
        }
        family
    }
}
