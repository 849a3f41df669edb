//! C4: an edit of a limit in use forgets no charge.

mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use common::{START, admits, after, capacity, cost, key, left, limit, peek, rates, take};
use sluicegate_limiter::{
    Algorithm, Alignment, Ask, KeyPlacement, Limit, Outcome, Policy, Refill, decide,
};

/// Goal: numbers change, counts do not. Method: raise and lower the count; both handles see all charges.
#[test]
fn an_edit_of_the_counts_keeps_one_set_of_counters() {
    let five = limit(&[(5, 60)], 100);
    for _ in 0..5 {
        assert!(admits(&five, 1, START));
    }
    let eight = five.edited(rates(&[(8, 60)]), capacity(100), START);
    assert_eq!(left(&eight, 1, START), 3);
    assert!(admits(&eight, 1, START));
    let two = eight.edited(rates(&[(2, 60)]), capacity(100), START);
    assert!(!admits(&two, 1, START) && !admits(&five, 1, START));
    assert_eq!(left(&eight, 1, START), 2);
}

/// Goal: a reload loop refills nothing. Method: the same numbers over and over, with a request between.
#[test]
fn a_loop_of_edits_refills_nothing() {
    let mut limit = limit(&[(5, 60)], 100);
    let mut passed = 0;
    for round in 0..100 {
        limit = limit.edited(rates(&[(5, 60)]), capacity(100 + round % 2), START);
        passed += u32::from(admits(&limit, 1, START));
    }
    assert_eq!(passed, 5);
}

/// Goal: another capacity, the same counts. Method: larger and smaller tables, known keys before and after.
#[test]
fn an_edit_of_the_capacity_copies_every_count() {
    for (from, to) in [(1000, 50_000), (1000, 1000), (50_000, 1000), (300, 30)] {
        let old = limit(&[(5, 60), (9, 600)], from);
        for number in 0..300 {
            for _ in 0..number % 6 {
                admits(&old, number, START);
            }
        }
        let new = old.edited(rates(&[(5, 60), (9, 600)]), capacity(to), START);
        assert_eq!(new.capacity(), capacity(to));
        for number in 0..300 {
            let (before, after) = (peek(&old, number, START), peek(&new, number, START));
            // Without a slot a key may look fuller than it is, never emptier.
            for (before, after) in before.statuses().iter().zip(after.statuses()) {
                assert!(after.remaining <= before.remaining);
            }
            if after.placement() == KeyPlacement::OwnSlot
                && to >= 1000
                && before.placement() == KeyPlacement::OwnSlot
            {
                assert_eq!(before, after);
            }
        }
    }
}

/// Goal: other periods go on from what was counted. Method: rates come, go and change; what was used is used.
#[test]
fn an_edit_of_the_periods_goes_on_from_the_nearest_count() {
    let old = limit(&[(10, 60)], 100);
    for _ in 0..7 {
        assert!(admits(&old, 1, START));
    }
    for numbers in [
        &[(10, 30)][..],
        &[(10, 3600)],
        &[(10, 60), (10, 600)],
        &[(10, 1), (10, 60), (10, 120), (10, 240)],
    ] {
        let new = old.edited(rates(numbers), capacity(100), START);
        let remaining: Vec<u32> = peek(&new, 1, START)
            .statuses()
            .iter()
            .map(|rate| rate.remaining)
            .collect();
        assert_eq!(remaining, vec![3; numbers.len()]);
        assert_eq!(left(&new, 2, START), 10, "others have used nothing");
    }
}

/// Goal: new keys without a slot are not forgotten, and a larger table relieves those that used nothing at once. Method: a full table
/// under every algorithm, its overflow, and edits of the capacity, back and forth; nobody uses more than the limit in all of them.
#[test]
fn an_edit_takes_the_overflow_along_and_relieves_the_others() {
    for algorithm in [
        Algorithm::SlidingWindow,
        Algorithm::FixedWindow(Alignment::Epoch),
        Algorithm::FixedWindow(Alignment::FirstRequest),
        Algorithm::FixedWindow(Alignment::Key),
        Algorithm::Gcra { burst: None },
        Algorithm::Exact,
    ] {
        let policy = Policy::new(algorithm.clone(), rates(&[(3, 86_400)])).expect("a policy");
        let old = Limit::with_buckets(policy.clone(), 1);
        let passed =
            |limit: &Limit, number| (0..9).filter(|_| admits(limit, number, START)).count();
        let used: Vec<usize> = (0..400).map(|number| passed(&old, number)).collect();
        let refused: Vec<u64> = (0..400)
            .filter(|number| used[*number as usize] == 0)
            .collect();
        assert!(refused.len() >= 380, "{algorithm:?}");
        assert_eq!(
            peek(&old, refused[0], START).placement(),
            KeyPlacement::Overflow
        );
        let larger = old.edited(policy.clone(), capacity(100_000), START);
        for (number, used) in (0..400).zip(&used) {
            assert_eq!(used + passed(&larger, number), 3, "{algorithm:?}: {number}");
        }
        let smaller = larger.edited(policy.clone(), capacity(2), START);
        assert!((0..400).all(|number| !admits(&smaller, number, START)));
        let largest = smaller.edited(policy, capacity(200_000), START);
        assert!((0..400).all(|number| !admits(&largest, number, START)));
        assert!((500..900).all(|number| admits(&largest, number, START)));
        let admitted = |limit: &Limit| limit.stats().admitted_in_overflow;
        assert!(admitted(&largest) >= admitted(&old));
    }
}

/// Goal: a key in overflow is found for as long as its debt counts. Method: a bucket that is refilled in a minute, and after
/// an edit of the count in ten, much longer than its mark was to last; half of that later an edit makes room.
#[test]
fn an_edit_of_the_count_keeps_what_a_debt_in_overflow_counts() {
    let policy = |count| {
        let burst = Some(10);
        let refill = Refill::Interval;
        let bucket = Algorithm::TokenBucket { burst, refill };
        Policy::new(bucket, rates(&[(count, 60)])).expect("a policy")
    };
    let fast = Limit::with_buckets(policy(10), 1);
    assert!((0..7).all(|number| admits(&fast, number, START)));
    while admits(&fast, 9, START) {}
    let slow = fast.edited(policy(1), fast.capacity(), START);
    let later = after(300_000);
    let left_then = left(&slow, 9, later);
    assert!((1..=5).contains(&left_then), "{left_then}");
    let roomy = slow.edited(policy(1), capacity(1_000), later);
    assert_eq!(left(&roomy, 9, later), left_then);
}

/// Goal: who still holds the old limit is heard. Method: an edit, then charges on the old one, in slots and in
/// overflow, over two generations.
#[test]
fn charges_on_a_replaced_limit_reach_its_successors() {
    let old = limit(&[(10, 60)], 100);
    let newer = old.edited(rates(&[(10, 60)]), capacity(200), START);
    let newest = newer.edited(rates(&[(10, 60), (10, 600)]), capacity(200), START);
    assert!(admits(&old, 1, START));
    assert_eq!(
        [
            left(&old, 1, START),
            left(&newer, 1, START),
            left(&newest, 1, START)
        ],
        [9, 9, 9]
    );
    let same = old.edited(rates(&[(4, 60), (10, 600)]), capacity(200), START);
    assert_eq!(
        left(&same, 1, START),
        3,
        "an edit of the oldest edits the newest"
    );

    let full = Limit::with_buckets(rates(&[(10, 60)]), 1);
    assert!((0..7).all(|number| admits(&full, number, START)));
    let roomy = full.edited(rates(&[(10, 60)]), capacity(1000), START);
    assert!(admits(&full, 9, START));
    assert_eq!(left(&roomy, 9, START), 9);
    assert!(admits(&roomy, 9, START) && admits(&full, 9, START));
    assert!(left(&roomy, 9, START) <= 7, "with a slot of its own by now");
}

/// Goal: no charge is lost in a copy that races with it. Method: threads charge what they last saw while the structure
/// is edited again and again; the last limit counts at least what passed.
#[test]
fn charges_that_race_with_edits_are_counted_at_least_once() {
    const KEYS: usize = 50;
    let shapes: [(&[(u32, u32)], u64); 3] = [
        (&[(1_000_000, 3600)], 100),
        (&[(1_000_000, 3600), (1_000_000, 7200)], 400),
        (&[(1_000_000, 3600)], 30),
    ];
    let current = Mutex::new(limit(shapes[0].0, shapes[0].1));
    let held = || {
        current
            .lock()
            .expect("no thread panics while it holds the lock")
            .clone()
    };
    let passed: Vec<AtomicU32> = (0..KEYS).map(|_| AtomicU32::new(0)).collect();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..3 {
            let (held, passed, done) = (&held, &passed, &done);
            scope.spawn(move || {
                let mut turn = thread;
                while !done.load(Ordering::Relaxed) {
                    let limit = held();
                    for _ in 0..20 {
                        turn += 1;
                        let ask = Ask {
                            limit: &limit,
                            key: key((turn % KEYS) as u64),
                            cost: cost(1),
                            payer: None,
                        };
                        if decide(&[ask], after(turn as u64 % 1000)).outcome() == Outcome::Admitted
                        {
                            passed[turn % KEYS].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        // Until there was plenty of both.
        let requests = || {
            passed
                .iter()
                .map(|passed| passed.load(Ordering::Relaxed))
                .sum::<u32>()
        };
        for edit in 1.. {
            if edit > 300 && requests() > 300_000 {
                break;
            }
            let (numbers, keys) = shapes[edit % shapes.len()];
            let next = held().edited(rates(numbers), capacity(keys), START);
            *current
                .lock()
                .expect("no thread panics while it holds the lock") = next;
        }
        done.store(true, Ordering::Relaxed);
    });
    let last = held();
    for (number, passed) in passed.iter().enumerate() {
        let used = 1_000_000 - left(&last, number as u64, after(1000));
        assert!(
            used >= passed.load(Ordering::Relaxed),
            "key {number}: {used} counted, {passed:?} passed"
        );
    }
}

/// Goal: a smaller burst frees nobody, and keys of different tiers keep their slots from one another. Method: a burst of a hundred hours is
/// used up, then made smaller, by an edit and by another handle, under which a bucket of new keys comes.
#[test]
fn a_debt_of_a_larger_burst_stays_a_debt() {
    let policy = |count, burst| {
        let algorithm = Algorithm::Gcra { burst: Some(burst) };
        Policy::new(algorithm, rates(&[(count, 3600)])).expect("a policy")
    };
    for (count, burst) in [(10, 500), (10, 10), (10, 1), (1000, 1000)] {
        let limit = Limit::with_buckets(policy(10, 1000), 1);
        (0..1000).for_each(|_| assert!(admits(&limit, 1, START)));
        let other = limit.with_policy(policy(count, burst)).expect("one kind");
        (2..20).for_each(|number| drop(take(&other, number, START)));
        let edited = limit.edited(policy(count, burst), limit.capacity(), START);
        assert_eq!(left(&limit, 1, START), 0);
        assert_eq!(left(&edited, 1, START), 0, "{count} per 1h, burst {burst}");
    }
}
