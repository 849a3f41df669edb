//! Records the latest client over its share of a limit's slots, and limits how often that is logged.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use sluicegate_base::bounds;
use sluicegate_limiter::Timestamp;

/// A client over its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverShare {
    /// The address of the client.
    pub client: IpAddr,
    /// The time at which a new key of it was rejected.
    pub at: Timestamp,
}

/// The latest client over its share of one limit.
#[derive(Debug, Default)]
pub struct OverShareLog {
    /// The second of the latest log line; 0 before the first.
    logged: AtomicU64,
    latest: Mutex<Option<OverShare>>,
}

impl OverShareLog {
    /// Records a client over its share if a line of the log is due, at most once a minute. Returns whether it is.
    pub fn record_if_due(&self, client: IpAddr, now: Timestamp) -> bool {
        let second = now.as_secs();
        // Relaxed, both: the word guards one line of the log and publishes nothing. The load keeps it shared in a flood.
        let logged = self.logged.load(Ordering::Relaxed);
        let is_fresh = logged != 0 && second < logged.saturating_add(bounds::SHARE_NEWS_SECONDS);
        let turn = || {
            let order = Ordering::Relaxed;
            let failed = Ordering::Relaxed;
            self.logged.compare_exchange(logged, second, order, failed)
        };
        if is_fresh || turn().is_err() {
            return false;
        }
        let latest = OverShare { client, at: now };
        // A whole value is written, so a poisoned lock holds one, too.
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(latest);
        true
    }

    /// Returns the client that was logged last.
    pub fn latest(&self) -> Option<OverShare> {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a flood is one line a minute. Method: many refusals of several clients within one, and the first of the next.
    #[test]
    fn a_minute_has_one_line() {
        let news = OverShareLog::default();
        let client = |last| IpAddr::from([192, 0, 2, last]);
        let at = |seconds| Timestamp::from_secs(1_800_000_000_u64 + seconds);
        assert_eq!(news.latest(), None);
        assert!(news.record_if_due(client(1), at(0)));
        assert!(!(0..60).any(|second| news.record_if_due(client(2), at(second))));
        let told = |client, at| Some(OverShare { client, at });
        assert_eq!(news.latest(), told(client(1), at(0)));
        assert!(news.record_if_due(client(3), at(60)));
        assert_eq!(news.latest(), told(client(3), at(60)));
    }
}
