//! Holds what all parts of a run share: true time, the store, the event log.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::redis::RedisModel;

/// The time at which every run begins: ten minutes after a full hour, in nanoseconds since the Unix epoch.
pub(crate) const BASE: u64 = 1_800_000_600_000_000_000;

/// The shared state of a run.
pub(crate) struct World {
    start: Instant,
    redis: Mutex<RedisModel>,
    store_ahead: Mutex<i64>,
    log: Mutex<EventLog>,
}

/// The events of a run, as a hash and, if they are recorded, as text.
struct EventLog {
    hash: u64,
    lines: Option<Vec<String>>,
}

/// Whether the lines of the event log are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recording {
    Hash,
    Lines,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(crate) fn new(redis: RedisModel, recording: Recording) -> Self {
        Self {
            start: Instant::now(),
            redis: Mutex::new(redis),
            store_ahead: Mutex::default(),
            log: Mutex::new(EventLog {
                hash: 0xcbf2_9ce4_8422_2325,
                lines: (recording == Recording::Lines).then(Vec::new),
            }),
        }
    }

    /// Returns the true time since the beginning.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Returns the time of the store's clock, in nanoseconds since the Unix epoch.
    pub(crate) fn store_nanos(&self) -> u64 {
        let elapsed = self.elapsed().as_nanos() as u64;
        (BASE + elapsed).saturating_add_signed(*lock(&self.store_ahead))
    }

    /// Sets the store's clock ahead by so much more.
    pub(crate) fn step_store(&self, nanos: i64) {
        *lock(&self.store_ahead) += nanos;
    }

    pub(crate) fn redis(&self) -> MutexGuard<'_, RedisModel> {
        lock(&self.redis)
    }

    /// Adds an event to the log.
    pub(crate) fn note(&self, event: fmt::Arguments<'_>) {
        let line = format!("{:>11.6} {event}", self.elapsed().as_secs_f64());
        let mut log = lock(&self.log);
        for byte in line.bytes() {
            log.hash = (log.hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        if let Some(lines) = &mut log.lines {
            lines.push(line);
        }
    }

    /// Returns the hash of all events.
    pub(crate) fn hash(&self) -> u64 {
        lock(&self.log).hash
    }

    /// Takes the lines of the log.
    pub(crate) fn take_lines(&self) -> Vec<String> {
        lock(&self.log).lines.take().unwrap_or_default()
    }
}
