//! Permits: never more than may be, each given back once, wherever it was taken and whatever was edited since.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::thread;

use proptest::prelude::*;
use sluicegate_limiter::{ConcurrencyExceeded, InFlight, KeyPlacement, Permit, Permits};

use super::{capacity, concurrency, key, random, together};

fn permits(max: u32, keys: u64) -> Permits {
    Permits::new(concurrency(max), capacity(keys))
}

fn in_flight(permits: &Permits, number: u64) -> u32 {
    permits.in_flight(key(number)).permits
}

/// One thing that happens to a set of permits.
#[derive(Clone, Debug)]
enum Operation {
    Take(u64),
    /// Which of those that are out, modulo their number.
    GiveBack(usize),
    EditMax(u32),
    EditCapacity(u64),
}

fn any_operation(keys: u64) -> impl Strategy<Value = Operation> {
    prop_oneof![
        12 => (0..keys).prop_map(Operation::Take),
        8 => any::<usize>().prop_map(Operation::GiveBack),
        1 => (1..6_u32).prop_map(Operation::EditMax),
        1 => (1..80_u64).prop_map(Operation::EditCapacity),
    ]
}

/// Permits that are out, with whose they are.
type Out = Vec<(u64, Permit)>;

fn held(out: &Out, number: u64) -> u32 {
    out.iter().filter(|(owner, _)| *owner == number).count() as u32
}

proptest! {
    /// Goal: a permit is given exactly if the key holds fewer than it may, edits or not, and all come back. Method: random
    /// takings, returns and edits of few keys beside a list of who holds what.
    #[test]
    fn permits_are_given_as_a_list_of_holders_would(
        operations in prop::collection::vec(any_operation(6), 1..150),
    ) {
        let mut permits = permits(3, 64);
        let (mut max, mut out) = (3, Out::new());
        for operation in operations {
            match operation {
                Operation::Take(number) => {
                    let has = held(&out, number);
                    prop_assert_eq!(permits.peek(key(number)).is_ok(), has < max);
                    match permits.take(key(number)) {
                        Ok(permit) => out.push((number, permit)),
                        Err(full) => {
                            let in_flight = InFlight { permits: has, placement: KeyPlacement::OwnSlot };
                            prop_assert_eq!(full, ConcurrencyExceeded { in_flight, max: concurrency(max) });
                        }
                    }
                    prop_assert_eq!(held(&out, number), has.max((has + 1).min(max)));
                }
                Operation::GiveBack(which) if !out.is_empty() => drop(out.swap_remove(which % out.len())),
                Operation::GiveBack(_) => {}
                Operation::EditMax(to) => {
                    max = to;
                    permits = permits.edited(concurrency(to), permits.capacity());
                }
                Operation::EditCapacity(to) => {
                    permits = permits.edited(concurrency(max), capacity(to.max(40)));
                }
            }
            for number in 0..6 {
                prop_assert_eq!(in_flight(&permits, number), held(&out, number));
            }
        }
        drop(out);
        prop_assert_eq!(permits.top(10).len(), 0);
        prop_assert_eq!(permits.occupancy().live, 0);
    }

    /// Goal: with many more keys than slots nobody is let in beyond the maximum, nobody is counted too low, and when all
    /// is given back nothing is left over. Method: as above in two buckets of seven slots, counts against the list from
    /// above and below: who is told to be alone is counted exactly.
    #[test]
    fn keys_without_a_slot_are_never_counted_too_low(
        operations in prop::collection::vec(any_operation(40), 1..400),
    ) {
        let permits = Permits::with_buckets(concurrency(3), 2);
        let mut out = Out::new();
        for operation in operations {
            match operation {
                Operation::Take(number) => match permits.take(key(number)) {
                    Ok(permit) => {
                        prop_assert!(held(&out, number) < 3);
                        out.push((number, permit));
                    }
                    Err(full) => {
                        prop_assert!(full.in_flight.permits >= 3);
                        let alone = full.in_flight.placement == KeyPlacement::OwnSlot;
                        prop_assert!(!alone || held(&out, number) == 3);
                    }
                },
                Operation::GiveBack(which) if !out.is_empty() => drop(out.swap_remove(which % out.len())),
                _ => {}
            }
            for number in 0..40 {
                let told = permits.in_flight(key(number));
                let holds = held(&out, number);
                prop_assert!(told.permits >= holds);
                prop_assert!(told.placement == KeyPlacement::Overflow || told.permits == holds);
            }
        }
        drop(out);
        for number in 0..40 {
            let none = InFlight { permits: 0, placement: KeyPlacement::OwnSlot };
            prop_assert_eq!(permits.in_flight(key(number)), none);
        }
        let occupancy = permits.occupancy();
        prop_assert_eq!((occupancy.live, occupancy.in_overflow, occupancy.overflowing), (0, 0, 0));
    }
}

/// Goal: exactly the maximum of any number of simultaneous requests is in flight. Method: 2 to 8 threads on one new key
/// that keep what they get; then on keys in a full table.
#[test]
fn of_many_simultaneous_requests_exactly_the_maximum_get_in() {
    const MAX: u32 = 500;
    for threads in [2, 4, 8] {
        for (buckets, fillers) in [(8, 0), (1, 7)] {
            let permits = Permits::with_buckets(concurrency(MAX), buckets);
            let filled: Vec<_> = (100..100 + fillers)
                .map(|number| permits.take(key(number)))
                .collect();
            let got = AtomicU32::new(0);
            together(threads, |_| {
                let mine: Vec<_> = (0..MAX).filter_map(|_| permits.take(key(7)).ok()).collect();
                got.fetch_add(mine.len() as u32, Ordering::Relaxed);
                // Kept beyond the end of the thread: who asks later finds all of them.
                mine.into_iter().for_each(std::mem::forget);
            });
            assert_eq!(got.into_inner(), MAX, "{threads} threads, {fillers} others");
            assert!(permits.take(key(7)).is_err());
            drop(filled);
        }
    }
}

/// Goal: never more than the maximum while slots change hands all the time, and nothing is lost or left over. Method:
/// eight threads take and give back for more keys than there are slots; each key's holders counted beside.
#[test]
fn nobody_gets_in_beyond_the_maximum_while_slots_change_hands() {
    const KEYS: usize = 40;
    const MAX: i64 = 3;
    let permits = Permits::with_buckets(concurrency(MAX as u32), 2);
    let holders: Vec<AtomicI64> = (0..KEYS).map(|_| AtomicI64::new(0)).collect();
    together(8, |thread| {
        let (mut state, mut out) = (thread as u64 + 1, Vec::new());
        for _ in 0..30_000 {
            let number = random(&mut state) as usize % KEYS;
            if random(&mut state).is_multiple_of(2) && out.len() < 12 {
                if let Ok(permit) = permits.take(key(number as u64)) {
                    // Counted after the taking and until before the return: never more than are held.
                    assert!(holders[number].fetch_add(1, Ordering::SeqCst) < MAX);
                    out.push((number, permit));
                }
            } else if let Some((number, permit)) = out.pop() {
                holders[number].fetch_sub(1, Ordering::SeqCst);
                drop(permit);
            }
        }
        for (number, _) in &out {
            holders[*number].fetch_sub(1, Ordering::SeqCst);
        }
    });
    let stats = permits.stats();
    assert!(
        stats.slots_reused > 1000 && stats.admitted_in_overflow > 1000,
        "the test met its cases: {stats:?}"
    );
    let occupancy = permits.occupancy();
    assert_eq!((occupancy.live, occupancy.in_overflow), (0, 0));
}

/// Goal: an edit of the capacity lets nobody in beyond the maximum, while requests go on with the old and the new.
/// Method: threads that take by whatever handle they have, now and then a newer one, while another edits there and back.
#[test]
fn nobody_gets_in_beyond_the_maximum_while_the_capacity_is_edited() {
    const MAX: i64 = 2;
    const EDITS: u32 = 100;
    let current = std::sync::RwLock::new(permits(MAX as u32, 100));
    let holders: [AtomicI64; 3] = Default::default();
    let edits = AtomicU32::new(0);
    together(4, |thread| {
        if thread == 0 {
            let mut turn = 0;
            while edits.load(Ordering::Relaxed) < EDITS {
                turn += 1;
                let edited = {
                    let now = current.read().expect("no thread panics");
                    now.edited(concurrency(MAX as u32), capacity(50 + turn % 2 * 60))
                };
                let before =
                    std::mem::replace(&mut *current.write().expect("no thread panics"), edited);
                let moved =
                    before.capacity() != current.read().expect("no thread panics").capacity();
                edits.fetch_add(u32::from(moved), Ordering::Relaxed);
                thread::yield_now();
            }
            return;
        }
        let mut state = thread as u64;
        let mut out = Vec::new();
        // Permits go back all the time, so tables from before an edit go, and there is room for the next edit.
        while edits.load(Ordering::Relaxed) < EDITS {
            let mine = current.read().expect("no thread panics").clone();
            for _ in 0..60 {
                let number = random(&mut state) as usize % holders.len();
                if out.len() < 3 && random(&mut state) & 1 == 0 {
                    if let Ok(permit) = mine.take(key(number as u64)) {
                        assert!(holders[number].fetch_add(1, Ordering::SeqCst) < MAX);
                        out.push((number, permit));
                    }
                } else if !out.is_empty() {
                    // The oldest, so that tables from before an edit go.
                    let (number, permit) = out.remove(0);
                    holders[number].fetch_sub(1, Ordering::SeqCst);
                    drop(permit);
                }
            }
        }
        for (number, _) in &out {
            holders[*number].fetch_sub(1, Ordering::SeqCst);
        }
    });
    let permits = current.into_inner().expect("no thread panicked");
    assert!((0..3).all(|number| in_flight(&permits, number) == 0));
}

/// Goal: permits outlive every handle, and give back from any thread. Method: take, edit twice, drop the handles, give
/// back elsewhere; what is in flight is told by the newest all the time, and old memory goes with its last permit.
#[test]
fn permits_taken_before_an_edit_go_back_to_where_they_were_taken() {
    let first = permits(3, 100);
    let old: Vec<Permit> = (0..2).filter_map(|_| first.take(key(1)).ok()).collect();
    let second = first.edited(concurrency(3), capacity(1000));
    drop(first);
    let alone = second.bytes();
    assert_eq!(in_flight(&second, 1), 2);
    let new = second.take(key(1)).expect("one of three is left");
    assert!(second.take(key(1)).is_err());
    let third = second.edited(concurrency(2), capacity(10));
    assert_eq!(in_flight(&third, 1), 3, "what is held is kept");
    assert_eq!(
        third
            .top(5)
            .iter()
            .map(|holder| holder.in_flight.permits)
            .collect::<Vec<_>>(),
        [3]
    );
    assert!(third.bytes() > alone, "the tables of old permits count");
    thread::spawn(move || drop(old))
        .join()
        .expect("it gives back");
    assert_eq!(in_flight(&third, 1), 1);
    let again = third.take(key(1)).expect("one of two is left");
    assert!(third.take(key(1)).is_err());
    assert_eq!(in_flight(&second, 1), 2, "who is late asks the newest");
    drop((new, again, second));
    assert_eq!(in_flight(&third, 1), 0);
    assert_eq!(third.bytes() as u64, Permits::bytes_for(capacity(10)));
}

/// Goal: memory is bounded however often the capacity is edited. Method: a permit that is never given back in each of
/// many tables; after eight the capacity stays, and goes on being edited once permits are back.
#[test]
fn edits_are_bounded_by_the_tables_whose_permits_are_out() {
    let mut permits = permits(100, 10);
    let mut out = Vec::new();
    for turn in 0..20 {
        out.push(permits.take(key(1)).expect("there is room"));
        permits = permits.edited(concurrency(100), capacity(20 + turn));
    }
    assert_eq!(permits.capacity(), capacity(27));
    assert_eq!(in_flight(&permits, 1), 20);
    drop(out);
    permits = permits.edited(concurrency(100), capacity(1000));
    assert_eq!(
        (permits.capacity(), in_flight(&permits, 1)),
        (capacity(1000), 0)
    );
}

/// Goal: who is two edits late asks the newest all the same. Method: a handle from before both, and none of what lay between.
#[test]
fn a_handle_from_before_two_edits_counts_in_the_newest() {
    let first = permits(2, 100);
    let one = first.take(key(1)).expect("there is room");
    let third = first
        .edited(concurrency(2), capacity(20))
        .edited(concurrency(2), capacity(30));
    let two = third.take(key(1)).expect("one of two is left");
    assert!(first.take(key(1)).is_err() && third.take(key(1)).is_err());
    drop((one, two));
    assert_eq!(in_flight(&first, 1), 0);
}

/// Goal: an edit that is thrown away leaves the old as it was, and editable. Method: edit, drop the result, go on.
#[test]
fn an_edit_that_is_not_taken_leaves_everything_as_it_was() {
    let permits = permits(2, 100);
    let one = permits.take(key(1)).expect("there is room");
    drop(permits.edited(concurrency(2), capacity(10)));
    let two = permits.take(key(1)).expect("there is room");
    assert!(permits.take(key(1)).is_err());
    let edited = permits.edited(concurrency(2), capacity(20));
    assert_eq!(in_flight(&edited, 1), 2);
    assert!(permits.take(key(1)).is_err() && edited.take(key(1)).is_err());
    drop((one, two));
    assert!(edited.take(key(1)).is_ok());
}

/// Goal: C3, a flood of new keys neither takes memory nor makes anybody's count go down, nor is any of it uncounted.
/// Method: known clients at all stages, a hundred times the capacity in new keys that keep their permits; then all is
/// given back.
#[test]
fn a_flood_of_new_keys_makes_no_count_go_down() {
    const MAX: u32 = 4;
    let permits = permits(MAX, 200);
    let bytes = permits.bytes();
    let mut out: HashMap<u64, Vec<Permit>> = HashMap::new();
    for client in 0..100 {
        let some = (0..1 + client % u64::from(MAX))
            .map(|_| permits.take(key(client)).expect("there is room"));
        out.insert(client, some.collect());
    }
    let mut refused = 0;
    for flooder in 1000..21_000 {
        match permits.take(key(flooder)) {
            Ok(permit) => out.entry(flooder).or_default().push(permit),
            Err(full) => {
                assert_eq!(full.in_flight.placement, KeyPlacement::Overflow);
                refused += 1;
            }
        }
    }
    assert!(refused > 10_000);
    for client in 0..100 {
        let told = permits.in_flight(key(client));
        let holds = 1 + (client % u64::from(MAX)) as u32;
        assert_eq!(
            told,
            InFlight {
                permits: holds,
                placement: KeyPlacement::OwnSlot
            }
        );
        assert_eq!(permits.take(key(client)).is_ok(), holds < MAX);
    }
    assert_eq!(permits.bytes(), bytes);
    let stats = permits.stats();
    assert!(stats.admitted_in_overflow > 0 && stats.refused_in_overflow == refused);
    drop(out);
    assert!((1000..1100).all(|flooder| in_flight(&permits, flooder) == 0));
    assert_eq!(permits.occupancy().in_overflow, 0);
}

/// Goal: operators see who holds most. Method: keys with known counts, more than are asked for.
#[test]
fn the_keys_with_most_in_flight_are_told_first() {
    let permits = permits(50, 100);
    let out: Vec<_> = (1..=30_u64)
        .flat_map(|number| (0..number).map(move |_| number))
        .collect();
    let out: Vec<_> = out
        .into_iter()
        .map(|number| permits.take(key(number)).expect("there is room"))
        .collect();
    let top = permits.top(3);
    let most: Vec<u32> = top.iter().map(|holder| holder.in_flight.permits).collect();
    assert_eq!(most, [30, 29, 28]);
    assert_eq!(top[0].key.bits() | 1, key(30).bits() | 1);
    assert_eq!((permits.top(0).len(), permits.top(5000).len()), (0, 30));
    assert_eq!(permits.occupancy().live, 30);
    drop(out);
}
