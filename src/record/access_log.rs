//! Owns the access log: one line a request, written by a thread that no request waits for.
//!
//! A request formats its line straight into a buffer of its own thread (`shards`), which costs neither an
//! allocation nor a wake-up; the writer (`writer`) swaps the buffers every 100 ms, or when one passes a watermark,
//! and writes them out (`sink`). Which requests have a line decides `selection`; how it looks
//! is [`super::line`]'s concern, or [`super::live_view`]'s.
//!
//! # Limits
//!
//! 4 MiB for each of 16 stripes while the target takes nothing; then lines are dropped and counted.
//!
//! # Errors
//!
//! Only opening the target fails, at start and at [`AccessLog::retarget`]. Later trouble is counted and logged, never
//! answered to a request.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use arc_swap::ArcSwap;
use sluicegate_telemetry::per_thread::STRIPES;
use sluicegate_telemetry::rfc3339::TimeFormatter;

use super::line::{self, LogEntry};
use super::line_buffers::{CAP, FillLevel, LineBuffers};
use super::line_selection::{LeftOut, LineSelection};
use super::live_view::{self, ColorMode};
use super::outcome::Outcome;
use super::sink::LogSink;
use super::writer::{LogWriter, WriterState};
use crate::config::rules::{AccessLogTarget, LogRules};

/// The time that the end of the process waits for the last lines: a disk that hangs may not hold up a shutdown.
const LAST_ROUND: Duration = Duration::from_secs(2);

/// The running access log. Dropping it writes what is buffered.
#[derive(Debug)]
pub struct AccessLog {
    shared: Arc<WriterState>,
    format: fn(&mut Vec<u8>, &mut TimeFormatter, &LogEntry<'_>),
    rules: ArcSwap<LogRules>,
    selection: LineSelection,
    on: AtomicBool,
    target: Mutex<AccessLogTarget>,
    writer: Option<JoinHandle<()>>,
}

/// The counts of the access log since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessLogCounts {
    /// Lines taken.
    pub lines: u64,
    /// Lines left out because a buffer was full.
    pub dropped: u64,
    /// Writes and reopenings that failed.
    pub write_errors: u64,
    /// Requests that have no line by the operator's rules.
    pub left_out: LeftOut,
}

impl AccessLog {
    /// Opens the target of `rules` and starts the writer, which a later `fork` would not take along.
    ///
    /// # Errors
    ///
    /// What the system says about the file or the thread.
    pub fn start(rules: &LogRules) -> io::Result<Self> {
        Self::with(rules, LineBuffers::new(STRIPES, CAP), line::write)
    }

    /// Starts the view of `sluicegate demo` on the standard output. One shard, so that lines come in order.
    ///
    /// # Errors
    ///
    /// What the system says about the standard output or the thread.
    pub fn live(colour: ColorMode) -> io::Result<Self> {
        Self::with(
            &LogRules::to(AccessLogTarget::Stdout),
            LineBuffers::new(1, CAP),
            live_view::format(colour),
        )
    }

    fn with(
        rules: &LogRules,
        shards: LineBuffers,
        format: fn(&mut Vec<u8>, &mut TimeFormatter, &LogEntry<'_>),
    ) -> io::Result<Self> {
        let target = &rules.access;
        let shared = Arc::new(WriterState::new(shards));
        let writer = LogWriter::new(Arc::clone(&shared), LogSink::open(target)?);
        let writer = thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(|| writer.run())?;
        Ok(Self {
            shared,
            format,
            rules: ArcSwap::from_pointee(rules.clone()),
            selection: LineSelection::new(),
            on: AtomicBool::new(*target != AccessLogTarget::Off),
            target: Mutex::new(target.clone()),
            writer: Some(writer),
        })
    }

    /// Takes the line of one request.
    pub fn record(&self, outcome: &Outcome<'_>) {
        // Relaxed: a line more or less around a reload is as good.
        if !self.on.load(Ordering::Relaxed) {
            return;
        }
        let rules = &**self.rules.load();
        let Some(left_out) = self.selection.choose(rules, outcome) else {
            return;
        };
        let entry = LogEntry {
            outcome,
            rules,
            left_out,
        };
        let shards = &self.shared.shards;
        let level = shards.append(|bytes, stamp| (self.format)(bytes, stamp, &entry));
        if level == FillLevel::Watermark {
            self.shared.ask_drain();
        }
    }

    /// SIGUSR1: lines up to now go to the old file, then the path is opened again. Returns at once.
    pub fn reopen(&self) {
        self.shared.ask_reopen();
    }

    /// A reload: lines up to now go to the old target, what follows to the new one and by the new rules. A target that is the same is not
    /// opened again.
    ///
    /// # Errors
    ///
    /// What the system says about the file; the old target then stays in use.
    pub fn retarget(&self, rules: &LogRules) -> io::Result<()> {
        let target = &rules.access;
        let mut current = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        if *current == *target {
            self.rules.store(Arc::new(rules.clone()));
            return Ok(());
        }
        self.shared.ask_sink(LogSink::open(target)?);
        self.rules.store(Arc::new(rules.clone()));
        *current = target.clone();
        // Relaxed: see `record`.
        self.on
            .store(*target != AccessLogTarget::Off, Ordering::Relaxed);
        Ok(())
    }

    /// Waits, at most `patience`, until every line taken before is written. Whether it is.
    #[must_use]
    pub fn flush(&self, patience: Duration) -> bool {
        self.shared.flush(patience)
    }

    /// Returns the counts.
    #[must_use]
    pub fn tallies(&self) -> AccessLogCounts {
        let counted = self.shared.shards.counted();
        AccessLogCounts {
            lines: counted.lines,
            dropped: counted.dropped,
            // Relaxed: a count for the scrape.
            write_errors: self.shared.write_errors.load(Ordering::Relaxed),
            left_out: self.selection.left_out(),
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        if !self.shared.stop(LAST_ROUND) {
            tracing::error!("access log: the target hangs, the last lines are lost");
        } else if let Some(writer) = self.writer.take() {
            // It has served its last round, so this does not wait; a panic in it was already reported by its thread.
            drop(writer.join());
        }
    }
}

#[cfg(test)]
#[path = "access_log_tests.rs"]
mod tests;
