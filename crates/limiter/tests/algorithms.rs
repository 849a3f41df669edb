//! Every algorithm against the obvious one: mixed in one decision, charged all or not at all, with waits that come true.

mod common;
mod oracle;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use common::{START, admits, after, capacity, cost, key, left, rate, rates};
use oracle::algorithms::Obvious;
use proptest::prelude::*;
use sluicegate_limiter::{
    Algorithm, Alignment, Ask, CalendarUnit, CalendarZone, Limit, Outcome, Policy, PolicyError,
    Refill, Settlement, Timestamp, decide, reserve,
};

const LIMITS: usize = 3;

fn any_algorithm() -> impl Strategy<Value = Algorithm> {
    prop_oneof![
        1 => Just(Algorithm::Exact),
        5 => any_word_algorithm(),
    ]
}

fn any_word_algorithm() -> impl Strategy<Value = Algorithm> {
    let burst = || prop::option::of(1u32..12);
    prop_oneof![
        Just(Algorithm::FixedWindow(Alignment::Epoch)),
        Just(Algorithm::FixedWindow(Alignment::FirstRequest)),
        Just(Algorithm::FixedWindow(Alignment::Key)),
        (
            burst(),
            prop_oneof![Just(Refill::Greedy), Just(Refill::Interval)]
        )
            .prop_map(|(burst, refill)| Algorithm::TokenBucket { burst, refill }),
        burst().prop_map(|burst| Algorithm::Gcra { burst }),
        (0u32..8, 0u64..20_000).prop_map(|(queue, millis)| Algorithm::LeakyBucket {
            queue,
            max_wait: Duration::from_millis(millis),
        }),
    ]
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let period = prop_oneof![1u32..12, Just(60u32), Just(3600), Just(86_400)];
    (
        any_algorithm(),
        prop::collection::btree_map(period, 1u32..12, 1..=3),
    )
        .prop_map(|(algorithm, numbers)| {
            let numbers = numbers.into_iter().map(|(secs, count)| rate(count, secs));
            let rates = sluicegate_limiter::Rates::new(numbers).expect("distinct periods");
            Policy::new(algorithm, rates).expect("a policy")
        })
}

/// One thing that happens: a request, or time.
#[derive(Clone, Debug)]
enum Operation {
    Ask(Vec<(usize, u32)>),
    Wait(Duration),
    StepBack(Duration),
}

fn any_operation() -> impl Strategy<Value = Operation> {
    let units = prop_oneof![8 => Just(1u32), 3 => 1u32..6, 1 => Just(u32::MAX)];
    let asks = prop::collection::btree_map(0..LIMITS, units, 1..=LIMITS);
    let wait = prop_oneof![
        4 => (0u64..4_000_000_000).prop_map(Duration::from_nanos),
        2 => (0u64..100_000).prop_map(Duration::from_millis),
        1 => (0u64..200_000).prop_map(Duration::from_secs),
    ];
    prop_oneof![
        10 => asks.prop_map(|asks| Operation::Ask(asks.into_iter().collect())),
        5 => wait.prop_map(Operation::Wait),
        1 => (0u64..3_600_000).prop_map(|millis| Operation::StepBack(Duration::from_millis(millis))),
    ]
}

/// The most by which an entry of a log is ahead of now while the clock goes forward.
const JUST_NOW: Duration = Duration::from_millis(10);

/// A limit beside the obvious states of its one key.
struct Side {
    limit: Limit,
    policy: Policy,
    states: Vec<Obvious>,
}

impl Side {
    fn new(policy: Policy) -> Self {
        let states = policy.rates().iter();
        let states =
            states.map(|rate| Obvious::new(policy.algorithm(), rate, key(1)).expect("an oracle"));
        Self {
            limit: Limit::new(policy.clone(), capacity(10)),
            states: states.collect(),
            policy,
        }
    }

    /// Returns whether this is a log with a rate of this period, whose wait leaves out by how much an entry is ahead of now.
    fn logs(&self, period: Duration) -> bool {
        let mut rates = self.policy.rates().iter();
        matches!(self.policy.algorithm(), Algorithm::Exact)
            && rates.any(|rate| period == Duration::from_secs(rate.period().as_secs().into()))
    }

    fn remaining(&self, now: Timestamp) -> Vec<u64> {
        let rates = self.policy.rates().iter().zip(&self.states);
        rates
            .map(|(rate, state)| state.remaining(rate, now))
            .collect()
    }

    fn admits(&self, units: u32, now: Timestamp) -> bool {
        self.remaining(now)
            .iter()
            .all(|remaining| u64::from(units) <= *remaining)
    }

    fn charge(&mut self, units: u32, now: Timestamp) {
        for (rate, state) in self.policy.rates().iter().zip(&mut self.states) {
            state.charge(rate, u64::from(units), now);
        }
    }

    fn agrees(&self, now: Timestamp) -> Result<(), TestCaseError> {
        let decision = self.limit.peek(key(1), cost(1), now);
        let remaining: Vec<u64> = decision
            .statuses()
            .iter()
            .map(|rate| u64::from(rate.remaining))
            .collect();
        let least = remaining.iter().copied().min();
        prop_assert_eq!(
            least,
            Some(u64::from(decision.remaining())),
            "{:?}",
            self.policy
        );
        prop_assert_eq!(remaining, self.remaining(now), "{:?}", self.policy);
        Ok(())
    }
}

proptest! {
    /// Goal: C1 and C2 over all algorithms. Method: random requests over limits of different algorithms, waits and
    /// steps back; verdicts and what remains against the obvious states, and each wait to its millisecond.
    #[test]
    fn decisions_are_those_of_the_obvious_algorithms(
        policies in prop::collection::vec(any_policy(), LIMITS),
        operations in prop::collection::vec(any_operation(), 1..50),
    ) {
        let mut sides: Vec<Side> = policies.into_iter().map(Side::new).collect();
        let mut now = START;
        for operation in &operations {
            match operation {
                Operation::Wait(time) => now = now.saturating_add(*time),
                Operation::StepBack(time) => now = now.saturating_sub(*time),
                Operation::Ask(wanted) => {
                    let asks: Vec<Ask<'_>> = wanted
                        .iter()
                        .map(|(side, units)| Ask {
                            limit: &sides[*side].limit,
                            key: key(1),
                            cost: cost(*units),
                            payer: None,
                        })
                        .collect();
                    let verdict = decide(&asks, now);
                    let fits = wanted.iter().all(|(side, units)| sides[*side].admits(*units, now));
                    prop_assert_eq!(verdict.outcome() == Outcome::Admitted, fits);
                    if fits {
                        for (side, units) in wanted {
                            sides[*side].charge(*units, now);
                        }
                    } else if let Some(wait) = verdict.retry_after()
                        && wait < Duration::from_secs(1 << 30)
                    {
                        let all = |then| {
                            wanted.iter().all(|(side, units)| sides[*side].admits(*units, then))
                        };
                        let is_whole = wanted.iter().any(|(side, _)| sides[*side].logs(wait));
                        let left_out = if is_whole { JUST_NOW } else { Duration::ZERO };
                        let then = now.saturating_add(wait);
                        prop_assert!(all(then.saturating_add(left_out)), "not admitted after {:?}", wait);
                        prop_assert!(!all(then.saturating_sub(Duration::from_nanos(1))));
                    }
                }
            }
            for side in &sides {
                side.agrees(now)?;
            }
        }
    }

    /// Goal: conservation. Method: reservations of random costs, settled to others or released at once, in any order; what
    /// is used is what was settled.
    #[test]
    fn what_is_released_at_once_is_as_if_it_had_never_been(
        policy in any_policy(),
        parts in prop::collection::vec((1u32..4, prop::option::of(1u32..4)), 1..8),
    ) {
        let mut side = Side::new(policy);
        let mut held = Vec::new();
        let (mut used, mut most) = (0, 0);
        for (units, actual) in parts {
            let ask = Ask { limit: &side.limit, key: key(1), cost: cost(units), payer: None };
            if let (_, Some(reservation)) = reserve(&[ask], START) {
                held.push((reservation, units, actual));
                used += units;
            }
        }
        for (reservation, units, actual) in held {
            match actual {
                None => reservation.release(START),
                Some(actual) => {
                    let settlement = reservation.settle(cost(actual), START);
                    prop_assert_eq!(settlement == Settlement::Unchanged, actual == units);
                    side.charge(actual, START);
                    used += actual;
                }
            }
            most = most.max(used);
            used -= units;
        }
        let seen = side.limit.peek(key(1), cost(1), START);
        // A debt that was forced beyond twice its burst stops there; a log that was forced beyond its end gives nothing
        // back.
        let counts = side.policy.rates().iter().map(|rate| rate.count());
        let overfull = *side.policy.algorithm() == Algorithm::Exact && counts.max() < Some(most);
        if !overfull && side.remaining(START).iter().all(|left| *left > 0) {
            let remaining: Vec<u64> =
                seen.statuses().iter().map(|rate| u64::from(rate.remaining)).collect();
            prop_assert_eq!(remaining, side.remaining(START));
        }
    }
}

fn one_of_each() -> Vec<Algorithm> {
    vec![
        Algorithm::SlidingWindow,
        Algorithm::Exact,
        Algorithm::FixedWindow(Alignment::Epoch),
        Algorithm::FixedWindow(Alignment::FirstRequest),
        Algorithm::FixedWindow(Alignment::Key),
        Algorithm::FixedWindow(Alignment::Calendar {
            zone: Arc::new(CalendarZone::utc()),
            unit: CalendarUnit::Day,
        }),
        Algorithm::TokenBucket {
            burst: None,
            refill: Refill::Greedy,
        },
        Algorithm::TokenBucket {
            burst: None,
            refill: Refill::Interval,
        },
        Algorithm::Gcra { burst: None },
        Algorithm::LeakyBucket {
            queue: 49,
            max_wait: Duration::from_secs(86_400),
        },
    ]
}

fn limit_of(algorithm: Algorithm, count: u32) -> Limit {
    limit_for(algorithm, count, 10)
}

/// A limit for so many keys.
fn limit_for(algorithm: Algorithm, count: u32, keys: u64) -> Limit {
    let policy = Policy::new(algorithm, rates(&[(count, 86_400)])).expect("a policy");
    Limit::new(policy, capacity(keys))
}

/// Goal: exactly L of any number pass, for every algorithm. Method: 8 threads meet at a new key 1,000 times, and all ask at
/// once for more than there is.
#[test]
fn exactly_the_limit_passes_whatever_the_algorithm() {
    const RUNS: u64 = if cfg!(miri) { 2 } else { 1_000 };
    const THREADS: usize = 8;
    const UNITS: u32 = 50;
    for algorithm in one_of_each() {
        let limit = limit_for(algorithm.clone(), UNITS, RUNS);
        let admitted: Vec<AtomicU32> = (0..RUNS).map(|_| AtomicU32::new(0)).collect();
        let meeting = Barrier::new(THREADS);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for (number, admitted) in admitted.iter().enumerate() {
                        meeting.wait();
                        for _ in 0..UNITS / 5 {
                            let passed = admits(&limit, number as u64, START);
                            admitted.fetch_add(u32::from(passed), Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        for (number, admitted) in admitted.iter().enumerate() {
            let passed = admitted.load(Ordering::Relaxed);
            assert_eq!(passed, UNITS, "{algorithm:?}, run {number}");
            assert_eq!(left(&limit, number as u64, START), 0, "{algorithm:?}");
        }
        assert_eq!(
            limit.stats().admitted_in_overflow,
            0,
            "each had a slot of its own"
        );
    }
}

/// Goal: conservation under threads. Method: reservations made and released by four threads; in the end nothing is used.
#[test]
fn what_threads_release_leaves_nothing_behind() {
    for algorithm in one_of_each() {
        let limit = limit_of(algorithm.clone(), 50);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..500 {
                        let ask = Ask {
                            limit: &limit,
                            key: key(1),
                            cost: cost(1 + round % 3),
                            payer: None,
                        };
                        if let (_, Some(reservation)) = reserve(&[ask], START) {
                            reservation.release(START);
                        }
                    }
                });
            }
        });
        assert_eq!(left(&limit, 1, START), 50, "{algorithm:?}");
    }
}

/// Goal: a reservation outlives windows and edits. Method: release two windows later, and after edits of the numbers and of
/// the structure.
#[test]
fn a_release_gives_back_what_still_counts() {
    let limit = limit_of(Algorithm::SlidingWindow, 10);
    let ask = |limit| Ask {
        limit,
        key: key(1),
        cost: cost(4),
        payer: None,
    };
    let (_, first) = reserve(&[ask(&limit)], START);
    let (_, second) = reserve(&[ask(&limit)], START);
    let wider = limit.edited(rates(&[(20, 86_400)]), capacity(10), START);
    first.expect("it fits").release(after(1000));
    assert_eq!(
        (left(&limit, 1, after(1000)), left(&wider, 1, after(1000))),
        (6, 16)
    );
    let moved = wider.edited(rates(&[(20, 86_400)]), capacity(5000), after(1000));
    second.expect("it fits").release(after(2000));
    assert_eq!(
        (left(&wider, 1, after(2000)), left(&moved, 1, after(2000))),
        (20, 20)
    );

    let (_, late) = reserve(&[ask(&moved)], after(2000));
    let now = after(3 * 86_400_000);
    assert!(admits(&moved, 1, now));
    late.expect("it fits").release(now);
    assert_eq!(
        left(&moved, 1, now),
        19,
        "what counted no more was not given back"
    );
}

/// Goal: operators can pardon and punish. Method: set, reset, and both for a key that is not there.
#[test]
fn set_and_reset_say_what_a_key_has_used() {
    for algorithm in one_of_each() {
        let limit = limit_of(algorithm, 50);
        limit.set(key(1), cost(47), START);
        assert_eq!(left(&limit, 1, START), 3);
        limit.set(key(1), cost(2), START);
        assert_eq!(left(&limit, 1, START), 48);
        limit.reset(key(1), START);
        limit.reset(key(2), START);
        assert_eq!((left(&limit, 1, START), left(&limit, 2, START)), (50, 50));
    }
}

/// Goal: other algorithms go on from what was used. Method: every pair, edited in use; no key has more than it had.
#[test]
fn an_edit_of_the_algorithm_forgets_nothing() {
    for from in one_of_each() {
        for to in one_of_each() {
            let old = limit_of(from.clone(), 50);
            assert!((0..20).all(|_| admits(&old, 1, START)));
            let policy = Policy::new(to.clone(), rates(&[(50, 86_400)])).expect("a policy");
            let new = old.edited(policy, capacity(10), START);
            assert_eq!(left(&new, 1, START), 30, "{from:?} to {to:?}");
            assert_eq!(left(&new, 2, START), 50);
        }
    }
}

/// Goal: first in, first out, evenly spaced. Method: a burst into a queue; each is told its own release.
#[test]
fn a_leaky_bucket_releases_one_by_one() {
    let max_wait = Duration::from_millis(2500);
    let policy = Policy::new(
        Algorithm::LeakyBucket { queue: 9, max_wait },
        rates(&[(2, 1)]),
    );
    let limit = Limit::new(policy.expect("a policy"), capacity(10));
    let ask = Ask {
        limit: &limit,
        key: key(1),
        cost: cost(1),
        payer: None,
    };
    let delays: Vec<u128> = std::iter::repeat_with(|| decide(&[ask], START))
        .take_while(|verdict| verdict.outcome() == Outcome::Admitted)
        .map(|verdict| verdict.delay().as_millis())
        .collect();
    assert_eq!(delays, [0, 500, 1000, 1500, 2000, 2500]);
}

/// Goal: only a queue holds requests back. Method: a burst under every algorithm; the delays of all that is admitted.
#[test]
fn nobody_but_a_leaky_bucket_delays() {
    for algorithm in one_of_each() {
        let limit = limit_of(algorithm.clone(), 50);
        let ask = common::ask(&limit, 1);
        let delayed = (0..3).any(|_| decide(&[ask], START).delay() > Duration::ZERO);
        let queues = matches!(algorithm, Algorithm::LeakyBucket { .. });
        assert_eq!(delayed, queues, "{algorithm:?}");
    }
}

/// Goal: the fullest are found. Method: keys that used their number; the top five, and all.
#[test]
fn the_top_are_the_fullest() {
    for algorithm in [Algorithm::SlidingWindow, Algorithm::Exact] {
        let limit = limit_of(algorithm, 50);
        for number in 1..=9 {
            limit.set(key(number), cost(number as u32), START);
        }
        let top: Vec<u64> = limit
            .top(5, START)
            .iter()
            .map(|occupant| occupant.fullness())
            .collect();
        assert_eq!(top, [180, 160, 140, 120, 100]);
        assert_eq!(limit.active_keys(START).count(), 9);
    }
}

/// Goal: what cannot be is said. Method: each error.
#[test]
fn policies_that_cannot_be_are_refused() {
    let day = |unit| {
        Algorithm::FixedWindow(Alignment::Calendar {
            zone: Arc::new(CalendarZone::utc()),
            unit,
        })
    };
    assert!(Policy::new(day(CalendarUnit::Week), rates(&[(5, 86_400)])).is_err());
    let zero = Algorithm::Gcra { burst: Some(0) };
    assert_eq!(
        Policy::new(zero, rates(&[(5, 60)])),
        Err(PolicyError::Burst { got: 0 })
    );
    let slow = Algorithm::Gcra { burst: Some(3) };
    let slow = Policy::new(slow, rates(&[(1, 31 * 86_400)])).expect_err("93 days");
    assert!(slow.to_string().ends_with("write at most 2"), "{slow}");
    assert!(Policy::new(Algorithm::Exact, rates(&[(1024, 60)])).is_ok());
    let long = Policy::new(Algorithm::Exact, rates(&[(5, 1), (1025, 60)])).expect_err("too long");
    assert_eq!(
        long.to_string(),
        "`exact` keeps 1024 admissions of a key, too few for 1025 per 1m; \
         write at most 1024 per 1m, or `sliding-window`"
    );
}
