//! Counts how long the servers of an origin took to answer, where a condition compares a percentile of that.
//!
//! Times lie in buckets of a thirty-second of their size: with [`BUCKETS`] of them up to two minutes, a percentile reads at most 3.2 % too
//! high, and never too low. The counts only grow; who wants those of the last seconds keeps an earlier reading and subtracts it
//! ([`LatencyCounts::since`]), so requests need no clock and no slices of time.
//!
//! # Concurrency
//! A request adds one to a word of its own thread. The cells exist only from the first reading on, and take 3 KB a thread.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sluicegate_telemetry::per_thread::PerThread;

/// Buckets of each octave, a power of two.
const STEPS: usize = 32;
const STEP_BITS: u32 = STEPS.ilog2();

/// Buckets of all times up to 2^27 µs, two minutes and a quarter. Longer times are in the last.
const BUCKETS: usize = STEPS * (27 - STEP_BITS as usize + 1);

/// The times of one origin's answers.
#[derive(Debug, Default)]
pub struct OriginLatency {
    /// None before the first reading.
    cells: OnceLock<PerThread<LatencyCells>>,
}

/// One thread's counts. They wrap: only differences of readings are used.
#[derive(Debug)]
struct LatencyCells([AtomicU32; BUCKETS]);

/// The counts of each bucket, at one moment or of the time between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyCounts(Box<[u32; BUCKETS]>);

impl Default for LatencyCells {
    fn default() -> Self {
        Self([const { AtomicU32::new(0) }; BUCKETS])
    }
}

impl Default for LatencyCounts {
    fn default() -> Self {
        Self(Box::new([0; BUCKETS]))
    }
}

impl OriginLatency {
    /// Counts an answer that took so long, if somebody reads the counts.
    pub fn record(&self, took: impl FnOnce() -> Duration) {
        if let Some(cells) = self.cells.get() {
            let micros = u64::try_from(took().as_micros()).unwrap_or(u64::MAX);
            // Relaxed, here and below: counts on their own, which publish nothing.
            cells.mine().0[bucket(micros)].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the counts up to now; from the first call on, answers are counted.
    #[must_use]
    pub fn read(&self) -> LatencyCounts {
        let cells = self.cells.get_or_init(PerThread::default);
        let mut counts = LatencyCounts::default();
        for cells in cells.cells() {
            for (sum, count) in counts.0.iter_mut().zip(&cells.0) {
                *sum = sum.wrapping_add(count.load(Ordering::Relaxed));
            }
        }
        counts
    }
}

impl LatencyCounts {
    /// Returns the counts since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut between = self.clone();
        for (count, earlier) in between.0.iter_mut().zip(earlier.0.iter()) {
            *count = count.wrapping_sub(*earlier);
        }
        between
    }

    /// Returns the number of answers.
    #[must_use]
    pub fn answers(&self) -> u64 {
        self.0.iter().copied().map(u64::from).sum()
    }

    /// Returns the time in microseconds that `percent` of the answers do not exceed, by the nearest rank, rounded up to the end of its
    /// bucket; `None` without answers.
    #[must_use]
    pub fn percentile(&self, percent: u8) -> Option<u64> {
        let answers = self.answers();
        let rank = (answers * u64::from(percent)).div_ceil(100).max(1);
        let mut seen = 0;
        let at = self.0.iter().position(|count| {
            seen += u64::from(*count);
            seen >= rank
        });
        at.map(last_of)
    }
}

/// Returns the index of the bucket of a time.
fn bucket(micros: u64) -> usize {
    let octave = micros.max(1).ilog2();
    if octave < STEP_BITS {
        // Below the first octave that is divided, each microsecond has a bucket.
        return micros as usize;
    }
    let step = (micros >> (octave - STEP_BITS)) as usize & (STEPS - 1);
    let index = (octave - STEP_BITS + 1) as usize * STEPS + step;
    index.min(BUCKETS - 1)
}

/// Returns the longest time of a bucket in microseconds.
fn last_of(bucket: usize) -> u64 {
    let octave = bucket / STEPS;
    let step = (bucket % STEPS) as u64;
    match octave {
        0 => step,
        _ => ((STEPS as u64 + step + 1) << (octave - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counted(micros: &[u64]) -> LatencyCounts {
        let latency = OriginLatency::default();
        let before = latency.read();
        for micros in micros {
            latency.record(|| Duration::from_micros(*micros));
        }
        latency.read().since(&before)
    }

    proptest! {
        /// Goal: a percentile is never below the exact one by the nearest rank, and at most a thirty-second above it. Method: random times
        /// of very different sizes, beside the sorted list.
        #[test]
        fn a_percentile_is_at_most_a_thirty_second_too_high(
            octaves in proptest::collection::vec((0_u32..27, any::<u64>()), 1..400),
            percent in 1_u8..=99,
        ) {
            let mut times: Vec<u64> = octaves.iter().map(|(octave, any)| (1 << octave) + any % (1 << octave)).collect();
            let counts = counted(&times);
            times.sort_unstable();
            prop_assert_eq!(counts.answers(), times.len() as u64);
            let rank = (times.len() * usize::from(percent)).div_ceil(100).max(1);
            let (exact, read) = (times[rank - 1], counts.percentile(percent).unwrap());
            prop_assert!(read >= exact, "{} {}", read, exact);
            prop_assert!(read <= exact + exact / STEPS as u64, "{} {}", read, exact);
        }
    }

    /// Goal: buckets are in order and without gaps, and what is longer than all is in the last. Method: the end of each bucket, and the
    /// time behind it.
    #[test]
    fn buckets_are_next_to_each_other() {
        for index in 0..BUCKETS - 1 {
            let last = last_of(index);
            assert_eq!(
                (bucket(last), bucket(last + 1)),
                (index, index + 1),
                "{last}"
            );
        }
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert!(last_of(BUCKETS - 1) > 120_000_000);
    }

    /// Goal: the memory of an origin's counts is that which docs/decisions/0049 states. Method: the size of one thread's counts, and of a
    /// reading.
    #[test]
    fn counts_have_the_size_that_is_stated() {
        assert_eq!(size_of::<LatencyCells>(), 2_944);
        assert_eq!(size_of_val(&*LatencyCounts::default().0), 2_944);
    }

    /// Goal: nothing is counted before somebody reads, and differences survive that counts wrap. Method: answers before the first reading;
    /// a count near its end.
    #[test]
    fn only_differences_count() {
        let latency = OriginLatency::default();
        latency.record(|| unreachable!("nobody reads"));
        let before = latency.read();
        assert_eq!((before.answers(), before.percentile(99)), (0, None));
        let (mut early, mut late) = (LatencyCounts::default(), LatencyCounts::default());
        (early.0[5], late.0[5]) = (u32::MAX - 1, 3);
        let between = late.since(&early);
        assert_eq!((between.answers(), between.percentile(50)), (5, Some(5)));
    }
}
