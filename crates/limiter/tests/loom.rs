//! The packed transitions under every interleaving, as loom explores them.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p sluicegate-limiter --release --test loom`. A bucket has two slots for
//! one rate then.
#![cfg(loom)]

mod common;
#[path = "exact/loom.rs"]
mod exact;
#[path = "penalty/loom.rs"]
mod penalty;

use std::sync::Arc;

use common::{admits, after, ask, capacity, left, peek, rates};
use loom::thread;
use sluicegate_limiter::{
    Algorithm, Ask, KeyPlacement, Limit, LogEntry, Outcome, Payer, Policy, RateState, RemoteState,
    Seed, decide, exhaust_backoff, reserve,
};

/// Windows of the one rate that most of these tests use.
const PERIOD_MILLIS: u64 = 10_000;

fn explore(model: impl Fn() + Send + Sync + 'static) {
    loom::model(model);
}

/// As [`explore`], where a thread that would have to wait takes another for dead, in most interleavings wrongly.
fn explore_impatient(model: impl Fn() + Send + Sync + 'static) {
    exhaust_backoff();
    let mut builder = loom::model::Builder::new();
    // Two keep this to seconds, and with them a model fails for each of these that is left out of `new key`: the looks at
    // the turn in a claim and behind the overflow, the look at the busy word between two words, the exchange at the end.
    builder.preemption_bound = Some(2);
    builder.max_branches = 4_000;
    builder.check(model);
}

/// Runs both at once; what each says.
fn both<T: Send + 'static, U>(
    one: impl FnOnce() -> T + Send + 'static,
    other: impl FnOnce() -> U,
) -> (T, U) {
    let thread = thread::spawn(one);
    let here = other();
    (thread.join().expect("the other thread ends"), here)
}

/// Goal: invariants 2 and 3, no charge is lost when a slot changes hands. Method: a new key wants the slot of a key
/// that owes nothing while that key comes back; both have used all that they may, wherever they were seated.
#[test]
fn a_claim_and_a_charge_of_the_old_key_do_not_lose_each_other() {
    explore(|| {
        let limit = Arc::new(Limit::with_buckets(rates(&[(1, 10)]), 1));
        assert!(admits(&limit, 1, after(0)) && admits(&limit, 2, after(0)));
        let now = after(2 * PERIOD_MILLIS);
        // The other slot owes again, so the old key's is the only one to claim.
        assert!(admits(&limit, 2, now));
        let theirs = Arc::clone(&limit);
        let (newcomer, old) = both(move || admits(&theirs, 3, now), || admits(&limit, 1, now));
        // One of them found no slot; it shares a counter with nobody else, so it is admitted unless it came second in
        // overflow.
        assert!(newcomer || old);
        assert!(!admits(&limit, 1, now) && !admits(&limit, 3, now) && !admits(&limit, 2, now));
    });
}

/// Goal: a payer takes no slot that is not in its account, and none of its keys passes uncounted. Method: two new keys of one payer
/// want slots at once, within its share.
#[test]
fn keys_of_one_payer_are_counted_whoever_comes_first() {
    explore(|| {
        let limit = Limit::with_buckets(rates(&[(1, 10)]), 1);
        let limit = Arc::new(limit.with_payer_shares(&Seed::from_bytes([1; 16])));
        let admits = |limit: &Limit, number| {
            let payer = Some(Payer::from_bits(1));
            let ask = Ask {
                payer,
                ..ask(limit, number)
            };
            decide(&[ask], after(0)).outcome() == Outcome::Admitted
        };
        let theirs = Arc::clone(&limit);
        let (one, other) = both(move || admits(&theirs, 1), || admits(&limit, 2));
        assert!(one && other, "both are within the share");
        assert!(!admits(&limit, 1) && !admits(&limit, 2));
        assert_eq!(limit.occupancy(after(0)).live, 2);
    });
}

/// Goal: as above for a charge that was judged together with another and is made where the key was seen then. Method: the old key is
/// asked for together with a limit that is in nobody's way.
#[test]
fn a_claim_and_a_charge_where_the_old_key_was_seen_do_not_lose_each_other() {
    explore(|| {
        let limit = Arc::new(Limit::with_buckets(rates(&[(1, 10)]), 1));
        let other = Limit::with_buckets(rates(&[(9, 10)]), 1);
        let both_admit = |number, now| {
            decide(&[ask(&limit, number), ask(&other, 1)], now).outcome() == Outcome::Admitted
        };
        assert!(both_admit(1, after(0)) && admits(&limit, 2, after(0)));
        let now = after(2 * PERIOD_MILLIS);
        assert!(admits(&limit, 2, now));
        let theirs = Arc::clone(&limit);
        let (newcomer, old) = both(move || admits(&theirs, 3, now), || both_admit(1, now));
        assert!(newcomer || old);
        assert!(!admits(&limit, 1, now) && !admits(&limit, 3, now) && !admits(&limit, 2, now));
        assert_eq!(left(&other, 1, now), if old { 8 } else { 9 });
    });
}

/// Goal: invariant 1 while a claim fails. Method: a key that owes nothing comes back twice at once while a new key
/// with another lock wants its slot.
///
/// The numbers are chosen by their hashes: both buckets are open to the old key and to the new key, each has its lock
/// in the other's; the filler makes the old key's bucket the emptier one, where the new key looks at the old key's
/// slot first.
#[test]
fn a_slot_that_is_changing_hands_may_go_back_to_its_key() {
    const OLD: u64 = 1;
    const FILLER: u64 = 10;
    const NEWCOMER: u64 = 12;
    // Three threads without a bound take too long. What breaks if nobody waits for the failing claim needs two
    // preemptions.
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 10_000;
    builder.check(|| {
        let limit = Arc::new(Limit::with_buckets(rates(&[(2, 10)]), 2));
        assert!(admits(&limit, OLD, after(0)));
        let now = after(2 * PERIOD_MILLIS);
        assert!(admits(&limit, FILLER, now));
        let threads = [NEWCOMER, OLD].map(|number| {
            let limit = Arc::clone(&limit);
            thread::spawn(move || admits(&limit, number, now))
        });
        let here = admits(&limit, OLD, now);
        let [_, there] = threads.map(|thread| thread.join().expect("the thread ends"));
        let later = (0..3).filter(|_| admits(&limit, OLD, now)).count();
        assert_eq!(usize::from(here) + usize::from(there) + later, 2);
    });
}

/// Goal: as above with two rates, where a claim writes two words. Method: the old key's short rate owes nothing either.
#[test]
fn a_claim_of_two_words_and_a_charge_do_not_lose_each_other() {
    explore(|| {
        let limit = Arc::new(Limit::with_buckets(rates(&[(1, 10), (2, 20)]), 1));
        assert!(
            [1, 2, 4]
                .into_iter()
                .all(|number| admits(&limit, number, after(0)))
        );
        let now = after(4 * PERIOD_MILLIS);
        assert!(admits(&limit, 2, now) && admits(&limit, 4, now));
        let theirs = Arc::clone(&limit);
        both(move || admits(&theirs, 3, now), || admits(&limit, 1, now));
        assert!(!admits(&limit, 1, now) && !admits(&limit, 3, now));
    });
}

/// Goal: invariant 1, one slot a key. Method: one new key from two threads, room for one request.
#[test]
fn two_new_keys_of_one_key_share_a_slot() {
    explore(|| {
        let limit = Arc::new(Limit::with_buckets(rates(&[(1, 10)]), 1));
        let theirs = Arc::clone(&limit);
        let (one, other) = both(
            move || admits(&theirs, 1, after(0)),
            || admits(&limit, 1, after(0)),
        );
        assert!(one != other);
        assert_eq!(limit.occupancy(after(0)).live, 1);
    });
}

/// Goal: no charge is lost while a table takes over from another, and what is taken back meanwhile is taken back once at most. Method: an
/// edit of the capacity beside a charge, and beside the release of one of two charges.
#[test]
fn an_edit_of_the_structure_loses_no_charge() {
    let edited = |limit: &Limit| limit.edited(rates(&[(3, 10)]), capacity(2), after(0));
    explore(move || {
        let limit = Arc::new(Limit::with_buckets(rates(&[(3, 10)]), 1));
        assert!(admits(&limit, 1, after(0)));
        let theirs = Arc::clone(&limit);
        let (admitted, next) = both(move || admits(&theirs, 1, after(0)), || edited(&limit));
        assert!(admitted && left(&next, 1, after(0)) <= 1);
    });
    explore(move || {
        let limit = Arc::new(Limit::with_buckets(rates(&[(3, 10)]), 1));
        assert!(admits(&limit, 1, after(0)));
        let (_, reservation) = reserve(&[ask(&limit, 1)], after(0));
        let reservation = reservation.expect("there is room");
        let release = move || reservation.release(after(0));
        // A charge in the new table alone is no less than the others.
        let ((), next) = both(release, || {
            let next = edited(&limit);
            assert!(admits(&next, 1, after(0)));
            next
        });
        assert!(left(&next, 1, after(0)) <= 1);
    });
}

/// Goal: a late refusal leaves no trace. Method: two requests over two limits, the second of which has room for one; an
/// undo runs beside a charge.
#[test]
fn a_charge_and_an_undo_do_not_lose_each_other() {
    explore(|| {
        let limits = Arc::new([
            Limit::with_buckets(rates(&[(3, 10)]), 1),
            Limit::with_buckets(rates(&[(2, 10)]), 1),
        ]);
        let asks = |limits: &[Limit; 2]| {
            decide(&[ask(&limits[0], 1), ask(&limits[1], 1)], after(0)).outcome()
        };
        assert_eq!(asks(&limits), Outcome::Admitted);
        let theirs = Arc::clone(&limits);
        let (one, other) = both(move || asks(&theirs), || asks(&limits));
        let admitted = [one, other]
            .iter()
            .filter(|outcome| **outcome == Outcome::Admitted)
            .count() as u32;
        assert_eq!(admitted, 1);
        assert_eq!(
            (left(&limits[0], 1, after(0)), left(&limits[1], 1, after(0))),
            (2 - admitted, 1 - admitted)
        );
    });
}

/// Goal: all rates of a limit or none. Method: two requests of a known key, the second rate has room for one; alone, and each together
/// with a limit that is in nobody's way.
#[test]
fn two_rates_of_a_known_key_are_charged_together() {
    two_rates_are_charged_together(|limit| admits(limit, 1, after(0)));
    two_rates_are_charged_together(|limit| {
        let own = Limit::with_buckets(rates(&[(1, 10)]), 1);
        decide(&[ask(limit, 1), ask(&own, 1)], after(0)).outcome() == Outcome::Admitted
    });
}

fn two_rates_are_charged_together(admits: fn(&Limit) -> bool) {
    explore(move || {
        let limit = Arc::new(Limit::with_buckets(rates(&[(3, 10), (2, 20)]), 1));
        assert!(admits(&limit));
        let theirs = Arc::clone(&limit);
        let (one, other) = both(move || admits(&theirs), || admits(&limit));
        assert!(one != other);
        let remaining: Vec<u32> = peek(&limit, 1, after(0))
            .statuses()
            .iter()
            .map(|rate| rate.remaining)
            .collect();
        assert_eq!(remaining, [1, 0]);
    });
}

/// Goal: invariant 5, a key in overflow is counted exactly. Method: no slot is free; one key from two threads, room for
/// one request.
#[test]
fn a_key_in_overflow_does_not_race_with_itself() {
    explore(|| {
        let limit = Arc::new(Limit::with_buckets(rates(&[(1, 10)]), 1));
        assert!(admits(&limit, 1, after(0)) && admits(&limit, 2, after(0)));
        let theirs = Arc::clone(&limit);
        let (one, other) = both(
            move || admits(&theirs, 3, after(0)),
            || admits(&limit, 3, after(0)),
        );
        assert!(one != other);
        assert_eq!(
            peek(&limit, 3, after(0)).placement(),
            KeyPlacement::Overflow
        );
    });
}

/// Goal: no count is lost when keys of two buckets want the same slot. Method: two new keys, one free slot between
/// them.
#[test]
fn two_new_keys_for_one_slot_are_both_counted() {
    explore(|| {
        let limit = Arc::new(Limit::with_buckets(rates(&[(1, 10)]), 1));
        assert!(admits(&limit, 1, after(0)));
        let theirs = Arc::clone(&limit);
        let (one, other) = both(
            move || admits(&theirs, 2, after(0)),
            || admits(&limit, 3, after(0)),
        );
        assert!(one && other);
        assert!(!admits(&limit, 2, after(0)) && !admits(&limit, 3, after(0)));
    });
}

/// Goal: a new key whose turn is taken away does not count twice or half. Method: one new key from two impatient
/// threads, with and without a free slot; never more than the limit passes, and what passed is not forgotten.
#[test]
fn a_turn_that_is_taken_away_admits_nobody_twice() {
    for filled in [0, 1, 2] {
        explore_impatient(move || {
            let limit = Arc::new(Limit::with_buckets(rates(&[(1, 10)]), 1));
            assert!((1..=filled).all(|number| admits(&limit, number, after(0))));
            let theirs = Arc::clone(&limit);
            let (one, other) = both(
                move || admits(&theirs, 9, after(0)),
                || admits(&limit, 9, after(0)),
            );
            let later = admits(&limit, 9, after(0));
            assert!(u32::from(one) + u32::from(other) + u32::from(later) <= 1);
        });
    }
}

/// Goal: invariant 1 without patience. Method: a new key's turn is taken away while it is about to take a slot in one
/// bucket, and meanwhile another key makes the other bucket the emptier one for the same new key.
#[test]
fn a_turn_that_is_taken_away_seats_nobody_twice() {
    const NEWCOMER: u64 = 10;
    // Which fillers share which buckets with the new key depends on their hashes, so there are several.
    for filler in 20..24 {
        explore_impatient(move || {
            let limit = Arc::new(Limit::with_buckets(rates(&[(1, 10)]), 2));
            let theirs = Arc::clone(&limit);
            let (one, other) = both(
                move || admits(&theirs, NEWCOMER, after(0)),
                || {
                    admits(&limit, filler, after(0));
                    admits(&limit, NEWCOMER, after(0))
                },
            );
            assert!(!(one && other));
        });
    }
}

/// Goal: a slot that is given back forgets no charge of its key. Method: a new key claims the slot of a key that comes
/// back twice and does not wait; one rate or two, of which the last has room for two.
#[test]
fn a_slot_that_is_given_back_keeps_its_counts() {
    for numbers in [&[(2, 10)][..], &[(5, 10), (2, 20)]] {
        explore_impatient(move || {
            let limit = Arc::new(Limit::with_buckets(rates(numbers), 1));
            let filled = if numbers.len() == 1 {
                &[1, 2][..]
            } else {
                &[1, 2, 4]
            };
            assert!(
                filled
                    .iter()
                    .all(|number| admits(&limit, *number, after(0)))
            );
            let now = after(4 * PERIOD_MILLIS);
            // The other slots owe again, so the old key's is the only one to claim.
            assert!(
                filled[1..]
                    .iter()
                    .all(|number| admits(&limit, *number, now))
            );
            let theirs = Arc::clone(&limit);
            let take = move |limit: &Limit, number, most| {
                (0..most).filter(|_| admits(limit, number, now)).count()
            };
            let (newcomer, old) = both(move || take(&theirs, 3, 1), || take(&limit, 1, 2));
            assert!(old + take(&limit, 1, 3) <= 2);
            assert!(newcomer + take(&limit, 3, 3) <= 2);
        });
    }
}

/// Goal: keys of two buckets that take each other for dead lose nothing. Method: two new keys, one free slot, no
/// patience.
#[test]
fn new_keys_without_patience_are_all_counted() {
    explore_impatient(|| {
        let limit = Arc::new(Limit::with_buckets(rates(&[(1, 10)]), 1));
        assert!(admits(&limit, 1, after(0)));
        let theirs = Arc::clone(&limit);
        let (one, other) = both(
            move || admits(&theirs, 2, after(0)),
            || admits(&limit, 3, after(0)),
        );
        let later = [2, 3].map(|number| admits(&limit, number, after(0)));
        assert!(u32::from(one) + u32::from(later[0]) <= 1);
        assert!(u32::from(other) + u32::from(later[1]) <= 1);
    });
}

/// Goal: as above for a debt, whose slot owes by what is left of it: an undo empties it at once. Method: a new key claims
/// the slot of a key that reserves and releases meanwhile and does not wait; what either is admitted counts once.
#[test]
fn a_debt_that_is_given_back_and_undone_keeps_its_counts() {
    let policy = || Policy::new(Algorithm::Gcra { burst: None }, rates(&[(2, 10)]));
    explore_impatient(move || {
        let limit = Arc::new(Limit::with_buckets(policy().expect("a policy"), 1));
        assert!(
            [1, 2]
                .iter()
                .all(|number| admits(&limit, *number, after(0)))
        );
        // Both have drained; the other slot owes again.
        let now = after(PERIOD_MILLIS);
        assert!(admits(&limit, 2, now));
        let theirs = Arc::clone(&limit);
        both(
            move || assert!(admits(&theirs, 3, now)),
            || {
                if let (_, Some(held)) = reserve(&[ask(&limit, 1)], now) {
                    held.release(now);
                }
            },
        );
        let take = |number| (0..3).filter(|_| admits(&limit, number, now)).count();
        assert!(1 + take(3) <= 2);
        assert!(take(1) <= 2);
    });
}

/// What a store says of a key that has used so much in the window of START.
fn told(used: u32) -> RemoteState {
    RemoteState::new([RateState::Sliding {
        second: after(0).as_secs(),
        previous: 0,
        current: used,
    }])
}

/// Goal: what a store says comes before a charge or after it. Method: both for a known key; then both for two new keys that want
/// the one slot that is left.
#[test]
fn what_a_store_says_and_a_charge_come_one_after_the_other() {
    explore(|| {
        let limit = Arc::new(Limit::with_buckets(rates(&[(5, 10)]), 1));
        assert!(admits(&limit, 1, after(0)));
        let theirs = Arc::clone(&limit);
        both(
            move || {
                theirs.adopt(common::key(1), &told(3), after(0));
            },
            || assert!(admits(&limit, 1, after(0))),
        );
        let left = left(&limit, 1, after(0));
        assert!(left == 2 || left == 1, "{left} left");
    });
    explore(|| {
        let limit = Arc::new(Limit::with_buckets(rates(&[(5, 10)]), 1));
        assert!(admits(&limit, 1, after(0)));
        let theirs = Arc::clone(&limit);
        both(
            move || {
                theirs.adopt(common::key(2), &told(3), after(0));
            },
            || assert!(admits(&limit, 3, after(0))),
        );
        assert!(left(&limit, 2, after(0)) <= 2, "it counts at least as much");
        assert!(left(&limit, 3, after(0)) <= 4, "no charge is lost");
        assert_eq!(left(&limit, 1, after(0)), 4);
    });
}

/// Goal: as above for a slot that changes hands. Method: a new key claims the slot of a key that owes nothing while a store says
/// that it owes.
#[test]
fn what_a_store_says_and_a_claim_do_not_lose_each_other() {
    explore(|| {
        let limit = Arc::new(Limit::with_buckets(rates(&[(1, 10)]), 1));
        assert!(admits(&limit, 1, after(0)) && admits(&limit, 2, after(0)));
        let now = after(2 * PERIOD_MILLIS);
        assert!(admits(&limit, 2, now));
        let full = RemoteState::new([RateState::Sliding {
            second: now.as_secs(),
            previous: 0,
            current: 1,
        }]);
        let theirs = Arc::clone(&limit);
        both(
            move || {
                theirs.adopt(common::key(1), &full, now);
            },
            || {
                admits(&limit, 3, now);
            },
        );
        assert!(!admits(&limit, 1, now) && !admits(&limit, 2, now));
    });
}

/// Goal: as above for a log, which is emptied and filled. Method: a store speaks of a known key beside a charge and a look.
#[test]
fn what_a_store_says_of_a_log_and_a_charge_come_one_after_the_other() {
    let mut builder = loom::model::Builder::new();
    // As with the other logs.
    builder.preemption_bound = Some(3);
    builder.max_branches = 20_000;
    builder.check(|| {
        let policy = Policy::new(Algorithm::Exact, rates(&[(4, 10)])).expect("a policy");
        let limit = Arc::new(Limit::with_buckets(policy, 1));
        assert!(admits(&limit, 1, after(0)));
        let millis = after(0).as_secs() * 1_000;
        let oldest = Some(LogEntry { age: 1, millis });
        let told = RemoteState::new([RateState::Logged {
            latest: millis,
            awaited: oldest,
            oldest,
        }]);
        let theirs = Arc::clone(&limit);
        let (_, seen) = both(
            move || {
                theirs.adopt(common::key(1), &told, after(0));
                0
            },
            || {
                assert!(admits(&limit, 1, after(0)));
                left(&limit, 1, after(0))
            },
        );
        assert!((1..=2).contains(&seen), "{seen} seen");
        let left = left(&limit, 1, after(0));
        assert!(left == 2 || left == 1, "{left} left");
    });
}
