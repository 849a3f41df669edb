//! Owns the queues of the OpenTelemetry collector, one a signal, and the counts of their export.

use std::sync::atomic::{AtomicBool, Ordering};

use sluicegate_base::bounds::{OTLP_LOG_STRIPE, OTLP_METRICS, OTLP_STRIPE};
use sluicegate_base::clock;
use sluicegate_limiter::Timestamp;
use sluicegate_telemetry::exposition::SampledFamily;
use sluicegate_telemetry::otlp::{CallResult, ExportQueue, MetricTimes, RecordResult};
use sluicegate_telemetry::per_thread::STRIPES;

use sluicegate_config::rules::{OtlpRules, OtlpSignal};

/// The queues of all signals.
#[derive(Debug)]
pub struct ExportQueues {
    queues: [ExportQueue; OtlpSignal::ALL.len()],
    /// True where the collector in force gets the lines of the access log.
    exports_lines: AtomicBool,
    /// The time at which all counts of the process were 0, by the wall clock.
    started: Timestamp,
}

impl Default for ExportQueues {
    fn default() -> Self {
        let queue = |signal| match signal {
            OtlpSignal::Traces => ExportQueue::new("spans", STRIPES, OTLP_STRIPE),
            OtlpSignal::Logs => ExportQueue::new("access log lines", STRIPES, OTLP_LOG_STRIPE),
            // One task writes them.
            OtlpSignal::Metrics => ExportQueue::new("metrics", 1, OTLP_METRICS),
        };
        Self {
            queues: OtlpSignal::ALL.map(queue),
            exports_lines: AtomicBool::new(false),
            started: clock::wall(),
        }
    }
}

impl ExportQueues {
    /// Returns the queue of a signal.
    #[must_use]
    pub fn queue(&self, signal: OtlpSignal) -> &ExportQueue {
        &self.queues[signal as usize]
    }

    /// Follows a change of the collector: lines of the access log are made only where it gets them.
    pub fn follow(&self, collector: Option<&OtlpRules>) {
        let exports_lines = collector.is_some_and(|rules| rules.sends(OtlpSignal::Logs));
        // Relaxed, here and below: a line more or less around a reload is as good.
        self.exports_lines.store(exports_lines, Ordering::Relaxed);
    }

    /// Returns the queue for lines of the access log, where the collector gets them.
    #[inline]
    pub(super) fn lines(&self) -> Option<&ExportQueue> {
        let exports_lines = self.exports_lines.load(Ordering::Relaxed);
        exports_lines.then(|| self.queue(OtlpSignal::Logs))
    }

    /// Takes a sample of the metrics of the process.
    pub fn append_metrics(&self, families: impl IntoIterator<Item = SampledFamily>) {
        let now = clock::wall();
        let times = MetricTimes {
            // The wall clock may have been set back since.
            start_unix_nanos: self.started.min(now).as_nanos(),
            sample_unix_nanos: now.as_nanos(),
        };
        for family in families {
            self.queue(OtlpSignal::Metrics)
                .append_family(&family, times);
        }
    }

    /// Returns the metrics of the export; a series appears with its first count.
    pub(super) fn families(&self) -> [SampledFamily; 2] {
        let mut records = SampledFamily::counter(
            "sluicegate_otlp_records_total",
            "Spans, lines of the access log and metrics for the OpenTelemetry collector, by what became of them.",
        );
        let mut calls = SampledFamily::counter(
            "sluicegate_otlp_calls_total",
            "Calls to the OpenTelemetry collector, by what came of them.",
        );
        for signal in OtlpSignal::ALL {
            let queue = self.queue(signal);
            for result in RecordResult::ALL {
                push(
                    &mut records,
                    signal,
                    label_of_record(result),
                    queue.records(result),
                );
            }
            for result in CallResult::ALL {
                push(
                    &mut calls,
                    signal,
                    label_of_call(result),
                    queue.calls(result),
                );
            }
        }
        [records, calls]
    }
}

fn label_of_record(result: RecordResult) -> &'static str {
    match result {
        RecordResult::Sent => "sent",
        RecordResult::Rejected => "refused",
        RecordResult::Dropped => "dropped",
    }
}

fn label_of_call(result: CallResult) -> &'static str {
    match result {
        CallResult::Accepted => "ok",
        CallResult::Rejected => "refused",
        CallResult::Failed => "failed",
    }
}

fn push(family: &mut SampledFamily, signal: OtlpSignal, result: &str, count: u64) {
    if count > 0 {
        family.push(&[("signal", signal.as_str()), ("result", result)], count);
    }
}
