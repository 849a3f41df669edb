//! Holds entries that go from one log to another, or that a log has after a change.

use arrayvec::ArrayVec;

use super::control::{LogEra, SpillState};

/// Moments of entries, the latest first.
pub(super) type EntryTimes = ArrayVec<u64, MOST_MOMENTS>;

#[cfg(not(loom))]
const MOST_MOMENTS: usize = crate::rate::MAX_ENTRIES;
/// Loom's threads have small stacks.
#[cfg(loom)]
const MOST_MOMENTS: usize = 4;

/// Entries with what is known of those that they leave out.
pub(super) struct InheritedEntries {
    pub(super) moments: EntryTimes,
    pub(super) spill: SpillState,
}

impl InheritedEntries {
    /// The latest moment; the epoch, if there is none.
    pub(super) fn latest(&self) -> u64 {
        self.moments.first().copied().unwrap_or(0)
    }

    /// Returns the latest of these moments, which come the latest first; no more than a log of `size` takes.
    pub(super) fn from_moments(
        moments: impl Iterator<Item = u64>,
        spill: SpillState,
        size: u32,
    ) -> Self {
        let mut moments = moments.fuse();
        let kept: EntryTimes = moments.by_ref().take(size as usize).collect();
        let era = LogEra::from_millis(kept.first().copied().unwrap_or(0));
        let left_out = moments.next().is_some();
        Self {
            moments: kept
                .into_iter()
                // Older than any period, counted from the latest.
                .take_while(|moment| *moment >= era.first_told())
                .collect(),
            spill: if left_out { SpillState::Some } else { spill },
        }
    }
}
