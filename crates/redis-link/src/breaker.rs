//! Opens or closes the way to one server by the results of the latest calls.
//!
//! The breaker opens when 5 calls in a row failed, or more than half of the latest 20. Five in a row cost a lone client a tenth of a
//! second at a timeout of 20 ms, and a server that answers every other call is of no use. An error about the server's own state (it is a
//! replica, it loads, its memory is full) opens the breaker at once: the next call would get the same error.
//!
//! A connection has two breakers. One guards the connection: while it is open, no call is sent. The other guards decisions, for which a
//! request waits: it opens where replies come later than `timeout`, and exchanges pass all the same. No caller ever finds out whether the
//! server is back: the task of its connection does that in the background, one probe at a time ([`crate::connection`]), at moments that
//! [`ReconnectBackoff`] computes, and closes the breaker.
//!
//! # Concurrency
//! All of it is one word. A call carries the generation in which it was admitted, and reports of an earlier one change nothing: a
//! thousand calls that time out together open the breaker once, and cannot open it again after it was closed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The latest calls that count.
const WINDOW: u32 = 20;
/// Failures in a row that open the breaker.
const IN_A_ROW: u32 = 5;
/// Failures within the window that open the breaker.
const OF_WINDOW: u32 = 11;

const HISTORY: u64 = (1 << WINDOW) - 1;
const CLOSED: u64 = 1 << WINDOW;
const GENERATION: u32 = 32;

/// The pause after the second failed attempt to connect.
const FIRST: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(5);
/// A connection that lasts for less than this does not reset the pauses.
const STEADY: Duration = Duration::from_secs(10);

/// A circuit breaker in one word. Bits 0–19: the latest calls, 1 for a failure, the newest lowest; bit 20: closed; bits 32–63: the
/// generation, incremented with each change.
#[derive(Debug, Default)]
pub(crate) struct CircuitBreaker(AtomicU64);

/// The permission for one call, in one generation of the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallPermit(u32);

/// The weight of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureWeight {
    /// Counts as one failure.
    Counts,
    /// Opens the breaker: the next call would fail too.
    Decides,
}

/// The effect of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum BreakerEffect {
    /// The breaker stays as it is.
    None,
    /// The failure opened the breaker.
    Opened,
    /// The breaker was open, and is closed.
    Closed,
}

impl CircuitBreaker {
    /// Permits a call; `None` while the breaker is open, which is its first state.
    pub(crate) fn permit(&self) -> Option<CallPermit> {
        // Relaxed, here and below: the word is all that is shared. Who gets a permit finds the connection by its own way.
        let word = self.0.load(Ordering::Relaxed);
        (word & CLOSED != 0).then_some(CallPermit(generation(word)))
    }

    /// Records a call that was answered.
    pub(crate) fn succeeded(&self, permit: CallPermit) {
        // While all is well, which is almost always, nothing is written.
        let word = self.0.load(Ordering::Relaxed);
        if word & HISTORY != 0 {
            let _ = self.remember(permit, 0, FailureWeight::Counts);
        }
    }

    /// Records a call that failed.
    pub(crate) fn failed(&self, permit: CallPermit, weight: FailureWeight) -> BreakerEffect {
        self.remember(permit, 1, weight)
    }

    /// Closes the breaker with an empty history.
    pub(crate) fn close(&self) -> BreakerEffect {
        // The loop of `fetch_update` is lock-free: it repeats only after another's change.
        let closed = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                (word & CLOSED == 0).then(|| next(word) | CLOSED)
            });
        match closed {
            Ok(_) => BreakerEffect::Closed,
            Err(_) => BreakerEffect::None,
        }
    }

    /// Opens the breaker until it is closed.
    pub(crate) fn open(&self) -> BreakerEffect {
        let opened = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                (word & CLOSED != 0).then(|| next(word))
            });
        if opened.is_ok() {
            BreakerEffect::Opened
        } else {
            BreakerEffect::None
        }
    }

    fn remember(
        &self,
        CallPermit(of): CallPermit,
        outcome: u64,
        weight: FailureWeight,
    ) -> BreakerEffect {
        let mut effect = BreakerEffect::None;
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                effect = BreakerEffect::None;
                if generation(word) != of || word & CLOSED == 0 {
                    return None;
                }
                let history = (word << 1 | outcome) & HISTORY;
                let opens = outcome == 1
                    && (weight == FailureWeight::Decides
                        || history.trailing_ones() >= IN_A_ROW
                        || history.count_ones() >= OF_WINDOW);
                if opens {
                    effect = BreakerEffect::Opened;
                    return Some(next(word));
                }
                Some(word & !HISTORY | history)
            });
        effect
    }
}

fn generation(word: u64) -> u32 {
    (word >> GENERATION) as u32
}

/// Returns the word of an open breaker with an empty history, one generation later.
fn next(word: u64) -> u64 {
    u64::from(generation(word).wrapping_add(1)) << GENERATION
}

/// The pauses between attempts to reconnect: 10 ms, then 100 ms, each twice the one before up to 5 s. Jitter of half to one and a half
/// keeps the processes of a fleet from reconnecting together.
#[derive(Debug, Default)]
pub(crate) struct ReconnectBackoff {
    attempts: u32,
}

impl ReconnectBackoff {
    /// Returns the pause before the next attempt; `random` is any number.
    pub(crate) fn pause(&mut self, random: u64) -> Duration {
        let attempts = self.attempts;
        self.attempts = attempts.saturating_add(1);
        let middle = match attempts {
            0 => FIRST / 10,
            _ => FIRST
                .saturating_mul(1 << (attempts - 1).min(16))
                .min(LONGEST),
        };
        jittered(middle, random)
    }

    /// Resets the pauses if the connection that was lost had lasted long enough.
    pub(crate) fn lost_after(&mut self, lasted: Duration) {
        if lasted >= STEADY {
            self.attempts = 0;
        }
    }
}

/// Returns half to one and a half times `middle`; `random` is any number.
pub(crate) fn jittered(middle: Duration, random: u64) -> Duration {
    let thousandths = 500 + u32::try_from(random % 1_001).unwrap_or_default();
    middle * thousandths / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed() -> (CircuitBreaker, CallPermit) {
        let breaker = CircuitBreaker::default();
        let _ = breaker.close();
        let permit = breaker.permit().expect("closed");
        (breaker, permit)
    }

    /// Goal: nothing is asked before there is a connection. Method: a new one.
    #[test]
    fn it_begins_open() {
        assert_eq!(CircuitBreaker::default().permit(), None);
        assert_eq!(CircuitBreaker::default().open(), BreakerEffect::None);
    }

    /// Goal: five in a row open it, four do not, and a success between begins anew. Method: count.
    #[test]
    fn five_failures_in_a_row_open_it() {
        let (breaker, permit) = closed();
        let fail = || breaker.failed(permit, FailureWeight::Counts);
        (0..4).for_each(|_| assert_eq!(fail(), BreakerEffect::None));
        breaker.succeeded(permit);
        (0..4).for_each(|_| assert_eq!(fail(), BreakerEffect::None));
        assert_eq!(fail(), BreakerEffect::Opened);
        assert_eq!(breaker.permit(), None);
    }

    /// Goal: a store that fails more than half of its calls is away, one that fails half of them is not. Method: patterns without five
    /// failures in a row.
    #[test]
    fn more_than_half_of_twenty_open_it() {
        for (pattern, opens) in [("FS", false), ("FFS", true), ("FFSS", false)] {
            let (breaker, permit) = closed();
            for outcome in pattern.chars().cycle().take(60) {
                match outcome {
                    'F' => {
                        let _ = breaker.failed(permit, FailureWeight::Counts);
                    }
                    _ => breaker.succeeded(permit),
                }
            }
            assert_eq!(breaker.permit().is_none(), opens, "{pattern}");
        }
    }

    /// Goal: calls that were begun before do not count after. Method: a late crowd of failures, and of successes.
    #[test]
    fn reports_of_an_earlier_generation_change_nothing() {
        let (breaker, late) = closed();
        assert_eq!(
            breaker.failed(late, FailureWeight::Decides),
            BreakerEffect::Opened
        );
        assert_eq!(
            breaker.failed(late, FailureWeight::Decides),
            BreakerEffect::None
        );
        let _ = breaker.close();
        (0..100).for_each(|_| {
            assert_eq!(
                breaker.failed(late, FailureWeight::Decides),
                BreakerEffect::None
            )
        });
        breaker.succeeded(late);
        assert!(breaker.permit().is_some());
    }

    /// Goal: it opens once, however many fail at once. Method: threads.
    #[test]
    fn of_many_failures_at_once_one_opens_it() {
        let (breaker, permit) = closed();
        let opened: usize = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let failed =
                            (0..100).map(|_| breaker.failed(permit, FailureWeight::Counts));
                        failed
                            .filter(|effect| *effect == BreakerEffect::Opened)
                            .count()
                    })
                })
                .collect();
            workers
                .into_iter()
                .map(|worker| worker.join().unwrap())
                .sum()
        });
        assert_eq!(opened, 1);
    }

    /// Goal: attempts are far enough apart, and not for all nodes at once. Method: the pauses at both ends of chance.
    #[test]
    fn pauses_grow_to_five_seconds_and_begin_anew_after_a_steady_time() {
        let mut backoff = ReconnectBackoff::default();
        let mut pauses: Vec<u128> = (0..10).map(|_| backoff.pause(500).as_millis()).collect();
        pauses.truncate(9);
        assert_eq!(pauses, [10, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        backoff.lost_after(STEADY / 2);
        assert_eq!(backoff.pause(0), LONGEST / 2);
        backoff.lost_after(STEADY);
        assert_eq!(backoff.pause(1_000), FIRST / 10 * 3 / 2);
        let mut endless = ReconnectBackoff { attempts: u32::MAX };
        assert_eq!(endless.pause(500), LONGEST);
    }
}
