//! C4: another table of other rates or capacity goes on from what was counted.

use sluicegate_limiter::exact::LogTable;
use sluicegate_limiter::{Capacity, KeyPlacement};

use super::{START, admits, after, cost, key, left, rates};

fn capacity(keys: u64) -> Capacity {
    Capacity::new(keys).expect("a capacity")
}

/// Goal: another capacity, the same moments. Method: smaller and larger tables; known keys stand as before, to the
/// millisecond.
#[test]
fn a_copy_has_every_charge() {
    let rates = rates(&[(5, 60), (9, 600)]);
    for (from, to) in [(1_000, 50_000), (1_000, 1_000), (50_000, 1_000)] {
        let old = LogTable::new(capacity(from), &rates);
        for number in 0..300 {
            for turn in 0..number % 6 {
                admits(&old, &rates, number, after(1_000 * turn));
            }
        }
        let new = LogTable::new(capacity(to), &rates).with_stats(old.stats());
        old.copy_into(&rates, &new, &rates, after(9_000));
        for number in 0..300 {
            for millis in [9_000, 59_999, 60_000, 63_000, 603_000] {
                let now = after(millis);
                assert_eq!(
                    old.peek(key(number), &rates, cost(1), now),
                    new.peek(key(number), &rates, cost(1), now)
                );
            }
        }
        assert_eq!(new.stats(), old.stats());
    }
}

/// Goal: other rates judge what really happened. Method: a count raised and lowered, a period longer and shorter.
#[test]
fn other_rates_go_on_from_the_same_moments() {
    let before = rates(&[(4, 60)]);
    let old = LogTable::new(capacity(100), &before);
    for second in [0, 10, 20, 30] {
        assert!(admits(&old, &before, 1, after(1_000 * second)));
    }
    let now = after(31_000);
    for (after_edit, remaining) in [
        (rates(&[(10, 60)]), 6),
        (rates(&[(3, 60)]), 0),
        (rates(&[(10, 12)]), 8),
        (rates(&[(10, 3_600)]), 6),
    ] {
        assert_eq!(
            old.suits(&after_edit),
            after_edit.as_slice()[0].count() <= 4
        );
        let new = LogTable::new(capacity(100), &after_edit);
        old.copy_into(&before, &new, &after_edit, now);
        assert_eq!(left(&new, &after_edit, 1, now), remaining);
        assert_eq!(
            left(&new, &after_edit, 2, now),
            after_edit.as_slice()[0].count()
        );
    }
}

/// Goal: new keys without a slot are not forgotten, and those that used nothing find the room of a larger table. Method: a full
/// table, its overflow, and copies of several sizes.
#[test]
fn a_copy_takes_the_overflow_along() {
    let rates = rates(&[(3, 60)]);
    let old = LogTable::with_buckets(1, &rates);
    let used: Vec<usize> = (0..60)
        .map(|number| {
            (0..9)
                .filter(|_| admits(&old, &rates, number, START))
                .count()
        })
        .collect();
    let refused = used.iter().filter(|used| **used == 0).count();
    assert_eq!(refused, 60 - 16, "15 slots and the overflow log");
    for keys in [1, 10, 10_000] {
        let new = LogTable::new(capacity(keys), &rates);
        old.copy_into(&rates, &new, &rates, START);
        let mut relieved = 0;
        for (number, used) in (0..60).zip(&used) {
            let more = (0..9)
                .filter(|_| admits(&new, &rates, number, START))
                .count();
            assert!(used + more <= 3, "{number} used {used} and {more}");
            relieved += usize::from(more == 3);
        }
        if keys == 10_000 {
            assert_eq!(relieved, refused);
        }
    }
}

/// Goal: charges made in the old table during a copy are counted. Method: the copy before, between and after them.
#[test]
fn charges_made_meanwhile_are_taken_over() {
    let rates = rates(&[(10, 60)]);
    let (old, new) = (
        LogTable::with_buckets(1, &rates),
        LogTable::new(capacity(1_000), &rates),
    );
    let mut seats = Vec::new();
    for number in 0..30 {
        let receipt = old.charge_unchecked(key(number), &rates, cost(2), START);
        seats.push(receipt.placement());
        new.take_over(key(number), &rates, cost(2), receipt.placement(), START);
    }
    assert!(seats.contains(&KeyPlacement::Overflow) && seats.contains(&KeyPlacement::OwnSlot));
    for number in 0..30 {
        assert!(left(&new, &rates, number, START) <= 8);
    }
    old.copy_into(&rates, &new, &rates, START);
    assert!((0..30).all(|number| left(&new, &rates, number, START) <= 8));
}
