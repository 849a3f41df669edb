//! Permits and bans under every interleaving, as loom explores them: a bucket has two slots.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_limiter::{
    BanFactor, BanRules, Bans, Concurrency, Permit, Permits, StrikeOutcome, exhaust_backoff,
};

use crate::both;
use crate::common::{after, key};

/// New keys take too long without a bound. What breaks here needs two preemptions.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 20_000;
    builder.check(model);
}

/// As [`explore`], where a thread that would have to wait takes another for dead, in most interleavings wrongly.
fn explore_impatient(model: impl Fn() + Send + Sync + 'static) {
    exhaust_backoff();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 20_000;
    builder.check(model);
}

fn permits(max: u32) -> Arc<Permits> {
    let max = Concurrency::new(max).expect("a concurrency");
    Arc::new(Permits::with_buckets(max, 1))
}

fn take(permits: &Permits, number: u64) -> Option<Permit> {
    permits.take(key(number)).ok()
}

fn in_flight(permits: &Permits, number: u64) -> u32 {
    permits.in_flight(key(number)).permits
}

fn bans() -> Arc<Bans> {
    let [first, max] = [10, 40].map(Duration::from_secs);
    let rules = BanRules::new(first, BanFactor::TWO, max).expect("rules");
    Arc::new(Bans::with_buckets(rules, 1))
}

/// Goal: one permit more is given to one of two. Method: one new key from two threads, room for one, with no slot taken,
/// and with both taken by others.
#[test]
fn of_two_that_want_the_last_permit_one_gets_it() {
    for filled in [0, 2] {
        explore(move || {
            let permits = permits(1);
            let others: Vec<_> = (1..=filled)
                .filter_map(|number| take(&permits, number))
                .collect();
            let theirs = Arc::clone(&permits);
            let (one, other) = both(move || take(&theirs, 9), || take(&permits, 9));
            assert!(one.is_some() != other.is_some());
            assert!(take(&permits, 9).is_none());
            drop((one, other));
            assert_eq!(in_flight(&permits, 9), 0);
            drop(others);
        });
    }
}

/// Goal: a return and a taking do not lose each other. Method: a key's permit is given back while it takes another one,
/// room for one; whatever came of it, all is told, and all comes back.
#[test]
fn a_return_and_a_taking_do_not_lose_each_other() {
    explore(|| {
        let permits = permits(1);
        let first = take(&permits, 1);
        let theirs = Arc::clone(&permits);
        let (_, second) = both(
            move || {
                drop(first);
                take(&theirs, 1)
            },
            || take(&permits, 1),
        );
        assert!(in_flight(&permits, 1) == u32::from(second.is_some()));
        drop(second);
        assert!(take(&permits, 1).is_some());
    });
}

/// Goal: a slot whose last permit goes back is taken over without losing a count. Method: the only slot that comes free is
/// wanted by a new key and by its old key; both are counted, wherever they are, and all comes back.
#[test]
fn a_slot_that_comes_free_is_wanted_by_two() {
    explore(|| {
        let permits = permits(1);
        let (gone, stays) = (take(&permits, 1), take(&permits, 2));
        drop(gone);
        let theirs = Arc::clone(&permits);
        let (newcomer, old) = both(move || take(&theirs, 3), || take(&permits, 1));
        // One has the slot; the other is alone in overflow, or came between the two words of it.
        assert!(newcomer.is_some() || old.is_some());
        assert!(newcomer.is_none() || take(&permits, 3).is_none());
        assert!(old.is_none() || take(&permits, 1).is_none());
        drop((newcomer, old));
        assert_eq!(
            [1, 2, 3].map(|number| in_flight(&permits, number)),
            [0, 1, 0]
        );
        drop(stays);
        assert_eq!(permits.occupancy().live, 0);
    });
}

/// Goal: a key that moves from overflow to a slot is not counted too low. Method: it holds a permit in overflow, a slot
/// comes free, and it takes another one twice at once, room for two in all.
#[test]
fn permits_in_overflow_count_for_the_slot_that_follows() {
    explore(|| {
        let permits = permits(2);
        let others = [1, 2].map(|number| take(&permits, number));
        let [freed, stays] = others;
        let shared = take(&permits, 9);
        assert!(shared.is_some());
        let theirs = Arc::clone(&permits);
        let (one, other) = both(
            move || {
                drop(freed);
                take(&theirs, 9)
            },
            || take(&permits, 9),
        );
        assert!(one.is_some() != other.is_some());
        assert_eq!(in_flight(&permits, 9), 2);
        drop((shared, one, other, stays));
        assert_eq!(in_flight(&permits, 9), 0);
    });
}

/// Goal: what a claim wrote to a slot that it lost is taken back, once. Method: a new key claims the slot of a key that
/// comes back, and neither waits for the other; nobody holds more than one, and when all is given back nothing is left
/// over.
#[test]
fn a_claim_that_lost_its_slot_leaves_no_permit_behind() {
    explore_impatient(|| {
        let permits = permits(1);
        let (gone, stays) = (take(&permits, 1), take(&permits, 2));
        drop(gone);
        let theirs = Arc::clone(&permits);
        let (newcomer, old) = both(move || take(&theirs, 3), || take(&permits, 1));
        assert!(newcomer.is_none() || take(&permits, 3).is_none());
        assert!(old.is_none() || take(&permits, 1).is_none());
        drop((newcomer, old, stays));
        assert_eq!([1, 2, 3].map(|number| in_flight(&permits, number)), [0; 3]);
        let occupancy = permits.occupancy();
        assert_eq!((occupancy.live, occupancy.in_overflow), (0, 0));
    });
}

/// Goal: a turn that is taken away lets nobody in twice, seated or in overflow. Method: one new key from two impatient
/// threads, room for one.
#[test]
fn a_turn_that_is_taken_away_gives_no_permit_twice() {
    for filled in [0, 1, 2] {
        explore_impatient(move || {
            let permits = permits(1);
            let others: Vec<_> = (1..=filled)
                .filter_map(|number| take(&permits, number))
                .collect();
            let theirs = Arc::clone(&permits);
            let (one, other) = both(move || take(&theirs, 9), || take(&permits, 9));
            assert!(one.is_none() || other.is_none());
            drop((one, other, others));
            assert!(in_flight(&permits, 9) == 0 && permits.occupancy().in_overflow == 0);
        });
    }
}

/// Goal: racing refusals make one ban. Method: two strikes of a new key, and of one whose ban is over.
#[test]
fn two_strikes_at_one_moment_make_one_ban() {
    for known in [false, true] {
        explore(move || {
            let bans = bans();
            let now = after(10_000);
            if known {
                assert!(bans.strike(key(1), after(0)).banned().is_some());
            }
            let theirs = Arc::clone(&bans);
            let (one, other) = both(
                move || theirs.strike(key(1), now),
                || bans.strike(key(1), now),
            );
            let begun = |struck: &StrikeOutcome| matches!(struck, StrikeOutcome::Begun(_));
            assert!(begun(&one) != begun(&other));
            assert_eq!(one.banned(), other.banned());
            assert_eq!(bans.active(key(1), now), one.banned());
            assert_eq!(bans.level(key(1), now), 1 + u8::from(known));
        });
    }
}

/// Goal: whoever knows of a ban finds it, and nobody is banned for another. Method: two new keys strike for the last
/// slot, and each looks at once; in two buckets, so that one may go to its second.
#[test]
fn a_ban_that_has_begun_is_found() {
    for (buckets, impatient) in [(1, false), (2, false), (1, true), (2, true)] {
        let model = move || {
            let [first, max] = [10, 40].map(Duration::from_secs);
            let rules = BanRules::new(first, BanFactor::TWO, max).expect("rules");
            let bans = Arc::new(Bans::with_buckets(rules, buckets));
            let filled = 2 * buckets as u64 - 1;
            let kept = (1..=filled)
                .filter(|number| bans.strike(key(*number), after(0)).banned().is_some());
            let kept = kept.count() as u64;
            let strike = |bans: &Bans, number| {
                let struck = bans.strike(key(number), after(0)).banned();
                assert_eq!(bans.active(key(number), after(0)), struck);
                u64::from(struck.is_some())
            };
            let theirs = Arc::clone(&bans);
            let (one, other) = both(move || strike(&theirs, 8), || strike(&bans, 9));
            assert!(
                [8, 9].map(|number| u64::from(bans.level(key(number), after(0)))) == [one, other]
            );
            assert_eq!(
                bans.banned_keys(after(0)).count() as u64,
                kept + one + other
            );
        };
        if impatient {
            explore_impatient(model);
        } else {
            explore(model);
        }
    }
}

/// Goal: nobody is forgotten while slots change hands. Method: a new key wants the slot of a key of whom nothing is
/// remembered while that key is struck again; impatient and not.
#[test]
fn a_claim_and_a_strike_of_the_old_key_do_not_lose_each_other() {
    let model = || {
        let bans = bans();
        let now = after(1_000_000);
        assert!(bans.strike(key(1), after(0)).banned().is_some());
        assert!(bans.strike(key(2), now).banned().is_some());
        let theirs = Arc::clone(&bans);
        let (newcomer, old) = both(
            move || theirs.strike(key(3), now).banned(),
            || bans.strike(key(1), now).banned(),
        );
        assert_eq!(bans.active(key(3), now), newcomer);
        assert_eq!(bans.active(key(1), now), old);
        assert!(bans.active(key(2), now).is_some());
    };
    explore(model);
    explore_impatient(model);
}
