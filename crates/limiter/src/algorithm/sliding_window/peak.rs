//! Computes what was used right after the latest charge, which is when a key was fullest.

use super::{SlidingAt, WindowSnapshot};
use crate::algorithm::Word;
use crate::algorithm::peak::RatePeak;
use crate::time::Timestamp;

impl SlidingAt {
    /// The use right after the latest charge.
    ///
    /// The word has its second, within which the share of the previous window shrinks: the use was between that at the second's start and
    /// that at its end. No charge admits more than the count, so the former is taken as far as the count allows.
    pub(crate) fn peak(&self, word: Word) -> Option<RatePeak> {
        let WindowSnapshot {
            stamp,
            previous,
            current,
        } = word.snapshot()?;
        let second = self.second_of(stamp);
        let period = self.period_secs();
        // A second lies below the period, so both spans are in 0..=period.
        let left = period - second.rem_euclid(period);
        let used = |left: i64| {
            u64::from(previous) * left.unsigned_abs() / period.unsigned_abs() + u64::from(current)
        };
        let units = used(left).min(used(left - 1).max(u64::from(self.count())));
        let at = Timestamp::from_secs(u64::try_from(second).unwrap_or(0));
        RatePeak::new(units, at)
    }
}
