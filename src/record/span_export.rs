//! Runs the export of spans as a background service, with the collector of the snapshot in force.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::HeaderMap;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use sluicegate_base::clock;
use sluicegate_telemetry::otlp::{
    CollectorAddress, ExportContext, ExportQueue, ExportSettings, SoftwareName, TlsSettings, export,
};

use crate::config::rules::OtlpRules;
use crate::in_force::InForce;
use crate::request_id::draw;
use crate::retry_after::retry_after;

/// The background service.
pub struct SpanExportService {
    /// The spans of all requests.
    pub spans: Arc<ExportQueue>,
    /// The collector in force; `None` where there is none.
    pub collector: InForce<Option<Arc<OtlpRules>>>,
}

#[async_trait]
impl BackgroundService for SpanExportService {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let drain = async move {
            // An error means that no shutdown will be announced any more: the end is near too.
            let _ = shutdown.changed().await;
        };
        export(&self.spans, self, drain).await;
    }
}

impl ExportContext for SpanExportService {
    fn settings(&self) -> Option<Arc<ExportSettings>> {
        Some(Arc::new(settings(&*self.collector.load()?)))
    }

    fn retry_after(&self, headers: &HeaderMap) -> Option<Duration> {
        retry_after(headers, clock::wall())
    }

    fn random(&self) -> u64 {
        draw() as u64
    }
}

/// Translates `[tracing.otlp]`.
fn settings(rules: &OtlpRules) -> ExportSettings {
    let to = &rules.collector;
    ExportSettings {
        collector: CollectorAddress {
            host: to.host.clone(),
            port: to.port,
            authority: to.authority.clone(),
            path: to.path.clone(),
            tls: to.tls.as_ref().map(|tls| TlsSettings {
                config: Arc::clone(tls.config()),
                server_name: tls.server_name().cloned(),
            }),
        },
        headers: rules.headers.clone(),
        timeout: rules.timeout,
        interval: rules.interval,
        attributes: rules.attributes.clone(),
        software: SoftwareName {
            name: "sluicegate",
            version: env!("CARGO_PKG_VERSION"),
        },
    }
}
