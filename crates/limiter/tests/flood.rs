//! C3: what happens at the bound. More keys than fit make nobody's count go down, pass uncounted or take memory.

mod common;

use common::{START, admits, after, alike, capacity, left, limit, peek, rates};
use sluicegate_limiter::{Algorithm, Alignment, KeyPlacement, Limit, Policy, Refill};

/// Goal: no count goes down in a flood, least of all the flooder's own. Method: known clients at all stages of their
/// limit, then a hundred times the capacity in new keys, each asking more often than it may.
#[test]
fn a_flood_of_new_keys_makes_no_count_go_down() {
    const UNITS: u32 = 5;
    for count in 1..=4 {
        let limit = Limit::new(alike(count, UNITS), capacity(200));
        let bytes = limit.bytes();
        for client in 0..100 {
            for _ in 0..client % (u64::from(UNITS) + 1) {
                assert!(admits(&limit, client, START));
            }
        }
        let before: Vec<u32> = (0..100).map(|client| left(&limit, client, START)).collect();
        for flooder in 1000..21_000 {
            let passed = (0..UNITS + 2)
                .filter(|_| admits(&limit, flooder, START))
                .count();
            assert!(passed <= UNITS as usize, "nobody passes uncounted");
            assert!(
                !admits(&limit, flooder, START),
                "who was refused stays refused"
            );
        }
        // Clients that had asked before keep their slots; the others are new keys now, and share.
        for client in (0..100).filter(|client| client % (u64::from(UNITS) + 1) != 0) {
            assert_eq!(left(&limit, client, START), before[client as usize]);
            assert_eq!(
                peek(&limit, client, START).placement(),
                KeyPlacement::OwnSlot
            );
        }
        let still_refused = (1000..21_000).all(|flooder| !admits(&limit, flooder, START));
        assert!(still_refused);
        assert_eq!(limit.bytes(), bytes);
        assert!(limit.stats().admitted_in_overflow > 0);
        let occupancy = limit.occupancy(START);
        assert!(occupancy.in_overflow > 0);
        assert!((1..=occupancy.buckets).contains(&occupancy.overflowing));
    }
}

/// Goal: C1 up to the capacity. Method: a million new keys at once in a table for a million.
#[test]
fn a_million_keys_fit_a_capacity_of_a_million() {
    const KEYS: u64 = 1_000_000;
    let limit = limit(&[(5, 600)], KEYS);
    assert!(
        (0..KEYS).all(|number| admits(&limit, number, START)),
        "none is refused"
    );
    let stats = limit.stats();
    assert!(stats.admitted_in_overflow < KEYS / 100_000, "{stats:?}");
    let occupancy = limit.occupancy(START);
    assert!(
        occupancy.live.abs_diff(KEYS) < KEYS / 100,
        "extrapolated from a sample: {occupancy:?}"
    );
    assert!(limit.bytes() as u64 <= 32 * KEYS);
}

/// Goal: small capacities hold what they say. Method: every capacity up to 64 with as many keys, over many sets of
/// keys.
#[test]
fn small_tables_keep_their_keys_apart() {
    for keys in (1..=64).step_by(3) {
        for count in 1..=4 {
            let limit = Limit::new(alike(count, 3), capacity(keys));
            for set in 0..20 {
                // Far enough apart that nothing of the set before is owed.
                let now = after(set * 10_000_000);
                assert!((0..keys).all(|number| admits(&limit, set * 1000 + number, now)));
            }
            assert_eq!(
                limit.stats().admitted_in_overflow,
                0,
                "{keys} keys, {count} rates"
            );
        }
    }
}

/// Goal: slots that owe nothing are reused, and only those. Method: the flood goes on for windows; a new key after it
/// finds room again.
#[test]
fn room_comes_back_when_what_was_owed_is_past() {
    let limit = limit(&[(1, 10)], 10);
    assert!(
        (0..1000)
            .filter(|number| admits(&limit, *number, START))
            .count()
            >= 10
    );
    assert_eq!(
        peek(&limit, 5000, after(19_999)).placement(),
        KeyPlacement::Overflow
    );
    assert_eq!(
        peek(&limit, 5000, after(20_000)).placement(),
        KeyPlacement::OwnSlot
    );
    let occupancy = limit.occupancy(after(20_000));
    assert_eq!((occupancy.live, occupancy.overflowing), (0, 0));
    assert!(admits(&limit, 5000, after(20_000)));
    assert!(limit.stats().slots_reused > 0);
}

/// Goal: invariant 5, a slot is no fresh limit. Method: a key uses its limit in overflow, then asks where a slot is
/// free but its overflow still weighs.
#[test]
fn a_key_that_gets_a_slot_takes_what_it_used_in_overflow_along() {
    let limit = Limit::with_buckets(rates(&[(10, 10)]), 1);
    // Seven slots whose keys asked in the first window; the eighth key asks in the second one, in overflow.
    assert!((0..7).all(|number| admits(&limit, number, after(0))));
    assert!((0..10).all(|_| admits(&limit, 8, after(10_000))));
    assert_eq!(
        peek(&limit, 8, after(10_000)).placement(),
        KeyPlacement::Overflow
    );
    // In the third window the seven owe nothing, and the overflow of the second weighs in full.
    let decision = peek(&limit, 8, after(20_000));
    assert_eq!(
        (decision.placement(), decision.refusing_rate()),
        (KeyPlacement::Overflow, Some(0)),
        "a slot is free, and what is shared refuses"
    );
    assert!(!admits(&limit, 8, after(20_000)));
    // Half of it later there is room for five, in a slot of its own.
    assert_eq!(
        (0..10).filter(|_| admits(&limit, 8, after(25_000))).count(),
        5
    );
    assert_eq!(
        peek(&limit, 8, after(25_000)).placement(),
        KeyPlacement::OwnSlot
    );
    assert_eq!(limit.occupancy(after(25_000)).live, 1);
}

/// Goal: no flood resets a victim or the flooder, whatever the algorithm. Method: victims at all stages of their limit, then
/// fifty times the capacity in new keys, of which some come back for more; `--example flood` does it with 10^7.
#[test]
fn a_flood_resets_nobody_whatever_the_algorithm() {
    const UNITS: u32 = 5;
    const KEYS: u64 = if cfg!(miri) { 500 } else { 250_000 };
    let burst = None;
    let algorithms = [
        Algorithm::SlidingWindow,
        Algorithm::Exact,
        Algorithm::FixedWindow(Alignment::FirstRequest),
        Algorithm::FixedWindow(Alignment::Key),
        Algorithm::TokenBucket {
            burst,
            refill: Refill::Interval,
        },
        Algorithm::Gcra { burst },
    ];
    for algorithm in algorithms {
        let policy = Policy::new(algorithm.clone(), rates(&[(UNITS, 86_400)])).expect("a policy");
        let limit = Limit::new(policy, capacity(KEYS / 50));
        let bytes = limit.bytes();
        let victims = 0..100;
        let used = |victim: u64| 1 + victim as u32 % UNITS;
        for victim in victims.clone() {
            assert!((0..used(victim)).all(|_| admits(&limit, victim, START)));
        }
        for flooder in 1_000..1_000 + KEYS {
            admits(&limit, flooder, START);
            // He comes back to a key that he had long ago: whatever it had used, it has not got more than its limit.
            let again = 1_000 + (flooder - 1_000) / 2;
            if flooder % 100 == 0 {
                let passed = (0..=UNITS).filter(|_| admits(&limit, again, START)).count();
                assert!(
                    passed < UNITS as usize,
                    "{algorithm:?}: {again} had asked before"
                );
                assert!(!admits(&limit, again, START));
            }
        }
        for victim in victims {
            let seen = (
                left(&limit, victim, START),
                peek(&limit, victim, START).placement(),
            );
            assert_eq!(
                seen,
                (UNITS - used(victim), KeyPlacement::OwnSlot),
                "{algorithm:?}"
            );
        }
        assert_eq!((limit.bytes(), limit.stats().slots_reused), (bytes, 0));
        assert!(limit.overflow(START).is_some());
    }
}
