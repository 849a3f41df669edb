//! Tests that no bits make a limit panic or wait for ever: what a mapped file holds may be anything.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::{AnyTable, Limit, LimitCounters};
use crate::algorithm::{Algorithm, Alignment, CalendarUnit, CalendarZone, Policy, Refill};
use crate::ask::Ask;
use crate::capacity::Capacity;
use crate::cost::Cost;
use crate::decide::{decide, peek, reserve};
use crate::decision::Verdict;
use crate::exact::LogTable;
use crate::key::{KeyHash, Seed};
use crate::rate::{MAX_COUNT, MAX_PERIOD, Period, Rate, Rates};
use crate::sync::exhaust_backoff;
use crate::time::Timestamp;

const DAY: u32 = 24 * 60 * 60;
const CASES: u32 = if cfg!(miri) { 1 } else { 24 };
const KEYS: u64 = if cfg!(miri) { 4 } else { 12 };
/// From one policy that is tried to the next.
const STRIDE: usize = if cfg!(miri) { 17 } else { 1 };

fn key(number: u64) -> KeyHash {
    let mut hasher = Seed::from_bytes([3; 16]).hasher();
    hasher.part(&number.to_le_bytes()).finish()
}

/// Every algorithm with every alignment and refill.
fn algorithms() -> Vec<Algorithm> {
    let calendar = |unit| {
        let zone = Arc::new(CalendarZone::new(3_600, [(1_900_000_000, 7_200)]).expect("a zone"));
        Algorithm::FixedWindow(Alignment::Calendar { zone, unit })
    };
    let token_bucket = |refill, burst| Algorithm::TokenBucket { burst, refill };
    let leaky_bucket = |queue, millis| Algorithm::LeakyBucket {
        queue,
        max_wait: Duration::from_millis(millis),
    };
    vec![
        Algorithm::SlidingWindow,
        Algorithm::Exact,
        Algorithm::FixedWindow(Alignment::Epoch),
        Algorithm::FixedWindow(Alignment::FirstRequest),
        calendar(CalendarUnit::Day),
        calendar(CalendarUnit::Week),
        calendar(CalendarUnit::Month),
        token_bucket(Refill::Greedy, None),
        token_bucket(Refill::Interval, None),
        token_bucket(Refill::Interval, Some(MAX_COUNT)),
        Algorithm::Gcra { burst: None },
        Algorithm::Gcra { burst: Some(1) },
        leaky_bucket(0, 0),
        leaky_bucket(2, u64::MAX),
    ]
}

/// The policies of all algorithms over `rates` and over single rates at the ends of what can be.
fn policies(rates: &Rates) -> Vec<Policy> {
    let single = |count, secs| {
        let rate = Rate::new(count, Period::from_secs(secs).expect("a period"));
        Rates::new([rate.expect("a rate")]).expect("rates")
    };
    let mut all = vec![rates.clone()];
    for secs in [1, DAY, 7 * DAY, MAX_PERIOD] {
        all.extend([1, MAX_COUNT].map(|count| single(count, secs)));
    }
    let policies = all.iter().flat_map(|rates| {
        let policy = |algorithm| Policy::new(algorithm, rates.clone()).ok();
        algorithms().into_iter().filter_map(policy)
    });
    policies.collect()
}

/// A limit of two buckets whose words are these bits, over and over.
fn scrawled(policy: &Policy, bits: &[u64]) -> Limit {
    let mut limit = Limit::with_buckets(policy.clone(), 2);
    if let Algorithm::Exact = policy.algorithm() {
        // As little as with a file's.
        let logs = LogTable::with_buckets(2, policy.rates()).with_backoff_limit(2);
        limit.counters = Arc::new(LimitCounters::new(AnyTable::Log(logs)));
    }
    let keys = [key(0), key(1)];
    let mut bits = bits.iter().copied().cycle();
    with_table!(
        &limit.counters.table,
        table => table.scrawl(&mut bits, &keys),
        logs => logs.scrawl(&mut bits, &keys),
    );
    limit
}

/// Does everything that can be done to a limit.
fn use_up(limit: &Limit, now: Timestamp, cost: Cost) {
    let later = now.saturating_add(Duration::from_millis(1_500));
    for number in 0..KEYS {
        let key = key(number);
        let asks = [Ask {
            limit,
            key,
            cost,
            payer: None,
        }];
        let _ = peek(&asks, now).retry_after();
        for _ in 0..2 {
            let verdict = decide(&asks, now);
            let _ = format!("{verdict:?}");
            let mut computed = verdict.clone();
            computed.compute();
            let facts = |verdict: &Verdict| {
                (
                    verdict.outcome(),
                    verdict.retry_after(),
                    verdict.remaining(),
                    verdict.delay(),
                )
            };
            assert_eq!(facts(&computed), facts(&verdict));
            assert_eq!(computed, verdict);
        }
        for _ in 0..2 {
            if let (_, Some(reservation)) = reserve(&asks, now) {
                reservation.release(later);
            }
            // Cost ONE fits more often.
            let asks = [Ask {
                cost: Cost::ONE,
                ..asks[0]
            }];
            if let (_, Some(reservation)) = reserve(&asks, now) {
                let _ = reservation.settle(cost, later);
            }
        }
        if number % 4 == 3 {
            limit.set(key, cost, now);
            limit.reset(key, later);
        }
    }
    let _ = limit.occupancy(now);
    let _ = limit.room_of_new_keys(now);
    limit.peaks(0, || now, |_| ());
    assert_eq!(limit.active_keys(now).count(), limit.top(1_000, now).len());
}

/// Goal: to say that a key comes changes nothing. Method: keys of both ends of all hashes, known and not, under every
/// algorithm; what is said of them before and after.
#[test]
fn to_fetch_a_counter_ahead_changes_nothing() {
    let rates =
        Rates::new([Rate::new(2, Period::from_secs(10).expect("a period")).expect("a rate")]);
    let now = Timestamp::from_secs(1_800_000_000);
    for policy in policies(&rates.expect("rates")).into_iter().step_by(STRIDE) {
        let limit = Limit::new(policy, Capacity::new(10).expect("a capacity"));
        let _ = limit.set(key(1), Cost::ONE, now);
        let occupancy = limit.occupancy(now);
        let ends = [0, u64::MAX, u64::MAX >> 1, 1 << 63].map(KeyHash::from_bits);
        for key in ends.into_iter().chain([key(1), key(2)]) {
            let before = limit.peek(key, Cost::ONE, now);
            limit.prefetch(key);
            limit.prefetch_insertion(key);
            assert_eq!(limit.peek(key, Cost::ONE, now), before);
        }
        assert_eq!(limit.occupancy(now), occupancy);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, ..ProptestConfig::default() })]

    /// Goal: no bits make a limit panic or wait for ever. Method: any words at any moment, healed or not, for every
    /// algorithm; everything is done to them, and then they are carried over to every other algorithm. Nobody is waited for who
    /// is not there: on a busy machine that takes a turn of everybody else each time.
    #[test]
    fn any_pattern_of_words_can_be_used(
        bits in proptest::collection::vec(any::<u64>(), 1..80),
        now in prop_oneof![3 => 1_700_000_000_000_000_000..2_000_000_000_000_000_000_u64, 1 => any::<u64>()],
        cost in prop_oneof![3 => 1..6_u32, 1 => 1..=u32::MAX],
        four in (1..=MAX_COUNT, 1..=MAX_PERIOD / 4),
    ) {
        exhaust_backoff();
        let (now, cost) = (Timestamp::from_nanos(now), Cost::new(cost).expect("a cost"));
        let (count, secs) = four;
        let rate = |rank| Rate::new(count, Period::from_secs(rank * secs).expect("a period")).expect("a rate");
        let rates = Rates::new((1..=4).map(rate)).expect("rates");
        let policies = policies(&rates);
        for (number, policy) in policies.iter().enumerate().step_by(STRIDE) {
            let limit = scrawled(policy, &bits);
            if number % 2 == 0 {
                with_table!(&limit.counters.table, table => table.healed(), logs => logs.healed());
            }
            let others = [&policies[(number + 1) % policies.len()], &policies[(number * 7) % policies.len()]];
            for other in others {
                let _ = limit.edited(other.clone(), Capacity::new(10).expect("a capacity"), now);
            }
            use_up(&limit, now, cost);
        }
    }
}
