//! Makes steps of the growth of counters, and keeps those of the last hour.
//!
//! # Invariants
//! 1. A step has the time that it really took: a task that comes late, or a machine that slept, makes a longer step and no higher rate.
//! 2. A counter that is smaller than before has begun anew, and all of it is growth; one that is gone has grown by nothing.

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_base::bounds::{HISTORY_LIMITS, HISTORY_ORIGINS, HISTORY_STEPS};
use sluicegate_limiter::Timestamp;

use super::reading::CounterReading;
use super::series::{SeriesTable, SeriesView};
use sluicegate_origin::AttemptCounts;
use sluicegate_record::{LatencyFigures, RequestTotals, RouteResults};

/// The growth of the gateway's counters within one step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HistoryStep {
    /// Its end.
    pub ended: Timestamp,
    /// The time that it took.
    pub duration: Duration,
    /// Requests by their result.
    pub requests: RequestTotals,
    /// Durations of requests that were not rejected; `None` without any.
    pub latency: Option<LatencyFigures>,
    /// Connections of clients at its end.
    pub connections: u64,
    /// Requests in flight at its end.
    pub in_flight: u64,
}

/// Steps that follow each other; the last one is not finished.
#[derive(Clone, Debug, PartialEq)]
pub struct StepView {
    /// The number of the first step; steps are numbered from the start of the process.
    pub first: u64,
    /// The steps, the latest last.
    pub steps: Vec<HistoryStep>,
    /// The requests that each limit admitted, rejected, and would have rejected in shadow.
    pub limits: SeriesView<3>,
    /// The attempts at the servers of each origin, and those that failed.
    pub origins: SeriesView<2>,
}

/// The steps of the last hour.
#[derive(Debug)]
pub(super) struct StepRing {
    closed: VecDeque<HistoryStep>,
    /// The number of steps that were finished since the start.
    finished: u64,
    began: Timestamp,
    results: RouteResults,
    latest: CounterReading,
    limits: SeriesTable<3>,
    origins: SeriesTable<2>,
}

impl StepRing {
    /// Begins with the first step. Counters are at zero.
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            closed: VecDeque::with_capacity(HISTORY_STEPS + 1),
            finished: 0,
            began: now,
            results: RouteResults::default(),
            latest: CounterReading {
                at: now,
                ..CounterReading::default()
            },
            limits: SeriesTable::new(HISTORY_LIMITS),
            origins: SeriesTable::new(HISTORY_ORIGINS),
        }
    }

    /// Returns the number of finished steps.
    pub(super) fn finished(&self) -> u64 {
        self.finished
    }

    /// Adds what has grown since the latest reading to the unfinished step.
    pub(super) fn take(&mut self, reading: CounterReading) {
        for (route, results) in &reading.routes {
            let growth = match self.latest.routes.get(route) {
                Some(earlier) => results.since(earlier),
                None => *results,
            };
            self.results.add(&growth);
        }
        for (place, answers) in &reading.limits {
            let (_, limit) = place;
            let earlier = self.latest.limits.get(place).copied();
            self.limits
                .add(limit, grown(*answers, earlier.unwrap_or_default()));
        }
        for (place, attempts) in &reading.attempts {
            let (origin, _) = place;
            let earlier = self.latest.attempts.get(place).copied();
            let counts = |attempts: AttemptCounts| [attempts.ended, attempts.failed];
            let growth = grown(counts(*attempts), counts(earlier.unwrap_or_default()));
            self.origins.add(origin, growth);
        }
        self.latest = reading;
    }

    /// Finishes the step at the time of the latest reading.
    pub(super) fn close_step(&mut self) {
        self.closed.push_back(self.open_step());
        if self.closed.len() > HISTORY_STEPS {
            self.closed.pop_front();
        }
        self.finished += 1;
        self.limits.close_step();
        self.origins.close_step();
        self.results = RouteResults::default();
        self.began = self.latest.at;
    }

    /// Returns the unfinished step, and all before it that ended later than `since`, in milliseconds since 1970.
    pub(super) fn view(&self, since: u64) -> StepView {
        let is_known = |step: &&HistoryStep| millis(step.ended) <= since;
        let skipped = self.closed.iter().take_while(is_known).count();
        let closed = self.closed.len() - skipped;
        let steps = self.closed.iter().skip(skipped).copied();
        StepView {
            first: self.finished - closed as u64,
            steps: steps.chain([self.open_step()]).collect(),
            limits: self.limits.view(closed),
            origins: self.origins.view(closed),
        }
    }

    fn open_step(&self) -> HistoryStep {
        HistoryStep {
            ended: self.latest.at,
            duration: self.latest.at.saturating_since(self.began),
            requests: self.results.totals,
            latency: self.results.latency(),
            connections: self.latest.connections,
            in_flight: self.latest.in_flight,
        }
    }
}

/// Returns a time in milliseconds since 1970.
pub fn millis(at: Timestamp) -> u64 {
    at.as_nanos() / 1_000_000
}

/// Returns the growth of counters that belong together; all of them where they began anew.
fn grown<const N: usize>(counts: [u64; N], earlier: [u64; N]) -> [u64; N] {
    let has_begun_anew = counts
        .iter()
        .zip(earlier)
        .any(|(count, before)| *count < before);
    if has_begun_anew {
        return counts;
    }
    std::array::from_fn(|at| counts[at] - earlier[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the memory that docs/operations/admin-api.md computes is what it takes. Method: the size of a step.
    #[test]
    fn a_step_has_the_size_that_the_documents_say() {
        assert!(size_of::<HistoryStep>() <= 120);
    }
}
