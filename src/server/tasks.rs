//! Starts every background task, and passes each the part of the process that it needs.

use std::sync::Arc;

use async_trait::async_trait;
use pingora::server::{Server, ShutdownWatch};
use pingora::services::background::{BackgroundService, background_service};
use tokio::sync::Notify;

use crate::load::LoadWatch;
use crate::reverse_dns::{CrawlerNames, LookUpService};
use crate::store::SyncTask;
use crate::usage_sampler::UsageSampler;
use sluicegate_acme::{CertificateOrders, RenewalService};
#[cfg(feature = "otlp")]
use sluicegate_admin::export_metrics;
use sluicegate_admin::{FleetUnbanService, HistoryWatch};
use sluicegate_origin::HealthChecks;
use sluicegate_process::supervisor::WatchdogService;
use sluicegate_process::watch::Reloads;
use sluicegate_process::{GatewayProcess, Maintenance, RuleService};
#[cfg(feature = "otlp")]
use sluicegate_record::{InstanceId, SignalExport};

/// The background service that syncs with the store in force.
struct SyncService(SyncTask);

#[async_trait]
impl BackgroundService for SyncService {
    async fn start(&self, shutdown: ShutdownWatch) {
        self.0.run(shutdown).await;
    }
}

/// The background service that sends signals to the collector in force.
#[cfg(feature = "otlp")]
struct ExportService(SignalExport);

#[cfg(feature = "otlp")]
#[async_trait]
impl BackgroundService for ExportService {
    async fn start(&self, shutdown: ShutdownWatch) {
        self.0.run(shutdown).await;
    }
}

/// Adds the tasks to `server`. `hangup` reports SIGHUP.
pub(super) fn add(server: &mut Server, process: &Arc<GatewayProcess>, hangup: &Arc<Notify>) {
    let reloads = Reloads::new(Arc::clone(process), Arc::clone(hangup));
    server.add_service(background_service("reload", reloads));

    let pools = process
        .shared
        .in_force(|snapshot| snapshot.pools.values().cloned().collect());
    server.add_service(background_service("health", HealthChecks(pools)));

    let keeper = Maintenance {
        storage: Arc::clone(&process.reloader.storage),
        in_use: process.shared.in_force(|snapshot| {
            let limits = snapshot.compiled.limits.values();
            limits
                .flat_map(|limit| limit.persistences().cloned())
                .collect()
        }),
        gateways: process
            .shared
            .in_force(|snapshot| Some(snapshot.store.as_ref()?.nodes())),
    };
    server.add_service(background_service("state", keeper));
    add_shared_state(server, process);
    add_look_ups(server, process);
    add_figures(server, process);
    server.add_service(background_service("watchdog", WatchdogService));
}

/// Adds the tasks that share rules, counts and commands with other gateways.
fn add_shared_state(server: &mut Server, process: &Arc<GatewayProcess>) {
    let store = process.shared.in_force(|snapshot| snapshot.store.clone());
    let rules = RuleService {
        process: Arc::clone(process),
        rules: Arc::clone(&process.shared.temporary),
        store: store.clone(),
    };
    server.add_service(background_service("rules", rules));
    server.add_service(background_service("sync", SyncService(SyncTask { store })));

    let unbans = FleetUnbanService(Arc::clone(process));
    server.add_service(background_service("unban", unbans));
}

/// Adds the tasks that ask other servers: for names of crawlers, and for certificates.
fn add_look_ups(server: &mut Server, process: &Arc<GatewayProcess>) {
    let names = process.shared.in_force(|snapshot| {
        Some(CrawlerNames {
            names: Arc::clone(snapshot.compiled.crawlers.reverse_dns()?),
            servers: snapshot.compiled.rules.client.dns_servers.clone(),
        })
    });
    let look_ups = LookUpService {
        crawlers: names,
        durations: Arc::clone(&process.shared.recorder.metrics.crawler_look_ups),
    };
    server.add_service(background_service("reverse-dns", look_ups));

    let orders = process.shared.in_force(|snapshot| CertificateOrders {
        generation: snapshot.generation,
        rules: snapshot.compiled.rules.acme.clone(),
        names: snapshot.compiled.rules.ordered_names(),
    });
    let certificates = Arc::clone(&process.shared.certificates);
    let acme = Arc::clone(&process.shared.acme);
    let renewals = RenewalService::new(orders, certificates, acme);
    server.add_service(background_service("acme", renewals));
}

/// Adds the tasks that observe the gateway and report on it.
fn add_figures(server: &mut Server, process: &Arc<GatewayProcess>) {
    #[cfg(feature = "otlp")]
    server.add_service(background_service(
        "otlp",
        ExportService(SignalExport {
            queues: Arc::clone(&process.shared.recorder.exports),
            collector: process
                .shared
                .in_force(|snapshot| snapshot.compiled.rules.collector.clone()),
            sample_metrics: Arc::new({
                let process = Arc::clone(process);
                move || export_metrics(&process)
            }),
            instance_id: InstanceId::draw(),
        }),
    ));

    let watch = LoadWatch {
        shared: Arc::clone(&process.shared),
    };
    server.add_service(background_service("load", watch));

    let sampler = UsageSampler {
        samples: Arc::clone(&process.shared.usage),
        limits: process.shared.in_force(|snapshot| {
            snapshot
                .compiled
                .limits
                .values()
                .map(Arc::downgrade)
                .collect()
        }),
        metrics: Arc::clone(&process.shared.recorder.metrics),
    };
    server.add_service(background_service("usage", sampler));

    let history = HistoryWatch {
        process: Arc::clone(process),
    };
    server.add_service(background_service("history", history));
}
