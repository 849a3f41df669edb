//! Reads the clock; no other file of the gateway does.
//!
//! Time is the wall clock at the start of the process plus the monotonic time since: windows are aligned to the Unix epoch,
//! yet a step of the wall clock (NTP, an operator) neither refills nor blocks anybody while the process lives.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sluicegate_limiter::Timestamp;

/// The anchor: one reading of both clocks, taken at the first call.
static ANCHOR: LazyLock<(Instant, u64)> = LazyLock::new(|| {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    (
        Instant::now(),
        u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX),
    )
});

/// Now, in nanoseconds since the Unix epoch; never goes backwards.
#[must_use]
pub fn now() -> Timestamp {
    let (start, epoch_nanos) = &*ANCHOR;
    let elapsed = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Timestamp::from_nanos(epoch_nanos.saturating_add(elapsed))
}

/// The time from `earlier` to `later`, zero if they are the other way round.
#[must_use]
pub fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::from_nanos(later.as_nanos().saturating_sub(earlier.as_nanos()))
}

/// The time since `earlier`.
#[must_use]
pub fn since(earlier: Timestamp) -> Duration {
    between(earlier, now())
}

/// The moment `at` as tokio's timers name it.
#[must_use]
pub fn instant(at: Timestamp) -> tokio::time::Instant {
    let (start, epoch_nanos) = &*ANCHOR;
    let since_start = Duration::from_nanos(at.as_nanos().saturating_sub(*epoch_nanos));
    // A moment that the clock cannot name is as good as now: a wait ends early rather than never.
    tokio::time::Instant::from_std(start.checked_add(since_start).unwrap_or(*start))
}
