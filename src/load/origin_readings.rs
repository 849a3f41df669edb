//! Reads the figures of origins that conditions of limits compare.
//!
//! # Limits
//! Of each origin eleven readings of 3 KB. What no condition compares any more is forgotten at the next look.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluicegate_base::bounds::LOAD_SAMPLES;
use sluicegate_config::OriginFigure;
use sluicegate_config::rules::Name;
use sluicegate_decide::load_monitor::FigureOfOrigin;
use sluicegate_decide::reading_window::ReadingWindow;
use sluicegate_limiter::Timestamp;

use sluicegate_origin::{AttemptCounts, LatencyCounts, ServerPool};

/// The readings of the last seconds. It lives as long as the process: a reload changes which figures are compared, not what was counted.
#[derive(Debug, Default)]
pub(super) struct OriginReadings {
    latency: BTreeMap<Name, ReadingWindow<LatencyCounts>>,
    attempts: BTreeMap<Name, ReadingWindow<AttemptCounts>>,
}

impl OriginReadings {
    /// Returns the values of these figures, and forgets the readings of all others.
    pub(super) fn values(
        &mut self,
        figures: &[FigureOfOrigin<'_>],
        pools: &BTreeMap<Name, Arc<ServerPool>>,
        now: Timestamp,
    ) -> Vec<Option<u64>> {
        let is_read = |name: &Name, is_of: fn(OriginFigure) -> bool| {
            let mut figures = figures.iter();
            figures.any(|(other, figure)| *other == name && is_of(*figure))
        };
        self.latency
            .retain(|name, _| is_read(name, |figure| figure.percentile().is_some()));
        self.attempts
            .retain(|name, _| is_read(name, |figure| figure == OriginFigure::Errors));
        // Three percentiles of an origin are read from one reading.
        let mut latencies = BTreeMap::new();
        let values = figures.iter().map(|(name, figure)| {
            let pool = pools.get(*name)?;
            match (figure, figure.percentile()) {
                (_, Some(percent)) => {
                    let counts = latencies
                        .entry(*name)
                        .or_insert_with(|| self.latency_of(pool, now));
                    percentile(counts, percent)
                }
                (OriginFigure::Pending, _) => Some(pending(pool)),
                (OriginFigure::InFlight, _) => Some(in_flight(pool)),
                _ => self.errors(pool, now),
            }
        });
        values.collect()
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluicegate_config::{no_review, parse};
    use sluicegate_decide::admission::KeySeed;
    use sluicegate_decide::state::CounterStorage;
    use sluicegate_limiter::Seed;
    use sluicegate_record::RequestMetrics;

    use super::*;
    use sluicegate_process::snapshot::Snapshot;

    const RULES: &str = "
listener = [{ address = '127.0.0.1:1' }]
origin.app = { servers = ['127.0.0.1:2'] }
route = [{ path = '/*', origin = 'app' }]
";

    struct Fixture {
        snapshot: Snapshot,
        readings: OriginReadings,
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_secs(1_800_000_000).saturating_add(Duration::from_millis(millis))
    }

    impl Fixture {
        fn new() -> Self {
            let rules = parse("gateway.toml", RULES, no_review).expect("a configuration");
            let seed = KeySeed::from_seed(Seed::from_bytes([7; 16]));
            let metrics = RequestMetrics::new();
            let storage = &CounterStorage::MEMORY;
            Self {
                snapshot: Snapshot::compile(rules.rules, None, storage, &metrics, &seed, at(0)),
                readings: OriginReadings::default(),
            }
        }

        /// Looks, and returns the 90th percentile in whole milliseconds.
        fn look(&mut self, millis: u64) -> Option<u64> {
            let name: Name = "app".into();
            let figures = [(&name, OriginFigure::P90)];
            let values = (self.readings).values(&figures, &self.snapshot.pools, at(millis));
            values[0].map(|micros| micros / 1_000)
        }

        fn answers(&self, times: u64, took: u64) {
            for _ in 0..times {
                self.snapshot.pools["app"]
                    .latency
                    .record(|| Duration::from_millis(took));
            }
        }
    }

    /// Goal: a percentile is that of the last ten seconds, of enough answers. Method: slow answers, too few and then enough; fast ones
    /// after which the slow ones leave the window.
    #[test]
    fn a_percentile_is_over_the_window() {
        let mut fixture = Fixture::new();
        assert_eq!(fixture.look(0), None);
        fixture.answers(19, 500);
        assert_eq!(fixture.look(250), None, "19 answers say nothing");
        fixture.answers(1, 1);
        let is_slow = |value: Option<u64>| value.is_some_and(|millis| millis / 100 == 5);
        assert!(is_slow(fixture.look(500)));
        fixture.answers(100, 1);
        assert!(is_slow(fixture.look(1_000)), "a sixth of all is slow");
        for look in 5..=43 {
            assert!(is_slow(fixture.look(look * 250)), "{look}");
        }
        // The first reading behind the slow answers is that of one second, which begins the window from eleven on.
        fixture.answers(40, 1);
        assert_eq!(fixture.look(11_000), Some(1));
    }

    /// Goal: readings that nothing compares any more are dropped. Method: a look with a figure, then one without any.
    #[test]
    fn readings_of_figures_that_nothing_compares_are_dropped() {
        let mut fixture = Fixture::new();
        fixture.look(0);
        assert_eq!(fixture.readings.latency.len(), 1);
        let values = (fixture.readings).values(&[], &fixture.snapshot.pools, at(250));
        assert_eq!((values.len(), fixture.readings.latency.len()), (0, 0));
    }
}
