//! Owns the thread that takes lines out of the buffers and writes them, and the commands that others give it.
//!
//! # Concurrency
//!
//! Callers that write lines never wait for this thread: they append to a buffer, and at most once a watermark lock the commands for the
//! length of a flag. Signals, reloads and the end of the process give commands; there is no queue that could fill, since a command given
//! twice is the same command.
//!
//! # Errors
//!
//! A write that fails is counted, logged once a change of state, and tried again at the next tick with the same bytes.
//! Meanwhile the buffers fill to their cap and drop.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::line_buffers::{LineBuffers, StampedLines};
use crate::line_sink::{LineSink, UnwrittenLines};

/// The target of process logs: the module of the gateway that this file was part of, so that filters by module go on as they are.
const LOG_TARGET: &str = "sluicegate::record::writer";

/// The longest time that a line waits for the writer when no watermark is passed: short enough to watch, long enough to cost nothing.
const TICK: Duration = Duration::from_millis(100);

/// The state that callers, signals and the writer share.
#[derive(Debug)]
pub(crate) struct WriterState {
    pub(crate) buffers: LineBuffers,
    pub(crate) write_errors: AtomicU64,
    commands: Mutex<WriterCommands>,
    /// Notified when a command was given.
    commanded: Condvar,
    /// Notified when a round has ended.
    round_ended: Condvar,
}

#[derive(Debug, Default)]
struct WriterCommands {
    drain: bool,
    reopen: bool,
    sink: Option<LineSink>,
    stop: bool,
    /// The rounds that waiting callers requested, and how many of these are done.
    rounds_requested: u64,
    rounds_done: u64,
    /// Set if the last round left lines unwritten.
    behind: bool,
    finished: bool,
}

impl WriterState {
    pub(crate) fn new(buffers: LineBuffers) -> Self {
        Self {
            buffers,
            write_errors: AtomicU64::new(0),
            commands: Mutex::default(),
            commanded: Condvar::new(),
            round_ended: Condvar::new(),
        }
    }

    /// Requests a round before the next tick.
    pub(crate) fn request_drain(&self) {
        self.command(|commands| commands.drain = true);
    }

    /// Requests that buffered lines go to the old file, and that the file is opened again.
    pub(crate) fn request_reopen(&self) {
        self.command(|commands| commands.reopen = true);
    }

    /// Requests that buffered lines go to the old sink, and later ones to `sink`.
    pub(crate) fn request_sink(&self, sink: LineSink) {
        self.command(|commands| commands.sink = Some(sink));
    }

    /// Requests a round and waits for it, at most `timeout`. Returns whether everything was written.
    pub(crate) fn flush(&self, timeout: Duration) -> bool {
        let mut round = 0;
        self.command(|commands| {
            commands.rounds_requested += 1;
            round = commands.rounds_requested;
        });
        let is_open =
            |commands: &mut WriterCommands| commands.rounds_done < round && !commands.finished;
        let (commands, result) = self
            .round_ended
            .wait_timeout_while(self.lock(), timeout, is_open)
            .unwrap_or_else(PoisonError::into_inner);
        !result.timed_out() && !commands.behind
    }

    /// Requests the last round and waits for it, at most `timeout`. Returns whether the writer has ended.
    pub(crate) fn stop(&self, timeout: Duration) -> bool {
        self.command(|commands| commands.stop = true);
        let (commands, _) = self
            .round_ended
            .wait_timeout_while(self.lock(), timeout, |commands| !commands.finished)
            .unwrap_or_else(PoisonError::into_inner);
        commands.finished
    }

    fn command(&self, give: impl FnOnce(&mut WriterCommands)) {
        give(&mut self.lock());
        self.commanded.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, WriterCommands> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of the state that only the writer's thread has.
#[derive(Debug)]
pub(crate) struct LineWriter {
    /// The name of the log in the process log.
    name: &'static str,
    state: Arc<WriterState>,
    sink: LineSink,
    unwritten: UnwrittenLines,
    /// The memory that is swapped with the buffers'.
    taken: Box<[StampedLines]>,
    /// The error of the last write, if it failed.
    last_error: Option<io::ErrorKind>,
    /// Lines dropped before the first of these errors.
    dropped_before: u64,
}

impl LineWriter {
    pub(crate) fn new(name: &'static str, state: Arc<WriterState>, sink: LineSink) -> Self {
        let buffers = state.buffers.count();
        Self {
            name,
            state,
            sink,
            unwritten: UnwrittenLines::default(),
            taken: (0..buffers).map(|_| StampedLines::default()).collect(),
            last_error: None,
            dropped_before: 0,
        }
    }

    /// Runs rounds until a command stops it.
    pub(crate) fn run(mut self) {
        loop {
            let commands = self.wait();
            // A sink that goes nowhere has no lines of its own: buffered lines came after the command for the next one.
            if commands.sink.is_none() || !self.sink.is_off() {
                self.drain();
            }
            if let Some(sink) = commands.sink {
                self.unwritten.rewind_to_line();
                self.sink = sink;
                self.drain();
            }
            if commands.reopen {
                self.reopen();
            }
            if commands.stop && self.unwritten.lines() > 0 {
                tracing::error!(
                    target: LOG_TARGET,
                    "{}: {} lines lost, {} is not writable",
                    self.name,
                    self.unwritten.lines(),
                    self.sink.name()
                );
            }
            let mut shared = self.state.lock();
            shared.rounds_done = commands.rounds_requested;
            shared.behind = self.last_error.is_some();
            shared.finished = commands.stop;
            self.state.round_ended.notify_all();
            if commands.stop {
                return;
            }
        }
    }

    /// Waits for a tick or a command, and takes the commands.
    fn wait(&self) -> WriterCommands {
        let is_idle = |commands: &mut WriterCommands| {
            let given =
                commands.drain || commands.reopen || commands.sink.is_some() || commands.stop;
            !given && commands.rounds_requested == commands.rounds_done
        };
        let (mut commands, _) = self
            .state
            .commanded
            .wait_timeout_while(self.state.lock(), TICK, is_idle)
            .unwrap_or_else(PoisonError::into_inner);
        WriterCommands {
            drain: std::mem::take(&mut commands.drain),
            reopen: std::mem::take(&mut commands.reopen),
            sink: commands.sink.take(),
            ..WriterCommands {
                stop: commands.stop,
                rounds_requested: commands.rounds_requested,
                ..WriterCommands::default()
            }
        }
    }

    /// Writes what is left from the last round, then what all buffers have at one moment.
    fn drain(&mut self) {
        let result = self.try_drain();
        self.report(result);
    }

    fn try_drain(&mut self) -> io::Result<()> {
        self.unwritten.send(&mut self.sink)?;
        self.state.buffers.take_all(&mut self.taken);
        self.unwritten.refill_from(&mut self.taken);
        self.unwritten.send(&mut self.sink)
    }

    fn reopen(&mut self) {
        match self.sink.reopen() {
            Ok(()) => {
                self.unwritten.rewind_to_line();
                self.drain();
            }
            Err(error) => {
                // Relaxed: a count for the scrape.
                self.state.write_errors.fetch_add(1, Ordering::Relaxed);
                tracing::error!(
                    target: LOG_TARGET,
                    "{}: cannot reopen {}, the old file stays in use: {error}",
                    self.name,
                    self.sink.name()
                );
            }
        }
    }

    /// Counts a failure and logs a change of state.
    fn report(&mut self, result: io::Result<()>) {
        let dropped = self.state.buffers.counts().dropped;
        match result {
            Err(error) => {
                // Relaxed: a count for the scrape.
                self.state.write_errors.fetch_add(1, Ordering::Relaxed);
                if self.last_error.is_none() {
                    self.dropped_before = dropped;
                }
                if self.last_error.replace(error.kind()) != Some(error.kind()) {
                    tracing::error!(
                        target: LOG_TARGET,
                        "{}: cannot write to {}: {error}; lines are buffered in memory, then dropped",
                        self.name,
                        self.sink.name()
                    );
                }
            }
            Ok(()) => {
                if self.last_error.take().is_some() {
                    let lost = dropped - self.dropped_before;
                    tracing::warn!(
                        target: LOG_TARGET,
                        "{}: {} is writable again; {lost} lines were dropped",
                        self.name,
                        self.sink.name()
                    );
                }
            }
        }
    }
}
