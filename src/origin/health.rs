//! Checks the servers of every pool in the background, and takes those that fail out of use until they recover.
//!
//! [`super::probe`] asks; the thresholds are counted here. One loop looks after the pools of the current snapshot, so a reload
//! needs no other wiring: a pool that vanished is not checked again.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use log::{info, warn};
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;

use super::pool::{Health, Pool, Server};
use super::probe;
use crate::config::rules::HealthRules;
use crate::live::Live;

/// How often the loop looks for pools that are due: the finest interval that a pool can keep.
const TICK: Duration = Duration::from_millis(50);

/// The background service.
pub struct HealthChecks(pub Arc<Live>);

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
            for pool in self.0.snapshot().pools.values() {
                if pool.start_check() {
                    let pool = Arc::clone(pool);
                    tokio::spawn(async move {
                        check(&pool).await;
                        pool.end_check();
                    });
                }
            }
        }
    }
}

/// Checks all servers of the pool at once; takes as long as the slowest, at most the check's timeout.
async fn check(pool: &Pool) {
    let Some(rules) = &pool.rules.health else {
        return;
    };
    let answers = pool
        .servers()
        .iter()
        .map(|server| ask(server, &pool.name, rules));
    let answers = join_all(answers).await;
    for (server, answer) in pool.servers().iter().zip(answers) {
        let result = if answer.is_ok() {
            Health::Up
        } else {
            Health::Down
        };
        if !server.observe(result, rules) {
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

/// Asks one server, for as long as the check may take; why it is not well.
async fn ask(server: &Server, name: &str, rules: &HealthRules) -> Result<(), String> {
    match tokio::time::timeout(rules.timeout, probe::ask(*server.peer(), name, rules)).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {:?}", rules.timeout)),
    }
}
