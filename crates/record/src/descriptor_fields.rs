//! Counts the fields of descriptors of Envoy's rate limit service that have no effect: they ask for another limit than the one in force.

use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_telemetry::exposition::SampledFamily;

/// A field of a descriptor without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IgnoredField {
    /// A `limit` that no tier is named after.
    Limit,
    /// `is_negative_hits`, which would give charges back.
    NegativeHits,
}

/// The counts.
#[derive(Debug, Default)]
pub struct IgnoredFields {
    limits: AtomicU64,
    negative_hits: AtomicU64,
}

impl IgnoredFields {
    /// Counts a field.
    pub fn count(&self, field: IgnoredField) {
        let count = match field {
            IgnoredField::Limit => &self.limits,
            IgnoredField::NegativeHits => &self.negative_hits,
        };
        // Relaxed, here and below: counts for the scrape, each on its own.
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the metric.
    pub(super) fn family(&self) -> SampledFamily {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        SampledFamily::counter(
            "sluicegate_descriptor_fields_ignored_total",
            "Fields of descriptors of Envoy's rate limit service that had no effect, by field.",
        )
        .series(&[("field", "limit")], read(&self.limits))
        .series(&[("field", "is_negative_hits")], read(&self.negative_hits))
    }
}
