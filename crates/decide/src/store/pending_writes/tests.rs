//! Tests of the queue for the store, with limits whose counts can be read.

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use sluicegate_limiter::{Capacity, Limit, Period, Rate, RateState, Rates};

use super::*;

/// Noon of a day, so that no window ends while a test goes on.
pub(in crate::store) const NOON: Timestamp = Timestamp::from_secs(1_800_014_400);

/// A limit with two tables, of so many a day.
pub(in crate::store) fn replicated(
    queue: &PendingWrites,
    name: &str,
    count: u32,
) -> Arc<ReplicatedLimit> {
    let rate = Rate::new(count, Period::from_secs(86_400).unwrap()).unwrap();
    let limit = || Limit::new(Rates::new([rate]).unwrap(), Capacity::new(1000).unwrap());
    Arc::new(ReplicatedLimit {
        registered: queue.register(&name.into()),
        cache: limit(),
        own: limit(),
    })
}

pub(in crate::store) fn at(millis: u64) -> ClockPair {
    let here = NOON.saturating_add(Duration::from_millis(millis));
    ClockPair { here, store: here }
}

/// The charge of a key.
pub(in crate::store) type Share = (ReplicatedKey, Cost);

pub(in crate::store) fn share(replicated: &Arc<ReplicatedLimit>, key: u64, units: u32) -> Share {
    let key = ReplicatedKey {
        replicated: Arc::clone(replicated),
        key: KeyHash::from_bits(key << 20),
        name: KeyHash::from_bits(key),
    };
    (key, Cost::new(units).unwrap())
}

/// What a request does that is admitted.
pub(in crate::store) fn charge(
    queue: &PendingWrites,
    (key, cost): &Share,
    stand: ChargeState,
    at: ClockPair,
) -> Enqueued {
    let seen = queue.sequence(&key.replicated, key.key);
    key.replicated.cache.count(key.key, *cost, at.store);
    key.replicated.own.count(key.key, *cost, at.here);
    queue.add(key, *cost, stand, seen, at)
}

fn state(units: u32) -> RemoteState {
    RemoteState::new([RateState::Sliding {
        second: NOON.as_secs(),
        previous: 0,
        current: units,
    }])
}

fn taken(queue: &PendingWrites, until: ClockPair) -> Vec<(u64, u64)> {
    let taken = queue.take_due(100, until.here).into_iter();
    taken
        .map(|taken| (taken.name.bits(), taken.units))
        .collect()
}

/// Goal: a busy key is one push, limits are apart, and nothing is taken twice. Method: two limits with equal keys, taken up to a moment.
#[test]
fn charges_of_a_key_are_merged_and_taken_once() {
    let queue = PendingWrites::default();
    let (one, two) = (
        replicated(&queue, "one", 100),
        replicated(&queue, "two", 100),
    );
    for (replicated, key, units, millis) in [(&one, 1, 2, 0), (&one, 1, 3, 5), (&two, 1, 7, 9)] {
        let share = share(replicated, key, units);
        assert_eq!(
            charge(&queue, &share, ChargeState::Final, at(millis)),
            Enqueued::Yes
        );
    }
    assert_eq!(
        taken(&queue, at(5)),
        [(1, 5)],
        "what began to wait later is left"
    );
    assert_eq!(taken(&queue, at(9)), [(1, 7)]);
    assert_eq!(taken(&queue, at(9)), []);
    assert_eq!(queue.backlog().keys, 2, "they are under way");
}

/// Goal: the store gets the pushes of a key in their order. Method: a charge while the key is under way waits until it has come back.
#[test]
fn a_key_that_is_under_way_is_not_taken() {
    let queue = PendingWrites::default();
    let replicated = replicated(&queue, "one", 100);
    charge(&queue, &share(&replicated, 1, 1), ChargeState::Final, at(0));
    let first = queue.take_due(1, at(0).here).pop().unwrap();
    charge(&queue, &share(&replicated, 1, 4), ChargeState::Final, at(1));
    assert_eq!(taken(&queue, at(9)), []);
    queue.apply_remote(first.counter, first.units, &state(1), at(2));
    assert_eq!(taken(&queue, at(9)), [(1, 4)]);
}

/// Goal: a cost that may be refunded is not sent before it is settled. Method: three tentative costs, settled at the charge, at more, and
/// at nothing; the last queues a read.
#[test]
fn tentative_costs_are_sent_once_they_are_settled() {
    let queue = PendingWrites::default();
    let replicated = replicated(&queue, "one", 100);
    let shares = [1, 2, 3].map(|key| share(&replicated, key, 2));
    for share in &shares {
        charge(&queue, share, ChargeState::Tentative, at(0));
    }
    assert_eq!(taken(&queue, at(9)), []);
    for ((key, cost), due) in shares.iter().zip([2, 5, 0]) {
        queue.settle(key, *cost, Enqueued::Yes, due, at(1));
    }
    let mut sent = taken(&queue, at(9));
    sent.sort_unstable();
    assert_eq!(sent, [(1, 2), (2, 5), (3, 0)]);
}

/// Goal: an answer drops no charge that the store does not have, and one that it has counts once. Method: a key charged before its push,
/// while that is under way, and with a cost that is open; the cache afterwards.
#[test]
fn a_view_counts_the_answer_and_what_the_store_does_not_have() {
    let queue = PendingWrites::default();
    let replicated = replicated(&queue, "one", 100);
    charge(&queue, &share(&replicated, 1, 3), ChargeState::Final, at(0));
    charge(
        &queue,
        &share(&replicated, 1, 2),
        ChargeState::Tentative,
        at(0),
    );
    let push = queue.take_due(1, at(0).here).pop().unwrap();
    assert_eq!(push.units, 3);
    charge(&queue, &share(&replicated, 1, 4), ChargeState::Final, at(1));
    // Other nodes have charged ten.
    queue.apply_remote(push.counter, push.units, &state(13), at(2));
    let key = push.counter.key();
    assert_eq!(replicated.cache.used(key, at(2).store), 13 + 2 + 4);
    assert_eq!(replicated.own.used(key, at(2).here), 9);
}

/// Goal: a charge that an answer overwrites before it is entered counts. Method: an adoption between the two steps of a request.
#[test]
fn a_charge_that_an_answer_overwrote_counts_again() {
    let queue = PendingWrites::default();
    let replicated = replicated(&queue, "one", 100);
    charge(&queue, &share(&replicated, 1, 1), ChargeState::Final, at(0));
    let push = queue.take_due(1, at(0).here).pop().unwrap();
    let (late, cost) = share(&replicated, 1, 5);
    let seen = queue.sequence(&replicated, late.key);
    replicated.cache.count(late.key, cost, at(1).store);
    queue.apply_remote(push.counter, push.units, &state(1), at(1));
    assert_eq!(
        replicated.cache.used(late.key, at(1).store),
        1,
        "overwritten"
    );
    queue.add(&late, cost, ChargeState::Final, seen, at(1));
    assert_eq!(replicated.cache.used(late.key, at(1).store), 6);
}

/// Goal: an answer for one limit of a request does not make the charge of another count twice. Method: as above, with two limits that
/// have the same key.
#[test]
fn an_answer_for_another_limit_of_the_key_overwrites_nothing() {
    let queue = PendingWrites::default();
    let (wide, narrow) = (
        replicated(&queue, "wide", 100),
        replicated(&queue, "narrow", 2),
    );
    charge(&queue, &share(&wide, 1, 1), ChargeState::Final, at(0));
    let push = queue.take_due(1, at(0).here).pop().unwrap();
    let (late, cost) = share(&narrow, 1, 1);
    let seen = queue.sequence(&narrow, late.key);
    narrow.cache.count(late.key, cost, at(1).store);
    queue.apply_remote(push.counter, push.units, &state(1), at(1));
    queue.add(&late, cost, ChargeState::Final, seen, at(1));
    assert_eq!(narrow.cache.used(late.key, at(1).store), 1);
}

/// Goal: no number of keys fills the memory, and what finds no room is counted. Method: twice as many keys as there may be; then a known
/// key, and one after room was made.
#[test]
fn keys_are_bounded() {
    let queue = PendingWrites::default();
    let replicated = replicated(&queue, "one", 100);
    let most = bounds::SYNC_KEYS as u64;
    let entered = (0..2 * most).filter(|key| {
        let (key, cost) = share(&replicated, *key, 1);
        let entered = queue.add(&key, cost, ChargeState::Final, ShardSequence(0), at(0));
        entered == Enqueued::Yes
    });
    assert_eq!(entered.count() as u64, most);
    assert_eq!((queue.backlog().keys as u64, queue.lost()), (most, most));
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(queue.wait_until_full()).poll(&mut context).is_ready());
    let (key, cost) = share(&replicated, 0, 1);
    let again = queue.add(&key, cost, ChargeState::Final, ShardSequence(0), at(0));
    assert_eq!(again, Enqueued::Yes);
    assert_eq!(queue.lost(), most);
}

/// Goal: a long outage does not keep keys that no longer count. Method: a key whose window has passed before one whose has not.
#[test]
fn keys_of_which_nothing_counts_are_forgotten() {
    let queue = PendingWrites::default();
    let replicated = replicated(&queue, "one", 100);
    let days = |days: u64| at(days * 86_400_000);
    charge(
        &queue,
        &share(&replicated, 1, 1),
        ChargeState::Final,
        days(0),
    );
    charge(
        &queue,
        &share(&replicated, 2, 1),
        ChargeState::Final,
        days(3),
    );
    queue.drop_expired(days(3).here);
    assert_eq!(taken(&queue, days(3)), [(2, 1)]);
    assert_eq!(queue.backlog().oldest, None);
}

/// Goal: the two steps of requests and the adoptions of many answers, all at once, lose no charge. Method: threads that charge one key,
/// and one that pushes and adopts the answers of a store; at the end the cache counts no less than all charges.
#[test]
fn nothing_is_lost_between_threads() {
    const TURNS: u32 = 5_000;
    let queue = PendingWrites::default();
    let replicated = replicated(&queue, "one", 1_000_000);
    let unit = share(&replicated, 1, 1);
    let store = std::thread::scope(|scope| {
        let chargers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..TURNS {
                        charge(&queue, &unit, ChargeState::Final, at(0));
                    }
                })
            })
            .collect();
        let mut store = 0;
        let mut push_all = || {
            for push in queue.take_due(1, at(0).here) {
                store += u32::try_from(push.units).unwrap();
                queue.apply_remote(push.counter, push.units, &state(store), at(0));
            }
        };
        while !chargers.iter().all(|charger| charger.is_finished()) {
            push_all();
        }
        push_all();
        store
    });
    assert_eq!(store, 2 * TURNS, "sent once each");
    assert_eq!(
        replicated.cache.used(unit.0.key, at(0).store),
        u64::from(2 * TURNS)
    );
}

/// Goal: a key that is full hears of what others admitted until its push reached them, and is then left alone. Method: a push that is
/// answered with a full key, and the exchanges after it; one that is answered with room.
#[test]
fn a_full_key_is_read_twice_after_its_push() {
    let queue = PendingWrites::default();
    let replicated = replicated(&queue, "one", 5);
    for (number, store, exchanges) in [(1, 9, 2), (2, 4, 0)] {
        let share = share(&replicated, number, 4);
        charge(&queue, &share, ChargeState::Final, at(0));
        let key = share.0.key;
        let push = queue.take_due(1, at(0).here).pop().unwrap();
        let recent = || {
            let recent = queue.recent(&replicated, key);
            (recent.unconfirmed, recent.admitted)
        };
        assert_eq!(recent(), (4, 4), "it is under way");
        queue.apply_remote(push.counter, push.units, &state(store), at(1));
        for exchange in 0..exchanges {
            let sync = 2 * exchange;
            assert_eq!(
                queue.take_due(1, at(sync).here).len(),
                0,
                "not in the same sync"
            );
            let read = queue.take_due(1, at(sync + 2).here).pop().unwrap();
            assert_eq!((read.units, recent()), (0, (0, 4)));
            queue.apply_remote(read.counter, 0, &state(store), at(sync + 3));
        }
        assert_eq!(queue.backlog().keys, 0);
        // A key with room is not read, so its units go with later syncs.
        let left = if exchanges == 0 { 4 } else { 0 };
        assert_eq!(recent(), (0, left));
    }
}
