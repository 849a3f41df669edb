//! C3: who invents keys fills no table for others, and nobody passes uncounted for it.

mod common;

use common::{START, after, alike, capacity, key, peek, rates};
use sluicegate_limiter::{
    Algorithm, Ask, Capacity, Cost, KeyHash, KeyPlacement, Limit, Outcome, Payer, Policy, Refill,
    Seed, Timestamp, Verdict, decide, reserve,
};

const UNITS: u32 = 5;
const CAPACITY: u64 = 6_400;
/// 1/256 of it.
const SHARE: u64 = 25;
const INVENTED: u64 = 100 * CAPACITY;

fn with_payer_shares(policy: impl Into<Policy>) -> Limit {
    Limit::new(policy, capacity(CAPACITY)).with_payer_shares(&Seed::from_bytes([8; 16]))
}

fn ask(limit: &Limit, key: KeyHash, payer: u64) -> Ask<'_> {
    Ask {
        limit,
        key,
        cost: Cost::ONE,
        payer: Some(Payer::from_bits(payer)),
    }
}

fn take(limit: &Limit, number: u64, payer: u64, now: Timestamp) -> Verdict {
    decide(&[ask(limit, key(number), payer)], now)
}

fn admits(limit: &Limit, number: u64, payer: u64, now: Timestamp) -> bool {
    take(limit, number, payer, now).outcome() == Outcome::Admitted
}

fn daily(algorithm: Algorithm) -> Policy {
    Policy::new(algorithm, rates(&[(UNITS, 86_400)])).expect("a policy")
}

fn policies() -> Vec<Policy> {
    let burst = None;
    let refill = Refill::Interval;
    let algorithms = [
        Algorithm::SlidingWindow,
        Algorithm::Exact,
        Algorithm::TokenBucket { burst, refill },
        Algorithm::Gcra { burst },
    ];
    let more = (2..=4).map(|count| Policy::from(alike(count, UNITS)));
    algorithms.map(daily).into_iter().chain(more).collect()
}

/// Goal: one address that invents keys locks nobody out, and each of its keys is counted. Method: a hundred times the capacity in new
/// keys of one payer, each asked once; then new keys of others, who use all of their limit and no more.
#[test]
fn one_payer_leaves_room_for_the_new_keys_of_others() {
    for policy in policies() {
        let limit = with_payer_shares(policy);
        let bytes = limit.bytes();
        let admitted = (0..INVENTED).filter(|number| admits(&limit, *number, 1, START));
        let admitted = admitted.count() as u64;
        let occupancy = limit.occupancy(START);
        assert_eq!(admitted, occupancy.live, "nobody passes without a slot");
        assert!(
            admitted <= occupancy.slots - occupancy.buckets + SHARE,
            "{admitted} of {occupancy:?}"
        );
        let newcomers = 4 * SHARE;
        for newcomer in INVENTED..INVENTED + newcomers {
            for _ in 0..UNITS {
                assert!(admits(&limit, newcomer, newcomer, START));
            }
            assert!(!admits(&limit, newcomer, newcomer, START));
        }
        let shared = limit.stats().admitted_in_overflow / u64::from(UNITS);
        assert!(
            shared < newcomers / 20,
            "{shared} of {newcomers} have no slot"
        );
        assert_eq!(limit.bytes(), bytes);
    }
}

/// Goal: the numbers that docs/limiter.md gives. Method: a million new keys of one payer in a table of the default capacity, then ten
/// thousand new keys.
#[test]
fn a_million_invented_keys_leave_room_at_the_default_capacity() {
    let limit = Limit::new(daily(Algorithm::SlidingWindow), Capacity::DEFAULT);
    let limit = limit.with_payer_shares(&Seed::from_bytes([8; 16]));
    let admitted = (0..1_000_000).filter(|number| admits(&limit, *number, 1, START));
    let admitted = admitted.count() as u64;
    let keys = Capacity::DEFAULT.keys();
    assert!(
        (keys * 14 / 10..keys * 15 / 10).contains(&admitted),
        "{admitted}"
    );
    let mut newcomers = 1_000_000..1_010_000;
    assert!(
        newcomers.all(|newcomer| (0..UNITS).all(|_| admits(&limit, newcomer, newcomer, START)))
    );
}

/// Goal: many customers behind one address are served while there is room. Method: as many keys of one payer as half the capacity,
/// without others; none is refused.
#[test]
fn a_payer_may_use_a_table_that_is_not_crowded() {
    for policy in policies() {
        let limit = with_payer_shares(policy);
        let keys = 0..CAPACITY / 2;
        assert!(keys.clone().all(|number| admits(&limit, number, 1, START)));
        assert!(keys.clone().all(|number| admits(&limit, number, 1, START)));
    }
}

/// Goal: whoever is over its share is told so, keeps the keys that it has, and has its share back in time. Method: decisions about
/// both kinds of its keys, of several at once, and two periods later.
#[test]
fn whoever_is_over_its_share_keeps_what_it_has() {
    for policy in policies() {
        let limit = with_payer_shares(policy);
        let refused = (0..INVENTED).find(|number| !admits(&limit, *number, 1, START));
        let refused = refused.expect("a table has an end");
        assert!(refused > SHARE);
        let verdict = take(&limit, refused, 1, START);
        let decision = &verdict.decisions()[0];
        assert_eq!(
            (decision.placement(), decision.remaining()),
            (KeyPlacement::OverShare, 0)
        );
        assert!(!decision.retry_after().expect("refused").is_zero());
        // Another payer may have the very same key.
        assert!(admits(&limit, refused, 2, START));
        // The first one has it then, too.
        assert!(admits(&limit, 0, 1, START) && admits(&limit, refused, 1, START));
        limit.count_refusal(decision);
        let stats = limit.stats();
        assert_eq!(
            (stats.refused_over_share, stats.refused_in_overflow),
            (1, 0)
        );
        let later = after(2 * 86_400_000);
        assert!(admits(&limit, INVENTED, 1, later));
    }
}

/// Goal: all or nothing. Method: a limit beside the one whose share is taken; what is refused is charged in neither, and what waits
/// for its settlement goes back.
#[test]
fn a_refusal_for_a_share_charges_no_limit() {
    for policy in policies() {
        let limit = with_payer_shares(policy.clone());
        let beside = Limit::new(policy, capacity(10));
        let both = |number| [ask(&beside, key(9), 1), ask(&limit, key(number), 1)];
        let refused = (0..INVENTED).find(|number| !admits(&limit, *number, 1, START));
        let refused = refused.expect("a table has an end");
        let verdict = decide(&both(refused), START);
        assert_eq!(verdict.decisions()[0].remaining(), UNITS);
        assert_eq!(verdict.decisions()[1].placement(), KeyPlacement::OverShare);
        assert!(matches!(verdict.outcome(), Outcome::Refused { ask: 1, .. }));
        assert!(reserve(&both(refused), START).1.is_none());
        assert_eq!(peek(&beside, 9, START).remaining(), UNITS);
        assert_eq!(decide(&both(0), START).outcome(), Outcome::Admitted);
    }
}

/// Goal: keys without a payer, and limits without shares, are as they were. Method: the same flood; new keys share counters.
#[test]
fn without_a_payer_nothing_changes() {
    for policy in policies() {
        let plain = Limit::new(policy.clone(), capacity(CAPACITY));
        let with_payer_shares = with_payer_shares(policy);
        assert_eq!(
            (plain.share(), with_payer_shares.share()),
            (None, Some(SHARE))
        );
        assert_eq!(
            with_payer_shares.bytes() as u64,
            plain.bytes() as u64 + Limit::SHARES_BYTES
        );
        let unpaid = |limit: &Limit, number| {
            let payer = None;
            let ask = Ask {
                payer,
                ..ask(limit, key(number), 1)
            };
            decide(&[ask], START)
        };
        for number in 0..5 * CAPACITY {
            assert_eq!(
                unpaid(&with_payer_shares, number),
                take(&plain, number, 1, START)
            );
        }
        assert!(plain.stats().admitted_in_overflow > 0);
    }
}

/// Goal: an edit that needs another table goes on with shares. Method: a larger capacity has a larger share, and bounds it.
#[test]
fn shares_outlive_an_edit() {
    let limit = with_payer_shares(daily(Algorithm::SlidingWindow));
    let edited = limit.edited(
        daily(Algorithm::SlidingWindow),
        capacity(2 * CAPACITY),
        START,
    );
    assert_eq!(edited.share(), Some(2 * SHARE));
    let admitted = (0..INVENTED).filter(|number| admits(&edited, *number, 1, START));
    assert_eq!(admitted.count() as u64, edited.occupancy(START).live);
    assert!(admits(&edited, INVENTED, 2, START));
    let same = edited.with_policy(daily(Algorithm::SlidingWindow));
    assert_eq!(same.expect("the same counters").share(), Some(2 * SHARE));
}
