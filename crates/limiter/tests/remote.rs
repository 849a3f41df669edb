//! What a store is told and what becomes of its answers, without a store: decisions told from fields, tables that adopt them,
//! shares of a policy. That a script which judges by the terms says the same as this crate is tested where the script is.

mod common;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use common::{START, after, capacity, cost, key, rates};
use proptest::prelude::*;
use sluicegate_limiter::{
    Algorithm, Alignment, Ask, CalendarUnit, CalendarZone, Decision, KeyPlacement, Limit, LogEntry,
    Policy, RateState, Refill, RemoteOutcome, RemoteState, Settle, charge_unchecked, decide,
};

/// Two rates of each algorithm; a calendar has one.
fn policies() -> Vec<Policy> {
    let two = [(5, 10), (20, 60)];
    let bucket = |refill| Algorithm::TokenBucket {
        burst: Some(7),
        refill,
    };
    let mut policies: Vec<Policy> = [
        Algorithm::SlidingWindow,
        Algorithm::FixedWindow(Alignment::Epoch),
        Algorithm::FixedWindow(Alignment::FirstRequest),
        Algorithm::FixedWindow(Alignment::Key),
        bucket(Refill::Interval),
        bucket(Refill::Greedy),
        Algorithm::LeakyBucket {
            queue: 6,
            max_wait: Duration::from_secs(15),
        },
        Algorithm::Exact,
    ]
    .into_iter()
    .map(|algorithm| Policy::new(algorithm, rates(&two)).expect("a policy"))
    .collect();
    let days = Algorithm::FixedWindow(Alignment::Calendar {
        zone: Arc::new(CalendarZone::utc()),
        unit: CalendarUnit::Day,
    });
    policies.push(Policy::new(days, rates(&[(5, 86_400)])).expect("a policy"));
    policies
}

/// What a store may hold of a rate: anything, mostly of about now.
fn any_state() -> impl Strategy<Value = RateState> {
    let millis = || {
        prop_oneof![
            6 => 1_799_999_900_000u64..1_800_000_090_000,
            1 => any::<u64>(),
        ]
    };
    let count = || prop_oneof![6 => 0u32..9, 1 => any::<u32>()];
    let age = || prop_oneof![6 => 0u32..6, 1 => any::<u32>()];
    let entry =
        || prop::option::of((age(), millis()).prop_map(|(age, millis)| LogEntry { age, millis }));
    prop_oneof![
        1 => Just(RateState::Unused),
        4 => (millis(), count(), count()).prop_map(|(millis, previous, current)| {
            RateState::Sliding { second: millis / 1_000, previous, current }
        }),
        4 => (millis(), count()).prop_map(|(millis, count)| RateState::Begun { millis, count }),
        4 => (millis(), count(), any::<u16>()).prop_map(|(millis, ticks, generation)| {
            RateState::Owing { millis, ticks, generation }
        }),
        4 => (millis(), entry(), entry())
            .prop_map(|(latest, awaited, oldest)| RateState::Logged { latest, awaited, oldest }),
    ]
}

/// What is left of each rate.
fn left(decision: &Decision) -> Vec<u32> {
    let statuses = decision.statuses();
    statuses.iter().map(|status| status.remaining).collect()
}

proptest! {
    /// Goal: a table that adopts stands as the store does, whatever the store says, and nothing panics. Method: any fields of every
    /// algorithm; the decision told from them beside the peek of a new table that adopted them, and again after other fields.
    #[test]
    fn a_table_that_adopts_stands_as_it_is_told(
        states in prop::collection::vec((any_state(), any_state()), 1..4),
        wait in 0u64..70_000,
    ) {
        for policy in policies() {
            let is_exact = *policy.algorithm() == Algorithm::Exact;
            for (one, two) in &states {
                let view = Limit::new(policy.clone(), capacity(64));
                let now = after(wait);
                let state = RemoteState::new([*one, *two]);
                let nothing = Decision::remote(&policy, &state, RemoteOutcome::Peeked, now);
                prop_assert!(nothing.is_admitted());
                let refused = RemoteOutcome::NotCharged { cost: cost(1), refusing: 0b11 };
                prop_assert!(Decision::remote(&policy, &state, refused, now).retry_after().is_some());
                for _ in 0..2 {
                    prop_assert_eq!(view.adopt(key(1), &state, now), KeyPlacement::OwnSlot);
                    let seen = view.peek(key(1), cost(1), now);
                    // What a store says of a log may contradict itself; a view of it does not.
                    if !is_exact {
                        prop_assert_eq!(left(&seen), left(&nothing));
                    }
                }
            }
            let view = Limit::new(policy.clone(), capacity(64));
            for (one, two) in &states {
                view.adopt(key(1), &RemoteState::new([*one, *two]), after(wait));
                view.adopt(key(1), &RemoteState::new([*two, *one]), after(wait + 1_000));
            }
            view.adopt(key(1), &RemoteState::default(), after(wait));
            let free = Limit::new(policy.clone(), capacity(64));
            prop_assert_eq!(
                left(&view.peek(key(1), cost(1), after(wait))),
                left(&free.peek(key(1), cost(1), after(wait))),
                "what the store forgot is forgotten"
            );
        }
    }

    /// Goal: a view of a log refuses the cost that the store refused exactly as long, counts what the store counts, and refuses
    /// nothing that the store would not. Method: random logs; the three entries of each rate that the store tells.
    #[test]
    fn a_view_of_a_log_refuses_what_the_store_would(
        gaps in prop::collection::vec(0u64..9_000, 1..30),
        units in 1u32..5,
    ) {
        let policy = Policy::new(Algorithm::Exact, rates(&[(5, 10), (20, 60)])).expect("a policy");
        let store = Limit::new(policy.clone(), capacity(64));
        let mut now = START;
        let mut entries = Vec::new();
        for gap in gaps {
            now = now.saturating_add(Duration::from_millis(gap));
            let ask = Ask { limit: &store, key: key(1), cost: cost(1), payer: None };
            drop(charge_unchecked(&[ask], now));
            entries.insert(0, now.as_nanos() / 1_000_000);
        }
        let entry = |age: u32| LogEntry { age, millis: entries[age as usize] };
        let asked = store.peek(key(1), cost(units), now);
        let states = [(5u32, 10_000u64), (20, 60_000)].map(|(count, period)| {
            let since = now.as_nanos() / 1_000_000 - period;
            let used = entries.iter().filter(|entry| **entry > since).count() as u32;
            let awaited = match count.checked_sub(units) {
                Some(room) if used > room => Some(entry(room)),
                _ => used.min(count).checked_sub(1).map(entry),
            };
            RateState::Logged { latest: entries[0], awaited, oldest: used.checked_sub(1).map(entry) }
        });
        let view = Limit::new(policy, capacity(64));
        view.adopt(key(1), &RemoteState::new(states), now);
        let seen = view.peek(key(1), cost(units), now);
        prop_assert_eq!(left(&seen), left(&asked));
        prop_assert_eq!(seen.retry_after(), asked.retry_after());
        for other in 1..=5 {
            let (seen, asked) = (
                view.peek(key(1), cost(other), now).retry_after(),
                store.peek(key(1), cost(other), now).retry_after(),
            );
            prop_assert!(seen.unwrap_or_default() <= asked.unwrap_or_default());
        }
    }

    /// Goal: what nodes may admit without the store is no less together than the limit, and at most a unit a node more. Method: any
    /// counts, bursts and queues among any number of nodes; every share is a policy.
    #[test]
    fn shares_together_are_the_whole(
        count in 1u32..=1_048_575,
        burst in 1u32..=1_048_575,
        nodes in 1u32..1_000,
        secs in 1u32..=2_678_400,
    ) {
        let max_wait = Duration::from_secs(5);
        for algorithm in [
            Algorithm::SlidingWindow,
            Algorithm::TokenBucket { burst: Some(burst), refill: Refill::Greedy },
            Algorithm::Gcra { burst: Some(burst) },
            Algorithm::LeakyBucket { queue: burst - 1, max_wait },
        ] {
            let Ok(policy) = Policy::new(algorithm, rates(&[(count, secs)])) else {
                continue;
            };
            let share = policy.share(NonZeroU32::new(nodes).expect("a node"));
            let part = share.rates().as_slice()[0].count();
            prop_assert!(part * nodes >= count && part < count / nodes + 2);
            prop_assert!(
                Policy::new(share.algorithm().clone(), share.rates().clone()).is_ok(),
                "a share is a policy: {:?}", share
            );
            prop_assert!(Limit::new(policy, capacity(1)).with_policy(share).is_some());
        }
    }
}

/// Goal: a scaled policy has scaled counts and bursts, none of them zero or beyond what counts may be, and a log stays as long as it may.
/// Method: factors on both sides of one, with counts at both ends.
#[test]
fn a_scaled_policy_has_scaled_counts() {
    let scaled = |algorithm: Algorithm, count: u32, factor: u32| {
        let policy = Policy::new(algorithm, rates(&[(count, 60)])).expect("a policy");
        policy.scaled(NonZeroU32::new(factor).expect("a factor"))
    };
    for (count, factor, wanted) in [
        (10, 50, 5),
        (10, 1, 1),
        (3, 50, 2),
        (10, 10_000, 1_000),
        (1_048_575, 10_000, 1_048_575),
    ] {
        let policy = scaled(Algorithm::SlidingWindow, count, factor).expect("a policy");
        assert_eq!(
            policy.rates().as_slice()[0].count(),
            wanted,
            "{count} by {factor}"
        );
    }
    let bucket = Algorithm::TokenBucket {
        burst: Some(20),
        refill: Refill::Greedy,
    };
    let halved = Algorithm::TokenBucket {
        burst: Some(10),
        refill: Refill::Greedy,
    };
    let bucket = scaled(bucket, 10, 50).expect("a policy");
    assert_eq!(bucket.algorithm(), &halved);
    assert!(scaled(Algorithm::Exact, 1_000, 101).is_ok());
    assert!(scaled(Algorithm::Exact, 1_000, 200).is_err());
}

/// Goal: keys without a slot count at least what the store says, and telling it again adds nothing. Method: a bucket full of keys
/// that owe, then another key adopts twice, and a third nothing at all.
#[test]
fn a_new_key_in_overflow_counts_at_least_what_the_store_says() {
    let moment = START.as_secs() * 1_000;
    let states = [
        (
            Algorithm::SlidingWindow,
            RateState::Sliding {
                second: moment / 1_000,
                previous: 0,
                current: 3,
            },
        ),
        (
            Algorithm::FixedWindow(Alignment::Epoch),
            RateState::Begun {
                millis: moment,
                count: 3,
            },
        ),
        (
            Algorithm::Gcra { burst: None },
            RateState::Owing {
                millis: moment + 6_000,
                ticks: 0,
                generation: 1,
            },
        ),
        (
            Algorithm::Exact,
            RateState::Logged {
                latest: moment,
                awaited: Some(LogEntry {
                    age: 2,
                    millis: moment,
                }),
                oldest: Some(LogEntry {
                    age: 2,
                    millis: moment,
                }),
            },
        ),
    ];
    for (algorithm, state) in states {
        let policy = Policy::new(algorithm.clone(), rates(&[(5, 10)])).expect("a policy");
        let view = Limit::with_buckets(policy, 1);
        let state = RemoteState::new([state]);
        let mut seated = 0;
        while view.adopt(key(seated), &state, START) == KeyPlacement::OwnSlot {
            seated += 1;
        }
        assert!((4..20).contains(&seated), "{algorithm:?}: {seated} slots");
        for _ in 0..3 {
            assert_eq!(
                view.adopt(key(seated), &state, START),
                KeyPlacement::Overflow
            );
            assert_eq!(
                left(&view.peek(key(seated), cost(1), START)),
                [2],
                "{algorithm:?}"
            );
        }
        for number in 0..seated {
            assert_eq!(
                left(&view.peek(key(number), cost(1), START)),
                [2],
                "{algorithm:?}"
            );
        }
        let none = RemoteState::default();
        assert_eq!(view.adopt(key(0), &none, START), KeyPlacement::OwnSlot);
        assert_eq!(
            left(&view.peek(key(0), cost(1), START)),
            [5],
            "{algorithm:?}"
        );
    }
}

/// Goal: what was admitted elsewhere counts here, fit or not, and can be given back. Method: every algorithm, spent beyond its count
/// and settled to nothing; then within it.
#[test]
fn what_is_spent_counts_and_can_be_given_back() {
    for policy in policies() {
        let limit = Limit::new(policy.clone(), capacity(16));
        let ask = |units| Ask {
            limit: &limit,
            key: key(1),
            cost: cost(units),
            payer: None,
        };
        let untouched = left(&limit.peek(key(1), cost(1), START));
        let spent = charge_unchecked(&[ask(2)], START);
        let after = left(&limit.peek(key(1), cost(1), START));
        let less: Vec<u32> = untouched.iter().map(|units| units - 2).collect();
        assert_eq!(after, less, "{policy:?}");
        spent.settle_each(START, |_| Settle::Refund);
        assert_eq!(left(&limit.peek(key(1), cost(1), START)), untouched);
        drop(charge_unchecked(&[ask(1_000)], START));
        assert_eq!(left(&limit.peek(key(1), cost(1), START))[0], 0);
        assert!(decide(&[ask(1)], START).retry_after().is_some());
    }
}
