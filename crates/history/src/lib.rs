//! Keeps an hour of the gateway's own figures, and what happened meanwhile, so that the first look shows what was before it.
//!
//! A background task reads counters that exist anyway, once in [`HISTORY_STEP`](sluicegate_base::bounds::HISTORY_STEP), and keeps their
//! growth; requests pay nothing for it. The history belongs to the process: a reload continues it, another process begins anew.
//!
//! # Limits
//! [`HISTORY_STEPS`](sluicegate_base::bounds::HISTORY_STEPS) steps, of as many limits and origins as
//! [`HISTORY_LIMITS`](sluicegate_base::bounds::HISTORY_LIMITS) and [`HISTORY_ORIGINS`](sluicegate_base::bounds::HISTORY_ORIGINS) say, and
//! the marks: half a megabyte at most. Beside that the latest reading: 200 bytes a route, 60 a limit of a route, 80 a server.
//!
//! # Concurrency
//! Counters are read under the lock, so that no reading is compared with a later one.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod marks;
mod reading;
mod ring;
mod series;

use std::sync::{Mutex, MutexGuard, PoisonError};

use sluicegate_limiter::Timestamp;

use marks::MarkLog;
use ring::StepRing;

pub use marks::{HistoryMark, MarkKind};
pub use reading::CounterReading;
pub use ring::{HistoryStep, StepView, millis};
pub use series::SeriesView;

/// The figures of the last hour, and its marks.
#[derive(Debug)]
pub struct GatewayHistory {
    ring: Mutex<StepRing>,
    marks: Mutex<MarkLog>,
}

/// Numbers that grow with the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryPosition {
    /// Finished steps.
    pub steps: u64,
    /// Events.
    pub events: u64,
}

impl GatewayHistory {
    /// Begins a history. The counters of the process are at zero.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self {
            ring: Mutex::new(StepRing::new(now)),
            marks: Mutex::default(),
        }
    }

    /// Brings the unfinished step up to date.
    pub fn look(&self, read: impl FnOnce() -> CounterReading) {
        self.lock_ring().take(read());
    }

    /// Brings the unfinished step up to date and finishes it.
    pub fn close_step(&self, read: impl FnOnce() -> CounterReading) {
        let mut ring = self.lock_ring();
        ring.take(read());
        ring.close_step();
    }

    /// Marks an event: its sort, the object that it is about, and a sentence.
    pub fn mark(&self, at: Timestamp, kind: MarkKind, name: &str, text: &str) {
        self.lock_marks().add(at, kind, name, text);
    }

    /// Returns the unfinished step, and all before it that ended later than `since`, in milliseconds since 1970.
    #[must_use]
    pub fn steps(&self, since: u64) -> StepView {
        self.lock_ring().view(since)
    }

    /// Returns the marks that are new or changed since then, in their order.
    #[must_use]
    pub fn marks(&self, since: u64) -> Vec<HistoryMark> {
        let mut marks = self.lock_marks().list();
        marks.retain(|mark| millis(mark.last) > since || since == 0);
        marks
    }

    /// Returns how far it has come.
    #[must_use]
    pub fn position(&self) -> HistoryPosition {
        HistoryPosition {
            steps: self.lock_ring().finished(),
            events: self.lock_marks().changes(),
        }
    }

    /// Poison is ignored, here and below: a step or a mark that was not added is missing, and the others are whole.
    fn lock_ring(&self) -> MutexGuard<'_, StepRing> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_marks(&self) -> MutexGuard<'_, MarkLog> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
