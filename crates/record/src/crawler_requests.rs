//! Counts the requests of clients that are crawlers or claim to be, by crawler and by what proves it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use sluicegate_base::crawler::{CrawlerProof, CrawlerStatus, UNVERIFIED};
use sluicegate_telemetry::exposition::SampledFamily;

use super::outcome::Outcome;

/// The results of one crawler: its proofs, and the claims without one.
const RESULTS: usize = CrawlerProof::COUNT + 1;

/// The counts, by the crawler's name. A name comes from the configuration, so no client adds one.
#[derive(Debug, Default)]
pub(super) struct CrawlerRequestCounts(RwLock<BTreeMap<Arc<str>, [AtomicU64; RESULTS]>>);

impl CrawlerRequestCounts {
    /// Counts a request whose client is a crawler or claims to be one, where something has read it.
    pub(super) fn record(&self, outcome: &Outcome<'_>) {
        let Some(status) = outcome.crawler else {
            return;
        };
        let Some(crawler) = status.crawler() else {
            return;
        };
        let result = result(status);
        let counts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get(&crawler.name).and_then(|of| of.get(result)) {
            // Relaxed: a count for the scrape, on its own.
            count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        drop(counts);
        let mut counts = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let of = counts.entry(Arc::clone(&crawler.name)).or_default();
        if let Some(count) = of.get_mut(result) {
            *count.get_mut() += 1;
        }
    }

    /// Returns the metric.
    pub(super) fn family(&self) -> SampledFamily {
        let mut family = SampledFamily::counter(
            "sluicegate_crawler_requests_total",
            "Requests of clients that are crawlers or claim to be one, by crawler and by what proved it.",
        );
        let counts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let proofs = CrawlerProof::all().each_ref().map(CrawlerProof::as_str);
        for (name, of) in &*counts {
            for (result, count) in proofs.into_iter().chain([UNVERIFIED]).zip(of) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    family.push(&[("crawler", &**name), ("result", result)], count);
                }
            }
        }
        family
    }
}

/// Returns the index of a result.
fn result(status: &CrawlerStatus) -> usize {
    match status {
        CrawlerStatus::Verified(_, proof) => proof.index(),
        CrawlerStatus::None | CrawlerStatus::Unverified(..) => CrawlerProof::COUNT,
    }
}
