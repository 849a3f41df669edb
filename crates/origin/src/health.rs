//! Maintains the pools in the background: checks their servers, looks up their names, renews their budgets, wakes waiting requests, and
//! reads the counts by which servers are failing.
//!
//! [`super::probe`] sends the check; the thresholds are counted here. One loop serves the pools of the current snapshot, so a reload needs
//! no other wiring: a removed pool is not checked again.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use sluicegate_base::clock;
use sluicegate_decide::in_force::InForce;
use tracing::{info, warn};

use super::balancer::mix;
use super::pool::ServerPool;
use super::probe;
use super::resolver;
use super::server::OriginServer;
use super::server_state::CheckResult;
use sluicegate_config::rules::HealthRules;

/// Interval at which the loop looks for pools that are due: the shortest interval that a pool can keep.
const TICK: Duration = Duration::from_millis(50);

/// Interval at which the retry budgets are renewed, and the counts of attempts are read.
const SECOND: Duration = Duration::from_secs(1);

/// The background service, for the pools in force.
pub struct HealthChecks(pub InForce<Vec<Arc<ServerPool>>>);

#[async_trait]
impl BackgroundService for HealthChecks {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                _ = shutdown.changed() => return,
            }
            for pool in self.0.load() {
                start_due_jobs(&pool);
            }
        }
    }
}

/// Starts the jobs that are due.
fn start_due_jobs(pool: &Arc<ServerPool>) {
    let now = clock::now();
    if pool.bounds_connections() {
        pool.servers().iter().for_each(|server| server.sweep());
    }
    // A server that is back in service has places, and no request ends to announce them.
    pool.wake(now);
    if let Some(rules) = &pool.rules.retry
        && pool.budget_due.begin(now)
    {
        pool.budget.renew(rules);
        pool.budget_due.done(now.saturating_add(SECOND));
    }
    if pool.reading_due.begin(now) {
        let servers = pool.servers();
        (servers.iter()).for_each(|server| server.server_state.look_at_attempts(now));
        pool.reading_due.done(now.saturating_add(SECOND));
    }
    if pool.rules.health.is_some() && pool.check_due.begin(now) {
        let pool = Arc::clone(pool);
        tokio::spawn(async move {
            check(&pool).await;
            let interval = pool
                .rules
                .health
                .as_ref()
                .map_or(SECOND, |health| health.interval);
            let end = clock::now();
            let next = end.saturating_add(jittered(interval, end.as_nanos()));
            pool.check_due.done(next);
        });
    }
    if pool.rules.servers.iter().any(|entry| entry.name.is_some()) && pool.lookup_due.begin(now) {
        let pool = Arc::clone(pool);
        tokio::spawn(async move {
            let pause = resolver::look_up(&pool).await;
            let next = clock::now().saturating_add(pause);
            pool.lookup_due.done(next);
        });
    }
}

/// Returns a time within a tenth of `interval`, so that gateways that were started together do not stay in step.
fn jittered(interval: Duration, number: u64) -> Duration {
    let thousandths = u32::try_from(900 + mix(number) % 201).unwrap_or(1000);
    interval.saturating_mul(thousandths) / 1000
}

/// Checks all servers of the pool at once; takes as long as the slowest, at most the check's timeout.
async fn check(pool: &ServerPool) {
    let Some(rules) = &pool.rules.health else {
        return;
    };
    let servers = pool.servers();
    let answers = servers.iter().map(|server| ask(server, &pool.name, rules));
    for (server, answer) in servers.iter().zip(join_all(answers).await) {
        let result = match answer {
            Ok(()) => CheckResult::Up,
            Err(_) => CheckResult::Down,
        };
        if !server.server_state.observe(result, rules, clock::now()) {
            continue;
        }
        match answer {
            Ok(()) => info!("origin {}: server {} is back", pool.name, server.address),
            Err(why) => warn!(
                "origin {}: server {} fails its health check and is taken out: {why}",
                pool.name, server.address
            ),
        }
    }
}

/// Checks one server within the check's timeout. Returns the reason if it is unhealthy.
async fn ask(server: &OriginServer, name: &str, rules: &HealthRules) -> Result<(), String> {
    match tokio::time::timeout(rules.timeout, probe::ask(server, name, rules)).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {:?}", rules.timeout)),
    }
}
