//! Stores the clock mark and the number of gateways once a second, so that both continue in the next process, and removes unused files of
//! the state directory once a day.
//!
//! It has a runtime of its own and threads that may block, since a disk may be slow and another process may hold the directory's
//! lock; requests never wait for either.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use sluicegate_base::clock;
use sluicegate_decide::in_force::InForce;
use sluicegate_limiter::ClockDrift;
use tokio::time::MissedTickBehavior;
use tracing::{info, warn};

use sluicegate_decide::state::{CounterPersistence, CounterStorage};

/// Interval at which the clock is stored. After a restart on the same boot any mark is exact; after a reboot up to this interval may be
/// missing.
const TICK: Duration = Duration::from_secs(1);
/// Ticks from one sweep to the next: a day. The first tick sweeps too, so that a process that is restarted daily says which files
/// it uses.
const SWEEP: u64 = 24 * 60 * 60;

/// The target of process logs: the module that had the service, so that filters on it go on.
const LOG_TARGET: &str = "sluicegate::state::maintenance";

/// The background service.
pub struct Maintenance {
    /// The storage of counters.
    pub storage: Arc<CounterStorage>,
    /// The files of the limits in force.
    pub in_use: InForce<Vec<CounterPersistence>>,
    /// The number of gateways that share the store in force; `None` without a store.
    pub gateways: InForce<Option<NonZeroU32>>,
}

#[async_trait]
impl BackgroundService for Maintenance {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        // Nor was there a stored clock to follow.
        if clock::followed().is_none() {
            return;
        }
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut ticks: u64 = 0;
        let mut far = None;
        let mut gateways = None;
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                _ = shutdown.changed() => return,
            }
            let storage = Arc::clone(&self.storage);
            let in_use = self.in_use.clone();
            let sweep = ticks.is_multiple_of(SWEEP);
            let known = self.gateways.load();
            let is_new = known != std::mem::replace(&mut gateways, known);
            let kept = tokio::task::spawn_blocking(move || {
                if let Some(number) = known.filter(|_| is_new) {
                    storage.keep_gateways(number);
                }
                if sweep {
                    storage.sweep(in_use.load().iter());
                }
                storage.store_clock()
            });
            let drift = kept.await.ok().flatten();
            announce(drift, &mut far);
            ticks += 1;
        }
    }
}

/// The difference between the clocks, where it is large, and its direction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClockSkew {
    Ahead,
    Behind,
}

/// Logs once when the clocks diverge, and once when they agree again.
fn announce(drift: Option<ClockDrift>, far: &mut Option<ClockSkew>) {
    let (now, apart) = match drift {
        None => return,
        Some(ClockDrift::Near) => (None, Duration::ZERO),
        Some(ClockDrift::Ahead(apart)) => (Some(ClockSkew::Ahead), apart),
        Some(ClockDrift::Behind(apart)) => (Some(ClockSkew::Behind), apart),
    };
    if now == *far {
        return;
    }
    *far = now;
    let hours = apart.as_secs() / 3600;
    match now {
        None => info!(target: LOG_TARGET, "the limits' time and the wall clock are together again"),
        Some(ClockSkew::Ahead) => warn!(
            target: LOG_TARGET,
            "the wall clock is {hours} hours behind the limits' time, which goes on as before; set the clock right, or if it is, see \
             docs/operations/persistence.md on how to reset the state directory"
        ),
        Some(ClockSkew::Behind) => warn!(
            target: LOG_TARGET,
            "the wall clock is {hours} hours ahead of the limits' time, which goes on as before, since nothing confirms the clock; if it \
             is right, see docs/operations/persistence.md on how to reset the state directory"
        ),
    }
}
