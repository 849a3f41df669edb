//! Writes a duration as a number of a page.

use std::time::Duration;

/// Returns the seconds of a duration, to the millisecond.
pub(super) fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}
