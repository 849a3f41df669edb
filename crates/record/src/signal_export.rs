//! Runs the export of all signals in one background task, with the collector of the snapshot in force.
//!
//! Each signal has an exporter and a connection of its own, so that a collector that rejects logs, say, still gets spans. Metrics are
//! sampled here; spans and lines are written by the threads of requests.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use sluicegate_base::clock;
use sluicegate_decide::in_force::InForce;
use sluicegate_decide::request_id::draw;
use sluicegate_decide::retry_after::retry_after;
use sluicegate_telemetry::otlp::{
    CollectorAddress, ExportContext, ExportSettings, SoftwareName, TlsSettings, export,
};
use tokio::sync::watch;

use super::export_queues::ExportQueues;
use sluicegate_config::rules::{OtlpRules, OtlpSignal};

/// The attribute by which series and lines of several gateways differ.
const INSTANCE_ID: &str = "service.instance.id";

/// The time between two checks whether a sample of the metrics is due: a reload may have changed their interval.
const SAMPLE_CHECK: Duration = Duration::from_millis(250);

/// The export of all signals.
pub struct SignalExport {
    /// The queues of all signals.
    pub queues: Arc<ExportQueues>,
    /// The collector in force; `None` where there is none.
    pub collector: InForce<Option<Arc<OtlpRules>>>,
    /// Appends a sample of the metrics to their queue.
    pub sample_metrics: Arc<dyn Fn() + Send + Sync>,
    /// The instance of the service, a new one for each process.
    pub instance_id: InstanceId,
}

/// The id of a process: a random UUID of version 4 (RFC 9562 §5.4), as OpenTelemetry's conventions recommend for `service.instance.id`.
/// Processes that run at the same time, those of an upgrade too, then write different series.
#[derive(Clone, Debug)]
pub struct InstanceId(Box<str>);

impl InstanceId {
    /// Draws an id.
    #[must_use]
    pub fn draw() -> Self {
        Self::from_bits(draw())
    }

    fn from_bits(random: u128) -> Self {
        const VERSION: u128 = 0xf << 76;
        const VARIANT: u128 = 0b11 << 62;
        let bits = (random & !VERSION & !VARIANT) | 0x4 << 76 | 0b10 << 62;
        let digits = format!("{bits:032x}");
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
        Self(parts.join("-").into())
    }
}

impl SignalExport {
    /// Exports until `shutdown` announces the end.
    pub async fn run(&self, shutdown: watch::Receiver<bool>) {
        tokio::join!(
            self.export_signal(OtlpSignal::Traces, shutdown.clone()),
            self.export_signal(OtlpSignal::Logs, shutdown.clone()),
            self.export_signal(OtlpSignal::Metrics, shutdown),
            self.sample_in_intervals(),
        );
    }

    async fn export_signal(&self, signal: OtlpSignal, mut shutdown: watch::Receiver<bool>) {
        let context = SignalContext {
            signal,
            service: self,
        };
        let drain = async move {
            // An error means that no shutdown will be announced any more: the end is near too.
            let _ = shutdown.changed().await;
        };
        export(self.queues.queue(signal), &context, drain).await;
    }

    /// Samples the metrics in the interval of the collector in force, the first time one interval after the start.
    async fn sample_in_intervals(&self) {
        let mut last = clock::now();
        loop {
            tokio::time::sleep(SAMPLE_CHECK).await;
            let collector = self.collector.load();
            let collector = collector.filter(|rules| rules.sends(OtlpSignal::Metrics));
            let interval = collector.map(|rules| rules.metrics_interval);
            if interval.is_some_and(|interval| clock::since(last) >= interval) {
                let sample = Arc::clone(&self.sample_metrics);
                // It reads every table; the exporters share this thread.
                let sampled = tokio::task::spawn_blocking(move || sample());
                // A task that panicked has its line in the process log.
                let _ = sampled.await;
                last = clock::now();
            }
        }
    }
}

/// The export of one signal.
struct SignalContext<'a> {
    signal: OtlpSignal,
    service: &'a SignalExport,
}

impl ExportContext for SignalContext<'_> {
    fn settings(&self) -> Option<Arc<ExportSettings>> {
        let rules = self.service.collector.load()?;
        let is_sent = rules.sends(self.signal);
        is_sent.then(|| Arc::new(settings(&rules, self.signal, &self.service.instance_id)))
    }

    fn retry_after(&self, headers: &HeaderMap) -> Option<Duration> {
        retry_after(headers, clock::wall())
    }

    fn random(&self) -> u64 {
        draw() as u64
    }
}

/// Translates `[tracing.otlp]` for one signal.
fn settings(rules: &OtlpRules, signal: OtlpSignal, instance_id: &InstanceId) -> ExportSettings {
    let to = &rules.collector;
    let mut attributes = rules.attributes.clone();
    if !attributes.iter().any(|(name, _)| &**name == INSTANCE_ID) {
        attributes.push((INSTANCE_ID.into(), instance_id.0.clone()));
    }
    ExportSettings {
        collector: CollectorAddress {
            host: to.host.clone(),
            port: to.port,
            authority: to.authority.clone(),
            path: to.path(signal).clone(),
            tls: to.tls.as_ref().map(|tls| TlsSettings {
                config: Arc::clone(tls.config()),
                server_name: tls.server_name().cloned(),
            }),
        },
        headers: rules.headers.clone(),
        timeout: rules.timeout,
        interval: rules.interval,
        attributes,
        software: SoftwareName {
            name: "sluicegate",
            version: env!("CARGO_PKG_VERSION"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: an id is a UUID of version 4 whatever is drawn. Method: all bits, and none.
    #[test]
    fn an_instance_id_is_a_uuid_of_version_4() {
        let text = |bits| InstanceId::from_bits(bits).0;
        assert_eq!(&*text(0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(&*text(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
