//! Names the series of request metrics: the classes of statuses, and the upper bounds of durations.

use sluicegate_decide::outcome::RequestDisposition;

/// Upper bounds of `sluicegate_request_duration_seconds`, in microseconds: from a refusal to a slow report.
pub(super) const DURATION_BOUNDS: [u64; 15] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 5_000_000, 30_000_000,
];

/// Upper bounds of `sluicegate_limits_duration_seconds`, in nanoseconds: from a cached key to a preempted thread.
pub(super) const DECISION_BOUNDS: [u64; 10] = [
    250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 64_000, 1_000_000, 10_000_000,
];

/// Values of the label `code`, by the hundreds of the status; `none` where no status was sent.
pub(super) const CODES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

pub(super) const DISPOSITIONS: usize = RequestDisposition::ALL.len();

/// Numbers of requests by disposition and code.
pub(super) type RequestCounts = [[u64; CODES.len()]; DISPOSITIONS];
