//! Windows that begin by key: spread evenly over the keys, at the same place in every period of one key, and as strict as any.
#![cfg(not(miri))]

mod common;

use std::collections::{HashMap, HashSet};

use common::{START, admits, after, capacity, key, left, peek, rates};
use proptest::prelude::*;
use sluicegate_limiter::{Algorithm, Alignment, Limit, Policy};

const HOUR: u64 = 3_600_000;

fn by_key(numbers: &[(u32, u32)]) -> Policy {
    let algorithm = Algorithm::FixedWindow(Alignment::Key);
    Policy::new(algorithm, rates(numbers)).expect("a policy")
}

/// The time in milliseconds until the window of a key ends.
fn reset(limit: &Limit, number: u64, millis: u64) -> u64 {
    let statuses = peek(limit, number, after(millis)).statuses();
    statuses[0].reset.as_millis() as u64
}

/// Goal: a herd comes back apart. Method: 100,000 keys are used up in the same millisecond; the seconds of an hour in which their windows
/// end hold about as many each, none much more.
#[test]
fn a_hundred_thousand_keys_come_back_evenly_over_the_window() {
    const KEYS: u64 = 100_000;
    let limit = Limit::new(by_key(&[(1, 3_600)]), capacity(2 * KEYS));
    let mut seconds = vec![0_u32; 3_600];
    for number in 0..KEYS {
        assert!(admits(&limit, number, START) && !admits(&limit, number, START));
        // Rounded up, as a client is told.
        let wait = reset(&limit, number, 0).div_ceil(1_000);
        seconds[wait as usize - 1] += 1;
    }
    let even = KEYS as f64 / seconds.len() as f64;
    let squares = seconds
        .iter()
        .map(|count| (f64::from(*count) - even).powi(2) / even);
    let uneven: f64 = squares.sum();
    // Chi-squared of 3,599 degrees has a deviation of 85.
    assert!((uneven - 3_599.0).abs() < 5.0 * 85.0, "{uneven}");
    let most = seconds.iter().max();
    assert!(
        most < Some(&66),
        "{most:?} of {even} come back in one second"
    );
}

/// Goal: one place for one key, whatever happens in between. Method: windows of a day, and after an edit of the count, of the capacity, and
/// with another handle; the window ends at the same offset, and two keys end apart.
#[test]
fn the_windows_of_one_key_begin_at_the_same_place() {
    let mut limit = Limit::new(by_key(&[(5, 3_600)]), capacity(100));
    let mut ends = Vec::new();
    for hour in 0..24 {
        let now = hour * HOUR + 17 * 60_000;
        limit = match hour {
            6 => limit.edited(by_key(&[(9, 3_600)]), capacity(100), after(now)),
            12 => limit.edited(by_key(&[(9, 3_600)]), capacity(5_000), after(now)),
            18 => limit
                .with_policy(by_key(&[(7, 3_600)]))
                .expect("the same counters"),
            _ => limit,
        };
        assert!(admits(&limit, 1, after(now)) && admits(&limit, 2, after(now)));
        ends.push([1, 2].map(|number| (now + reset(&limit, number, now)) % HOUR));
    }
    assert!(ends.iter().all(|pair| *pair == ends[0]), "{ends:?}");
    assert_ne!(ends[0][0], ends[0][1]);
}

/// Goal: a key that has another hash elsewhere has its windows there. Method: a handle that is aligned to another key, beside one that is
/// not: both see all charges, and each begins windows where it is aligned.
#[test]
fn a_handle_lets_windows_begin_where_another_key_has_them() {
    let limit = Limit::new(by_key(&[(5, 3_600)]), capacity(100));
    let aligned = limit.aligned_to(key(2)).expect("windows begin by key");
    assert!(admits(&limit, 2, START) && admits(&aligned, 1, START));
    assert_eq!(reset(&limit, 1, 0), reset(&limit, 2, 0));
    assert_eq!((left(&limit, 1, START), left(&aligned, 1, START)), (4, 4));
    let clock = Algorithm::FixedWindow(Alignment::Epoch);
    let clock = Policy::new(clock, rates(&[(5, 3_600)])).expect("a policy");
    assert!(
        Limit::new(clock, capacity(100))
            .aligned_to(key(2))
            .is_none()
    );
}

/// The alignments that a limit has before it is edited to windows by key.
fn any_alignment() -> impl Strategy<Value = Alignment> {
    prop_oneof![Just(Alignment::Epoch), Just(Alignment::FirstRequest)]
}

proptest! {
    /// Goal: a word that began elsewhere does not give a key a second share of its window. Method: a limit that is edited to windows by key
    /// while it is used; of the requests after the edit no window of a key holds more than the count.
    #[test]
    fn no_window_of_a_key_holds_more_than_the_count_after_an_edit(
        before in any_alignment(),
        early in prop::collection::vec((0u64..7_000, 0u64..6), 0..30),
        late in prop::collection::vec((0u64..7_000, 0u64..6), 1..150),
    ) {
        const PERIOD: u64 = 10_000;
        let policy = Policy::new(Algorithm::FixedWindow(before), rates(&[(5, 10)])).expect("a policy");
        let old = Limit::new(policy, capacity(100));
        let mut now = 3 * PERIOD;
        for (wait, number) in early {
            now += wait;
            admits(&old, number, after(now));
        }
        let used: Vec<u32> = (0..6).map(|number| left(&old, number, after(now))).collect();
        let limit = old.edited(by_key(&[(5, 10)]), capacity(100), after(now));
        let kept: Vec<u32> = (0..6).map(|number| left(&limit, number, after(now))).collect();
        prop_assert_eq!(used, kept, "nothing is forgotten");
        let fresh = Limit::new(by_key(&[(5, 10)]), capacity(100));
        let mut counts = HashMap::new();
        for (wait, number) in late {
            now += wait;
            let passed = (0..3).filter(|_| admits(&limit, number, after(now))).count();
            assert!(admits(&fresh, number, after(now)) || left(&fresh, number, after(now)) == 0);
            let end = now + reset(&fresh, number, now);
            *counts.entry((number, end)).or_insert(0) += passed;
        }
        prop_assert!(counts.values().all(|count| *count <= 5), "{:?}", counts);
        let places: HashSet<_> = counts.keys().map(|(number, end)| (number, end % PERIOD)).collect();
        prop_assert!(places.len() <= 6, "one place for each key");
    }
}
