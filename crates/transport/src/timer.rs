//! Reads the clock of tokio's timers, by which waits end. Tests pause that clock, which the clock of
//! [`sluicegate_base::clock`] would not follow; and a step of the wall clock does not change it.

use std::time::Duration;

use tokio::time::Instant;

/// Returns the time `patience` from now, as an instant of tokio's timers.
#[must_use]
pub fn deadline(patience: Duration) -> Instant {
    let now = Instant::now();
    // A time that the clock cannot represent becomes now: a wait ends early rather than never.
    now.checked_add(patience).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no wait is endless by overflow. Method: the longest possible wait.
    #[test]
    fn a_deadline_beyond_the_clock_is_now() {
        assert!(deadline(Duration::MAX) <= Instant::now());
    }
}
