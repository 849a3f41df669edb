//! Decides which limits mean what a rate with a burst means elsewhere.
//!
//! nginx's leaky bucket adds one to the excess of a key with each request, drains it at the rate, and refuses a request whose excess
//! would be above `burst`. The first request has an excess of 0. So `burst + 1` requests pass at once, which is `gcra` with that burst; a
//! request that is delayed until its excess has drained has as many before it as a leaky bucket with a queue of `burst`.

use crate::bounds;
use crate::model::LimitAlgorithm;

/// The default of `max_wait`, and its bound, in milliseconds.
const USUAL_WAIT: u64 = 10_000;
const LONGEST_WAIT: u64 = 600_000;

/// Largest count of a rate.
pub(crate) const LARGEST_COUNT: u64 = 1_048_575;

/// A count per period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestRate {
    pub(crate) count: u64,
    pub(crate) period: RatePeriod,
}

/// A period that other proxies have a word for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RatePeriod {
    Second,
    Minute,
}

impl RatePeriod {
    /// Returns the word of the configuration.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
        }
    }

    fn millis(self) -> u64 {
        match self {
            Self::Second => 1_000,
            Self::Minute => 60_000,
        }
    }
}

/// Returns the algorithm that admits `burst` requests beyond the rate at once.
pub(crate) fn at_once(burst: u64) -> LimitAlgorithm {
    LimitAlgorithm::Gcra(burst.saturating_add(1).min(bounds::BURST))
}

/// Returns the algorithm that delays up to `burst` requests beyond the rate.
pub(crate) fn delayed(rate: RequestRate, burst: u64) -> LimitAlgorithm {
    let longest = longest_wait(rate, burst);
    let wait = (longest > USUAL_WAIT).then_some(longest.min(LONGEST_WAIT));
    LimitAlgorithm::LeakyBucket(burst.min(bounds::BURST), wait)
}

/// Returns true if requests would wait for longer than the configuration allows, and are refused instead.
pub(crate) fn waits_too_long(rate: RequestRate, burst: u64) -> bool {
    longest_wait(rate, burst) > LONGEST_WAIT
}

/// The longest wait in milliseconds, rounded up.
fn longest_wait(rate: RequestRate, burst: u64) -> u64 {
    burst
        .saturating_mul(rate.period.millis())
        .div_ceil(rate.count.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: bursts and waits are those of nginx. Method: its module's arithmetic, in thousandths of a request, beside the shape.
    #[test]
    fn as_many_pass_at_once_as_excess_has_room() {
        for burst in 0..20 {
            let mut excess = 0_i64;
            let mut passed = 0;
            for request in 0..100 {
                let next = if request == 0 { 0 } else { excess + 1_000 };
                if next <= burst * 1_000 {
                    excess = next;
                    passed += 1;
                }
            }
            assert_eq!(at_once(burst as u64), LimitAlgorithm::Gcra(passed));
        }
        let rate = RequestRate {
            count: 30,
            period: RatePeriod::Minute,
        };
        // The fifth that waits has an excess of 5, which drains in 10 seconds.
        assert_eq!(delayed(rate, 5), LimitAlgorithm::LeakyBucket(5, None));
        assert_eq!(
            delayed(rate, 6),
            LimitAlgorithm::LeakyBucket(6, Some(12_000))
        );
        assert!(waits_too_long(rate, 301));
        assert!(!waits_too_long(rate, 300));
    }
}
