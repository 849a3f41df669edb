//! Logs under every interleaving, as loom explores them: a bucket has two slots and one log for those without.

use std::sync::Arc;

use loom::thread;
use sluicegate_limiter::exact::{LogCharge, LogReceipt, LogTable};
use sluicegate_limiter::{Cost, KeyPlacement, Rates, Timestamp};

use crate::common::{after, key, rates};

/// The period of all rates here.
const PERIOD_MILLIS: u64 = 10_000;

/// New keys, and threads that are thrown out of their tenure, take too long without a bound. What breaks here needs two
/// preemptions.
fn explore_bounded(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 20_000;
    builder.check(model);
}

/// A limit of its own: a table of one bucket with its rates.
struct Exact {
    table: LogTable,
    rates: Rates,
}

impl Exact {
    fn new(count: u32) -> Self {
        let rates = rates(&[(count, 10)]);
        Self {
            table: LogTable::with_buckets(1, &rates),
            rates,
        }
    }

    fn with_backoff_limit(self, patience: u32) -> Self {
        Self {
            table: self.table.with_backoff_limit(patience),
            ..self
        }
    }

    fn charge(&self, number: u64, now: Timestamp) -> Option<LogReceipt> {
        match self.table.charge(key(number), &self.rates, Cost::ONE, now) {
            LogCharge::Admitted(_, receipt) => Some(receipt),
            LogCharge::Refused(_) => None,
        }
    }

    fn admits(&self, number: u64, now: Timestamp) -> bool {
        self.charge(number, now).is_some()
    }

    fn left(&self, number: u64, now: Timestamp) -> u32 {
        let answer = self.table.peek(key(number), &self.rates, Cost::ONE, now);
        answer.statuses()[0].remaining
    }
}

/// Runs both at once; what each says.
fn both<T: Send + 'static>(
    exact: &Arc<Exact>,
    one: impl FnOnce(&Exact) -> T + Send + 'static,
    other: impl FnOnce(&Exact) -> T,
) -> (T, T) {
    let theirs = Arc::clone(exact);
    let thread = thread::spawn(move || one(&theirs));
    let here = other(exact);
    (thread.join().expect("the other thread ends"), here)
}

/// Goal: a log is charged as it was judged. Method: room for one of two simultaneous charges, beside another entry.
#[test]
fn two_charges_do_not_share_the_last_unit() {
    loom::model(|| {
        let exact = Arc::new(Exact::new(2));
        assert!(exact.admits(1, after(0)));
        let (one, other) = both(
            &exact,
            |exact| exact.admits(1, after(1)),
            |exact| exact.admits(1, after(2)),
        );
        assert!(one != other);
        assert_eq!(exact.left(1, after(2)), 0);
    });
}

/// Goal: a reader that takes nothing sees no log that never was. Method: the oldest entry is expired and pushed out by
/// a charge while another thread is told how the key stands.
#[test]
fn a_peek_beside_a_charge_sees_one_state_or_the_other() {
    loom::model(|| {
        let exact = Arc::new(Exact::new(2));
        assert!(exact.admits(1, after(0)) && exact.admits(1, after(5_000)));
        let now = after(PERIOD_MILLIS);
        let (admitted, left) = both(
            &exact,
            move |exact| u32::from(exact.admits(1, now)),
            |exact| exact.left(1, now),
        );
        assert_eq!(admitted, 1);
        assert!(left <= 1);
        assert_eq!(exact.left(1, now), 0);
    });
}

/// Goal: nobody is refused by a log that never was. Method: the oldest entry, expired, is overwritten beside a charge
/// at a later moment, which has room before and after.
#[test]
fn a_refusal_is_one_by_a_state_that_the_log_had() {
    loom::model(|| {
        let exact = Arc::new(Exact::new(2));
        assert!(exact.admits(1, after(0)) && exact.admits(1, after(5_000)));
        let (one, other) = both(
            &exact,
            |exact| exact.admits(1, after(PERIOD_MILLIS)),
            |exact| exact.admits(1, after(PERIOD_MILLIS + 5_000)),
        );
        // Entered later than the other, or after it: the later one has room for both.
        assert!(other);
        assert!(one || exact.left(1, after(PERIOD_MILLIS + 5_000)) >= 1);
    });
}

/// Goal: what is given back is there again, and no more. Method: an older entry is removed, so that a later one moves,
/// beside a charge.
#[test]
fn a_release_and_a_charge_do_not_lose_each_other() {
    loom::model(|| {
        let exact = Arc::new(Exact::new(2));
        let first = exact.charge(1, after(0)).expect("room");
        assert!(exact.admits(1, after(5)));
        let (_, admitted) = both(
            &exact,
            |exact| {
                exact.table.undo(first);
                false
            },
            |exact| exact.admits(1, after(6)),
        );
        let late = exact.admits(1, after(7));
        assert!(admitted != late, "one unit was free, once");
        // The one that was given back was the first: at its end nothing frees.
        assert_eq!(exact.left(1, after(PERIOD_MILLIS)), 0);
        assert_eq!(exact.left(1, after(PERIOD_MILLIS + 5)), 1);
    });
}

/// Goal: invariant 1, one slot a key. Method: one new key from two threads, room for one request.
#[test]
fn two_new_keys_of_one_key_share_a_slot() {
    explore_bounded(|| {
        let exact = Arc::new(Exact::new(1));
        let (one, other) = both(
            &exact,
            |exact| exact.admits(1, after(0)),
            |exact| exact.admits(1, after(0)),
        );
        assert!(one != other);
        assert_eq!(exact.table.occupancy(&exact.rates, after(0)).live, 1);
    });
}

/// Goal: no count is lost when keys want the same slot. Method: two new keys, one free slot between them.
#[test]
fn two_new_keys_for_one_slot_are_both_counted() {
    explore_bounded(|| {
        let exact = Arc::new(Exact::new(1));
        assert!(exact.admits(1, after(0)));
        let (one, other) = both(
            &exact,
            |exact| exact.admits(2, after(0)),
            |exact| exact.admits(3, after(0)),
        );
        // The one with the slot may have been refused, if it saw the other in overflow before it was seated.
        assert!(one || other);
        assert!(!exact.admits(2, after(0)) || !one);
        assert!(!exact.admits(3, after(0)) || !other);
    });
}

/// Goal: invariant 2, no charge is lost when a slot changes hands. Method: a new key wants the slot of a key that owes
/// nothing while that key comes back; both have used all that they may, wherever they were seated.
#[test]
fn a_claim_and_a_charge_of_the_old_key_do_not_lose_each_other() {
    explore_bounded(|| {
        let exact = Arc::new(Exact::new(1));
        assert!(exact.admits(1, after(0)) && exact.admits(2, after(0)));
        let now = after(PERIOD_MILLIS);
        // The other slot owes again, so the old key's is the only one to claim.
        assert!(exact.admits(2, now));
        let (newcomer, old) = both(
            &exact,
            move |exact| exact.admits(3, now),
            |exact| exact.admits(1, now),
        );
        // One of them found no slot; it shares a log with nobody else.
        assert!(newcomer || old);
        assert!((1..=3).all(|number| !exact.admits(number, now)));
    });
}

/// Goal: a key in overflow does not race with itself. Method: no slot is free; one key from two threads, room for one
/// request.
#[test]
fn a_key_in_overflow_does_not_race_with_itself() {
    explore_bounded(|| {
        let exact = Arc::new(Exact::new(1));
        assert!(exact.admits(1, after(0)) && exact.admits(2, after(0)));
        let (one, other) = both(
            &exact,
            |exact| exact.admits(3, after(0)),
            |exact| exact.admits(3, after(0)),
        );
        assert!(one != other);
    });
}

/// Goal: invariant 4, overflow and slot do not miss each other. Method: a slot falls vacant while one key asks from two
/// threads, of which one may find it full still; room for one.
#[test]
fn a_key_on_its_way_from_overflow_to_a_slot_is_counted() {
    explore_bounded(|| {
        let exact = Arc::new(Exact::new(1));
        let leaving = exact.charge(1, after(0)).expect("room");
        assert!(exact.admits(2, after(0)));
        let (one, other) = both(
            &exact,
            |exact| {
                exact.table.undo(leaving);
                exact.admits(3, after(0))
            },
            |exact| exact.admits(3, after(0)),
        );
        assert!(!(one && other), "both passed");
        assert!(one || other, "nobody else was counted with it");
        assert!(!exact.admits(3, after(0)));
    });
}

/// Goal: what was charged in overflow is given back wherever it went, and nothing else is. Method: a release beside the
/// claim that inherits.
#[test]
fn a_release_in_overflow_and_a_claim_do_not_lose_a_charge() {
    explore_bounded(|| {
        let exact = Arc::new(Exact::new(2));
        let leaving = exact.charge(1, after(0)).expect("room");
        assert!(exact.admits(2, after(0)));
        let receipt = exact.charge(3, after(0)).expect("room");
        assert_eq!(receipt.placement(), KeyPlacement::Overflow);
        exact.table.undo(leaving);
        let (_, admitted) = both(
            &exact,
            |exact| {
                exact.table.undo(receipt);
                true
            },
            |exact| exact.admits(3, after(0)),
        );
        assert!(admitted);
        assert!(exact.left(3, after(0)) <= 1, "what was admitted counts");
    });
}

/// Goal: `log`, invariant 2: who throws a live holder out does no harm. Method: no patience at all; two charges with
/// room for one, on a known key and on a new one.
#[test]
fn a_holder_that_is_thrown_out_charges_nothing_by_halves() {
    for known in [true, false] {
        explore_bounded(move || {
            let exact = Arc::new(Exact::new(2).with_backoff_limit(0));
            if known {
                assert!(exact.admits(1, after(0)));
            } else {
                let receipt = exact.charge(1, after(0)).expect("room");
                exact.table.undo(receipt);
                assert!(exact.admits(2, after(0)));
            }
            let room = if known { 1 } else { 2 };
            let (one, other) = both(
                &exact,
                |exact| u32::from(exact.admits(1, after(1))),
                |exact| u32::from(exact.admits(1, after(2))),
            );
            assert!(one + other <= room && one + other > 0);
            let left = exact.left(1, after(2));
            if known {
                assert_eq!(left, room - (one + other));
            } else {
                // A claim that was thrown out may have gone to overflow and come back, and be counted twice.
                assert!(left <= room - (one + other));
            }
        });
    }
}

/// Goal: the same for who gives back: what he leaves half done counts on. Method: no patience; a removal that moves a
/// later entry, beside a charge.
#[test]
fn a_release_that_is_thrown_out_gives_nothing_away() {
    explore_bounded(|| {
        let exact = Arc::new(Exact::new(2).with_backoff_limit(0));
        let first = exact.charge(1, after(0)).expect("room");
        assert!(exact.admits(1, after(5)));
        let (_, admitted) = both(
            &exact,
            |exact| {
                exact.table.undo(first);
                false
            },
            |exact| exact.admits(1, after(6)),
        );
        let late = exact.admits(1, after(7));
        assert!(!(admitted && late), "one unit was given back, at most");
        assert_eq!(exact.left(1, after(PERIOD_MILLIS)), 0);
    });
}
