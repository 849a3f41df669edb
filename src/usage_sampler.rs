//! Walks the limits in the background, one after the other, at a bounded cost.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use sluicegate_base::bounds::{USAGE_WALK_GAP, USAGE_WALK_PAUSE};
use sluicegate_base::clock;
use sluicegate_decide::in_force::InForce;

use sluicegate_decide::admission::ActiveLimit;
use sluicegate_record::RequestMetrics;

use sluicegate_usage::UsageSamples;

/// The background service. It has a runtime of its own, so a walk holds up nothing else.
pub(crate) struct UsageSampler {
    /// The samples.
    pub samples: Arc<UsageSamples>,
    /// The limits in force. A round lasts long where tables are large; it must not keep those alive that a reload removes.
    pub limits: InForce<Vec<Weak<ActiveLimit>>>,
    /// The counters that show which limits were asked.
    pub metrics: Arc<RequestMetrics>,
}

#[async_trait]
impl BackgroundService for UsageSampler {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        tokio::select! {
            () = self.walk_in_rounds() => {}
            _ = shutdown.changed() => {}
        }
    }
}

impl UsageSampler {
    /// Walks the limits that are due, and pauses after each for as long as keeps the cost at its bound.
    async fn walk_in_rounds(&self) {
        loop {
            let limits = self.limits.load();
            let events = self.metrics.events_by_limit();
            self.samples.retain(&events);
            let tables = limits.iter().filter_map(Weak::upgrade);
            let tables = tables.map(|active| {
                let samples = 1 + u64::from(active.scaling.is_some());
                samples * (1 + u64::from(active.shadow_rates.is_some()))
            });
            self.samples.divide(tables.sum());
            for active in limits {
                let took = active.upgrade().map(|active| {
                    let events = events.get(&active.name).copied().unwrap_or(0);
                    self.samples.walk_due(&active, events, clock::now())
                });
                if let Some(took) = took.filter(|took| !took.is_zero()) {
                    tokio::time::sleep(took * USAGE_WALK_PAUSE).await;
                }
            }
            tokio::time::sleep(*USAGE_WALK_GAP.start()).await;
        }
    }
}
