//! Many threads on few logs: exactly the limit passes, and what is given back is there again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Barrier, Mutex};

use sluicegate_limiter::exact::{LogCharge, LogReceipt, LogTable};
use sluicegate_limiter::{Capacity, Cost};

use super::common::together;
use super::{Random, START, admits, after, cost, key, left, rates};

/// Goal: exactly L of any number of simultaneous requests pass. Method: 8 threads on one new key, 1,000 times, with one
/// to four rates.
#[test]
fn of_many_simultaneous_requests_exactly_the_limit_pass() {
    const UNITS: u32 = 40;
    const ROUNDS: u64 = if cfg!(miri) { 1 } else { 250 };
    for count in 1..=4 {
        let numbers: Vec<_> = (1..=count).map(|rank| (UNITS, 600 * rank)).collect();
        let rates = rates(&numbers);
        let table = LogTable::new(Capacity::new(ROUNDS).expect("a capacity"), &rates);
        let admitted: Vec<AtomicU32> = (0..ROUNDS).map(|_| AtomicU32::new(0)).collect();
        together(8, |_| {
            for (number, admitted) in admitted.iter().enumerate() {
                for _ in 0..UNITS / 4 {
                    if admits(&table, &rates, number as u64, START) {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        for (number, admitted) in admitted.iter().enumerate() {
            assert_eq!(
                admitted.load(Ordering::Relaxed),
                UNITS,
                "{count} rates, round {number}"
            );
            assert_eq!(left(&table, &rates, number as u64, START), 0);
        }
        assert_eq!(table.stats().admitted_in_overflow, 0);
    }
}

/// Goal: charges and releases add up. Method: 8 threads charge and give back, whole, in part, at once or later, on a
/// few keys in slots and in overflow; what is left in the end is what was not given back.
#[test]
fn what_is_charged_and_not_given_back_is_what_counts() {
    const UNITS: u32 = 100;
    const KEYS: u64 = 6;
    const STEPS: u64 = if cfg!(miri) { 8 } else { 4_000 };
    let rates = rates(&[(UNITS, 600), (UNITS, 1200)]);
    let table = LogTable::new(Capacity::new(100).expect("a capacity"), &rates);
    let kept: [AtomicU32; KEYS as usize] = Default::default();
    together(8, |thread| {
        let mut random = Random(thread as u64 + 1);
        let mut receipts: Vec<(usize, LogReceipt)> = Vec::new();
        for step in 0..STEPS {
            let number = random.below(KEYS);
            let units = 1 + random.below(3) as u32;
            // Four moments, so that entries of others stand before and behind.
            let now = after(4 * step / STEPS);
            if let LogCharge::Admitted(_, receipt) =
                table.charge(key(number), &rates, cost(units), now)
            {
                kept[number as usize].fetch_add(units, Ordering::Relaxed);
                receipts.push((number as usize, receipt));
            }
            if receipts.len() > 3 {
                let index = random.below(receipts.len() as u64) as usize;
                let (number, mut receipt) = receipts.swap_remove(index);
                let part = cost(1 + random.below(u64::from(receipt.units())) as u32);
                let released = table.release(&mut receipt, part);
                assert_eq!(released, part.get(), "it was there");
                kept[number].fetch_sub(released, Ordering::Relaxed);
            }
        }
    });
    for (number, kept) in kept.iter().enumerate() {
        assert_eq!(
            left(&table, &rates, number as u64, START),
            UNITS - kept.load(Ordering::Relaxed)
        );
    }
}

/// Goal: invariants 1 to 4 while slots change hands all the time. Method: more keys than slots, rounds at one moment
/// each, pauses after which nothing is owed; no key ever passes more often than its limit says, seated, in overflow, or
/// on the way from one to the other.
#[test]
fn no_key_passes_too_often_while_slots_change_hands() {
    const ROUNDS: u64 = if cfg!(miri) { 1 } else { 2_000 };
    const THREADS: usize = 8;
    const UNITS: u32 = 2;
    for numbers in [&[(UNITS, 1)][..], &[(UNITS, 1), (UNITS, 2)]] {
        let rates = rates(numbers);
        let table = LogTable::with_buckets(2, &rates);
        let passed: Mutex<HashMap<(u64, u64), Vec<u64>>> = Mutex::default();
        let round_ends = Barrier::new(THREADS);
        together(THREADS, |thread| {
            let mut random = Random(thread as u64 + 1);
            for round in 0..ROUNDS {
                let millis = 250 * round + 3000 * (round / 16);
                let mut mine = Vec::new();
                for _ in 0..20 {
                    let number = random.below(48) + 16 * (round / 16 % 3);
                    if admits(&table, &rates, number, after(millis)) {
                        mine.push((number, millis));
                    }
                }
                {
                    let mut passed = passed
                        .lock()
                        .expect("no thread panics while it holds the lock");
                    for (number, millis) in mine {
                        passed.entry((number, 0)).or_default().push(millis);
                    }
                }
                round_ends.wait();
            }
        });
        let passed = passed.into_inner().expect("no thread panicked");
        let longest = 1000 * u64::from(numbers[numbers.len() - 1].1);
        for (number, mut moments) in passed {
            moments.sort_unstable();
            for pair in moments.windows(UNITS as usize + 1) {
                assert!(
                    pair[UNITS as usize] - pair[0] >= longest,
                    "key {number:?} passed at {pair:?}"
                );
            }
        }
        let stats = table.stats();
        assert!(
            cfg!(miri) || stats.slots_reused > 1_000 && stats.admitted_in_overflow > 100,
            "the test met its cases: {stats:?}"
        );
    }
}

/// Goal: invariant 1 under load, one slot a key. Method: all threads bring the same new keys in the same order, room
/// for three each.
#[test]
fn new_keys_that_come_from_all_sides_at_once_are_counted_once() {
    const KEYS: u64 = if cfg!(miri) { 4 } else { 20_000 };
    let rates = rates(&[(3, 600)]);
    let table = LogTable::new(Capacity::new(KEYS).expect("a capacity"), &rates);
    let admitted: Vec<AtomicU32> = (0..KEYS).map(|_| AtomicU32::new(0)).collect();
    together(4, |_| {
        for (number, admitted) in admitted.iter().enumerate() {
            for _ in 0..2 {
                if admits(&table, &rates, number as u64, START) {
                    admitted.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    });
    assert!(
        admitted
            .iter()
            .all(|admitted| admitted.load(Ordering::Relaxed) == 3)
    );
    assert_eq!(table.occupancy(&rates, START).live, KEYS);
    assert_eq!(table.stats().admitted_in_overflow, 0);
}

/// Goal: readings of the clock that arrive out of order never admit too much. Method: threads with clocks up to 10 ms
/// apart on one key; the moments that they passed at, sorted, against the limit.
#[test]
fn clocks_that_disagree_do_not_open_a_span() {
    const UNITS: usize = 5;
    const TURNS: u32 = if cfg!(miri) { 20 } else { 20_000 };
    let rates = rates(&[(UNITS as u32, 1)]);
    let table = LogTable::with_buckets(1, &rates);
    let passed: Mutex<Vec<u64>> = Mutex::default();
    let ticks = AtomicU32::new(0);
    together(4, |thread| {
        let mut random = Random(thread as u64 + 7);
        let mut mine = Vec::new();
        for _ in 0..TURNS {
            let tick = u64::from(ticks.fetch_add(1, Ordering::Relaxed));
            let nanos = 1_000_000 * tick + random.below(10_000_000);
            let now = START.saturating_add(std::time::Duration::from_nanos(nanos));
            let charged = table.charge(key(1), &rates, Cost::ONE, now);
            if matches!(charged, LogCharge::Admitted(..)) {
                mine.push(nanos);
            }
        }
        passed
            .lock()
            .expect("no thread panics while it holds the lock")
            .extend(mine);
    });
    let mut passed = passed.into_inner().expect("no thread panicked");
    passed.sort_unstable();
    assert!(passed.len() as u32 > TURNS / 70, "{}", passed.len());
    for span in passed.windows(UNITS + 1) {
        assert!(span[UNITS] - span[0] >= 1_000_000_000);
    }
}

/// Goal: nobody is refused by a log that never was. Method: threads ask for one key far below its limit, so that each
/// charge overwrites the oldest entry, at which the next one looks; whoever is not late has room.
#[test]
fn a_log_that_is_being_written_refuses_nobody_who_has_room() {
    const UNITS: u32 = 64;
    const TURNS: u32 = if cfg!(miri) { 20 } else { 400_000 };
    let rates = rates(&[(UNITS, 1)]);
    let table = LogTable::with_buckets(1, &rates);
    let ticks = AtomicU32::new(0);
    together(3, |_| {
        for _ in 0..TURNS {
            let tick = ticks.fetch_add(1, Ordering::Relaxed);
            // A quarter of the limit; what others entered ahead of this moment counts on top.
            let admitted = admits(&table, &rates, 1, after(u64::from(tick) * 1_000 / 16));
            let late = ticks.load(Ordering::Relaxed) - tick > UNITS / 2;
            assert!(admitted || late, "refused at {tick}");
        }
    });
}
