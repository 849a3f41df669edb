//! Holds the largest use that a word proves, after the fact.
//!
//! A use grows with a charge and shrinks with time, so a key is fullest right after a charge. The words of windows and of buckets that are
//! refilled at intervals say what was used then, even when it no longer counts. The word of a debt does not: its peak is what is owed now.

use crate::time::Timestamp;

/// The largest use that a word proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RatePeak {
    /// Units, at least 1.
    pub(crate) units: u32,
    /// The time of that use, or a later one where the word does not say it.
    pub(crate) at: Timestamp,
}

impl RatePeak {
    /// A peak of so many units; `None` if there are none.
    pub(super) fn new(units: u64, at: Timestamp) -> Option<Self> {
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        (units > 0).then_some(Self { units, at })
    }

    /// The peak of a count that lasts until this millisecond, seen at `now`.
    pub(super) fn until(units: u32, end_millis: i64, now: Timestamp) -> Option<Self> {
        let end = u64::try_from(end_millis).unwrap_or(0);
        let end = Timestamp::from_nanos(end.saturating_mul(1_000_000));
        Self::new(units.into(), end.min(now))
    }
}
