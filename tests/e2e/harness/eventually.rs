//! Waiting with a deadline: the only way a test lets time pass.

use std::time::{Duration, Instant};

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
