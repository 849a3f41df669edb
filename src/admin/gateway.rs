//! Shows the running gateway to the endpoints: the one place that implements [`AdminView`].

use std::sync::Arc;

use super::view::{
    AdminView, ConfigurationView, Health, LimitView, OriginView, Readiness, ReloadView, ServerView,
    Times,
};
use crate::clock;
use crate::live::{Live, Phase, ReloadReport};
use crate::origin::Pool;
use crate::record::Recorder;

impl AdminView for Live {
    fn token(&self) -> Option<Arc<str>> {
        self.snapshot().rules.admin.token.clone()
    }

    fn readiness(&self) -> Readiness {
        match self.phase() {
            Phase::Starting => Readiness::Starting,
            Phase::Serving => Readiness::Ready,
            Phase::Draining => Readiness::Draining,
        }
    }

    fn times(&self) -> Times {
        Times {
            started: self.started,
            now: clock::now(),
        }
    }

    fn configuration(&self) -> ConfigurationView {
        let snapshot = self.snapshot();
        let report = self.last_reload();
        ConfigurationView {
            file: Some(self.file().to_owned()),
            generation: snapshot.generation,
            loaded_at: Some(snapshot.compiled_at),
            pending_restart: report
                .as_ref()
                .map_or_else(Vec::new, |report| report.pending_restart.clone()),
            last_reload: report.map(ReloadView::from),
        }
    }

    fn limits(&self) -> Vec<LimitView> {
        let now = clock::now();
        self.snapshot()
            .limits
            .values()
            .map(|active| LimitView {
                action: active.action.name(),
                enforce: active.enforce.to_string(),
                shadow_rates: active
                    .shadow_rates
                    .as_ref()
                    .map(|limit| limit.rates().clone()),
                ..LimitView::sample(&active.name, active.key.to_string(), &active.limit, now)
            })
            .collect()
    }

    fn origins(&self) -> Vec<OriginView> {
        self.snapshot()
            .pools
            .values()
            .map(|pool| show(pool))
            .collect()
    }

    fn routes(&self) -> usize {
        self.snapshot().routes.len()
    }

    fn recorder(&self) -> &Recorder {
        &self.recorder
    }
}

impl From<ReloadReport> for ReloadView {
    fn from(report: ReloadReport) -> Self {
        Self {
            at: report.at,
            result: report.error.map_or(Ok(()), Err),
        }
    }
}

fn show(pool: &Pool) -> OriginView {
    OriginView {
        name: pool.name.clone(),
        servers: pool
            .servers()
            .iter()
            .map(|server| ServerView {
                address: server.address,
                health: if server.is_up() {
                    Health::Up
                } else {
                    Health::Down
                },
            })
            .collect(),
    }
}
