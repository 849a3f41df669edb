//! Counts the failures of one server, or of an origin as a whole, by their kind, and logs a warning for the operator.
//!
//! Requests fail by the thousand for one reason, so each kind is logged once a minute; the next warning says how many were
//! omitted.
//!
//! # Concurrency
//! Counters and times are separate words, relaxed: the exchange of the time decides which thread writes, and publishes nothing
//! else.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sluicegate_limiter::Timestamp;
use tracing::warn;

use crate::request_failure::FailureKind;
use sluicegate_config::rules::OriginAddress;

/// The time between two warnings of one kind.
const INTERVAL: Duration = Duration::from_secs(60);

/// The failures of one server, or those of an origin that are not a server's.
#[derive(Debug, Default)]
pub struct FailureLog {
    kinds: [KindLog; FailureKind::ALL.len()],
    latest: Mutex<Option<LatestFailure>>,
}

#[derive(Debug, Default)]
struct KindLog {
    total: AtomicU64,
    /// The time of the next possible warning, in nanoseconds since the Unix epoch.
    next: AtomicU64,
    /// Failures since the latest warning.
    left_out: AtomicU64,
}

/// A failure; the latest one is shown by `/origins`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatestFailure {
    /// Its time.
    pub at: Timestamp,
    /// Its kind.
    pub kind: FailureKind,
    /// The text of the operating system, of TLS or of the parser.
    pub reason: String,
}

impl FailureLog {
    /// Counts a failure of this origin, or of this server of it, and writes it to the process log unless one of its kind was written within
    /// the last minute.
    pub fn note(&self, origin: &str, server: Option<&OriginAddress>, failure: LatestFailure) {
        let LatestFailure { at, kind, reason } = &failure;
        if let Some(left_out) = self.count(*kind, *at) {
            let server = server.map_or_else(String::new, |address| format!(" server {address}:"));
            let more = match left_out {
                0 => String::new(),
                more => format!(" ({more} more since the last such warning)"),
            };
            warn!("origin {origin}:{server} {}: {reason}{more}", kind.as_str());
        }
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
    }

    /// Counts a failure. Returns how many were omitted since the latest warning, where one is due.
    fn count(&self, kind: FailureKind, at: Timestamp) -> Option<u64> {
        let log = &self.kinds[kind as usize];
        log.total.fetch_add(1, Ordering::Relaxed);
        let next = log.next.load(Ordering::Relaxed);
        let after = at.saturating_add(INTERVAL).as_nanos();
        let won = at.as_nanos() >= next
            && log
                .next
                .compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if !won {
            log.left_out.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(log.left_out.swap(0, Ordering::Relaxed))
    }

    /// Returns how many failures of each kind there were, in the order of [`FailureKind::ALL`].
    #[must_use]
    pub fn totals(&self) -> [u64; FailureKind::ALL.len()] {
        FailureKind::ALL.map(|kind| self.kinds[kind as usize].total.load(Ordering::Relaxed))
    }

    /// Returns the latest failure; `None` before the first.
    #[must_use]
    pub fn latest(&self) -> Option<LatestFailure> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: many failures do not flood the log, and the counts stay exact. Method: three failures within a minute, one of
    /// another kind, one a minute later.
    #[test]
    fn a_kind_is_written_once_a_minute_with_what_was_left_out() {
        let log = FailureLog::default();
        let at = |secs: u64| Timestamp::from_secs(1_800_000_000 + secs);
        assert_eq!(log.count(FailureKind::Connect, at(0)), Some(0));
        assert_eq!(log.count(FailureKind::Connect, at(1)), None);
        assert_eq!(log.count(FailureKind::Connect, at(59)), None);
        assert_eq!(log.count(FailureKind::Reset, at(59)), Some(0));
        assert_eq!(log.count(FailureKind::Connect, at(60)), Some(2));
        assert_eq!(log.totals()[FailureKind::Connect as usize], 4);
    }
}
