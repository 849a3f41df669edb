//! What is told of the time to come: no longer than it is, and rounding is not told.

use std::time::Duration;

use sluicegate_limiter::Cost;
use sluicegate_limiter::exact::{Charged, LogTable};

use super::{START, admits, key, rates};

/// Goal: nobody is told to wait longer than the period, and with it a second longer, because entries are rounded up.
/// Method: charges between two milliseconds, and the answers just then: admitted, refused, peeked.
#[test]
fn rounding_makes_no_wait_longer_than_the_period() {
    let rates = rates(&[(1, 10)]);
    let period = Duration::from_secs(10);
    for nanos in [0, 1, 500_000, 999_999] {
        let table = LogTable::with_buckets(1, &rates);
        let now = START.saturating_add(Duration::from_nanos(nanos));
        let charge = || table.charge(key(1), &rates, Cost::ONE, now);
        let Charged::Admitted(admitted, _) = charge() else {
            unreachable!("nothing was used");
        };
        let Charged::Refused(refused) = charge() else {
            unreachable!("all was used");
        };
        let looked = table.peek(key(1), &rates, Cost::ONE, now);
        for answer in [admitted, refused, looked] {
            let standing = answer.standings()[0];
            assert_eq!((standing.next_free, standing.reset), (period, period));
        }
        let rounding = Duration::from_nanos(nanos.next_multiple_of(1_000_000) - nanos);
        let free = now.saturating_add(period).saturating_add(rounding);
        let before = free.saturating_sub(Duration::from_nanos(1));
        assert!(!admits(&table, &rates, 1, before) && admits(&table, &rates, 1, free));
    }
}

/// Goal: what is longer for another reason is told. Method: a clock that stepped back, by less and by more than what
/// rounding makes.
#[test]
fn a_clock_that_steps_back_makes_waits_as_long_as_they_are() {
    let rates = rates(&[(1, 10)]);
    let table = LogTable::with_buckets(1, &rates);
    assert!(admits(&table, &rates, 1, START));
    for (millis, told) in [(1, 10_001), (2, 10_002), (5_000, 15_000)] {
        let now = START.saturating_sub(Duration::from_millis(millis));
        let answer = table.peek(key(1), &rates, Cost::ONE, now);
        let wait = answer.standings()[0].next_free;
        assert_eq!(wait, Duration::from_millis(told));
    }
}
