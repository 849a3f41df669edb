//! Reads the figures of conditions, and takes the steps of every activation by them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluicegate_base::bounds::LOAD_SAMPLES;
use sluicegate_decide::activation::{ActivationChange, LoadActivation};
use sluicegate_limiter::Timestamp;

use crate::config::rules::Name;
use crate::config::{LimitFigure, LoadFigure, OriginFigure};
use crate::origin::{AttemptCounts, LatencyCounts, ServerPool};
use sluicegate_decide::admission::{ActiveLimit, KeySeed};
use sluicegate_record::reading_window::ReadingWindow;

/// The sources of figures, at one moment.
pub struct LoadSources<'a> {
    /// Every limit in force.
    pub limits: &'a BTreeMap<Name, Arc<ActiveLimit>>,
    /// Every pool in force.
    pub pools: &'a BTreeMap<Name, Arc<ServerPool>>,
    /// Returns the rejections of a limit so far.
    pub rejections: &'a dyn Fn(&Name) -> u64,
    /// Connections of clients.
    pub connections: u64,
    /// The secret of the limits' keys.
    pub seed: &'a KeySeed,
    /// The time.
    pub now: Timestamp,
}

/// The readings of the last seconds. It lives as long as the process: a reload changes which figures are compared, not what was counted.
#[derive(Debug, Default)]
pub struct LoadMonitor {
    latency: BTreeMap<Name, ReadingWindow<LatencyCounts>>,
    attempts: BTreeMap<Name, ReadingWindow<AttemptCounts>>,
    rejections: BTreeMap<Name, ReadingWindow<u64>>,
}

/// The change of one limit or tier.
#[derive(Debug)]
pub struct ActivationEvent {
    /// The limit.
    pub limit: Name,
    /// The tier, where it is one of the limit's.
    pub tier: Option<Name>,
    /// The change.
    pub change: ActivationChange,
    /// The figures that it compares, with their values.
    pub figures: String,
}

impl LoadMonitor {
    /// Reads the figures that conditions compare, and takes a step of each activation. Returns the changes.
    pub fn look(&mut self, sources: &LoadSources<'_>) -> Vec<ActivationEvent> {
        let activations = || {
            (sources.limits.values()).flat_map(|limit| {
                limit
                    .activations()
                    .map(move |(tier, activation)| (&limit.name, tier, activation))
            })
        };
        let compared: BTreeSet<&LoadFigure> = activations()
            .flat_map(|(_, _, activation)| activation.rules.conditions())
            .flat_map(|condition| condition.figures())
            .collect();
        let values = self.values(&compared, sources);
        let mut events = Vec::new();
        for (limit, tier, activation) in activations() {
            let value = |figure: &LoadFigure| values.get(figure).copied().flatten();
            if let Some(change) = activation.look(value, sources.now) {
                events.push(ActivationEvent {
                    limit: Arc::clone(limit),
                    tier: tier.cloned(),
                    change,
                    figures: shown(activation, value),
                });
            }
        }
        events
    }

    /// Returns the value of each figure, and forgets the readings of all others.
    fn values<'f>(
        &mut self,
        compared: &BTreeSet<&'f LoadFigure>,
        sources: &LoadSources<'_>,
    ) -> BTreeMap<&'f LoadFigure, Option<u64>> {
        let is_read = |name: &Name, of: fn(&LoadFigure) -> Option<&Name>| {
            let mut compared = compared.iter();
            compared.any(|figure| of(figure) == Some(name))
        };
        self.latency.retain(|name, _| {
            is_read(name, |figure| match figure {
                LoadFigure::Origin(name, figure) => figure.percentile().map(|_| name),
                _ => None,
            })
        });
        self.attempts.retain(|name, _| {
            is_read(name, |figure| match figure {
                LoadFigure::Origin(name, OriginFigure::Errors) => Some(name),
                _ => None,
            })
        });
        self.rejections.retain(|name, _| {
            is_read(name, |figure| match figure {
                LoadFigure::Limit(name, LimitFigure::Rejected) => Some(name),
                _ => None,
            })
        });
        // Three percentiles of an origin are read from one reading.
        let mut latencies = BTreeMap::new();
        let figures = compared.iter().map(|figure| {
            let value =
                match figure {
                    LoadFigure::Connections => Some(sources.connections),
                    LoadFigure::Limit(name, LimitFigure::Used) => (sources.limits.get(name))
                        .map(|limit| limit.used_share(sources.seed, sources.now)),
                    LoadFigure::Limit(name, LimitFigure::Rejected) => {
                        self.rejected_per_second(name, sources)
                    }
                    LoadFigure::Origin(name, figure) => sources.pools.get(name).and_then(|pool| {
                        match (figure, figure.percentile()) {
                            (_, Some(percent)) => {
                                let counts = latencies
                                    .entry(name)
                                    .or_insert_with(|| self.latency_of(pool, sources.now));
                                percentile(counts, percent)
                            }
                            (OriginFigure::Pending, _) => Some(pending(pool)),
                            (OriginFigure::InFlight, _) => Some(in_flight(pool)),
                            _ => self.errors(pool, sources.now),
                        }
                    }),
                };
            (*figure, value)
        });
        figures.collect()
    }

    /// Returns the counts of the answers within the window.
    fn latency_of(&mut self, pool: &ServerPool, now: Timestamp) -> LatencyCounts {
        let reading = pool.latency.read();
        let window = self.latency.entry(Arc::clone(&pool.name)).or_default();
        let (_, earlier) = window.begin(&reading, now);
        reading.since(&earlier)
    }

    /// Returns the share of attempts within the window that failed, in hundredths of a percent; `None` of too few.
    fn errors(&mut self, pool: &ServerPool, now: Timestamp) -> Option<u64> {
        let reading = attempts(pool);
        let window = self.attempts.entry(Arc::clone(&pool.name)).or_default();
        let (_, earlier) = window.begin(&reading, now);
        let AttemptCounts { ended, failed } = reading.since(earlier);
        (ended >= LOAD_SAMPLES).then(|| failed * 10_000 / ended)
    }

    /// Returns the rejections of a limit per second, rounded down; `None` at the first look.
    fn rejected_per_second(&mut self, name: &Name, sources: &LoadSources<'_>) -> Option<u64> {
        let reading = (sources.rejections)(name);
        let window = self.rejections.entry(Arc::clone(name)).or_default();
        let (began, earlier) = window.begin(&reading, sources.now);
        let millis = sources.now.saturating_since(began).as_millis();
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        (reading.saturating_sub(earlier) * 1_000).checked_div(millis)
    }
}

/// Returns the attempts of all servers that ended.
fn attempts(pool: &ServerPool) -> AttemptCounts {
    let servers = pool.servers();
    let counts = servers
        .iter()
        .map(|server| server.server_state.attempt_counts());
    counts.fold(AttemptCounts::default(), AttemptCounts::plus)
}

/// Returns the number of requests that wait for a place at a server.
fn pending(pool: &ServerPool) -> u64 {
    let queue = pool.queue.as_ref();
    queue.map_or(0, |queue| queue.waiting().into())
}

/// Returns the number of attempts in flight.
fn in_flight(pool: &ServerPool) -> u64 {
    let servers = pool.servers();
    let each = servers.iter().map(|server| server.server_state.in_flight());
    each.map(u64::from).sum()
}

/// Returns a percentile in microseconds; `None` of too few answers.
fn percentile(counts: &LatencyCounts, percent: u8) -> Option<u64> {
    let is_enough = counts.answers() >= LOAD_SAMPLES;
    is_enough.then(|| counts.percentile(percent)).flatten()
}

/// Returns the figures of an activation with their values, for the log.
fn shown(activation: &LoadActivation, value: impl Fn(&LoadFigure) -> Option<u64>) -> String {
    let figures = activation
        .rules
        .conditions()
        .flat_map(|condition| condition.figures());
    let figures: BTreeSet<&LoadFigure> = figures.collect();
    let figures = figures.into_iter().map(|figure| match value(figure) {
        Some(value) => format!("{figure} is {}", figure.shown(value)),
        None => format!("{figure} is unknown"),
    });
    figures.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[path = "monitor_tests.rs"]
mod tests;
