//! Limits that keep logs, beside limits that keep words: charged together, and edited from one to the other.

mod common;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use common::{START, admits, after, ask, capacity, cost, key, left, limit, peek, rates};
use proptest::prelude::*;
use sluicegate_limiter::{
    Algorithm, Alignment, Ask, CalendarUnit, CalendarZone, KeyPlacement, Limit, Outcome, Policy,
    Refill, Settle, Settlement, Timestamp, decide, reserve,
};

fn policy(algorithm: &Algorithm, numbers: &[(u32, u32)]) -> Policy {
    Policy::new(algorithm.clone(), rates(numbers)).expect("a policy")
}

fn exact(numbers: &[(u32, u32)]) -> Limit {
    Limit::new(policy(&Algorithm::Exact, numbers), capacity(100))
}

/// The algorithms that keep words; none holds more than `units` at once.
fn others(units: u32) -> Vec<Algorithm> {
    vec![
        Algorithm::SlidingWindow,
        Algorithm::FixedWindow(Alignment::Epoch),
        Algorithm::FixedWindow(Alignment::FirstRequest),
        Algorithm::FixedWindow(Alignment::Key),
        Algorithm::TokenBucket {
            burst: None,
            refill: Refill::Greedy,
        },
        Algorithm::TokenBucket {
            burst: None,
            refill: Refill::Interval,
        },
        Algorithm::Gcra { burst: None },
        Algorithm::LeakyBucket {
            queue: units - 1,
            max_wait: Duration::from_secs(40 * 86_400),
        },
    ]
}

fn remaining(limit: &Limit, number: u64, now: Timestamp) -> Vec<u32> {
    let statuses = peek(limit, number, now).statuses();
    statuses.iter().map(|rate| rate.remaining).collect()
}

/// Goal: C2 for asks that name one log twice. Method: together too much, then just enough, then one unit more.
#[test]
fn two_asks_of_one_log_are_charged_together_or_not_at_all() {
    let (log, other) = (exact(&[(5, 60)]), limit(&[(9, 60)], 100));
    let ask_for = |units| Ask {
        cost: cost(units),
        ..ask(&log, 1)
    };
    let refused = decide(&[ask_for(3), ask(&other, 1), ask_for(3)], START);
    assert!(matches!(
        refused.outcome(),
        Outcome::Refused { ask: 0 | 2, .. }
    ));
    assert_eq!((left(&log, 1, START), left(&other, 1, START)), (5, 9));
    let (admitted, charge) = reserve(&[ask_for(3), ask(&other, 1), ask_for(2)], START);
    assert_eq!(admitted.outcome(), Outcome::Admitted);
    assert_eq!((left(&log, 1, START), left(&other, 1, START)), (0, 8));
    let wait = decide(&[ask(&other, 1), ask(&log, 1)], after(1_000)).retry_after();
    assert_eq!(wait, Some(Duration::from_secs(59)));
    charge.expect("it was admitted").release(after(2_000));
    assert_eq!((left(&log, 1, START), left(&other, 1, START)), (5, 9));
}

/// Goal: C2 under threads. Method: each asks for a log of its own and words shared by all, and the other way round;
/// what is left is what was admitted.
#[test]
fn logs_and_words_are_charged_together_from_all_threads() {
    for (log_units, word_units) in [(900, 2000), (400, 900), (500, 1000)] {
        let (log, words) = (exact(&[(log_units, 600)]), limit(&[(word_units, 600)], 100));
        for (own, shared) in [(&log, &words), (&words, &log)] {
            let admitted: [AtomicU32; 4] = Default::default();
            thread::scope(|scope| {
                for (number, admitted) in admitted.iter().enumerate() {
                    scope.spawn(move || {
                        let asks = [ask(own, number as u64), ask(shared, 99)];
                        for _ in 0..1000 {
                            let passed = decide(&asks, START).outcome() == Outcome::Admitted;
                            admitted.fetch_add(u32::from(passed), Ordering::Relaxed);
                        }
                    });
                }
            });
            let admitted = admitted.map(AtomicU32::into_inner);
            let count = |limit: &Limit| limit.rates().as_slice()[0].count();
            let sum: u32 = admitted.iter().sum();
            assert_eq!(left(shared, 99, START), count(shared) - sum);
            for (number, admitted) in admitted.iter().enumerate() {
                assert_eq!(left(own, number as u64, START), count(own) - admitted);
            }
            for number in [0, 1, 2, 3, 99] {
                own.reset(key(number), START);
                shared.reset(key(number), START);
            }
        }
    }
}

/// Goal: an edit between logs keeps the moments. Method: charges in the course of a minute; other counts, other periods,
/// another capacity; what each rate has left and when the next unit frees.
#[test]
fn an_edit_of_a_log_is_judged_by_what_really_happened() {
    let old = exact(&[(5, 60)]);
    for second in [0, 10, 20, 30] {
        assert!(admits(&old, 1, after(1_000 * second)));
    }
    let now = after(31_000);
    let fewer = old.edited(policy(&Algorithm::Exact, &[(4, 60)]), capacity(100), now);
    assert!(!admits(&fewer, 1, now) && admits(&old, 1, now));
    for (numbers, keys, expected) in [
        (&[(9, 12), (9, 60)][..], 100, &[(6, 1), (4, 29)][..]),
        (&[(9, 60)], 5_000, &[(4, 29)]),
        (&[(9, 600)], 30, &[(4, 569)]),
    ] {
        let new = old.edited(policy(&Algorithm::Exact, numbers), capacity(keys), now);
        let statuses = peek(&new, 1, now).statuses();
        let told: Vec<(u32, u64)> = statuses
            .iter()
            .map(|rate| (rate.remaining, rate.next_free.as_secs()))
            .collect();
        assert_eq!(told, expected);
        assert_eq!(
            new.bytes() as u64,
            Limit::bytes_for(new.policy(), new.capacity())
        );
    }
}

proptest! {
    /// Goal: C4 between logs and words. Method: charges at random moments, then an edit of the algorithm; no rate has
    /// more left than it had, nor less where a log can say what each rate had used.
    #[test]
    fn an_edit_from_or_to_a_log_carries_over_what_was_used(
        other in prop::sample::select(others(8)),
        to_log in any::<bool>(),
        steps in prop::collection::vec((0u64..9_000, 0u64..4, 1u32..3), 1..40),
    ) {
        let numbers = [(8, 4), (8, 60)];
        let (from, to) = match to_log {
            true => (other, Algorithm::Exact),
            false => (Algorithm::Exact, other),
        };
        let old = Limit::new(policy(&from, &numbers), capacity(100));
        let mut millis = 0;
        for (pause, number, units) in steps {
            millis += pause;
            let asked = Ask { cost: cost(units), ..ask(&old, number) };
            let _ = decide(&[asked], after(millis));
        }
        let now = after(millis);
        let new = old.edited(policy(&to, &numbers), capacity(100), now);
        for number in 0..5 {
            let (before, then) = (remaining(&old, number, now), remaining(&new, number, now));
            let expected = [before[0], before[1].min(if to_log { before[0] } else { 8 })];
            prop_assert_eq!(then, expected, "{:?} to {:?}", from, to);
        }
    }
}

/// Goal: reservations survive edits, and give nobody more than there is. Method: a charge before an edit and one told
/// during it, released after it, for every pair.
#[test]
fn a_release_after_an_edit_gives_back_at_most_what_was_charged() {
    let numbers = [(20, 86_400)];
    let mut algorithms = others(20);
    algorithms.push(Algorithm::Exact);
    for from in &algorithms {
        for to in &algorithms {
            let old = Limit::new(policy(from, &numbers), capacity(100));
            let of_four = |limit| Ask {
                cost: cost(4),
                ..ask(limit, 1)
            };
            assert!((0..5).all(|_| admits(&old, 1, START)));
            let (_, before) = reserve(&[of_four(&old)], after(1_000));
            let new = old.edited(policy(to, &numbers), capacity(200), after(2_000));
            let (_, told) = reserve(&[of_four(&old)], after(3_000));
            assert_eq!(left(&new, 1, after(3_000)), 7, "{from:?} to {to:?}");
            told.expect("it fits").release(after(4_000));
            let after_told = left(&new, 1, after(4_000));
            assert!(
                (7..=11).contains(&after_told),
                "{from:?} to {to:?}: {after_told}"
            );
            before.expect("it fits").release(after(5_000));
            let all = left(&new, 1, after(5_000));
            assert!(
                (after_told..=15).contains(&all),
                "{from:?} to {to:?}: {all}"
            );
            if (from, to) == (&Algorithm::Exact, &Algorithm::Exact) {
                assert_eq!((after_told, all), (11, 15));
            }
        }
    }
}

/// Goal: new keys without a slot are not forgotten, and those that used nothing find the room that there is. Method: full tables of
/// either kind, their overflow, and edits to the other, with and without room; nobody uses more than the limit in all of them.
#[test]
fn an_edit_between_logs_and_words_takes_the_overflow_along() {
    let numbers = [(3, 60)];
    for (from, to) in [
        (Algorithm::Exact, Algorithm::SlidingWindow),
        (Algorithm::SlidingWindow, Algorithm::Exact),
        (Algorithm::Exact, Algorithm::Gcra { burst: None }),
    ] {
        let old = Limit::with_buckets(policy(&from, &numbers), 1);
        let mut used = [0; 400];
        let use_up = |limit: &Limit, used: &mut [u32; 400]| {
            for (number, used) in (0..).zip(used) {
                while admits(limit, number, START) {
                    *used += 1;
                }
                assert!(
                    *used <= 3,
                    "{from:?} to {to:?}: {number} passed {used} times"
                );
            }
        };
        use_up(&old, &mut used);
        let overflowing = (0..400)
            .filter(|number| peek(&old, *number, START).placement() == KeyPlacement::Overflow);
        assert!(overflowing.count() >= 380);
        for keys in [2, 10, 100_000] {
            let new = old.edited(policy(&to, &numbers), capacity(keys), START);
            let before = used;
            use_up(&new, &mut used);
            if keys == 100_000 {
                let unused = before.iter().zip(&used).filter(|(before, _)| **before == 0);
                assert!(unused.clone().count() >= 200, "{from:?} to {to:?}");
                assert!(
                    unused.clone().all(|(_, used)| *used == 3),
                    "{from:?} to {to:?}"
                );
            }
            let (before, then) = (old.stats(), new.stats());
            assert!(then.admitted_in_overflow >= before.admitted_in_overflow);
        }
    }
}

/// Goal: no charge is lost while a limit goes from logs to words and back. Method: threads charge what they last saw,
/// fewer units in all than the limit; the last limit counts at least what passed.
#[test]
fn charges_that_race_with_edits_of_the_algorithm_are_counted() {
    const KEYS: u64 = 40;
    let numbers = [(1_000, 3_600)];
    let kinds = [Algorithm::Exact, Algorithm::SlidingWindow];
    for round in 0..20 {
        let first = Limit::new(policy(&kinds[round % 2], &numbers), capacity(100));
        let current = Mutex::new(first);
        let held = || current.lock().expect("nobody panics with it").clone();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for turn in 0..10 * KEYS {
                        assert!(admits(&held(), turn % KEYS, after(turn)), "there is room");
                    }
                });
            }
            for edit in 1..5 {
                let keys = [100, 20][edit % 2];
                let next = policy(&kinds[(round + edit) % 2], &numbers);
                let next = held().edited(next, capacity(keys), START);
                *current.lock().expect("nobody panics with it") = next;
            }
        });
        for number in 0..KEYS {
            let used = 1_000 - left(&held(), number, after(1_000));
            assert!(used >= 30, "key {number}: {used} counted, 30 passed");
        }
    }
}

/// Goal: what a limit will take is known before it is made. Method: every kind and number of rates against what it took.
#[test]
fn the_memory_of_a_limit_is_known_before_it_is_made() {
    let mut algorithms = others(1_000);
    algorithms.push(Algorithm::Exact);
    for algorithm in algorithms {
        for numbers in [
            &[(1_000, 10)][..],
            &[(1, 10), (1_000, 20)],
            &[(7, 10), (8, 20), (1_000, 30)],
            &[(7, 10), (8, 20), (9, 30), (1_000, 40)],
        ] {
            for keys in [1, 1_000, 20_000] {
                let Ok(policy) = Policy::new(algorithm.clone(), rates(numbers)) else {
                    continue;
                };
                let bytes = Limit::bytes_for(&policy, capacity(keys));
                assert_eq!(Limit::new(policy, capacity(keys)).bytes() as u64, bytes);
            }
        }
    }
    let calendar = Algorithm::FixedWindow(Alignment::Calendar {
        zone: Arc::new(CalendarZone::utc()),
        unit: CalendarUnit::Day,
    });
    let days = policy(&calendar, &[(5, 86_400)]);
    let most = policy(&Algorithm::Exact, &[(1024, 60)]);
    let largest = capacity(1 << 30);
    assert_eq!(Limit::bytes_for(&days, largest) >> 30, 31);
    assert_eq!(Limit::bytes_for(&most, largest) >> 40, 5);
}

/// Goal: limits of one request may count by different outcomes. Method: three asks, of words and of a log; one is kept, one given
/// back, one costs more than was reserved.
#[test]
fn each_ask_of_a_reservation_is_settled_by_its_own_word() {
    let (kept, released, dearer) = (
        limit(&[(9, 60)], 100),
        exact(&[(9, 60)]),
        limit(&[(9, 60)], 100),
    );
    let asks = [ask(&kept, 1), ask(&released, 1), ask(&dearer, 1)];
    let (_, reservation) = reserve(&asks, START);
    let reservation = reservation.expect("there is room");
    let due = |ask: usize| [Settle::Keep, Settle::Refund, Settle::Adjust(cost(4))][ask];
    assert_eq!(
        reservation.settle_each(after(1), due),
        Settlement::Corrected
    );
    let left = [&kept, &released, &dearer].map(|limit| left(limit, 1, after(1)));
    assert_eq!(left, [8, 9, 5]);
    let (_, again) = reserve(&asks, after(2));
    let unchanged = again
        .expect("there is room")
        .settle_each(after(3), |_| Settle::Keep);
    assert_eq!(unchanged, Settlement::Unchanged);
}
