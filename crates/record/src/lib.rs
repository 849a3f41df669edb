//! Stage 7: counts, log line and spans of a request.
//!
//! One [`Outcome`] per request feeds the access log, the metrics and the spans, so that they cannot disagree. A
//! request pays for it with a few hundred nanoseconds: a line formatted into its thread's own buffer, and additions to its
//! thread's own counters. Writing, adding up and naming happen elsewhere, in `sluicegate_telemetry`.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

use std::io;
use std::sync::Arc;

#[cfg(feature = "otlp")]
use sluicegate_config::rules::OtlpSignal;
use sluicegate_config::rules::Rules;

mod accept_errors;
pub mod access_log;
mod audit_log;
mod combined;
#[cfg(feature = "otlp")]
mod conventions;
mod crawler_fields;
mod crawler_requests;
mod descriptor_fields;
#[cfg(test)]
mod example;
#[cfg(feature = "otlp")]
mod export_queues;
pub mod families;
mod geo_lookups;
mod handshakes;
mod key_exchanges;
mod limit_counters;
pub mod line;
mod line_selection;
mod line_values;
pub mod live_counts;
pub mod live_view;
#[cfg(feature = "otlp")]
mod log_records;
mod look_up_durations;
pub mod metrics;
mod notices;
pub mod outcome;
mod proxy_headers;
mod recent_requests;
mod rejected_clients;
mod rejection_tail;
mod replay_facts;
mod request_series;
mod request_totals;
mod route_metrics;
mod route_results;
#[cfg(feature = "otlp")]
mod signal_export;
#[cfg(feature = "otlp")]
mod spans;
mod store_calls;
pub mod trace;
mod untrusted_forwarding;

pub use accept_errors::AcceptErrorCounts;
pub use access_log::AccessLog;
pub use audit_log::AuditLog;
pub use descriptor_fields::{IgnoredField, IgnoredFields};
#[cfg(feature = "otlp")]
pub use export_queues::ExportQueues;
pub use handshakes::{HandshakeCounts, HandshakeFailure, HandshakeKind, TlsVersion};
pub use key_exchanges::counting_provider;
pub use look_up_durations::LookUpDurations;
pub use metrics::{InFlight, RequestMetrics};
pub use notices::NoticeThrottle;
pub use outcome::{OriginUse, Outcome};
pub use proxy_headers::{ProxyHeaderCounts, ProxyHeaderResult};
pub use recent_requests::{LatencyFigures, RequestFigures};
pub use rejected_clients::{ClientGroups, RejectedClients, RejectedClientsView};
pub use rejection_tail::{RejectionTail, TailedRejection};
pub use replay_facts::ReplayFacts;
pub use request_totals::RequestTotals;
pub use route_metrics::RouteMetrics;
pub use route_results::RouteResults;
#[cfg(feature = "otlp")]
pub use signal_export::{InstanceId, SignalExport};
pub use store_calls::StoreCallCounts;
pub use trace::TraceContext;
pub use untrusted_forwarding::UntrustedForwarding;

/// Records each request in metrics, log and spans.
#[derive(Debug)]
pub struct RequestRecorder {
    /// Counts, for the scrape.
    pub metrics: Arc<RequestMetrics>,
    /// Lines, for the file.
    pub log: AccessLog,
    /// Lines about changes by operators.
    pub audit: AuditLog,
    /// Lines about clients, for the process log.
    pub notices: NoticeThrottle,
    /// The latest rejections, for pages that follow them.
    pub rejections: RejectionTail,
    /// The rejected requests by client, for operators.
    pub rejected_clients: RejectedClients,
    /// Spans, lines and metrics, for the collector.
    #[cfg(feature = "otlp")]
    pub exports: Arc<ExportQueues>,
}

impl RequestRecorder {
    /// Makes a recorder that counts into `metrics` and writes to `log`.
    #[must_use]
    pub fn new(metrics: Arc<RequestMetrics>, log: AccessLog) -> Self {
        Self {
            metrics,
            #[cfg(feature = "otlp")]
            exports: Arc::clone(log.exports()),
            log,
            audit: AuditLog::default(),
            notices: NoticeThrottle::default(),
            rejections: RejectionTail::default(),
            rejected_clients: RejectedClients::default(),
        }
    }

    /// Returns the recorder with this log of changes by operators.
    #[must_use]
    pub fn with_audit(self, audit: AuditLog) -> Self {
        Self { audit, ..self }
    }

    /// Opens the files of both logs again, after a rotation.
    pub fn reopen_logs(&self) {
        self.log.reopen();
        self.audit.reopen();
    }

    /// Applies the targets of a reload to both logs and to the export of lines, or to none.
    ///
    /// # Errors
    ///
    /// The key, and the system's error for its file.
    pub fn retarget_logs(&self, rules: &Rules, before: &Rules) -> Result<(), String> {
        let failed = |key: &str, error: io::Error| {
            format!("{key}: {error}; write a path that can be opened")
        };
        self.audit
            .retarget(&rules.log)
            .map_err(|error| failed("log.audit", error))?;
        self.log.retarget(&rules.log).map_err(|error| {
            // The file was open until now; a failure is logged as one of the stream.
            let _ = self.audit.retarget(&before.log);
            failed("log.access", error)
        })?;
        self.follow_collector(rules);
        Ok(())
    }

    /// Exports lines of the access log where the collector of `rules` gets them.
    pub fn follow_collector(&self, rules: &Rules) {
        #[cfg(feature = "otlp")]
        self.exports.follow(rules.collector.as_deref());
        #[cfg(not(feature = "otlp"))]
        let _ = rules;
    }

    /// Counts and logs a failed attempt to accept a connection.
    pub fn note_accept_error(&self, error: &io::Error) {
        self.metrics.accept_errors.count(error);
        let why = format_args!("a connection cannot be accepted: {error}");
        self.notices.fail(&why);
    }

    /// Records one request. Call it once a request, when its last byte is sent.
    pub fn record(&self, outcome: &Outcome<'_>) {
        self.metrics.record(outcome);
        self.log.record(outcome);
        self.rejections.record(outcome);
        self.rejected_clients.record(outcome);
        #[cfg(feature = "otlp")]
        spans::record(self.exports.queue(OtlpSignal::Traces), outcome);
    }
}
