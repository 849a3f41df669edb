//! Figures follow what is counted, and limits follow the figures.

use std::time::Duration;

use sluicegate_decide::state::CounterStorage;
use sluicegate_limiter::{Ask, Cost, Seed, decide};

use super::*;
use crate::config;
use crate::snapshot::Snapshot;
use sluicegate_record::RequestMetrics;

const RULES: &str = "
listener = [{ address = '127.0.0.1:1' }]
origin.app = { servers = ['127.0.0.1:2'] }
route = [{ path = '/*', limits = ['site', 'slow', 'full', 'rejecting', 'open'], origin = 'app' }]
[limit.site]
key = 'global'
rates = ['10 per 1h', '1000 per 1d']
algorithm = 'exact'
[limit.slow]
key = 'client.ip'
rates = ['5 per 1m']
when = 'origin.app.p90 > 100ms'
keep_active_for = '1s'
[limit.full]
key = 'client.ip'
rates = ['5 per 1m']
when = 'limit.site.used > 80%'
[limit.rejecting]
key = 'client.ip'
rates = ['5 per 1m']
when = 'limit.site.rejected > 5'
[limit.open]
key = 'client.ip'
rates = ['5 per 1m']
when = 'connections > 10'
";

struct Fixture {
    snapshot: Snapshot,
    seed: KeySeed,
    monitor: LoadMonitor,
    rejections: u64,
    connections: u64,
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_secs(1_800_000_000).saturating_add(Duration::from_millis(millis))
}

impl Fixture {
    fn new() -> Self {
        let rules = config::parse("gateway.toml", RULES, config::no_review);
        let rules = rules.expect("a configuration").rules;
        let seed = KeySeed::from_seed(Seed::from_bytes([7; 16]));
        let metrics = RequestMetrics::new();
        let storage = &CounterStorage::MEMORY;
        Self {
            snapshot: Snapshot::compile(rules, None, storage, &metrics, &seed, at(0)),
            seed,
            monitor: LoadMonitor::default(),
            rejections: 0,
            connections: 0,
        }
    }

    /// Looks, and returns the names of the limits that changed, with the figures.
    fn look(&mut self, millis: u64) -> Vec<(String, String)> {
        let rejections = self.rejections;
        let events = self.monitor.look(&LoadSources {
            limits: &self.snapshot.compiled.limits,
            pools: &self.snapshot.pools,
            rejections: &|name| if **name == *"site" { rejections } else { 0 },
            connections: self.connections,
            seed: &self.seed,
            now: at(millis),
        });
        let event = |event: ActivationEvent| (event.limit.to_string(), event.figures);
        events.into_iter().map(event).collect()
    }

    fn answers(&self, times: u64, took: u64) {
        for _ in 0..times {
            self.snapshot.pools["app"]
                .latency
                .record(|| Duration::from_millis(took));
        }
    }
}

/// Goal: a percentile is that of the last ten seconds, of enough answers. Method: slow answers, too few and then enough; fast ones after
/// which the slow ones leave the window.
#[test]
fn a_percentile_is_over_the_window() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.look(0), []);
    fixture.answers(19, 500);
    assert_eq!(fixture.look(250), [], "19 answers say nothing");
    fixture.answers(1, 1);
    let changed = fixture.look(500);
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].0, "slow");
    assert!(
        changed[0].1.starts_with("origin.app.p90 is 5"),
        "{changed:?}"
    );
    fixture.answers(100, 1);
    assert_eq!(fixture.look(1_000), [], "a sixth of all is slow");
    for look in 5..=43 {
        assert_eq!(fixture.look(look * 250), [], "{look}");
    }
    // The first reading behind the slow answers is that of one second, which begins the window from eleven on.
    fixture.answers(40, 1);
    assert_eq!(fixture.look(11_000), []);
    let changed = fixture.look(12_000);
    assert_eq!(changed.len(), 1, "{changed:?}");
    assert!(!fixture.snapshot.compiled.limits["slow"].is_active());
}

/// Goal: the use of a limit is that of its fullest rate, and rejections are a rate per second. Method: charge the only key up to the
/// threshold and beyond; rejections of two seconds; connections.
#[test]
fn a_limit_has_its_use_and_its_rejections() {
    let mut fixture = Fixture::new();
    let site = Arc::clone(&fixture.snapshot.compiled.limits["site"]);
    let key = fixture.seed.hash_parts(std::iter::empty());
    let charge = |units| {
        let ask = Ask {
            limit: &site.limit,
            key,
            cost: Cost::new(units).unwrap(),
            payer: None,
        };
        _ = decide(&[ask], at(0));
    };
    charge(8);
    assert_eq!(site.used_share(&fixture.seed, at(0)), 8_000);
    assert_eq!(fixture.look(0), []);
    charge(1);
    assert_eq!(
        fixture.look(250),
        [("full".to_owned(), "limit.site.used is 90%".to_owned())]
    );
    fixture.rejections = 12;
    let changed = fixture.look(2_000);
    assert_eq!(
        changed,
        [(
            "rejecting".to_owned(),
            "limit.site.rejected is 6".to_owned()
        )]
    );
    fixture.connections = 11;
    assert_eq!(
        fixture.look(2_250),
        [("open".to_owned(), "connections is 11".to_owned())]
    );
}

/// Goal: the monitor forgets what nothing compares any more. Method: a look with conditions, then one at limits without any.
#[test]
fn readings_of_figures_that_nothing_compares_are_dropped() {
    let mut fixture = Fixture::new();
    fixture.look(0);
    assert_eq!(
        (
            fixture.monitor.latency.len(),
            fixture.monitor.rejections.len()
        ),
        (1, 1)
    );
    fixture.snapshot.compiled.limits.clear();
    fixture.look(250);
    assert_eq!(
        (
            fixture.monitor.latency.len(),
            fixture.monitor.rejections.len()
        ),
        (0, 0)
    );
}
