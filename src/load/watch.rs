//! Judges the conditions of the configuration in force in the background, and has the requests of the last seconds read.

use std::sync::Arc;

use async_trait::async_trait;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use sluicegate_base::bounds::LOAD_LOOK;
use sluicegate_base::clock;
use sluicegate_decide::activation::ActivationChange;
use sluicegate_decide::load_monitor::{ActivationEvent, LoadMonitor, LoadSources};
use tracing::info;

use super::origin_readings::OriginReadings;
use sluicegate_process::SharedState;

/// The background service.
pub(crate) struct LoadWatch {
    /// The state whose snapshot has the limits, and whose counters the figures are read from.
    pub shared: Arc<SharedState>,
}

#[async_trait]
impl BackgroundService for LoadWatch {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        tokio::select! {
            () = self.look_in_rounds() => {}
            _ = shutdown.changed() => {}
        }
    }
}

impl LoadWatch {
    async fn look_in_rounds(&self) {
        let mut monitor = LoadMonitor::default();
        let mut origins = OriginReadings::default();
        loop {
            for event in self.look(&mut monitor, &mut origins) {
                report(&event);
            }
            tokio::time::sleep(LOAD_LOOK).await;
        }
    }

    fn look(
        &self,
        monitor: &mut LoadMonitor,
        origins: &mut OriginReadings,
    ) -> Vec<ActivationEvent> {
        let shared = &self.shared;
        let now = clock::now();
        shared.recorder.metrics.look(now);
        let snapshot = shared.snapshot();
        let sources = LoadSources {
            limits: &snapshot.compiled.limits,
            rejections: &|name| shared.recorder.metrics.rejections_of(name),
            connections: shared.connection_limiter.tallies().held,
            seed: &shared.seed,
            now,
        };
        monitor.look(&sources, |figures| {
            origins.values(figures, &snapshot.pools, now)
        })
    }
}

/// Writes a change to the process log.
fn report(event: &ActivationEvent) {
    let what = match &event.tier {
        Some(tier) => format!("limit {}: tier {tier}", event.limit),
        None => format!("limit {}", event.limit),
    };
    match event.change {
        ActivationChange::Activated => info!("{what}: active, since {}", event.figures),
        ActivationChange::Deactivated => info!("{what}: no longer active, {}", event.figures),
    }
}
