//! Keeps what the requests of the last ten seconds came to: numbers by result, and percentiles of their durations.
//!
//! A background task reads the counters once a second, whether anybody looks or not, so that the first look has figures too. Requests pay
//! nothing for it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use sluicegate_base::bounds::LOAD_READING;
use sluicegate_decide::reading_window::ReadingWindow;
use sluicegate_limiter::Timestamp;
use sluicegate_telemetry::histogram::HistogramSum;

use super::request_series::DURATION_BOUNDS;
use super::request_totals::RequestTotals;

/// The durations of requests that were not rejected. A rejection takes microseconds, so in an attack rejections would hide all others.
pub(super) type RequestDurations = HistogramSum<{ DURATION_BOUNDS.len() }>;

/// The window, and its latest figures.
#[derive(Debug, Default)]
pub(super) struct RecentRequests(Mutex<RecentState>);

#[derive(Debug, Default)]
struct RecentState {
    window: ReadingWindow<(RequestTotals, RequestDurations)>,
    read_at: Option<Timestamp>,
    figures: RequestFigures,
}

/// The requests that ended within the last ten seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RequestFigures {
    /// The time that the figures cover, in seconds; less than ten after the start.
    pub seconds: f64,
    /// Their numbers by result.
    pub requests: RequestTotals,
    /// Their durations, rejections left out; `None` without any.
    pub latency_ms: Option<LatencyFigures>,
}

/// Percentiles of durations in milliseconds, estimated within the buckets of `sluicegate_request_duration_seconds`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyFigures {
    /// The median.
    pub p50: f64,
    /// The duration that nine of ten requests do not exceed.
    pub p90: f64,
    /// The duration that 99 of a hundred requests do not exceed.
    pub p99: f64,
}

impl RecentRequests {
    /// Reads the counters if a second has passed since they were read.
    pub(super) fn look(
        &self,
        now: Timestamp,
        read: impl FnOnce() -> (RequestTotals, RequestDurations),
    ) {
        let mut state = self.lock();
        let is_early = |at: Timestamp| at <= now && now.saturating_since(at) < LOAD_READING;
        if state.read_at.is_some_and(is_early) {
            return;
        }
        state.read_at = Some(now);
        let (totals, durations) = read();
        let (began, (earlier, before)) = state.window.begin(&(totals, durations), now);
        state.figures = RequestFigures {
            seconds: now.saturating_since(began).as_secs_f64(),
            requests: totals.since(earlier),
            latency_ms: LatencyFigures::new(&since(&durations, &before)),
        };
    }

    /// Returns the latest figures.
    pub(super) fn figures(&self) -> RequestFigures {
        self.lock().figures
    }

    /// Poison is ignored: figures that were not written are those of a second before.
    fn lock(&self) -> MutexGuard<'_, RecentState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LatencyFigures {
    pub(super) fn new(durations: &RequestDurations) -> Option<Self> {
        let millis = |percent| {
            let micros = percentile(durations, percent)?;
            // Finer than a thousandth of the bucket would be no measurement.
            Some(micros.round() / 1_000.0)
        };
        Some(Self {
            p50: millis(50)?,
            p90: millis(90)?,
            p99: millis(99)?,
        })
    }
}

/// Returns the growth of each bucket; nothing where one shrank, because a reload removed a route.
pub(super) fn since(durations: &RequestDurations, earlier: &RequestDurations) -> RequestDurations {
    let mut grown = *durations;
    for (count, before) in grown.within.iter_mut().zip(earlier.within) {
        *count = count.saturating_sub(before);
    }
    grown.above = grown.above.saturating_sub(earlier.above);
    grown
}

/// Returns the duration in microseconds that `percent` of the requests do not exceed; `None` without requests. Within its bucket
/// durations count as evenly spread, as `histogram_quantile` of Prometheus has it; above the last bound the bound is returned.
fn percentile(durations: &RequestDurations, percent: u64) -> Option<f64> {
    let count = durations.count();
    if count == 0 {
        return None;
    }
    let rank = (count * percent).div_ceil(100).max(1);
    let mut below = 0;
    let mut lower = 0;
    for (upper, within) in DURATION_BOUNDS.into_iter().zip(durations.within) {
        if below + within >= rank {
            let part = (rank - below) as f64 / within as f64;
            return Some(lower as f64 + (upper - lower) as f64 * part);
        }
        below += within;
        lower = upper;
    }
    Some(lower as f64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn durations(within: &[(usize, u64)], above: u64) -> RequestDurations {
        let mut sum = RequestDurations {
            within: [0; DURATION_BOUNDS.len()],
            above,
            sum: 0,
        };
        for (bucket, count) in within {
            sum.within[*bucket] = *count;
        }
        sum
    }

    /// Goal: a percentile lies in the bucket of its rank. Method: no request, one, two buckets, and durations above all bounds.
    #[test]
    fn a_percentile_lies_within_its_bucket() {
        assert_eq!(percentile(&durations(&[], 0), 50), None);
        assert_eq!(percentile(&durations(&[(0, 1)], 0), 99), Some(100.0));
        // 90 requests of up to 1 ms, 10 of up to 50 ms.
        let two = durations(&[(3, 90), (8, 10)], 0);
        let figures = LatencyFigures::new(&two).expect("requests");
        assert!((0.5..=1.0).contains(&figures.p50), "{figures:?}");
        assert_eq!(figures.p90, 1.0);
        assert!((25.0..=50.0).contains(&figures.p99), "{figures:?}");
        assert_eq!(percentile(&durations(&[], 5), 50), Some(30_000_000.0));
    }

    /// Goal: figures are those of the last seconds, and counters are read once a second. Method: looks a quarter of a second apart, with a
    /// failure a second for five seconds, then none.
    #[test]
    fn figures_are_those_of_the_last_ten_seconds() {
        let recent = RecentRequests::default();
        let mut readings = 0;
        for quarter in 0..=80_u64 {
            let at = Timestamp::from_secs(1_800_000_000)
                .saturating_add(Duration::from_millis(quarter * 250));
            let secs = quarter / 4;
            recent.look(at, || {
                readings += 1;
                let totals = RequestTotals {
                    all: secs * 10,
                    failed_by_gateway: secs.min(5),
                    ..RequestTotals::default()
                };
                (totals, durations(&[(3, secs * 10)], 0))
            });
            if secs == 5 {
                assert_eq!(recent.figures().requests.failed(), 5);
            }
        }
        assert_eq!(readings, 21);
        let figures = recent.figures();
        assert_eq!((figures.seconds, figures.requests.all), (10.0, 100));
        assert_eq!(figures.requests.failed(), 0);
        assert!(figures.latency_ms.is_some());
    }
}
