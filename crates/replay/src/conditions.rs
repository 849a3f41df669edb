//! Judges the conditions of limits by the times of a log.
//!
//! A log shows what limits used and rejected, so these figures are those that the gateway would have had. It does not show the load of an
//! origin: [`super::coverage`] leaves out limits whose conditions compare that.

use sluicegate_base::bounds::LOAD_LOOK;
use sluicegate_limiter::Timestamp;

use super::limit_counts::LimitTally;
use sluicegate_config::rules::Name;
use sluicegate_decide::admission::KeySeed;
use sluicegate_decide::compiled_rules::CompiledRules;
use sluicegate_decide::load_monitor::{LoadMonitor, LoadSources};

/// Most looks between two requests. In a longer pause of the log they are farther apart than [`LOAD_LOOK`].
const MOST_LOOKS: u32 = 64;

/// The conditions of a configuration, and the readings that they are judged by.
pub(super) struct LoggedConditions {
    monitor: LoadMonitor,
    /// The time of the next look; `None` where no limit has a condition.
    next: Option<Timestamp>,
}

impl LoggedConditions {
    /// Returns the conditions of `compiled` before the first look at `start`.
    pub(super) fn new(compiled: &CompiledRules, start: Timestamp) -> Self {
        let mut limits = compiled.limits.values();
        let has_any = limits.any(|limit| limit.activations().next().is_some());
        Self {
            monitor: LoadMonitor::default(),
            next: has_any.then_some(start),
        }
    }

    /// Takes the looks that are due by `now`.
    pub(super) fn look_until(
        &mut self,
        now: Timestamp,
        compiled: &CompiledRules,
        seed: &KeySeed,
        limits: &[(Name, LimitTally)],
    ) {
        let Some(next) = &mut self.next else { return };
        let step = now.saturating_since(*next) / MOST_LOOKS;
        let step = step.max(LOAD_LOOK);
        let rejections = |name: &Name| {
            let tally = limits.iter().find(|(other, _)| other == name);
            tally.map_or(0, |(_, tally)| tally.rejected - tally.blocked)
        };
        while *next <= now {
            let sources = LoadSources {
                limits: &compiled.limits,
                rejections: &rejections,
                connections: 0,
                seed,
                now: *next,
            };
            _ = self
                .monitor
                .look(&sources, |figures| vec![None; figures.len()]);
            *next = next.saturating_add(step);
        }
    }
}
