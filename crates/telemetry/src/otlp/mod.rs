//! Exports records of a signal to an OpenTelemetry collector by OTLP over HTTP.
//!
//! A caller writes its records, spans ([`write_span`]), lines of a log ([`write_log`]) or metrics ([`ExportQueue::append_family`]), into a
//! buffer of its own thread. The bytes are the encoding itself, so a batch is some of them one after the other. A task in the background
//! ([`export`]) posts batches to the collector. Each signal has a queue and an export of its own, so a collector that rejects one of them
//! delays no other.
//!
//! # Limits
//! A buffer has a cap, which it reaches while the collector accepts nothing; then records are dropped and counted. [`bounds`] has the
//! others.
//!
//! # Errors
//! None reaches the caller that writes a record. Failures are counted, and logged once a change of state.

mod answer;
mod attributes;
mod batch;
pub mod bounds;
mod collector;
mod exporter;
mod json_members;
mod log;
mod metric;
mod settings;
mod span;
mod wire;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::line_buffers::{FillLevel, LineBuffers};
use crate::rfc3339::TimeFormatter;
use tokio::sync::Notify;

pub use self::attributes::AttributeWriter;
pub use self::batch::{RecordBatch, body, first_batch};
pub use self::exporter::{ExportContext, export};
pub use self::log::{LogHead, LogTrace, write_log};
pub use self::metric::MetricTimes;
pub use self::settings::{CollectorAddress, ExportSettings, SoftwareName, TlsSettings};
pub use self::span::{SpanAttributes, SpanHead, SpanKind, write_span};

/// The interval of checks whether the last records are exported.
const FLUSH_CHECK: Duration = Duration::from_millis(5);

/// The records of one signal between the callers that write them and the collector.
#[derive(Debug)]
pub struct ExportQueue {
    /// The records, as the process log calls them.
    what: &'static str,
    buffers: LineBuffers,
    /// Notified when a buffer passes its watermark.
    watermark: Notify,
    results: [AtomicU64; RecordResult::ALL.len()],
    calls: [AtomicU64; CallResult::ALL.len()],
    /// Set while the collector accepts nothing.
    is_unavailable: AtomicBool,
}

/// The result of exporting a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordResult {
    /// The collector accepted it.
    Sent,
    /// The collector rejected it.
    Rejected,
    /// Its buffer was full, or no collector is configured any more.
    Dropped,
}

/// The result of a call to the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// The collector accepted the batch.
    Accepted,
    /// The collector rejected the batch, or a part of it.
    Rejected,
    /// The collector did not answer, or cannot accept a batch now.
    Failed,
}

impl RecordResult {
    /// Every result.
    pub const ALL: [Self; 3] = [Self::Sent, Self::Rejected, Self::Dropped];
}

impl CallResult {
    /// Every result.
    pub const ALL: [Self; 3] = [Self::Accepted, Self::Rejected, Self::Failed];
}

impl ExportQueue {
    /// Makes an empty queue of `buffers`, which the threads share, of at most `cap` bytes each. `what` is the plural of its records.
    #[must_use]
    pub fn new(what: &'static str, buffers: usize, cap: usize) -> Self {
        Self {
            what,
            buffers: LineBuffers::new(buffers, cap),
            watermark: Notify::new(),
            results: Default::default(),
            calls: Default::default(),
            is_unavailable: AtomicBool::new(false),
        }
    }

    /// Takes the one record that `write` writes, as [`write_span`] does. It gets the formatter of the calling thread's buffer for times.
    pub fn append(&self, write: impl FnOnce(&mut Vec<u8>, &mut TimeFormatter)) {
        if self.buffers.append(None, write) == FillLevel::Watermark {
            self.watermark.notify_one();
        }
    }

    /// Returns the plural of its records, for texts.
    #[must_use]
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// Lets the exporter post what it has now, not at its next interval.
    pub fn wake(&self) {
        self.watermark.notify_one();
    }

    /// Waits until every record taken so far has a result, at most until `elapsed` returns `timeout`, and not for a collector that accepts
    /// nothing. Returns whether every record has a result.
    #[must_use]
    pub fn flush(&self, timeout: Duration, elapsed: impl Fn() -> Duration) -> bool {
        self.wake();
        // Bounded by the timeout, since time passes.
        while !self.is_settled() && !self.is_unavailable() && elapsed() < timeout {
            std::thread::sleep(FLUSH_CHECK);
        }
        self.is_settled()
    }

    /// Returns the number of records with this result.
    #[must_use]
    pub fn records(&self, result: RecordResult) -> u64 {
        let counted = self.results[result as usize].load(Ordering::Relaxed);
        match result {
            RecordResult::Dropped => counted + self.buffers.counts().dropped,
            RecordResult::Sent | RecordResult::Rejected => counted,
        }
    }

    /// Returns the number of calls with this result.
    #[must_use]
    pub fn calls(&self, result: CallResult) -> u64 {
        self.calls[result as usize].load(Ordering::Relaxed)
    }

    /// Returns whether every record has a result.
    fn is_settled(&self) -> bool {
        let settled: u64 = self
            .results
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum();
        settled >= self.buffers.counts().lines
    }

    fn is_unavailable(&self) -> bool {
        // Relaxed: it shortens a wait and publishes nothing.
        self.is_unavailable.load(Ordering::Relaxed)
    }

    fn count_records(&self, result: RecordResult, records: u64) {
        // Relaxed, here and below: counts for the scrape, each on its own.
        self.results[result as usize].fetch_add(records, Ordering::Relaxed);
    }

    fn count_call(&self, result: CallResult) {
        self.calls[result as usize].fetch_add(1, Ordering::Relaxed);
        self.is_unavailable
            .store(result == CallResult::Failed, Ordering::Relaxed);
    }
}
