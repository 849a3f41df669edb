//! Looks up the addresses that requests queue, at a bounded pace.
//!
//! # Limits
//! [`LOOK_UPS_PER_SECOND`] begin within a second, and [`LOOK_UPS_IN_FLIGHT`] are in flight, in all, whatever clients, zones and servers do.
//! An address stays in the queue until both let its look-up begin.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use sluicegate_base::bounds::{LOOK_UP_PATIENCE, LOOK_UPS_IN_FLIGHT, LOOK_UPS_PER_SECOND};
use sluicegate_base::clock;
use sluicegate_base::crawler::{LookUp, LookUpResult, ReverseDns};
use sluicegate_decide::in_force::InForce;
use sluicegate_limiter::Timestamp;
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::warn;

use super::confirm::confirm;
use super::system_servers::SystemServers;
use super::transport::ask;
use sluicegate_record::LookUpDurations;

/// The pause after which a reload is noticed while nothing is to do.
const LOOK: Duration = Duration::from_secs(1);

/// The time between two warnings that DNS fails.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The names of crawlers' addresses, and the servers that the configuration in force names for them.
#[derive(Clone)]
pub struct CrawlerNames {
    /// The names, with the addresses that wait for a look-up.
    pub names: Arc<ReverseDns>,
    /// The servers; those of the system where there are none.
    pub servers: Vec<SocketAddr>,
}

/// Looks up the names of the configuration in force.
pub struct LookUpService {
    /// The names; `None` where no crawler has domains.
    pub crawlers: InForce<Option<CrawlerNames>>,
    /// The durations of all look-ups.
    pub durations: Arc<LookUpDurations>,
}

#[async_trait]
impl BackgroundService for LookUpService {
    async fn start(&self, _: ShutdownWatch) {
        let mut system = SystemServers::default();
        let failures = Arc::new(FailureWarning::default());
        let places = Arc::new(Semaphore::new(LOOK_UPS_IN_FLIGHT));
        let mut pace = interval(Duration::from_secs(1) / LOOK_UPS_PER_SECOND);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Until the process ends: requests come while it drains.
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            pace.tick().await;
            let Some(crawlers) = self.crawlers.load() else {
                sleep(LOOK).await;
                continue;
            };
            crawlers.names.serve();
            let Some(look_up) = crawlers.names.take() else {
                // Either way the queue is looked at again.
                let _ = timeout(LOOK, crawlers.names.queued()).await;
                continue;
            };
            let servers = match &*crawlers.servers {
                [] => system.current().to_vec(),
                servers => servers.to_vec(),
            };
            let failures = Arc::clone(&failures);
            let durations = Arc::clone(&self.durations);
            tokio::spawn(async move {
                let begun = clock::now();
                look_up_names(look_up, &servers, &failures).await;
                durations.note(clock::since(begun));
                drop(place);
            });
        }
    }
}

async fn look_up_names(look_up: LookUp, servers: &[SocketAddr], failures: &FailureWarning) {
    let takes = |name: &str| look_up.takes(name);
    let asks = |question| ask(servers, question);
    let found = timeout(LOOK_UP_PATIENCE, confirm(look_up.address(), takes, asks)).await;
    let result = match found {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => {
            failures.note(&error.to_string(), clock::now());
            LookUpResult::Failed
        }
        Err(_) => {
            failures.note("the servers answer too late", clock::now());
            LookUpResult::Failed
        }
    };
    look_up.finish(&result, clock::now().as_nanos() / 1_000_000_000);
}

/// Warns that DNS fails, once in [`WARN_EVERY`] at most: an outage fails every look-up.
#[derive(Debug, Default)]
struct FailureWarning(Mutex<Option<Timestamp>>);

impl FailureWarning {
    fn note(&self, error: &str, at: Timestamp) {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.is_some_and(|latest| clock::between(latest, at) < WARN_EVERY) {
            return;
        }
        *latest = Some(at);
        warn!(
            "crawlers: a look-up of an address failed: {error}; who claims to be a crawler at it is unverified until a look-up succeeds"
        );
    }
}
