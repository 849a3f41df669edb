//! Decides the concurrency limit of a server from its latency: the gradient of Netflix' concurrency-limits, with the latency without a
//! queue measured as in Envoy, but at half the limit instead of nearly none.
//!
//! A server that gets more requests than it can work on queues them, and its latency grows by that queue. The *gradient* is the tolerated
//! latency, the *baseline* plus `tolerance`, over the latency of a window. Below one, the limit shrinks by half of what is missing; else it
//! grows by its square root, as far as requests used it.
//!
//! The baseline is what needs care: one that follows a lasting overload permits ever more of it
//! (github.com/Netflix/concurrency-limits/issues/137), and one that never rises takes a server that became slower for an overloaded one:
//!
//! | the window | the baseline |
//! |---|---|
//! | used at most a third of the limit | moves an eighth of the way: there is no queue of the gateway's making |
//! | is a probe | is the latency of the window |
//! | is faster otherwise | falls a quarter of the way |
//! | is slower otherwise | stays |
//!
//! A *probe* is a long window at half the limit, after [`PROBE_AFTER`] windows that used the limit, or [`SHRINKS`] that shrank it by much.
//! A shorter queue at half the limit would make the server faster. Where it does not, there was none: the server itself is slower, and the
//! limit returns to what it was before it shrank.
//!
//! # Invariants
//! 1. The limit is between `min` and `max`.
//! 2. The limit does not grow in a window that used less than [`USED`] of it.
//! 3. With a tolerance below 100 % the baseline does not rise by the queue that the limit itself permits: at the limit requests take at
//!    most `1 + tolerance` times the baseline, so half of as many take less than the baseline, or have no queue.
//!
//! Pure: a window in, a state out.

use std::time::Duration;

use sluicegate_config::rules::AdaptiveConcurrencyRules;

/// The least number of requests of a window.
pub(super) const SAMPLES: u32 = 10;
/// The same of a probe, whose latency counts until the next one, and the windows after which it ends with fewer.
pub(super) const PROBE_SAMPLES: u32 = 40;
pub(super) const PROBE_WINDOWS: u32 = 4;
/// The least part of the limit that a window has to use in order that the limit grows. A client alone uses two thirds.
const USED: f64 = 0.6;
/// The largest part of the limit at which a slower server has no queue of the gateway's making (invariant 3).
const UNLOADED: f64 = 1.0 / 3.0;
/// The least gradient: one window never shrinks the limit by more than a quarter.
const LEAST_GRADIENT: f64 = 0.5;
/// The gradient below which a limit shrinks that was not used.
const UNUSED_GRADIENT: f64 = 0.55;
/// The part of the missing gradient by which the limit shrinks.
const SHRINKAGE: f64 = 0.5;
/// The part of a window's requests beyond which failures are overload.
const FAILED: f64 = 0.1;
/// The parts of the way by which the baseline follows a latency without a queue, and a lower one.
const FOLLOW: f64 = 0.125;
const FALL: f64 = 0.25;
/// Windows that used the limit between two probes.
pub(super) const PROBE_AFTER: u32 = 60;
/// Windows before the next probe where one found the server faster than this part of the baseline: the limit was so large that half of
/// it still had a queue.
const PROBE_AGAIN: u32 = 10;
const FASTER: f64 = 0.9;
/// Windows in a row in which the limit shrank before a probe, and the part of it that is left then. A limit that found the server shrinks
/// by little after it grew.
pub(super) const SHRINKS: u32 = 5;
const SHRUNK: f64 = 0.6;

/// The measurements of one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LatencyWindow {
    /// Requests that were answered, of which the latency is known.
    pub(super) answered: u32,
    /// Requests that failed in a way that an overloaded server fails.
    pub(super) failed: u32,
    /// The mean time to the head of the response.
    pub(super) latency: Duration,
    /// The most requests that waited for a head at the same time.
    pub(super) peak: u32,
}

/// The state of the controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct GradientState {
    limit: f64,
    /// The latency without a queue, in seconds; `None` before the first window.
    baseline: Option<f64>,
    /// Windows that used the limit since the latest probe.
    since_probe: u32,
    shrinking: Option<ShrinkStreak>,
    /// The limit to return to after the probe, while there is one.
    probe: Option<f64>,
}

/// Windows in a row in which the limit shrank.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ShrinkStreak {
    windows: u32,
    /// The limit before them.
    from: f64,
}

impl GradientState {
    /// Returns the state of a server of which nothing is known.
    pub(super) fn new(rules: &AdaptiveConcurrencyRules) -> Self {
        Self {
            limit: rules.first_limit().into(),
            baseline: None,
            since_probe: 0,
            shrinking: None,
            probe: None,
        }
    }

    /// Returns the limit, at least one.
    pub(super) fn limit(&self) -> u32 {
        // Between 1 and 10,000, so the conversion is exact but for the fraction.
        self.limit.max(1.0) as u32
    }

    /// Returns whether the present window is a probe.
    pub(super) fn is_probe(&self) -> bool {
        self.probe.is_some()
    }

    /// Returns the latency of the server without a queue.
    pub(super) fn baseline(&self) -> Option<Duration> {
        self.baseline.map(Duration::from_secs_f64)
    }

    /// Returns the state after a window.
    pub(super) fn next(self, window: &LatencyWindow, rules: &AdaptiveConcurrencyRules) -> Self {
        let mut next = self.within(rules);
        match next.probe.take() {
            Some(before) if window.answered > 0 => next.end_probe(before, window, rules),
            Some(before) => next.limit = before,
            None => {
                next.follow(window);
                next.adjust(window, rules);
            }
        }
        next.within(rules)
    }

    /// Returns the state with its limit between those of the rules, which a reload may have changed (invariant 1).
    fn within(mut self, rules: &AdaptiveConcurrencyRules) -> Self {
        self.limit = self.limit.clamp(rules.min.into(), rules.max.into());
        self
    }

    /// Moves the baseline towards the latency of a window that is no probe.
    fn follow(&mut self, window: &LatencyWindow) {
        if window.answered == 0 {
            return;
        }
        let latency = window.latency.as_secs_f64();
        let before = self.baseline.unwrap_or(latency);
        let part = if f64::from(window.peak) <= self.limit * UNLOADED {
            FOLLOW
        } else if latency < before {
            FALL
        } else {
            0.0
        };
        self.baseline = Some(before + part * (latency - before));
    }

    /// Changes the limit by the gradient of a window that is no probe.
    fn adjust(&mut self, window: &LatencyWindow, rules: &AdaptiveConcurrencyRules) {
        let gradient = self.gradient(window, rules);
        let is_used = f64::from(window.peak) >= self.limit * USED;
        if is_used {
            self.since_probe += 1;
        }
        // A limit that was not used shrinks to what was, and only for a latency that no variation explains.
        let is_slow = gradient < if is_used { 1.0 } else { UNUSED_GRADIENT };
        if is_slow {
            self.shrink(gradient, window);
        } else {
            self.shrinking = None;
            if is_used && gradient >= 1.0 {
                self.limit += self.limit.sqrt();
            }
        }
        let is_stuck = self
            .shrinking
            .is_some_and(|streak| streak.windows >= SHRINKS && self.limit < streak.from * SHRUNK);
        if is_stuck || self.since_probe >= PROBE_AFTER {
            self.probe = Some(self.limit);
            self.limit /= 2.0;
        }
    }

    fn shrink(&mut self, gradient: f64, window: &LatencyWindow) {
        let streak = self.shrinking.get_or_insert(ShrinkStreak {
            windows: 0,
            from: self.limit,
        });
        streak.windows += 1;
        let shrunk = self.limit * (1.0 - SHRINKAGE * (1.0 - gradient));
        let used = f64::from(window.peak) / USED;
        self.limit = if used < self.limit {
            shrunk.max(used)
        } else {
            shrunk
        };
    }

    /// Ends a probe: the latency at half the limit is the baseline.
    fn end_probe(&mut self, before: f64, window: &LatencyWindow, rules: &AdaptiveConcurrencyRules) {
        let slower = self.gradient(window, rules) < 1.0;
        let latency = window.latency.as_secs_f64();
        let is_faster = (self.baseline).is_some_and(|baseline| latency < baseline * FASTER);
        self.baseline = Some(latency);
        self.since_probe = if is_faster {
            PROBE_AFTER - PROBE_AGAIN
        } else {
            0
        };
        let streak = self.shrinking.take();
        // The shorter queue did not help, so there was none: the limit shrank for nothing.
        self.limit = match streak {
            Some(streak) if slower => streak.from,
            _ => before,
        };
    }

    /// Returns the gradient of a window, at most one.
    fn gradient(&self, window: &LatencyWindow, rules: &AdaptiveConcurrencyRules) -> f64 {
        let all = f64::from(window.answered) + f64::from(window.failed);
        if f64::from(window.failed) > all * FAILED {
            return LEAST_GRADIENT;
        }
        let tolerated = 1.0 + f64::from(rules.tolerance.0) / 100.0;
        let latency = window.latency.as_secs_f64();
        match self.baseline {
            Some(baseline) if latency > 0.0 => {
                (tolerated * baseline / latency).clamp(LEAST_GRADIENT, 1.0)
            }
            _ => 1.0,
        }
    }
}

#[cfg(test)]
#[path = "gradient_tests.rs"]
mod tests;
