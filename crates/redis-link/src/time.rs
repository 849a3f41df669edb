//! Defines the moments that the link compares, so that the program that embeds it has one time.
//!
//! The crate reads no clock itself. Timers, which say how long and not when, are tokio's.

use std::time::Duration;

use tokio::time::Instant;

/// A moment, in nanoseconds since the Unix epoch. Arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// The moment so many nanoseconds after the Unix epoch.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The moment so many seconds after the Unix epoch.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to this moment, zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the moment `later` after this one.
    #[must_use]
    pub fn saturating_add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(nanos(later)))
    }

    /// Returns the moment `earlier` before this one.
    #[must_use]
    pub fn saturating_sub(self, earlier: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(earlier)))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the end of a wait that begins now and lasts `timeout`, for several attempts that share it. It is a timer's own deadline, since
/// the crate reads no clock; a timeout that the timers cannot represent ends decades ahead.
pub(crate) fn deadline(timeout: Duration) -> Instant {
    tokio::time::sleep(timeout).deadline()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: arithmetic on moments never wraps. Method: both ends of the range.
    #[test]
    fn arithmetic_saturates() {
        let (first, last) = (Moment::from_nanos(0), Moment::from_nanos(u64::MAX));
        assert_eq!(first.saturating_since(last), Duration::ZERO);
        assert_eq!(first.saturating_sub(Duration::MAX), first);
        assert_eq!(last.saturating_add(Duration::MAX), last);
        assert_eq!(Moment::from_secs(u64::MAX), last);
        assert_eq!(
            Moment::from_secs(2).saturating_since(Moment::from_secs(1)),
            Duration::from_secs(1)
        );
    }

    /// Goal: the longest timeout ends no wait early and overflows nothing. Method: the deadline of it.
    #[tokio::test]
    async fn the_longest_deadline_lies_ahead() {
        assert!(deadline(Duration::MAX) > deadline(Duration::from_secs(3_600)));
    }
}
