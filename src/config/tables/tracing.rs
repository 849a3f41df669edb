//! `[tracing]`: whether requests carry a trace to their origin.

use std::sync::Arc;

use super::otlp;
use crate::config::action::{Share, any_share};
use crate::config::rules::TracingRules;
use crate::config::section::Section;

/// Reads the table; `None` inside where nothing is traced.
pub(in crate::config) fn read(section: Section<'_>) -> Option<Option<TracingRules>> {
    let propagate = section.field("propagate", "true");
    let traced = propagate
        .as_ref()
        .map_or(Some(false), |field| field.boolean());
    let sample = section.field("sample_ratio", "\"10%\"");
    let share = sample
        .as_ref()
        .map_or(Some(Share::ALL), |field| field.parsed(any_share));
    if let (Some(false), Some(sample)) = (traced, &sample) {
        sample.refuse::<()>(
            "without a trace nothing is recorded",
            "write propagate = true, or leave it out",
        );
    }
    let collector = section.field("otlp", otlp::EXAMPLE);
    let otlp = collector
        .as_ref()
        .map_or(Some(None), |field| otlp::read(field).map(Some));
    if let (Some(false), Some(collector)) = (traced, &collector) {
        collector.refuse::<()>(
            "without a trace there are no spans to tell of",
            "write propagate = true, or leave it out",
        );
    }
    section.finish();
    let (traced, sample, otlp) = (traced?, share?, otlp?);
    let otlp = otlp.map(Arc::new);
    Some(traced.then_some(TracingRules { sample, otlp }))
}
