//! Decides when a certificate is ordered: ahead of its end, and after a failure not before a pause.
//!
//! The module is pure: time and random numbers are arguments. Times are of the wall clock, since certificates expire by it,
//! right or wrong.

use std::time::Duration;

use sluicegate_base::pki::Validity;
use sluicegate_limiter::Timestamp;

/// The pause after the first failure; each further one doubles it.
const FIRST_PATIENCE: Duration = Duration::from_secs(60);
/// The longest pause after a failure, whatever the server asks for.
const LONGEST_PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);
/// The pause after a rate-limit error without `Retry-After`: such limits are counted by the hour or the week.
const RATE_LIMITED: Duration = Duration::from_secs(60 * 60);

/// A random number that places an event within its span: 0 at the beginning, the largest at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JitterFraction(pub(super) u32);

/// The pause that a failure asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryAdvice {
    /// No particular pause.
    Nothing,
    /// No request for so long.
    Wait(Duration),
    /// Fewer requests, without a time.
    Less,
}

/// Returns when a certificate is renewed.
///
/// A third of its lifetime before its end, or `renew_before`, but never before half of it has passed: one with a lifetime of six
/// days and renewed 30 days ahead would be ordered without end. `chance` moves it up to a twentieth of the lifetime earlier, so
/// that certificates that were ordered together are not renewed together.
pub(super) fn due(
    validity: Validity,
    renew_before: Option<Duration>,
    JitterFraction(chance): JitterFraction,
) -> Timestamp {
    let lifetime = validity.ends.saturating_since(validity.begins);
    let ahead = renew_before.unwrap_or(lifetime / 3);
    let jitter = share(lifetime / 20, chance);
    let ahead = ahead.saturating_add(jitter).min(lifetime / 2);
    validity.begins.saturating_add(lifetime - ahead)
}

/// Returns the pause after so many failures in a row, the latest included.
///
/// One minute, doubled up to a day, and up to a fifth longer at random; at least the pause that the server asks for, at most a
/// day.
pub(super) fn patience(
    failures: u32,
    asked: RetryAdvice,
    JitterFraction(chance): JitterFraction,
) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let wait = FIRST_PATIENCE.saturating_mul(1 << doublings);
    let wait = wait.saturating_add(share(wait / 5, chance));
    let least = match asked {
        RetryAdvice::Nothing => Duration::ZERO,
        RetryAdvice::Wait(least) => least,
        RetryAdvice::Less => RATE_LIMITED,
    };
    wait.max(least).min(LONGEST_PATIENCE)
}

/// Returns `chance` of `whole`, in 2³² parts.
fn share(whole: Duration, chance: u32) -> Duration {
    let nanos = (whole.as_nanos() * u128::from(chance)) >> 32;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn good_for(lifetime: Duration) -> Validity {
        let begins = Timestamp::default().saturating_add(DAY * 20_000);
        Validity {
            begins,
            ends: begins.saturating_add(lifetime),
        }
    }

    /// Goal: renewal is as documented. Method: the lifetimes that certificate authorities use, without chance.
    #[test]
    fn a_certificate_is_due_when_a_third_of_its_lifetime_is_left() {
        for (days, due_after) in [(90, 60), (6, 4), (45, 30)] {
            let validity = good_for(DAY * days);
            let due = due(validity, None, JitterFraction(0));
            assert_eq!(due.saturating_since(validity.begins), DAY * due_after);
        }
    }

    /// Goal: `renew_before` applies as long as it is reasonable. Method: 30 days before the end of 90, and of 6.
    #[test]
    fn renew_before_never_orders_before_half_of_the_lifetime() {
        for (days, due_after) in [(90, 60), (6, 3)] {
            let validity = good_for(DAY * days);
            let due = due(validity, Some(DAY * 30), JitterFraction(0));
            assert_eq!(due.saturating_since(validity.begins), DAY * due_after);
        }
    }

    /// Goal: retries are neither frequent nor given up. Method: the pauses of failures in a row.
    #[test]
    fn patience_doubles_from_a_minute_to_a_day() {
        let waits = [1, 2, 3, 11, 12, u32::MAX]
            .map(|failures| patience(failures, RetryAdvice::Nothing, JitterFraction(0)).as_secs());
        assert_eq!(waits, [60, 120, 240, 61_440, 86_400, 86_400]);
    }

    /// Goal: Retry-After is a lower bound, and a server cannot delay an order forever. Method: pauses below, between and above.
    #[test]
    fn retry_after_is_honored_up_to_a_day() {
        let after = |asked| patience(1, asked, JitterFraction(0)).as_secs();
        assert_eq!(after(RetryAdvice::Wait(Duration::from_secs(5))), 60);
        assert_eq!(after(RetryAdvice::Wait(Duration::from_secs(7_200))), 7_200);
        assert_eq!(after(RetryAdvice::Wait(Duration::MAX)), 86_400);
        assert_eq!(after(RetryAdvice::Less), 3_600);
    }

    proptest! {
        /// Goal: orders do not repeat without end. Method: any lifetime, setting and chance; the renewal lies in the second half
        /// of the lifetime.
        #[test]
        fn a_renewal_lies_in_the_second_half_of_the_lifetime(
            lifetime in 1u64..1 << 56,
            setting in proptest::option::of(any::<u64>()),
            chance: u32,
        ) {
            let validity = good_for(Duration::from_nanos(lifetime));
            let due = due(validity, setting.map(Duration::from_nanos), JitterFraction(chance));
            let after = due.saturating_since(validity.begins);
            prop_assert!(after >= Duration::from_nanos(lifetime / 2) && due <= validity.ends);
        }

        /// Goal: chance spreads pauses and does not shorten them. Method: any failures and chance.
        #[test]
        fn chance_only_adds_patience(failures: u32, chance: u32) {
            let exact = patience(failures, RetryAdvice::Nothing, JitterFraction(0));
            let wait = patience(failures, RetryAdvice::Nothing, JitterFraction(chance));
            prop_assert!(wait >= exact && wait <= exact + exact / 5);
        }
    }
}
