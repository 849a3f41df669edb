//! Counts connections that could not be accepted, for `/metrics`: shared by all threads, since each is followed by a pause.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use sluicegate_telemetry::exposition::SampledFamily;

/// The resource without which a connection cannot be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AcceptError {
    /// The process, or the system, has as many open files as it may.
    Descriptors,
    /// The kernel has no memory for it.
    Memory,
    /// Something else.
    Other,
}

/// The counts.
#[derive(Debug, Default)]
pub struct AcceptErrorCounts([AtomicU64; AcceptError::ALL.len()]);

impl AcceptError {
    /// Every error, in the order of the counters.
    const ALL: [Self; 3] = [Self::Descriptors, Self::Memory, Self::Other];

    /// Returns what is lacking by the error of the system.
    fn from_error(error: &io::Error) -> Self {
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EMFILE | Errno::ENFILE) => Self::Descriptors,
            Some(Errno::ENOBUFS | Errno::ENOMEM) => Self::Memory,
            _ => Self::Other,
        }
    }

    /// Returns the value of the label `reason`.
    fn as_str(self) -> &'static str {
        match self {
            Self::Descriptors => "descriptors",
            Self::Memory => "memory",
            Self::Other => "other",
        }
    }
}

impl AcceptErrorCounts {
    /// Counts one.
    pub fn count(&self, error: &io::Error) {
        // Relaxed, here and below: counts for the scrape, each on its own.
        self.0[AcceptError::from_error(error) as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the metric; a series appears with its first count.
    pub(super) fn family(&self) -> SampledFamily {
        let mut family = SampledFamily::counter(
            "sluicegate_accept_errors_total",
            "Failed attempts to accept a connection, by what was lacking.",
        );
        for error in AcceptError::ALL {
            let count = self.0[error as usize].load(Ordering::Relaxed);
            if count > 0 {
                family.push(&[("reason", error.as_str())], count);
            }
        }
        family
    }
}
