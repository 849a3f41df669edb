//! Checks the servers of every pool in the background, and takes those that fail out of use until they recover.
//!
//! The checks are Pingora's; the thresholds are counted here. One loop looks after the pools of the current snapshot, so a reload
//! needs no other wiring: a pool that vanished is not checked again.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use log::{info, warn};
use pingora::lb::Backend;
use pingora::lb::health_check::{HealthCheck, HttpHealthCheck, TcpHealthCheck};
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;

use super::pool::{Health, Pool, Server};
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
    let check = health_check(pool, rules);
    let results = join_all(
        pool.servers()
            .iter()
            .map(|server| probe(&*check, server, rules.timeout)),
    )
    .await;
    for (server, result) in pool.servers().iter().zip(results) {
        if !server.observe(result, rules) {
            continue;
        }
        match result {
            Health::Up => info!("origin {}: server {} is back", pool.name, server.address),
            Health::Down => warn!(
                "origin {}: server {} fails its health check and is taken out",
                pool.name, server.address
            ),
        }
    }
}

async fn probe(
    check: &(dyn HealthCheck + Send + Sync),
    server: &Server,
    timeout: Duration,
) -> Health {
    let Ok(backend) = Backend::new(&server.address.to_string()) else {
        return Health::Down;
    };
    match tokio::time::timeout(timeout, check.check(&backend)).await {
        Ok(Ok(())) => Health::Up,
        Ok(Err(_)) | Err(_) => Health::Down,
    }
}

fn health_check(pool: &Pool, rules: &HealthRules) -> Box<dyn HealthCheck + Send + Sync> {
    let Some(path) = &rules.path else {
        let mut check = TcpHealthCheck::new();
        check.peer_template.options.connection_timeout = Some(rules.timeout);
        return check;
    };
    let host = rules.host.as_deref().unwrap_or(&pool.name);
    let mut check = HttpHealthCheck::new(host, false);
    check.peer_template.options.connection_timeout = Some(rules.timeout);
    check.peer_template.options.read_timeout = Some(rules.timeout);
    if let Ok(target) = path.parse() {
        check.req.set_uri(target);
    }
    check.validator = Some(Box::new(|answer| {
        if (200..400).contains(&answer.status.as_u16()) {
            Ok(())
        } else {
            pingora::Error::e_explain(
                pingora::ErrorType::Custom("unhealthy"),
                format!("the check answers {}", answer.status),
            )
        }
    }));
    Box::new(check)
}
