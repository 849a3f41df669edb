//! Tests of what is counted elsewhere, over the algorithms.

use std::time::Duration;

use super::*;
use crate::algorithm::{Algorithm, Alignment, Refill};
use crate::{Ask, Capacity, LateCharges, Outcome, Period, RateState, Rates, decide};

const KEY: KeyHash = KeyHash::from_bits(7);

fn rates(counts: &[(u32, u32)]) -> Rates {
    let rate = |(count, secs): &(u32, u32)| {
        Rate::new(*count, Period::from_secs(*secs).expect("valid")).expect("valid")
    };
    Rates::new(counts.iter().map(rate)).expect("valid")
}

fn policies() -> Vec<Policy> {
    let algorithms = [
        Algorithm::SlidingWindow,
        Algorithm::FixedWindow(Alignment::Epoch),
        Algorithm::FixedWindow(Alignment::FirstRequest),
        Algorithm::TokenBucket {
            burst: None,
            refill: Refill::Interval,
        },
        Algorithm::Gcra { burst: Some(10) },
    ];
    let policy = |algorithm| Policy::new(algorithm, rates(&[(10, 60), (100, 600)])).expect("valid");
    algorithms.map(policy).into()
}

/// Goal: what is counted by force counts as any charge does, and beyond what fits it is told. Method: each algorithm, a
/// key that is admitted four units and is then counted nine more.
#[test]
fn what_is_counted_is_used_and_judged() {
    let now = Timestamp::from_secs(1_800_000_000);
    for policy in policies() {
        let limit = Limit::new(policy.clone(), Capacity::new(10).expect("valid"));
        assert_eq!(limit.used(KEY, now), 0, "{policy:?}");
        let ask = |units| Ask {
            limit: &limit,
            key: KEY,
            cost: Cost::new(units).expect("valid"),
            payer: None,
        };
        assert_eq!(decide(&[ask(4)], now).outcome(), Outcome::Admitted);
        assert_eq!(limit.used(KEY, now), 4, "{policy:?}");
        limit.count(KEY, Cost::new(9).expect("valid"), now);
        assert_eq!(limit.used(KEY, now), 13, "{policy:?}");
        assert_ne!(decide(&[ask(1)], now).outcome(), Outcome::Admitted);
        assert!([10, 100].contains(&policy.most()), "{policy:?}");
    }
}

/// Units of others, which are charged now.
fn charged_now(others: u32) -> LateCharges {
    LateCharges {
        others,
        own: 0,
        delay: Duration::ZERO,
    }
}

/// Goal: a rejection with charges of others states for each rate that refuses the wait of a key that has used so much, and for a rate with
/// room what it stated before. Method: each algorithm, two keys of one limit; the charges of others would use up the second rate too.
#[test]
fn a_rejection_with_charges_of_others_waits_as_long_as_a_key_that_has_them() {
    let now = Timestamp::from_secs(1_800_000_000);
    let cost = |units| Cost::new(units).expect("valid");
    let other = KeyHash::from_bits(8 << 32);
    for policy in policies() {
        let limit = Limit::new(policy.clone(), Capacity::new(10).expect("valid"));
        limit.count(KEY, cost(10), now);
        limit.count(other, cost(105), now);
        let rejection = limit.peek(KEY, Cost::ONE, now);
        let before = rejection.statuses();
        let used_up = limit.peek(other, Cost::ONE, now).statuses();
        let more = rejection.clone().with_late_charges(charged_now(95));
        assert_eq!(more.statuses()[0], used_up[0], "{policy:?}");
        let second = if before[1].remaining > 0 {
            before[1]
        } else {
            used_up[1]
        };
        assert_eq!(more.statuses()[1], second, "{policy:?}");
        assert_eq!(more.refusing_rate(), Some(0), "{policy:?}");
    }
    let empty = Limit::new(policies()[0].clone(), Capacity::new(10).expect("valid"));
    let admitted = empty.peek(KEY, Cost::ONE, now);
    assert_eq!(
        admitted.clone().with_late_charges(charged_now(95)),
        admitted
    );
}

/// Goal: the wait with late charges is true whenever they are made, and too long by no more than their delay. Method: each algorithm, in a
/// window and around its end; a store that charges the units of this place and those of others at each pair of moments.
#[test]
fn a_wait_with_late_charges_is_true_whenever_they_are_made() {
    let millis = Duration::from_millis;
    let cost = |units| Cost::new(units).expect("valid");
    let begin = Timestamp::from_secs(1_800_000_000);
    let delay = millis(250);
    let late = LateCharges {
        others: 20,
        own: 12,
        delay,
    };
    for policy in policies() {
        let new = || Limit::new(policy.clone(), Capacity::new(10).expect("valid"));
        let mut refusals = 0;
        for now in [
            begin.saturating_sub(millis(100)),
            begin.saturating_add(millis(50)),
            begin.saturating_add(millis(30_000)),
        ] {
            let here = new();
            let made = now.saturating_sub(millis(100));
            here.count(KEY, cost(late.own), made);
            let rejection = here.peek(KEY, Cost::ONE, now).with_late_charges(late);
            let Some(stated) = rejection.retry_after() else {
                continue;
            };
            refusals += 1;
            let later = now.saturating_add(delay);
            let mut longest = Duration::ZERO;
            for (own, others) in (0..=5).flat_map(|own| (0..=7).map(move |others| (own, others))) {
                let store = new();
                let mut charges = [(own, late.own), (others, late.others)];
                charges.sort();
                for (step, units) in charges {
                    store.count(KEY, cost(units), made.saturating_add(millis(50 * step)));
                }
                if let Some(wait) = store.peek(KEY, Cost::ONE, later).retry_after() {
                    longest = longest.max(delay + wait);
                }
            }
            assert!(
                longest <= stated && stated <= longest + delay,
                "{stated:?}, not {longest:?}: {policy:?} at {now:?}"
            );
        }
        assert!(refusals >= 2, "{policy:?}");
    }
}

/// Goal: excess is what lies beyond the rate that is exceeded most, and nothing below. Method: states of a sliding window
/// around both counts.
#[test]
fn excess_is_what_lies_beyond_the_rates() {
    let policy = Policy::from(rates(&[(10, 60), (100, 600)]));
    let now = Timestamp::from_secs(1_800_000_000);
    let state = |short, long| {
        RemoteState::new([short, long].map(|current| RateState::Sliding {
            second: 1_800_000_000,
            previous: 0,
            current,
        }))
    };
    for (short, long, excess) in [(0, 0, 0), (10, 100, 0), (12, 100, 2), (12, 105, 5)] {
        assert_eq!(state(short, long).excess(&policy, now), excess);
    }
}

/// Goal: a log says as much as it can. Method: three of five admissions.
#[test]
fn a_log_tells_what_it_has_used() {
    let now = Timestamp::from_secs(1_800_000_000);
    let policy = Policy::new(Algorithm::Exact, rates(&[(5, 60)])).expect("valid");
    let limit = Limit::new(policy, Capacity::new(10).expect("valid"));
    limit.count(KEY, Cost::new(3).expect("valid"), now);
    assert_eq!(limit.used(KEY, now), 3);
}
