//! Says when: a moment as the limiter sees it.
//!
//! The crate reads no clock. Windows are aligned to the Unix epoch, so moments count from there; nanoseconds in 64 bits
//! reach the year 2554. All arithmetic saturates: a moment is never wrong by wrapping.

use std::time::Duration;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A moment, in nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The moment `nanos` nanoseconds after the Unix epoch.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The moment `secs` seconds after the Unix epoch, or the last one that can be told.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(NANOS_PER_SECOND))
    }

    /// Nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole seconds since the Unix epoch, rounded down.
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.0 / NANOS_PER_SECOND
    }

    /// The moment `later` after this one, or the last one that can be told.
    #[must_use]
    pub fn saturating_add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(nanos(later)))
    }

    /// The moment `earlier` before this one, or the epoch.
    #[must_use]
    pub fn saturating_sub(self, earlier: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(earlier)))
    }

    /// The time from `earlier` to this moment, zero if they are the other way round.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a moment never wraps. Method: arithmetic at both ends.
    #[test]
    fn arithmetic_stops_at_the_ends_of_time() {
        let last = Timestamp::from_nanos(u64::MAX);
        assert_eq!(last.saturating_add(Duration::MAX), last);
        assert_eq!(Timestamp::from_secs(u64::MAX), last);
        assert_eq!(last.saturating_sub(Duration::MAX), Timestamp::default());
        assert_eq!(
            Timestamp::from_secs(1).saturating_since(last),
            Duration::ZERO
        );
        assert_eq!(
            Timestamp::from_secs(7).saturating_since(Timestamp::from_secs(4)),
            Duration::from_secs(3)
        );
    }
}
