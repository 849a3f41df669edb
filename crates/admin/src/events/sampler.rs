//! Samples the gateway for streams: the counters that changed, the load of some tables, the state of origins and store.
//!
//! What is sent depends on what changed, and not on how much there is: a gateway of a thousand idle limits sends a hundred bytes a second.
//! The tables of limits are sampled in turn, for [`bounds::EVENTS_SAMPLING`] each second.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use sluicegate_base::{bounds, clock};

use super::overview::{OverviewEvent, StateEvent};
use super::{event_of, rejections};
use crate::history::HistoryPage;
use crate::problems::{self, ProblemList};
use sluicegate_config::rules::Name;
use sluicegate_decide::admission::ActiveLimit;
use sluicegate_history::HistoryPosition;
use sluicegate_process::GatewayProcess;
use sluicegate_process::snapshot::Snapshot;
use sluicegate_record::live_counts::{LimitTotals, limit_totals};
use sluicegate_record::{LatencyFigures, RequestTotals};

/// Ticks after which a large state is sent again.
const TICKS_OF_LARGE_STATE: u32 = 10 * bounds::EVENTS_TICKS_OF_COUNTERS;

/// The latest values that streams got.
#[derive(Debug, Default)]
pub(super) struct EventSampler {
    ticks: u32,
    configuration: ConfigurationVersion,
    totals: BTreeMap<Name, LimitTotals>,
    loads: BTreeMap<Name, LimitLoad>,
    /// The limit that was sampled last.
    sampled: Option<Name>,
    state: Bytes,
    problems: Bytes,
    history: HistoryPosition,
    /// The end of the last finished step that was sent, in milliseconds since 1970.
    history_end: u64,
    /// The tick in which the state was sent.
    state_sent: u32,
}

/// Differs after each reload, one that failed included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ConfigurationVersion {
    generation: u64,
    reloads: [u64; 2],
}

/// The load of a limit's table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct LimitLoad {
    /// Active keys, sampled.
    keys: u64,
    /// Set while new keys share counters.
    overflow: bool,
    /// Units in reserve; absent where the cost is known when a request comes.
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved: Option<u64>,
}

#[derive(Serialize)]
struct CountersEvent<'a> {
    /// Milliseconds since 1970.
    at: u64,
    requests: RequestTotals,
    /// Latency of the last seconds.
    latency_ms: Option<LatencyFigures>,
    in_flight: u64,
    connections: u64,
    /// In the order of the overview's `counters`.
    limits: BTreeMap<&'a str, LimitTotals>,
    loads: BTreeMap<&'a str, LimitLoad>,
    /// Limits that changed and are not in this event.
    omitted: usize,
}

impl EventSampler {
    /// Returns the events with which a stream begins.
    pub(super) fn opening(&mut self, process: &GatewayProcess) -> Vec<Bytes> {
        let snapshot = process.shared.snapshot();
        let totals = limit_totals(&process.shared.recorder.metrics);
        let state = event_of("state", &StateEvent::new(process, &snapshot));
        let problems = problems_event(process, &snapshot);
        let position = process.shared.history.position();
        let history = HistoryPage::since(0, process);
        if self.ticks == 0 {
            // No other stream lacks what this one gets now.
            self.configuration = ConfigurationVersion::new(process, &snapshot);
            self.state = state.clone().unwrap_or_default();
            self.problems = problems.clone().unwrap_or_default();
            self.totals.clone_from(&totals);
            self.history = position;
            self.history_end = history.last_end().unwrap_or(0);
        }
        let known = |name: &Name| snapshot.compiled.limits.contains_key(name);
        let used = |totals: &LimitTotals| totals.iter().any(|count| *count > 0);
        let limits = totals
            .iter()
            .filter(|(name, totals)| known(name) && used(totals))
            .map(|(name, totals)| (&**name, *totals));
        let loads = self.loads.iter().map(|(name, load)| (&**name, *load));
        let counters = CountersEvent {
            limits: limits.collect(),
            loads: loads.collect(),
            ..CountersEvent::new(process)
        };
        let events = [
            event_of("overview", &OverviewEvent::new(process, &snapshot)),
            state,
            problems,
            event_of("counters", &counters),
            // Behind the counters, so that a page knows what was counted since.
            event_of("history", &history),
        ];
        events.into_iter().flatten().collect()
    }

    /// Returns the events of this tick.
    pub(super) fn tick(&mut self, process: &GatewayProcess) -> Vec<Bytes> {
        self.ticks = self.ticks.wrapping_add(1);
        let mut events = Vec::new();
        events.extend(rejections::event(process));
        if !self.ticks.is_multiple_of(bounds::EVENTS_TICKS_OF_COUNTERS) {
            return events;
        }
        let snapshot = process.shared.snapshot();
        let version = ConfigurationVersion::new(process, &snapshot);
        if version != self.configuration {
            self.configuration = version;
            self.loads
                .retain(|name, _| snapshot.compiled.limits.contains_key(name));
            self.totals
                .retain(|name, _| snapshot.compiled.limits.contains_key(name));
            events.extend(event_of(
                "overview",
                &OverviewEvent::new(process, &snapshot),
            ));
        }
        events.extend(self.changed_state(process, &snapshot));
        events.extend(self.changed_problems(process, &snapshot));
        events.extend(self.changed_counters(process, &snapshot));
        events.extend(self.changed_history(process));
        events
    }

    fn changed_state(&mut self, process: &GatewayProcess, snapshot: &Snapshot) -> Option<Bytes> {
        let is_large = self.state.len() > bounds::EVENTS_LARGE_STATE;
        if is_large && self.ticks.wrapping_sub(self.state_sent) < TICKS_OF_LARGE_STATE {
            return None;
        }
        let state = event_of("state", &StateEvent::new(process, snapshot))?;
        (state != self.state).then(|| {
            self.state_sent = self.ticks;
            self.state = state.clone();
            state
        })
    }

    fn changed_problems(&mut self, process: &GatewayProcess, snapshot: &Snapshot) -> Option<Bytes> {
        let problems = problems_event(process, snapshot)?;
        (problems != self.problems).then(|| {
            self.problems = problems.clone();
            problems
        })
    }

    /// Returns the steps that were finished, and the marks that were made, since the event before.
    fn changed_history(&mut self, process: &GatewayProcess) -> Option<Bytes> {
        let position = process.shared.history.position();
        if position == self.history {
            return None;
        }
        let history = HistoryPage::since(self.history_end, process);
        self.history = position;
        self.history_end = history.last_end().unwrap_or(self.history_end);
        event_of("history", &history)
    }

    fn changed_counters(&mut self, process: &GatewayProcess, snapshot: &Snapshot) -> Option<Bytes> {
        let totals = limit_totals(&process.shared.recorder.metrics);
        let mut changed: Vec<(u64, &Name, &LimitTotals)> = (totals.iter())
            .filter(|(name, _)| snapshot.compiled.limits.contains_key(*name))
            .filter_map(|(name, totals)| {
                let change = change(self.totals.get(name), totals);
                (change > 0).then_some((change, name, totals))
            })
            .collect();
        // What is left out stays changed, and comes to the front as it grows.
        changed.sort_by_key(|(change, ..)| std::cmp::Reverse(*change));
        let omitted = changed.len().saturating_sub(bounds::EVENTS_LIMITS);
        changed.truncate(bounds::EVENTS_LIMITS);
        let loads = self.sample_loads(snapshot);
        let event = event_of(
            "counters",
            &CountersEvent {
                limits: (changed.iter())
                    .map(|(_, name, totals)| (&***name, **totals))
                    .collect(),
                loads: (loads.iter())
                    .map(|(name, load)| (&**name, *load))
                    .collect(),
                omitted,
                ..CountersEvent::new(process)
            },
        );
        let sent: Vec<(Name, LimitTotals)> = (changed.into_iter())
            .map(|(_, name, totals)| (Arc::clone(name), *totals))
            .collect();
        self.totals.extend(sent);
        event
    }

    /// Samples the next tables in the order of names, and returns those whose load changed.
    fn sample_loads(&mut self, snapshot: &Snapshot) -> Vec<(Name, LimitLoad)> {
        let began = clock::now();
        let limits = &snapshot.compiled.limits;
        let (behind, before) = match self.sampled.take() {
            Some(last) => (
                limits.range((Excluded(Arc::clone(&last)), Unbounded)),
                limits.range((Unbounded, Included(last))),
            ),
            None => (
                limits.range::<Name, _>(..),
                limits.range(Arc::from("")..Arc::from("")),
            ),
        };
        let mut changed = Vec::new();
        for (name, active) in behind.chain(before) {
            let load = LimitLoad::new(active);
            if self.loads.insert(Arc::clone(name), load) != Some(load) {
                changed.push((Arc::clone(name), load));
            }
            self.sampled = Some(Arc::clone(name));
            if clock::since(began) >= bounds::EVENTS_SAMPLING {
                break;
            }
        }
        changed
    }
}

impl ConfigurationVersion {
    fn new(process: &GatewayProcess, snapshot: &Snapshot) -> Self {
        let reloads = process.shared.recorder.metrics.reloads.read();
        Self {
            generation: snapshot.generation,
            reloads: reloads.map(|(_, count)| count),
        }
    }
}

impl LimitLoad {
    fn new(active: &ActiveLimit) -> Self {
        let occupancy = active.limit.occupancy(active.moment(clock::now()));
        Self {
            keys: occupancy.live,
            overflow: occupancy.in_overflow > 0,
            reserved: active.reserved.as_ref().map(|reserved| reserved.sum()),
        }
    }
}

impl CountersEvent<'_> {
    /// Returns the event without limits.
    fn new(process: &GatewayProcess) -> Self {
        let shared = &process.shared;
        let metrics = &shared.recorder.metrics;
        Self {
            at: clock::wall().as_nanos() / 1_000_000,
            requests: metrics.request_totals(),
            latency_ms: metrics.recent_requests().latency_ms,
            in_flight: metrics.requests_in_flight(),
            connections: shared.connection_limiter.tallies().held,
            limits: BTreeMap::new(),
            loads: BTreeMap::new(),
            omitted: 0,
        }
    }
}

fn problems_event(process: &GatewayProcess, snapshot: &Snapshot) -> Option<Bytes> {
    let list = ProblemList::new(problems::find(process, snapshot));
    event_of("problems", &list)
}

/// Returns the sum of what changed; counters only grow, but for those of a limit that was removed and added again.
fn change(before: Option<&LimitTotals>, now: &LimitTotals) -> u64 {
    match before {
        Some(before) => (before.iter().zip(now))
            .map(|(before, now)| now.abs_diff(*before))
            .sum(),
        None => now.iter().sum(),
    }
}
