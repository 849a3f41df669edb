//! Counts events over time in a bounded number of intervals, which widen as time goes on.

use serde::Serialize;

/// Most intervals of a timeline.
const MAX_INTERVALS: usize = 480;

/// Lengths of intervals in seconds: each is a multiple of the one before, so that intervals can be merged.
const LENGTHS: [u64; 9] = [1, 10, 60, 600, 3_600, 21_600, 86_400, 604_800, 6_048_000];

/// Requests and rejections over time.
#[derive(Clone, Debug, Serialize)]
pub struct EventTimeline {
    /// The begin of the first interval, in seconds since the Unix epoch.
    pub start: u64,
    /// The length of an interval, in seconds.
    pub interval: u64,
    /// Requests in each interval.
    pub requests: Vec<u32>,
    /// Those of them that were rejected.
    pub rejected: Vec<u32>,
}

impl EventTimeline {
    /// Returns an empty timeline that begins at `second`.
    pub(super) fn new(second: u64) -> Self {
        Self {
            start: second,
            interval: LENGTHS[0],
            requests: Vec::new(),
            rejected: Vec::new(),
        }
    }

    /// Counts a request at `second`.
    pub(super) fn add(&mut self, second: u64, is_rejected: bool) {
        let mut at = self.interval_of(second);
        while at >= MAX_INTERVALS && self.widen() {
            at = self.interval_of(second);
        }
        let at = at.min(MAX_INTERVALS - 1);
        if at >= self.requests.len() {
            self.requests.resize(at + 1, 0);
            self.rejected.resize(at + 1, 0);
        }
        self.requests[at] = self.requests[at].saturating_add(1);
        self.rejected[at] = self.rejected[at].saturating_add(u32::from(is_rejected));
    }

    fn interval_of(&self, second: u64) -> usize {
        let interval = second.saturating_sub(self.start) / self.interval;
        usize::try_from(interval).unwrap_or(usize::MAX)
    }

    /// Merges intervals into those of the next length. Returns false where there is none.
    fn widen(&mut self) -> bool {
        let Some(length) = LENGTHS.into_iter().find(|length| *length > self.interval) else {
            return false;
        };
        let start = self.start - self.start % length;
        let from = self.start;
        let step = self.interval;
        let merged = |counts: &[u32]| {
            let mut merged: Vec<u32> = Vec::new();
            for (second, count) in (from..).step_by(step as usize).zip(counts) {
                let at = ((second - start) / length) as usize;
                if at >= merged.len() {
                    merged.resize(at + 1, 0);
                }
                merged[at] = merged[at].saturating_add(*count);
            }
            merged
        };
        self.requests = merged(&self.requests);
        self.rejected = merged(&self.rejected);
        (self.start, self.interval) = (start, length);
        true
    }

    /// Returns the rejections in at most `columns` columns of equal length, and that length in seconds.
    pub(super) fn columns(&self, columns: usize) -> (Vec<u64>, u64) {
        let merged = self.rejected.len().div_ceil(columns.max(1)).max(1);
        let sums = self.rejected.chunks(merged);
        let sums = sums.map(|chunk| chunk.iter().map(|count| u64::from(*count)).sum());
        (sums.collect(), self.interval * merged as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: nothing is lost when intervals widen, and they are bounded. Method: events over growing distances.
    #[test]
    fn every_event_is_in_one_interval() {
        let mut timeline = EventTimeline::new(1_431_857_103);
        let mut second = 1_431_857_103;
        for turn in 0..2_000_u64 {
            timeline.add(second, turn % 2 == 0);
            second += turn * turn;
        }
        timeline.add(u64::MAX, true);
        assert!(timeline.requests.len() <= MAX_INTERVALS);
        assert_eq!(timeline.requests.iter().sum::<u32>(), 2_001);
        assert_eq!(timeline.rejected.iter().sum::<u32>(), 1_001);
        let (columns, _) = timeline.columns(60);
        assert!(columns.len() <= 60 && columns.iter().sum::<u64>() == 1_001);
    }

    /// Goal: an event is where its time says. Method: two events before and behind a widening.
    #[test]
    fn intervals_begin_at_whole_lengths() {
        let mut timeline = EventTimeline::new(1_003);
        timeline.add(1_003, true);
        timeline.add(1_009, false);
        timeline.add(2_000, true);
        assert_eq!((timeline.start, timeline.interval), (1_000, 10));
        assert_eq!((timeline.requests[0], timeline.rejected[0]), (2, 1));
        assert_eq!((timeline.requests[100], timeline.requests.len()), (1, 101));
    }
}
