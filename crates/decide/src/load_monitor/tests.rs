//! Limits follow the figures, and figures what is counted.

use std::time::Duration;

use sluicegate_limiter::{Ask, Cost, Seed, decide};

use super::*;
use crate::compiled_rules::CompiledRules;

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
    compiled: CompiledRules,
    seed: KeySeed,
    monitor: LoadMonitor,
    latency: Option<u64>,
    rejections: u64,
    connections: u64,
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_secs(1_800_000_000).saturating_add(Duration::from_millis(millis))
}

impl Fixture {
    fn new() -> Self {
        let rules = sluicegate_config::parse("gateway.toml", RULES, sluicegate_config::no_review);
        let rules = rules.expect("a configuration").rules;
        let seed = KeySeed::from_seed(Seed::from_bytes([7; 16]));
        Self {
            compiled: CompiledRules::alone(rules, &seed, at(0)),
            seed,
            monitor: LoadMonitor::default(),
            latency: None,
            rejections: 0,
            connections: 0,
        }
    }

    /// Looks, and returns the names of the limits that changed, with the figures.
    fn look(&mut self, millis: u64) -> Vec<(String, String)> {
        let rejections = self.rejections;
        let sources = LoadSources {
            limits: &self.compiled.limits,
            rejections: &|name| if **name == *"site" { rejections } else { 0 },
            connections: self.connections,
            seed: &self.seed,
            now: at(millis),
        };
        let latency = self.latency;
        let events = self.monitor.look(&sources, |figures| {
            let figures = figures.iter();
            let values = figures.map(|(origin, figure)| {
                assert_eq!((&***origin, *figure), ("app", OriginFigure::P90));
                latency
            });
            values.collect()
        });
        let event = |event: ActivationEvent| (event.limit.to_string(), event.figures);
        events.into_iter().map(event).collect()
    }
}

/// Goal: a limit follows a figure of an origin, and stays active for its time. Method: values above the bound, then below it.
#[test]
fn a_limit_follows_the_figure_of_an_origin() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.look(0), []);
    fixture.latency = Some(500_000);
    let changed = fixture.look(250);
    assert_eq!(
        changed,
        [("slow".to_owned(), "origin.app.p90 is 500ms".to_owned())]
    );
    fixture.latency = Some(1_000);
    assert_eq!(fixture.look(500), []);
    assert_eq!(fixture.look(1_000), []);
    assert_eq!(fixture.look(2_000).len(), 1);
    assert!(!fixture.compiled.limits["slow"].is_active());
}

/// Goal: the use of a limit is that of its fullest rate, and rejections are a rate per second. Method: charge the only key up to the
/// threshold and beyond; rejections of two seconds; connections.
#[test]
fn a_limit_has_its_use_and_its_rejections() {
    let mut fixture = Fixture::new();
    let site = Arc::clone(&fixture.compiled.limits["site"]);
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
    assert_eq!(fixture.monitor.rejections.len(), 1);
    fixture.compiled.limits.clear();
    fixture.look(250);
    assert_eq!(fixture.monitor.rejections.len(), 0);
}
