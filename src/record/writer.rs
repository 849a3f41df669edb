//! Owns the one thread that takes access lines out of the shards and writes them, and the wishes that others have of it.
//!
//! # Concurrency
//!
//! Requests never wait for this thread: they append to a shard, and at most once a watermark lock the wishes for the length
//! of a flag. Signals, reloads and the end of the process leave wishes; there is no queue that could fill, since a wish made
//! twice is the same wish.
//!
//! # Errors
//!
//! A write that fails is counted, told once a change of state, and tried again at the next tick with the same bytes.
//! Meanwhile the shards fill to their cap and drop.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::line_buffers::LineBuffers;
use super::sink::{LogSink, UnwrittenLines};

/// The longest time that a line waits for the writer when no watermark is passed: short enough to watch, long enough to cost nothing.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// The state that requests, signals and the writer share.
#[derive(Debug)]
pub(super) struct WriterState {
    pub(super) shards: LineBuffers,
    pub(super) write_errors: AtomicU64,
    wishes: Mutex<WriterCommands>,
    /// Told when a wish was made.
    wished: Condvar,
    /// Told when wishes were served.
    served: Condvar,
}

#[derive(Debug, Default)]
struct WriterCommands {
    drain: bool,
    reopen: bool,
    sink: Option<LogSink>,
    stop: bool,
    /// The rounds that waiting callers requested, and how many of these are done.
    rounds_asked: u64,
    rounds_done: u64,
    /// Set if the last round left lines unwritten.
    behind: bool,
    finished: bool,
}

impl WriterState {
    pub(super) fn new(shards: LineBuffers) -> Self {
        Self {
            shards,
            write_errors: AtomicU64::new(0),
            wishes: Mutex::default(),
            wished: Condvar::new(),
            served: Condvar::new(),
        }
    }

    /// Asks for a round before the next tick.
    pub(super) fn ask_drain(&self) {
        self.wish(|wishes| wishes.drain = true);
    }

    /// Asks for what is buffered to go to the old file, and for the file to be opened again.
    pub(super) fn ask_reopen(&self) {
        self.wish(|wishes| wishes.reopen = true);
    }

    /// Asks for what is buffered to go to the old sink, and what follows to `sink`.
    pub(super) fn ask_sink(&self, sink: LogSink) {
        self.wish(|wishes| wishes.sink = Some(sink));
    }

    /// Asks for a round and waits for it, at most `patience`. Whether everything was written.
    pub(super) fn flush(&self, patience: Duration) -> bool {
        let mut round = 0;
        self.wish(|wishes| {
            wishes.rounds_asked += 1;
            round = wishes.rounds_asked;
        });
        let served = |wishes: &mut WriterCommands| wishes.rounds_done < round && !wishes.finished;
        let (wishes, timeout) = self
            .served
            .wait_timeout_while(self.lock(), patience, served)
            .unwrap_or_else(PoisonError::into_inner);
        !timeout.timed_out() && !wishes.behind
    }

    /// Asks for the last round and waits for it, at most `patience`. Whether the writer has ended.
    pub(super) fn stop(&self, patience: Duration) -> bool {
        self.wish(|wishes| wishes.stop = true);
        let (wishes, _) = self
            .served
            .wait_timeout_while(self.lock(), patience, |wishes| !wishes.finished)
            .unwrap_or_else(PoisonError::into_inner);
        wishes.finished
    }

    fn wish(&self, make: impl FnOnce(&mut WriterCommands)) {
        make(&mut self.lock());
        self.wished.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, WriterCommands> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writer's own part.
#[derive(Debug)]
pub(super) struct LogWriter {
    shared: Arc<WriterState>,
    sink: LogSink,
    unsent: UnwrittenLines,
    /// The error of the last write, if it failed.
    trouble: Option<io::ErrorKind>,
    /// Lines dropped before the trouble began.
    dropped_before: u64,
}

impl LogWriter {
    pub(super) fn new(shared: Arc<WriterState>, sink: LogSink) -> Self {
        Self {
            shared,
            sink,
            unsent: UnwrittenLines::default(),
            trouble: None,
            dropped_before: 0,
        }
    }

    /// Serves until it is told to stop.
    pub(super) fn run(mut self) {
        loop {
            let wishes = self.wait();
            // A sink that goes nowhere has no lines of its own: what is buffered came after the wish for the next one.
            if wishes.sink.is_none() || !self.sink.is_off() {
                self.drain();
            }
            if let Some(sink) = wishes.sink {
                self.unsent.rewind_to_line();
                self.sink = sink;
                self.drain();
            }
            if wishes.reopen {
                self.reopen();
            }
            if wishes.stop && self.unsent.lines() > 0 {
                tracing::error!(
                    "access log: {} lines lost, {} is not writable",
                    self.unsent.lines(),
                    self.sink.name()
                );
            }
            let mut shared = self.shared.lock();
            shared.rounds_done = wishes.rounds_asked;
            shared.behind = self.trouble.is_some();
            shared.finished = wishes.stop;
            self.shared.served.notify_all();
            if wishes.stop {
                return;
            }
        }
    }

    /// Waits for a tick or a wish, and takes the wishes.
    fn wait(&self) -> WriterCommands {
        let idle = |wishes: &mut WriterCommands| {
            let asked = wishes.drain || wishes.reopen || wishes.sink.is_some() || wishes.stop;
            !asked && wishes.rounds_asked == wishes.rounds_done
        };
        let (mut wishes, _) = self
            .shared
            .wished
            .wait_timeout_while(self.shared.lock(), TICK, idle)
            .unwrap_or_else(PoisonError::into_inner);
        WriterCommands {
            drain: std::mem::take(&mut wishes.drain),
            reopen: std::mem::take(&mut wishes.reopen),
            sink: wishes.sink.take(),
            ..WriterCommands {
                stop: wishes.stop,
                rounds_asked: wishes.rounds_asked,
                ..WriterCommands::default()
            }
        }
    }

    /// One round: what is left from the last one, then every shard once.
    fn drain(&mut self) {
        let outcome = self.try_drain();
        self.tell(outcome);
    }

    fn try_drain(&mut self) -> io::Result<()> {
        self.unsent.send(&mut self.sink)?;
        for index in 0..self.shared.shards.len() {
            self.shared.shards.take(index, self.unsent.refill());
            self.unsent.send(&mut self.sink)?;
        }
        Ok(())
    }

    fn reopen(&mut self) {
        match self.sink.reopen() {
            Ok(()) => {
                self.unsent.rewind_to_line();
                self.drain();
            }
            Err(error) => {
                // Relaxed: a count for the scrape.
                self.shared.write_errors.fetch_add(1, Ordering::Relaxed);
                tracing::error!(
                    "access log: cannot reopen {}, the old file stays in use: {error}",
                    self.sink.name()
                );
            }
        }
    }

    /// Counts a failure and logs a change of state.
    fn tell(&mut self, outcome: io::Result<()>) {
        let dropped = self.shared.shards.counted().dropped;
        match outcome {
            Err(error) => {
                // Relaxed: a count for the scrape.
                self.shared.write_errors.fetch_add(1, Ordering::Relaxed);
                if self.trouble.is_none() {
                    self.dropped_before = dropped;
                }
                if self.trouble.replace(error.kind()) != Some(error.kind()) {
                    let name = self.sink.name();
                    tracing::error!(
                        "access log: cannot write to {name}: {error}; lines are buffered in memory, then dropped"
                    );
                }
            }
            Ok(()) => {
                if self.trouble.take().is_some() {
                    let lost = dropped - self.dropped_before;
                    tracing::warn!(
                        "access log: {} is writable again; {lost} lines were dropped",
                        self.sink.name()
                    );
                }
            }
        }
    }
}
