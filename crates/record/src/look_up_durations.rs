//! Counts the look-ups of crawlers' addresses by their duration.
//!
//! Shared by all threads rather than striped: some dozens end within a second.

use std::time::Duration;

use sluicegate_telemetry::exposition::SampledFamily;
use sluicegate_telemetry::histogram::{Histogram, HistogramSum};

use super::line_values::micros;

/// Upper bounds of `sluicegate_crawler_lookup_duration_seconds`, in microseconds: from a resolver on the same machine that has both
/// answers, to [`LOOK_UP_PATIENCE`](sluicegate_base::bounds::LOOK_UP_PATIENCE).
const BOUNDS: [u64; 14] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];

/// The durations since the start of the process.
#[derive(Debug, Default)]
pub struct LookUpDurations(Histogram<{ BOUNDS.len() }>);

impl LookUpDurations {
    /// Counts a look-up that took so long, whatever its result.
    pub fn note(&self, took: Duration) {
        self.0.observe(&BOUNDS, micros(took));
    }

    /// Returns the metric; one without series before the first look-up.
    pub(super) fn family(&self) -> SampledFamily {
        let mut family = SampledFamily::histogram(
            "sluicegate_crawler_lookup_duration_seconds",
            "Time from the first question about a crawler's address to the result.",
        );
        let durations = HistogramSum::sum(std::iter::once(&self.0));
        if durations.count() > 0 {
            family.push_histogram(&[], &durations, &BOUNDS, 1e6);
        }
        family
    }
}
