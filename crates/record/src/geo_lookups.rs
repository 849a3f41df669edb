//! Counts the clients whose place was looked up, by whether a database had it.

use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_base::geo::GeoField;
use sluicegate_telemetry::exposition::SampledFamily;
use sluicegate_telemetry::per_thread::PerThread;

use super::outcome::Outcome;

/// The counts.
#[derive(Debug, Default)]
pub(super) struct GeoLookupCounts(PerThread<GeoCells>);

/// One thread's counts, by [`GeoField`]: known, then unknown.
#[derive(Debug, Default)]
struct GeoCells([[AtomicU64; 2]; GeoField::ALL.len()]);

impl GeoLookupCounts {
    /// Counts the place of a request, where it was looked up.
    pub(super) fn record(&self, outcome: &Outcome<'_>) {
        let Some(place) = outcome.place else { return };
        let cells = &self.0.mine().0;
        for field in outcome.place_fields {
            let unknown = usize::from(!place.has(*field));
            if let Some(count) = cells
                .get(*field as usize)
                .and_then(|cell| cell.get(unknown))
            {
                // Relaxed: a count for the scrape, on its own.
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Returns the metric.
    pub(super) fn family(&self) -> SampledFamily {
        let mut family = SampledFamily::counter(
            "sluicegate_geo_lookups_total",
            "Requests whose client was looked up in the databases of [geo], by field and by whether one had a value.",
        );
        for field in GeoField::ALL {
            for (index, result) in ["known", "unknown"].into_iter().enumerate() {
                let cells = self.0.cells();
                let counts = cells.filter_map(|cells| cells.0.get(field as usize)?.get(index));
                let sum: u64 = counts.map(|count| count.load(Ordering::Relaxed)).sum();
                if sum > 0 {
                    family.push(&[("field", field.label()), ("result", result)], sum);
                }
            }
        }
        family
    }
}
