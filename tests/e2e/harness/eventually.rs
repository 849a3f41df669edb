//! Waiting with a deadline: the only way a test lets time pass.

use std::cell::Cell;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// How long anything that ought to happen may take on a loaded machine. A Sentinel that was kept from running for two seconds does
/// nothing for thirty.
pub const PATIENCE: Duration = Duration::from_secs(60);

const POLL: Duration = Duration::from_millis(10);

/// Asks `look` until it answers `Some`, and panics with `what` when that takes longer than [`PATIENCE`].
pub async fn eventually<T>(what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    within(PATIENCE, what, look).await
}

/// As [`eventually`], with a deadline of its own.
pub async fn within<T>(
    patience: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(
            started.elapsed() < patience,
            "not within {patience:?}: {what}"
        );
        tokio::time::sleep(POLL).await;
    }
}

/// Repeats `turn` until it answers `Some`, with `pause` between two turns: the pace of a client or an origin that is slow on purpose. Turns
/// end by themselves, by a count or a deadline.
pub async fn at_a_pace<T>(pause: Duration, mut turn: impl AsyncFnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = turn().await {
            return found;
        }
        tokio::time::sleep(pause).await;
    }
}

/// Waits until a number above zero is the same twice, half a second apart, and gives it: what nothing announces, such as resident memory or
/// what the kernel keeps for a client.
pub async fn settled<T: Copy + Default + PartialOrd>(mut number: impl AsyncFnMut() -> T) -> T {
    let (started, mut last) = (Instant::now(), T::default());
    at_a_pace(Duration::from_millis(500), async || {
        assert!(started.elapsed() < PATIENCE, "the number moves");
        let now = number().await;
        let is_same = now > T::default() && now == last;
        last = now;
        is_same.then_some(now)
    })
    .await
}

/// The last seconds of an hour, in which no test begins.
const HOURS_END: u64 = 60;

thread_local! {
    /// Whether this test, which has a thread of its own, has begun.
    static BEGUN: Cell<bool> = const { Cell::new(false) };
}

/// Waits for the next hour where this one ends soon and the test only begins: windows of an hour end with the hour of the clock.
pub async fn clear_of_the_hours_end() {
    if BEGUN.replace(true) {
        return;
    }
    let left = 3_600 - UNIX_EPOCH.elapsed().unwrap().as_secs() % 3_600;
    if left <= HOURS_END {
        tokio::time::sleep(Duration::from_secs(left)).await;
    }
}
