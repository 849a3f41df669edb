//! Many threads on few counters: never more than the limit, and every charge is found again.

mod common;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Barrier, Mutex};

use common::{START, admits, after, alike, ask, capacity, left, limit, peek, rates, together};
use sluicegate_limiter::{Limit, Outcome, decide};

/// What requests and limits of threads are multiplied with.
const SCALE: u32 = if cfg!(miri) { 1 } else { 100 };

/// Goal: exactly L of any number of simultaneous requests pass. Method: 2 to 8 threads on one new key, one to four
/// rates alike.
#[test]
fn of_many_simultaneous_requests_exactly_the_limit_pass() {
    const UNITS: u32 = if cfg!(miri) { 10 } else { 1000 };
    for rates in 1..=4 {
        for threads in [2, 3, 4, 8] {
            let limit = Limit::new(alike(rates, UNITS), capacity(100));
            let admitted = AtomicU32::new(0);
            together(threads, |_| {
                for _ in 0..UNITS {
                    if admits(&limit, 7, START) {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
            assert_eq!(
                admitted.into_inner(),
                UNITS,
                "{rates} rates, {threads} threads"
            );
            assert_eq!(left(&limit, 7, START), 0);
        }
    }
}

/// Goal: charges and undos add up, whichever rate refuses. Method: rates of different room, then what is left against
/// what passed.
#[test]
fn a_rate_that_refuses_leaves_the_others_uncharged() {
    let rooms = [9, 5, 7, 6].map(|room| room * SCALE);
    for count in 2..=4 {
        let numbers: Vec<_> = (0..count)
            .map(|rate| (rooms[rate], 600 * (rate as u32 + 1)))
            .collect();
        let limit = Limit::new(rates(&numbers), capacity(100));
        let admitted = AtomicU32::new(0);
        together(4, |_| {
            for _ in 0..10 * SCALE {
                if admits(&limit, 7, START) {
                    admitted.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        assert_eq!(admitted.into_inner(), 5 * SCALE);
        let remaining: Vec<u32> = peek(&limit, 7, START)
            .statuses()
            .iter()
            .map(|rate| rate.remaining)
            .collect();
        let expected: Vec<u32> = numbers.iter().map(|(room, _)| room - 5 * SCALE).collect();
        assert_eq!(remaining, expected);
    }
}

/// Goal: C2 over two limits. Method: each thread asks for a key of its own and one shared by all; whichever is the
/// tighter refuses late now and then.
#[test]
fn a_shared_limit_and_one_of_each_client_are_charged_together() {
    for units in [(20, 9), (9, 20), (10, 5)] {
        let (shared_units, own_units) = (units.0 * SCALE, units.1 * SCALE);
        let shared = limit(&[(shared_units, 600)], 100);
        let own = limit(&[(own_units, 600), (own_units, 1200)], 100);
        let admitted: [AtomicU32; 4] = Default::default();
        together(admitted.len(), |thread| {
            for _ in 0..20 * SCALE {
                let asks = [ask(&own, thread as u64), ask(&shared, 99)];
                if decide(&asks, START).outcome() == Outcome::Admitted {
                    admitted[thread].fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let admitted = admitted.map(AtomicU32::into_inner);
        let sum: u32 = admitted.iter().sum();
        assert!(sum <= shared_units);
        assert_eq!(
            left(&shared, 99, START),
            shared_units - sum,
            "every charge is found again, none is left over"
        );
        for (thread, admitted) in admitted.iter().enumerate() {
            assert_eq!(left(&own, thread as u64, START), own_units - admitted);
        }
    }
}

/// Goal: invariant 1 under load, one slot a key. Method: all threads bring the same new keys in the same order, room
/// for three each; a quarter more of them would fit, so that chance leaves none without a slot.
#[test]
fn new_keys_that_come_from_all_sides_at_once_are_counted_once() {
    const KEYS: u64 = if cfg!(miri) { 20 } else { 20_000 };
    for rates in [1, 3] {
        let limit = Limit::new(alike(rates, 3), capacity(KEYS * 5 / 4));
        let admitted: Vec<AtomicU32> = (0..KEYS).map(|_| AtomicU32::new(0)).collect();
        together(4, |_| {
            for (number, admitted) in admitted.iter().enumerate() {
                for _ in 0..2 {
                    if admits(&limit, number as u64, START) {
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
        assert_eq!(limit.stats().admitted_in_overflow, 0);
    }
}

/// Goal: invariants 2 to 5 while slots change hands all the time. Method: more keys than slots over two windows, rounds
/// at one moment each; no key ever passes more often in a window than its limit says, be it seated, in overflow, or on
/// the way from one to the other.
#[test]
fn no_key_passes_too_often_while_slots_change_hands() {
    const ROUNDS: u64 = if cfg!(miri) { 1 } else { 3000 };
    const THREADS: usize = 4;
    const UNITS: u32 = 2;
    for numbers in [&[(UNITS, 1)][..], &[(UNITS, 1), (UNITS, 2)]] {
        let limit = Limit::with_buckets(rates(numbers), 2);
        let passed: Mutex<HashMap<(u64, u64), u32>> = Mutex::default();
        let round_ends = Barrier::new(THREADS);
        together(THREADS, |thread| {
            let mut random = thread as u64 + 1;
            for round in 0..ROUNDS {
                // Two rounds in a window, every few windows a pause after which nothing is owed.
                let millis = 500 * round + 3000 * (round / 16);
                let mut mine = Vec::new();
                for _ in 0..20 {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    let number = (random >> 33) % 24 + 8 * (round / 16 % 3);
                    if admits(&limit, number, after(millis)) {
                        mine.push((number, millis / 1000));
                    }
                }
                {
                    let mut passed = passed
                        .lock()
                        .expect("no thread panics while it holds the lock");
                    for pass in mine {
                        *passed.entry(pass).or_default() += 1;
                    }
                }
                round_ends.wait();
            }
        });
        let passed = passed.into_inner().expect("no thread panicked");
        let worst = passed.values().max().copied();
        assert_eq!(worst, Some(UNITS));
        let stats = limit.stats();
        assert!(
            cfg!(miri) || stats.slots_reused > 1000 && stats.admitted_in_overflow > 1000,
            "the test met its cases: {stats:?}"
        );
    }
}
