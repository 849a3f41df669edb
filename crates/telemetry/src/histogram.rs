//! Counts values in buckets, with integers alone: an observation is two additions.

use std::sync::atomic::{AtomicU64, Ordering};

/// A histogram of `N` bounded buckets, in the unit of the values that its caller observes.
#[derive(Debug)]
pub struct Histogram<const N: usize> {
    within: [AtomicU64; N],
    above: AtomicU64,
    sum: AtomicU64,
}

/// The sum of several [`Histogram`]s at one moment. Counts are per bucket, not cumulative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistogramSum<const N: usize> {
    /// Values in each bucket, between its bound and the one below.
    pub within: [u64; N],
    /// Values above the last bound.
    pub above: u64,
    /// The sum of all values.
    pub sum: u64,
}

impl<const N: usize> Histogram<N> {
    /// Counts `value` in the first bucket whose bound, inclusive, is not below it. `bounds` rise.
    ///
    /// The sum wraps after 2^64 units: 584,000 years of observed microseconds, or 584 of nanoseconds.
    pub fn observe(&self, bounds: &[u64; N], value: u64) {
        let bucket = bounds
            .iter()
            .zip(&self.within)
            .find(|(bound, _)| value <= **bound);
        let count = bucket.map_or(&self.above, |(_, count)| count);
        // Relaxed, here and below: counts for the scrape, each on its own.
        count.fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Self {
        Self {
            within: [const { AtomicU64::new(0) }; N],
            above: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }
}

impl<const N: usize> HistogramSum<N> {
    /// Adds up `parts`.
    pub fn sum<'a>(parts: impl Iterator<Item = &'a Histogram<N>>) -> Self {
        let mut sum = Self {
            within: [0; N],
            above: 0,
            sum: 0,
        };
        for part in parts {
            for (total, count) in sum.within.iter_mut().zip(&part.within) {
                *total += count.load(Ordering::Relaxed);
            }
            sum.above += part.above.load(Ordering::Relaxed);
            sum.sum = sum.sum.wrapping_add(part.sum.load(Ordering::Relaxed));
        }
        sum
    }

    /// Returns the number of observed values.
    pub fn count(&self) -> u64 {
        self.within.iter().sum::<u64>() + self.above
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: bounds are inclusive, as Prometheus' `le` says, and nothing is lost above the last. Method: values around them.
    #[test]
    fn a_value_is_counted_in_the_first_bucket_that_holds_it() {
        let histogram = Histogram::<2>::default();
        for value in [0, 10, 11, 20, 21, 1_000] {
            histogram.observe(&[10, 20], value);
        }
        let reading = HistogramSum::sum([&histogram, &histogram].into_iter());
        assert_eq!(
            reading,
            HistogramSum {
                within: [4, 4],
                above: 4,
                sum: 2 * 1_062
            }
        );
        assert_eq!(reading.count(), 12);
    }
}
