//! C3 over time: a table too small for its keys lets nobody pass who would be refused with a counter of his own.

mod common;

use std::time::Duration;

use common::{START, admits, after, capacity, cost, key, peek, rates};
use proptest::prelude::*;
use sluicegate_limiter::{
    Algorithm, Alignment, Ask, KeyPlacement, Limit, Outcome, Policy, Refill, Reservation,
    Timestamp, reserve,
};

/// A request of one of 24 keys, after a while; it may be given back when another comes.
#[derive(Clone, Debug)]
struct Step {
    wait: Duration,
    key: u64,
    units: u32,
    /// Which of the charges that were made is given back, counted round and round.
    release: Option<usize>,
}

fn any_step() -> impl Strategy<Value = Step> {
    let wait = prop_oneof![
        12 => Just(0_u64),
        4 => 1..1_500_u64,
        1 => 1_000..30_000_u64,
    ];
    let release = proptest::option::weighted(0.3, any::<usize>());
    (wait, 0..24_u64, 1..3_u32, release).prop_map(|(wait, key, units, release)| Step {
        wait: Duration::from_millis(wait),
        key,
        units,
        release,
    })
}

/// All but windows from the first request, which begin at other moments where a key was counted with others.
fn any_algorithm() -> impl Strategy<Value = Algorithm> {
    prop_oneof![
        Just(Algorithm::SlidingWindow),
        Just(Algorithm::Exact),
        Just(Algorithm::FixedWindow(Alignment::Epoch)),
        Just(Algorithm::FixedWindow(Alignment::Key)),
        (proptest::option::of(5..20_u32), any::<bool>()).prop_map(|(burst, greedy)| {
            let refill = if greedy {
                Refill::Greedy
            } else {
                Refill::Interval
            };
            Algorithm::TokenBucket { burst, refill }
        }),
        (3..20_u32).prop_map(|burst| Algorithm::Gcra { burst: Some(burst) }),
        (3..20_u32).prop_map(|queue| Algorithm::LeakyBucket {
            queue,
            max_wait: Duration::from_secs(3)
        }),
    ]
}

/// Goal: a key that gets a slot after others were counted together begins with nothing, and one that was counted with them with what they
/// used, in a window of its own. Method: a full table, two keys in overflow; as their window ends and slots come free, one of them and
/// another ask for the first time, and again a moment later.
#[test]
fn a_window_that_others_began_is_not_inherited() {
    let algorithm = Algorithm::FixedWindow(Alignment::FirstRequest);
    let policy = Policy::new(algorithm, rates(&[(5, 10)])).expect("a policy");
    let limit = Limit::with_buckets(policy, 1);
    assert!((0..7).all(|number| admits(&limit, number, after(0))));
    for number in [100, 101] {
        assert!(admits(&limit, number, after(1_000)));
        assert_eq!(
            peek(&limit, number, after(1_000)).placement(),
            KeyPlacement::Overflow
        );
    }
    let passed = |number, millis| {
        (0..20)
            .filter(|_| admits(&limit, number, after(millis)))
            .count()
    };
    assert_eq!((passed(100, 10_900), passed(100, 11_000)), (3, 0));
    assert_eq!((passed(200, 10_900), passed(200, 11_000)), (5, 0));
}

/// A charge that was admitted, in the crowded table and in that with room for all.
struct Made {
    key: u64,
    units: u32,
    at: Timestamp,
    crowded: Reservation,
    /// `None` where the other table refused it, which counts more after undos.
    roomy: Option<Reservation>,
}

fn charge(
    limit: &Limit,
    number: u64,
    units: u32,
    now: Timestamp,
) -> (Outcome, Option<Reservation>) {
    let key = key(number);
    let cost = cost(units);
    let (verdict, reservation) = reserve(
        &[Ask {
            limit,
            key,
            cost,
            payer: None,
        }],
        now,
    );
    (verdict.outcome(), reservation)
}

/// Whether a counter admits this that was told only what counts still: an undo is exact up to the first of a key, and then gives back the
/// least that can be left of the charge, so a counter that had it may count more.
fn admits_after(policy: &Policy, made: &[Made], step: &Step, now: Timestamp) -> bool {
    let limit = Limit::new(policy.clone(), capacity(1));
    let mut of_key: Vec<&Made> = made.iter().filter(|made| made.key == step.key).collect();
    of_key.sort_by_key(|made| made.at);
    for made in of_key {
        let (outcome, _) = charge(&limit, made.key, made.units, made.at);
        assert_eq!(outcome, Outcome::Admitted);
    }
    charge(&limit, step.key, step.units, now).0 == Outcome::Admitted
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Goal: overflow never under-counts, nor does whoever gets a slot after it. Method: a table of a bucket or two beside one with room;
    /// what the first admits the second must admit too, or a counter without what was given back, and both are given the same back, at
    /// once or late.
    #[test]
    fn nobody_passes_who_would_be_refused_with_a_counter_of_his_own(
        algorithm in any_algorithm(),
        rate_count in 1..4_usize,
        buckets in 1..3_usize,
        steps in proptest::collection::vec(any_step(), 1_500),
    ) {
        let numbers = &[(5, 2), (9, 7), (12, 20)][..rate_count];
        let policy = Policy::new(algorithm, rates(numbers)).expect("a policy");
        let crowded = Limit::with_buckets(policy.clone(), buckets);
        let roomy = Limit::new(policy.clone(), capacity(2_000));
        let mut made: Vec<Made> = Vec::new();
        let mut now = START;
        for step in steps {
            now = now.saturating_add(step.wait);
            let Step { key, units, release, .. } = step;
            if let (outcome, Some(crowded)) = charge(&crowded, key, units, now) {
                let (own, roomy) = charge(&roomy, key, units, now);
                let is_admitted = own == Outcome::Admitted || admits_after(&policy, &made, &step, now);
                prop_assert!(is_admitted, "{:?} beside {:?}", outcome, own);
                made.push(Made { key, units, at: now, crowded, roomy });
            }
            if let Some(at) = release.filter(|_| !made.is_empty()) {
                let given_back = made.swap_remove(at % made.len());
                given_back.crowded.release(now);
                given_back.roomy.into_iter().for_each(|one| one.release(now));
            }
        }
    }
}
