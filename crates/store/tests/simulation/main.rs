//! Simulates a fleet: gateways with the real store, link and admission against a model of Redis, on one thread with a clock that the
//! simulation advances.
//!
//! A seed decides everything, and the same seed gives the same run. `SLUICEGATE_SIMULATION_SEED=N` repeats one and prints its events;
//! `SLUICEGATE_SIMULATION_SEEDS=N` and `SLUICEGATE_SIMULATION_FROM=N` run others than the usual ones.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test says what is wrong by panicking"
)]

mod checks;
mod gateway;
mod mistakes;
mod model_of_redis;
mod network;
mod plan;
mod random;
mod redis;
mod regressions;
mod run;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use plan::Plan;
use run::run;
use world::Recording;

/// The seeds of a usual run of the tests.
const USUAL_SEEDS: u64 = 150;

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Returns the report of a seed that failed: its violations, the schedule of its faults, and how to repeat it.
fn report(plan: &Plan, violations: &[String]) -> String {
    let mut text = format!("seed {} fails:\n", plan.seed);
    for violation in violations {
        text.push_str(&format!("  - {violation}\n"));
    }
    let faults = std::mem::take(&mut plan.clone().faults);
    text.push_str(&format!(
        "{:?}\n",
        Plan {
            faults: Vec::new(),
            ..plan.clone()
        }
    ));
    for fault in faults {
        text.push_str(&format!("  {fault}\n"));
    }
    let seed = plan.seed;
    text.push_str(&format!(
        "Repeat: SLUICEGATE_SIMULATION_SEED={seed} cargo test -p sluicegate-store --test simulation -- every_seed --nocapture"
    ));
    text
}

/// Goal: the bounds of docs/fleet.md hold in every fault that they name. Method: fleets by seed, judged by a log of all requests.
#[test]
fn every_seed_keeps_the_bounds() {
    if let Some(seed) = number_of("SLUICEGATE_SIMULATION_SEED") {
        let plan = Plan::new(seed);
        let result = run(&plan, &[], Recording::Lines);
        for line in &result.lines {
            eprintln!("{line}");
        }
        eprintln!("{} units not restored", result.unrestored);
        let violations = &result.violations;
        assert!(violations.is_empty(), "{}", report(&plan, violations));
        return;
    }
    let from = number_of("SLUICEGATE_SIMULATION_FROM").unwrap_or(0);
    let seeds = number_of("SLUICEGATE_SIMULATION_SEEDS").unwrap_or(USUAL_SEEDS);
    let began = Instant::now();
    let next = AtomicU64::new(from);
    let requests = AtomicU64::new(0);
    let failed = std::sync::Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let has_enough = failed.lock().unwrap().len() >= 5;
                    if seed >= from + seeds || has_enough {
                        return;
                    }
                    let plan = Plan::new(seed);
                    let result = run(&plan, &[], Recording::Hash);
                    requests.fetch_add(result.requests as u64, Ordering::Relaxed);
                    if !result.violations.is_empty() {
                        let report = report(&plan, &result.violations);
                        failed.lock().unwrap().push(report);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    let requests = requests.into_inner();
    eprintln!(
        "{seeds} seeds from {from}, {requests} requests, {:.1} s",
        began.elapsed().as_secs_f64()
    );
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// Goal: a seed that failed can be repeated. Method: the event logs of two runs, by their hash.
#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..12 {
        let plan = Plan::new(seed);
        let [one, other] = [(), ()].map(|()| run(&plan, &[], Recording::Lines));
        let differs = one
            .lines
            .iter()
            .zip(&other.lines)
            .find(|(one, other)| one != other);
        assert_eq!(one.hash, other.hash, "seed {seed}: {differs:?}");
        assert!(one.requests > 100, "seed {seed}: {} requests", one.requests);
    }
}
