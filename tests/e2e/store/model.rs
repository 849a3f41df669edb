//! The script against the local core: whatever is asked, forced, given back or repeated, at whatever moment, both say the same,
//! to the nanosecond of a wait.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use sluicegate::store::script::{self, NodeId, PushNumber};
use sluicegate_decide::store::{ChargeResult, KeyName, StoreAsk, StoreCharge};
use sluicegate_limiter::{
    self as limiter, Algorithm, Alignment, CalendarUnit, CalendarZone, Capacity, KeyHash,
    KeyPlacement, Limit, MAX_COUNT, Outcome, Policy, Rates, Refill, Reservation, Settle, Timestamp,
};

use super::server::Server;
use super::{cost, rates, said};

const LIMITS: usize = 3;
const KEYS: u64 = 2;
const NODE: NodeId = NodeId(7);
const HOUR: u64 = 3_600;
/// A step back of more than a day is forgotten by words and by the store's logs, and waited out by a local log.
const FURTHEST_BACK: Duration = Duration::from_secs(23 * HOUR);

/// One thing that happens.
#[derive(Clone, Debug)]
enum Operation {
    /// A request: which limits, under which keys, for how much.
    Ask(Vec<(usize, u64, u32)>),
    /// What was admitted elsewhere, and how often the store is told of it.
    Push(usize, u64, u32, u32),
    /// An admitted request is settled: which, counted back from the latest, and what each of its asks comes to.
    Settle(usize, [Settle; 3]),
    /// Time passes.
    Wait(Duration),
    /// The clock steps back.
    StepBack(Duration),
}

fn any_period() -> impl Strategy<Value = u32> {
    prop_oneof![
        1u32..12,
        50u32..70,
        Just(3_600),
        Just(86_400),
        Just(31 * 86_400)
    ]
}

fn any_rates(most: u32) -> impl Strategy<Value = Rates> {
    let count = prop_oneof![8 => 1u32..12, 1 => Just(most)];
    prop::collection::btree_map(any_period(), count, 1..=4).prop_map(|numbers| {
        let numbers: Vec<_> = numbers
            .into_iter()
            .map(|(secs, count)| (count, secs))
            .collect();
        rates(&numbers)
    })
}

/// Berlin around the transitions of 2027.
fn berlin() -> Arc<CalendarZone> {
    let transitions = [(1_806_195_600, 7_200), (1_824_944_400, 3_600)];
    Arc::new(CalendarZone::new(3_600, transitions).unwrap())
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let burst = || prop::option::of(prop_oneof![4 => 1u32..20, 1 => Just(MAX_COUNT)]);
    let algorithm = prop_oneof![
        3 => Just(Algorithm::SlidingWindow),
        1 => Just(Algorithm::FixedWindow(Alignment::Epoch)),
        1 => Just(Algorithm::FixedWindow(Alignment::FirstRequest)),
        1 => Just(Algorithm::FixedWindow(Alignment::Key)),
        1 => burst().prop_map(|burst| Algorithm::TokenBucket { burst, refill: Refill::Interval }),
        1 => burst().prop_map(|burst| Algorithm::TokenBucket { burst, refill: Refill::Greedy }),
        1 => burst().prop_map(|burst| Algorithm::Gcra { burst }),
        1 => (0u32..10, 0u64..100_000).prop_map(|(queue, wait)| Algorithm::LeakyBucket {
            queue,
            max_wait: Duration::from_millis(wait),
        }),
    ];
    let plain = (algorithm, any_rates(MAX_COUNT))
        .prop_filter_map("a burst that comes back in time", |(algorithm, rates)| {
            Policy::new(algorithm, rates).ok()
        });
    let exact = any_rates(64).prop_map(|rates| Policy::new(Algorithm::Exact, rates).unwrap());
    let unit = prop_oneof![
        Just(CalendarUnit::Day),
        Just(CalendarUnit::Week),
        Just(CalendarUnit::Month)
    ];
    let calendar = (unit, 1u32..12).prop_map(|(unit, count)| {
        let zone = berlin();
        let algorithm = Algorithm::FixedWindow(Alignment::Calendar { zone, unit });
        Policy::new(algorithm, rates(&[(count, unit.secs())])).unwrap()
    });
    prop_oneof![6 => plain, 2 => exact, 1 => calendar]
}

fn any_wait() -> impl Strategy<Value = Duration> {
    prop_oneof![
        2 => (0u64..2_000).prop_map(Duration::from_micros),
        4 => (0u64..3_000_000).prop_map(Duration::from_micros),
        3 => (0u64..100_000).prop_map(Duration::from_millis),
        2 => (0u64..200_000).prop_map(Duration::from_secs),
        1 => (0u64..40 * 24 * HOUR).prop_map(Duration::from_secs),
    ]
}

fn any_operation() -> impl Strategy<Value = Operation> {
    let units = || prop_oneof![12 => Just(1u32), 6 => 1u32..6, 1 => 1u32..100, 1 => Just(MAX_COUNT), 1 => Just(u32::MAX)];
    let due = || {
        prop_oneof![
            1 => Just(Settle::Keep),
            3 => Just(Settle::Refund),
            3 => (1u32..6).prop_map(|units| Settle::Adjust(cost(units))),
        ]
    };
    let asks = prop::collection::btree_map((0..LIMITS, 0..KEYS), units(), 1..4).prop_map(|asks| {
        let ask = |((limit, key), units)| (limit, key, units);
        Operation::Ask(asks.into_iter().map(ask).collect())
    });
    let back = prop_oneof![
        (0u64..3_000).prop_map(Duration::from_millis),
        (0u64..100_000).prop_map(Duration::from_secs),
    ];
    prop_oneof![
        12 => asks,
        2 => (0..LIMITS, 0..KEYS, units(), 1u32..3)
            .prop_map(|(limit, key, units, times)| Operation::Push(limit, key, units, times)),
        3 => (0usize..4, [due(), due(), due()])
            .prop_map(|(which, dues)| Operation::Settle(which, dues)),
        7 => any_wait().prop_map(Operation::Wait),
        2 => back.prop_map(Operation::StepBack),
    ]
}

/// What happens to one key of one limit that is settled about as often as it is charged.
fn any_settling() -> impl Strategy<Value = Operation> {
    let due = prop_oneof![
        3 => Just(Settle::Refund),
        2 => (1u32..4).prop_map(|units| Settle::Adjust(cost(units))),
    ];
    let asks = (1u32..4).prop_map(|units| Operation::Ask(vec![(0, 0, units)]));
    let wait = prop_oneof![
        3 => (0u64..1_500).prop_map(Duration::from_millis),
        1 => (0u64..15).prop_map(Duration::from_secs),
    ];
    prop_oneof![
        5 => asks,
        4 => (0usize..6, due).prop_map(|(which, due)| Operation::Settle(which, [due; 3])),
        2 => wait.prop_map(Operation::Wait),
        1 => (0u64..1_500).prop_map(|millis| Operation::StepBack(Duration::from_millis(millis))),
        1 => (1u32..9).prop_map(|units| Operation::Push(0, 0, units, 1)),
    ]
}

/// A policy that admits several requests of seconds.
fn any_short_policy() -> impl Strategy<Value = Policy> {
    any_policy().prop_map(|policy| {
        let numbers = [(9, 5), (23, 12)];
        let rates = match policy.algorithm() {
            Algorithm::FixedWindow(Alignment::Calendar { .. }) => policy.rates().clone(),
            _ => rates(&numbers),
        };
        let algorithm = match policy.algorithm() {
            Algorithm::TokenBucket { refill, .. } => Algorithm::TokenBucket {
                burst: None,
                refill: *refill,
            },
            Algorithm::Gcra { .. } => Algorithm::Gcra { burst: None },
            other => other.clone(),
        };
        Policy::new(algorithm, rates).unwrap()
    })
}

/// A request that was admitted, here and there.
struct Admitted {
    keys: Vec<(usize, u64)>,
    here: Reservation,
    there: Vec<StoreCharge>,
}

/// The local limits, their views of the store, and the store.
struct Bench<'s> {
    server: &'s mut Server,
    limits: Vec<Limit>,
    views: Vec<Limit>,
    now: Timestamp,
    latest: Timestamp,
    admitted: Vec<Admitted>,
    pushes: u64,
}

fn named(limit: usize, key: u64) -> KeyName {
    KeyName::new("test", key_of(key), &limit.to_string())
}

fn key_of(number: u64) -> KeyHash {
    KeyHash::from_bits(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 2)
}

impl<'s> Bench<'s> {
    fn new(server: &'s mut Server, policies: Vec<Policy>, now: Timestamp) -> Self {
        server.say("FLUSHALL").unwrap();
        let limits = || {
            let capacity = Capacity::new(64).unwrap();
            let policies = policies.iter().cloned();
            policies
                .map(|policy| Limit::new(policy, capacity))
                .collect()
        };
        Self {
            server,
            limits: limits(),
            views: limits(),
            now,
            latest: now,
            admitted: Vec::new(),
            pushes: 0,
        }
    }

    fn apply(&mut self, operation: &Operation) -> Result<(), TestCaseError> {
        match operation {
            Operation::Ask(asks) => self.ask(asks),
            Operation::Push(limit, key, units, times) => self.push(*limit, *key, *units, *times),
            Operation::Settle(which, dues) => self.settle(*which, dues),
            Operation::Wait(time) => {
                self.now = self.now.saturating_add(*time);
                self.latest = self.latest.max(self.now);
                Ok(())
            }
            Operation::StepBack(time) => {
                let earliest = self.latest.saturating_sub(FURTHEST_BACK);
                self.now = self.now.saturating_sub(*time).max(earliest);
                Ok(())
            }
        }
    }

    fn ask(&mut self, asks: &[(usize, u64, u32)]) -> Result<(), TestCaseError> {
        let now = self.now;
        let names: Vec<KeyName> = asks.iter().map(|ask| named(ask.0, ask.1)).collect();
        let there: Vec<StoreAsk<'_>> = (asks.iter().zip(&names))
            .map(|((limit, _, units), name)| StoreAsk {
                policy: self.limits[*limit].policy(),
                name,
                cost: cost(*units),
            })
            .collect();
        let here: Vec<limiter::Ask<'_>> = asks
            .iter()
            .map(|(limit, key, units)| limiter::Ask {
                limit: &self.limits[*limit],
                key: key_of(*key),
                cost: cost(*units),
                payer: None,
            })
            .collect();
        let look = script::peek(&there, now);
        let looked = self.server.decided_at(&there, &look, now);
        let peeked = limiter::peek(&here, now);
        for (told, decision) in looked.results.iter().zip(peeked.decisions()) {
            prop_assert_eq!(said(&told.decision), said(decision), "a look");
        }
        let decided = self.server.decide_at(&there, now);
        let (verdict, reservation) = limiter::reserve(&here, now);
        prop_assert_eq!(decided.now, now);
        prop_assert_eq!(decided.unreadable, 0);
        let charged = decided.charge_result == ChargeResult::Charged;
        prop_assert_eq!(charged, verdict.outcome() == Outcome::Admitted);
        prop_assert_eq!(decided.verdict().outcome(), verdict.outcome());
        for (told, decision) in decided.results.iter().zip(verdict.decisions()) {
            prop_assert_eq!(said(&told.decision), said(decision), "a decision");
            prop_assert_eq!(told.charge.is_some(), charged);
        }
        for ((limit, key, units), told) in asks.iter().zip(&decided.results) {
            let view = &self.views[*limit];
            prop_assert_eq!(
                view.adopt(key_of(*key), &told.state, now),
                KeyPlacement::OwnSlot
            );
            let seen = view.peek(key_of(*key), cost(*units), now);
            if !charged {
                prop_assert_eq!(
                    said(&seen).0,
                    said(&told.decision).0,
                    "a view refuses alike"
                );
                prop_assert_eq!(seen.retry_after(), told.decision.retry_after());
            }
            let remaining = |statuses: &[limiter::RateStatus]| -> Vec<u32> {
                statuses.iter().map(|status| status.remaining).collect()
            };
            prop_assert_eq!(
                remaining(&seen.statuses()),
                remaining(&told.decision.statuses()),
                "a view counts alike"
            );
        }
        if let Some(here) = reservation {
            let there = decided.results.into_iter().filter_map(|told| told.charge);
            self.admitted.push(Admitted {
                keys: asks.iter().map(|ask| (ask.0, ask.1)).collect(),
                here,
                there: there.collect(),
            });
        }
        Ok(())
    }

    fn push(
        &mut self,
        limit: usize,
        key: u64,
        units: u32,
        times: u32,
    ) -> Result<(), TestCaseError> {
        let now = self.now;
        let name = named(limit, key);
        let ask = StoreAsk {
            policy: self.limits[limit].policy(),
            name: &name,
            cost: cost(units),
        };
        self.pushes += 1;
        let call = script::push(&ask, NODE, PushNumber(self.pushes), now);
        for time in 0..times {
            let decided = self.server.decided_at(&[ask], &call, now);
            let charge_result = if time == 0 {
                ChargeResult::Charged
            } else {
                ChargeResult::Done
            };
            prop_assert_eq!(decided.charge_result, charge_result, "a push counts once");
        }
        let here = limiter::Ask {
            limit: &self.limits[limit],
            key: key_of(key),
            cost: cost(units),
            payer: None,
        };
        drop(limiter::charge_unchecked(&[here], now));
        self.compare(limit, key)
    }

    fn settle(&mut self, which: usize, dues: &[Settle; 3]) -> Result<(), TestCaseError> {
        let Some(index) = self.admitted.len().checked_sub(which + 1) else {
            return Ok(());
        };
        let Admitted { keys, here, there } = self.admitted.remove(index);
        let now = self.now;
        here.settle_each(now, |ask| dues[ask]);
        for (charge, due) in there.iter().zip(dues) {
            if let Some(call) = script::settle(charge, *due, now) {
                self.server.decided_at(&[charge.ask()], &call, now);
            }
        }
        keys.into_iter()
            .try_for_each(|(limit, key)| self.compare(limit, key))
    }

    /// Both say the same of a key.
    fn compare(&mut self, limit: usize, key: u64) -> Result<(), TestCaseError> {
        let name = named(limit, key);
        let ask = StoreAsk {
            policy: self.limits[limit].policy(),
            name: &name,
            cost: cost(1),
        };
        let call = script::peek(&[ask], self.now);
        let looked = self.server.decided_at(&[ask], &call, self.now);
        let peeked = self.limits[limit].peek(key_of(key), cost(1), self.now);
        prop_assert_eq!(said(&looked.results[0].decision), said(&peeked));
        Ok(())
    }
}

thread_local! {
    static SERVER: RefCell<Server> = RefCell::new(Server::start());
}

fn many() -> ProptestConfig {
    ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").map_or(1_000, |cases| cases.parse().unwrap()),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn run(policies: Vec<Policy>, start: u64, operations: &[Operation]) -> Result<(), TestCaseError> {
    SERVER.with_borrow_mut(|server| {
        let start = Timestamp::from_nanos(start * 1_000);
        let mut bench = Bench::new(server, policies, start);
        let mut operations = operations.iter();
        operations.try_for_each(|operation| bench.apply(operation))
    })
}

/// A moment in microseconds, in a decade around now.
const MOMENTS: std::ops::Range<u64> = 1_700_000_000_000_000..2_000_000_000_000_000;

proptest! {
    #![proptest_config(many())]

    /// Goal: C2, the same rules locally and in the store. Method: random policies of all algorithms, requests over several
    /// limits, pushes told once or twice, settlements and clocks that step back; every verdict and status of the script is
    /// the local core's, and a view that adopts what the script says refuses as it does.
    #[test]
    fn the_script_agrees_with_the_local_core(
        policies in prop::collection::vec(any_policy(), LIMITS),
        start in MOMENTS,
        operations in prop::collection::vec(any_operation(), 1..40),
    ) {
        run(policies, start, &operations)?;
    }

    /// Goal: what is given back is what the local core gives back. Method: one key that is charged and settled in any order, by
    /// each algorithm, within a window and over its end.
    #[test]
    fn the_script_gives_back_what_the_local_core_gives_back(
        policy in any_short_policy(),
        start in MOMENTS,
        operations in prop::collection::vec(any_settling(), 1..60),
    ) {
        run(vec![policy], start, &operations)?;
    }
}
