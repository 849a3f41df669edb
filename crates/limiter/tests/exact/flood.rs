//! C3: a flood of new keys makes nobody's count go down, and no memory grow.

use sluicegate_limiter::exact::{ForgetOutcome, LogReceipt, LogTable};
use sluicegate_limiter::{Capacity, Cost, KeyPlacement};

use super::{START, admits, after, cost, key, left, rates};

/// Goal: live keys are never evicted, memory is flat. Method: known keys at their limit, then thirty times as many new
/// ones as there is room for; the known stay refused, the flood is counted, and a period later all is as new.
#[test]
fn a_flood_resets_nobody() {
    let rates = rates(&[(3, 60)]);
    let table = LogTable::new(Capacity::new(1_000).expect("a capacity"), &rates);
    let bytes = table.bytes();
    for number in 0..500 {
        while admits(&table, &rates, number, START) {}
    }
    for number in 1_000..31_000 {
        admits(&table, &rates, number, after(number / 10));
        if number % 50 == 0 {
            // The flooder's own, too.
            let victim = number % 500;
            assert!(!admits(&table, &rates, victim, after(number / 10)));
        }
    }
    let now = after(4_000);
    assert!((0..500).all(|number| !admits(&table, &rates, number, now)));
    let (stats, occupancy) = (table.stats(), table.occupancy(&rates, now));
    assert!(stats.admitted_in_overflow > 0);
    assert_eq!(stats.slots_reused, 0);
    assert!(occupancy.live == occupancy.slots && occupancy.in_overflow > 0);
    assert!((1..=occupancy.buckets).contains(&occupancy.overflowing));
    assert_eq!(
        table.active_keys(&rates, now).count() as u64,
        occupancy.slots
    );
    assert_eq!(table.bytes(), bytes);
    let later = after(70_000);
    assert_eq!(table.active_keys(&rates, later).count(), 0);
    assert_eq!(table.occupancy(&rates, later).overflowing, 0);
    assert!((5_000..5_500).all(|number| admits(&table, &rates, number, later)));
}

/// Goal: nobody in overflow passes too often, nor is forgotten when he gets a slot. Method: one bucket, full; a
/// new key uses his limit up, then a slot falls vacant.
#[test]
fn a_new_key_without_a_slot_is_counted_and_takes_his_count_along() {
    let rates = rates(&[(3, 60)]);
    let table = LogTable::with_buckets(1, &rates);
    let mut slots: Vec<LogReceipt> = Vec::new();
    let mut number = 0;
    let newcomer = loop {
        let receipt = table.charge_unchecked(key(number), &rates, Cost::ONE, START);
        if receipt.placement() == KeyPlacement::Overflow {
            break number;
        }
        slots.push(receipt);
        number += 1;
    };
    assert_eq!(left(&table, &rates, newcomer, START), 2);
    assert!(admits(&table, &rates, newcomer, START));
    let peek = table.peek(key(newcomer), &rates, Cost::ONE, START);
    assert_eq!(peek.placement(), KeyPlacement::Overflow);
    assert_eq!(table.reset(key(newcomer)), ForgetOutcome::Shared);
    // One of those with a slot gives back what it took.
    table.undo(slots.remove(0));
    assert!(admits(&table, &rates, newcomer, START));
    let peek = table.peek(key(newcomer), &rates, Cost::ONE, START);
    assert_eq!(peek.placement(), KeyPlacement::OwnSlot);
    assert!(!admits(&table, &rates, newcomer, START));
}

/// Goal: what was charged in overflow can be given back, also when the key has a slot by then. Method: as above, the
/// receipt released before and after.
#[test]
fn a_charge_in_overflow_is_given_back_wherever_it_went() {
    let rates = rates(&[(5, 60)]);
    for seated in [false, true] {
        let table = LogTable::with_buckets(1, &rates);
        let receipts: Vec<LogReceipt> = (0..100)
            .map(|number| table.charge_unchecked(key(number), &rates, Cost::ONE, START))
            .take_while(|receipt| receipt.placement() == KeyPlacement::OwnSlot)
            .collect();
        let newcomer = 1_000;
        let filled = left(&table, &rates, newcomer, START);
        let mut receipt = table.charge_unchecked(key(newcomer), &rates, cost(2), after(1));
        assert_eq!(receipt.placement(), KeyPlacement::Overflow);
        assert_eq!(left(&table, &rates, newcomer, after(1)), filled - 2);
        if seated {
            table.undo(receipts.into_iter().next().expect("a key with a slot"));
            assert!(admits(&table, &rates, newcomer, after(2)));
        }
        assert_eq!(table.release(&mut receipt, cost(2)), 2);
        let used_since = u32::from(seated);
        assert_eq!(
            left(&table, &rates, newcomer, after(2)),
            filled - used_since
        );
        assert_eq!(table.release(&mut receipt, cost(2)), 0, "once is once");
    }
}

/// Goal: a log that was forced past its end stays honest. Method: force more than fits, give it back, and see that
/// nothing frees before the period is over.
#[test]
fn a_log_that_stands_for_more_than_it_shows_gives_nothing_back() {
    let rates = rates(&[(3, 60)]);
    let table = LogTable::with_buckets(1, &rates);
    table.charge_unchecked(key(1), &rates, cost(2), START);
    let mut receipt = table.charge_unchecked(key(1), &rates, cost(4), after(1_000));
    assert_eq!(table.release(&mut receipt, cost(3)), 0);
    assert!(!admits(&table, &rates, 1, after(60_999)));
    assert!(admits(&table, &rates, 1, after(61_000)));
    let mut receipt = table.charge_unchecked(key(1), &rates, cost(1), after(61_001));
    assert_eq!(
        table.release(&mut receipt, cost(1)),
        1,
        "all is shown again"
    );
}
