//! Owns a log of lines, which a thread of its own writes to a file or to the standard output, so that no caller waits for a disk.
//!
//! A caller writes a line straight into a buffer of its own thread, which costs neither an allocation nor a wake-up. The writer swaps the
//! buffers every 100 ms, or when one passes a watermark, puts the lines of all threads in the order of their times, and writes them out.
//!
//! # Limits
//!
//! [`LineLogSettings::cap`] bytes for each buffer while the target takes nothing, and as much for lines taken out of them; then lines are
//! dropped and counted.
//!
//! # Errors
//!
//! Only opening the target fails, at the start and at [`LineLog::retarget`]. Later errors are counted and logged, never returned to the
//! caller that writes a line.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::rfc3339::TimeFormatter;

use crate::line_buffers::{FillLevel, LineBuffers};
use crate::line_sink::LineSink;
pub use crate::line_sink::LineTarget;
use crate::line_writer::{LineWriter, WriterState};

/// The target of process logs: the module of the gateway that this file was part of, so that filters by module go on as they are.
const LOG_TARGET: &str = "sluicegate::record::access_log";

/// The time that dropping a log waits for the last lines: a disk that hangs must not hold up the end of the process.
const LAST_ROUND: Duration = Duration::from_secs(2);

/// A running log. Dropping it writes the lines that are buffered.
#[derive(Debug)]
pub struct LineLog {
    name: &'static str,
    state: Arc<WriterState>,
    on: AtomicBool,
    target: Mutex<LineTarget>,
    writer: Option<JoinHandle<()>>,
}

/// The constants of a log.
#[derive(Clone, Copy, Debug)]
pub struct LineLogSettings {
    /// The name of the log, which begins its messages in the process log, such as `access log`.
    pub name: &'static str,
    /// The number of buffers, which the threads share; with 1 lines are written in the order in which they come, whatever their times.
    pub buffers: usize,
    /// The bytes that one buffer holds at most.
    pub cap: usize,
}

/// The counts of a log since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineLogCounts {
    /// Lines taken.
    pub lines: u64,
    /// Lines dropped because a buffer was full.
    pub dropped: u64,
    /// Writes and reopenings that failed.
    pub write_errors: u64,
}

impl LineLog {
    /// Opens `target` and starts the writer. A `fork` after this does not have the writer's thread.
    ///
    /// # Errors
    ///
    /// The system's error for the file or the thread.
    pub fn start(settings: LineLogSettings, target: LineTarget) -> io::Result<Self> {
        let buffers = LineBuffers::new(settings.buffers, settings.cap);
        let state = Arc::new(WriterState::new(buffers));
        let sink = LineSink::open(&target)?;
        let writer = LineWriter::new(settings.name, Arc::clone(&state), sink);
        let writer = thread::Builder::new()
            .name(settings.name.replace(' ', "-"))
            .spawn(|| writer.run())?;
        Ok(Self {
            name: settings.name,
            state,
            on: AtomicBool::new(target != LineTarget::Off),
            target: Mutex::new(target),
            writer: Some(writer),
        })
    }

    /// Returns whether lines go anywhere: where they do not, a caller need not write any.
    #[inline]
    pub fn is_on(&self) -> bool {
        // Relaxed: a line more or less around a change of the target is as good.
        self.on.load(Ordering::Relaxed)
    }

    /// Takes the line that `write` appends with its line feed. It gets the formatter of the calling thread's buffer for times. Lines that
    /// are written together are in the order of `at`, a time by a clock that all of them share.
    #[inline]
    pub fn append(&self, at: u64, write: impl FnOnce(&mut Vec<u8>, &mut TimeFormatter)) {
        if self.state.buffers.append(Some(at), write) == FillLevel::Watermark {
            self.state.request_drain();
        }
    }

    /// Writes the lines up to now to the old file, then opens the path again: for a rotation. Returns at once.
    pub fn reopen(&self) {
        self.state.request_reopen();
    }

    /// Writes the lines up to now to the old target and later ones to `target`. A target that is the same is not opened again.
    ///
    /// # Errors
    ///
    /// The system's error for the file; the old target then stays in use.
    pub fn retarget(&self, target: &LineTarget) -> io::Result<()> {
        let mut current = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        if *current == *target {
            return Ok(());
        }
        self.state.request_sink(LineSink::open(target)?);
        *current = target.clone();
        // Relaxed: see `is_on`.
        self.on.store(*target != LineTarget::Off, Ordering::Relaxed);
        Ok(())
    }

    /// Waits, at most `timeout`, until every line taken before is written. Returns whether it is.
    #[must_use]
    pub fn flush(&self, timeout: Duration) -> bool {
        self.state.flush(timeout)
    }

    /// Returns the counts.
    #[must_use]
    pub fn counts(&self) -> LineLogCounts {
        let counts = self.state.buffers.counts();
        LineLogCounts {
            lines: counts.lines,
            dropped: counts.dropped,
            // Relaxed: a count for the scrape.
            write_errors: self.state.write_errors.load(Ordering::Relaxed),
        }
    }
}

impl Drop for LineLog {
    fn drop(&mut self) {
        if !self.state.stop(LAST_ROUND) {
            tracing::error!(target: LOG_TARGET, "{}: the target hangs, the last lines are lost", self.name);
        } else if let Some(writer) = self.writer.take() {
            // It has finished its last round, so this does not wait; a panic in it was already reported by its thread.
            drop(writer.join());
        }
    }
}
