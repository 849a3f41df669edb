//! Tells an OpenTelemetry collector of the gateway's spans, by OTLP over HTTP, with the feature `otlp`.
//!
//! A request that is recorded writes its spans (`span`) straight into a buffer of its own thread, as it writes its line of the log; others
//! pay for one look at their trace. What is written is the encoding itself (`wire`), of which a batch is some pieces one
//! after the other (`batch`). A task in the background brings batches to the collector (`export`, `collector`) and understands what it
//! says (`answer`).
//!
//! # Limits
//! [`OTLP_SHARD`](bounds::OTLP_SHARD) bytes for each of 16 stripes while the collector takes nothing; then spans are dropped and counted.
//!
//! # Errors
//! None reaches a request. Trouble is counted, and logged once a change of state.

mod answer;
mod batch;
mod collector;
mod export;
mod span;
mod wire;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_telemetry::exposition::SampledFamily;
use sluicegate_telemetry::line_buffers::{FillLevel, LineBuffers};
use sluicegate_telemetry::per_thread::STRIPES;
use tokio::sync::Notify;

use super::outcome::Outcome;
use crate::{bounds, clock};

pub use export::SpanExportService;

/// The interval of checks whether the last spans are exported.
const LOOKS: Duration = Duration::from_millis(5);

/// The spans between the requests that wrote them and the collector.
#[derive(Debug)]
pub struct SpanQueue {
    shards: LineBuffers,
    /// Told when a shard passes its watermark.
    crowded: Notify,
    fates: [AtomicU64; SpanResult::ALL.len()],
    calls: [AtomicU64; ExportCallResult::ALL.len()],
    /// Set while the collector accepts nothing.
    is_away: AtomicBool,
}

/// The result of exporting spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpanResult {
    /// The collector has them.
    Sent,
    /// It does not want them.
    Refused,
    /// They were taken before a reload that names no collector any more.
    Dropped,
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExportCallResult {
    /// The collector took what it brought.
    Ok,
    /// It answered that it does not want it.
    Refused,
    /// It did not answer, or that it cannot now.
    Failed,
}

impl SpanResult {
    const ALL: [Self; 3] = [Self::Sent, Self::Refused, Self::Dropped];
}

impl ExportCallResult {
    const ALL: [Self; 3] = [Self::Ok, Self::Refused, Self::Failed];

    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

impl Default for SpanQueue {
    fn default() -> Self {
        Self {
            shards: LineBuffers::new(STRIPES, bounds::OTLP_SHARD),
            crowded: Notify::new(),
            fates: Default::default(),
            calls: Default::default(),
            is_away: AtomicBool::new(false),
        }
    }
}

impl SpanQueue {
    /// Takes the spans of one request, where its trace is told of.
    pub(super) fn record(&self, outcome: &Outcome<'_>) {
        let Some(trace) = outcome.trace.filter(|trace| trace.is_told()) else {
            return;
        };
        let ended = clock::wall();
        let server = self
            .shards
            .append(|into, _| span::server(into, outcome, &trace, ended));
        let client = outcome.origin.as_ref().map(|origin| {
            self.shards
                .append(|into, _| span::client(into, outcome, origin, &trace, ended))
        });
        if server == FillLevel::Watermark || client == Some(FillLevel::Watermark) {
            self.crowded.notify_one();
        }
    }

    /// Waits, at most `patience`, until the collector has what was taken; not for one that takes nothing. Whether it has.
    #[must_use]
    pub fn flush(&self, patience: Duration) -> bool {
        let start = clock::now();
        self.crowded.notify_one();
        // Bounded by patience, which time eats.
        while !self.is_settled() && !self.is_away() && clock::since(start) < patience {
            std::thread::sleep(LOOKS);
        }
        self.is_settled()
    }

    /// Returns whether every span has a result.
    fn is_settled(&self) -> bool {
        let known: u64 = SpanResult::ALL.iter().map(|fate| self.fate(*fate)).sum();
        known >= self.shards.counts().lines
    }

    fn is_away(&self) -> bool {
        // Relaxed: it shortens a wait and publishes nothing.
        self.is_away.load(Ordering::Relaxed)
    }

    fn note(&self, fate: SpanResult, spans: u64) {
        // Relaxed, here and below: counts for the scrape, each on its own.
        self.fates[fate as usize].fetch_add(spans, Ordering::Relaxed);
    }

    fn called(&self, what: ExportCallResult) {
        self.calls[what as usize].fetch_add(1, Ordering::Relaxed);
        self.is_away
            .store(what == ExportCallResult::Failed, Ordering::Relaxed);
    }

    fn fate(&self, fate: SpanResult) -> u64 {
        self.fates[fate as usize].load(Ordering::Relaxed)
    }

    /// Spans that nobody is told of for want of room, or of a collector.
    fn dropped(&self) -> u64 {
        self.shards.counts().dropped + self.fate(SpanResult::Dropped)
    }

    /// Returns the metrics; a series appears with its first count.
    pub(super) fn families(&self) -> [SampledFamily; 2] {
        let mut spans = SampledFamily::counter(
            "sluicegate_otlp_spans_total",
            "Spans for the OpenTelemetry collector, by what became of them.",
        );
        for (result, count) in [
            ("sent", self.fate(SpanResult::Sent)),
            ("refused", self.fate(SpanResult::Refused)),
            ("dropped", self.dropped()),
        ] {
            if count > 0 {
                spans.push(&[("result", result)], count);
            }
        }
        let mut calls = SampledFamily::counter(
            "sluicegate_otlp_calls_total",
            "Calls to the OpenTelemetry collector, by what came of them.",
        );
        for what in ExportCallResult::ALL {
            let count = self.calls[what as usize].load(Ordering::Relaxed);
            if count > 0 {
                calls.push(&[("result", what.as_str())], count);
            }
        }
        [spans, calls]
    }
}
