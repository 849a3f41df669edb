//! Fuzzes decisions: whatever is asked of two limits of any algorithm, they answer as the oracle of the tests does.
//!
//! The oracle shares no code with the crate. After each operation all that remains is compared; a verdict is compared with
//! what the oracle admits, and a wait is tried: the request passes then and not before.
#![no_main]

#[path = "../../tests/oracle/mod.rs"]
mod oracle;

use std::time::Duration;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use oracle::SlidingWindow;
use oracle::algorithms::Obvious;
use sluicegate_limiter::{
    Algorithm, Alignment, Ask, Capacity, Cost, KeyHash, Limit, NEVER, Outcome, Period, Policy,
    Rate, Rates, Refill, Seed, Timestamp, decide,
};

const START: Timestamp = Timestamp::from_secs(1_800_000_000);
const KEYS: u64 = 2;
/// How far the clock may lie behind the latest that it said: further back than a day it forgets.
const MOST_BACK: Duration = Duration::from_secs(60 * 60);

#[derive(Arbitrary, Debug)]
struct Case {
    demands: [Demand; 2],
    operations: Vec<Operation>,
}

/// What a limit demands.
#[derive(Arbitrary, Debug)]
struct Demand {
    algorithm: Choice,
    /// Count and period, each one less than it is; one to three of them.
    rates: [(u8, u16); 3],
    number_of_rates: u8,
}

#[derive(Arbitrary, Debug)]
enum Choice {
    SlidingWindow,
    Epoch,
    FirstRequest,
    Key,
    Greedy(Option<u8>),
    Interval(Option<u8>),
    Gcra(Option<u8>),
    LeakyBucket { queue: u8, max_wait: u16 },
}

/// One thing that happens.
#[derive(Arbitrary, Debug)]
enum Operation {
    /// A request: for each limit nothing, or a key and a cost.
    Ask([Option<(u8, u8)>; 2]),
    /// Milliseconds pass.
    Wait(u32),
    /// Nanoseconds pass.
    Tick(u32),
    /// The clock steps back by milliseconds.
    StepBack(u16),
}

/// What the oracle knows of one limit.
enum Truth {
    Window(SlidingWindow),
    /// The obvious states of each key, one a rate.
    Obvious(Vec<Vec<Obvious>>),
}

/// A limit beside its oracle.
struct Side {
    limit: Limit,
    rates: Rates,
    truth: Truth,
}

impl Demand {
    fn policy(&self) -> Option<Policy> {
        let burst = |units: Option<u8>| units.map(|units| u32::from(units) + 1);
        let algorithm = match self.algorithm {
            Choice::SlidingWindow => Algorithm::SlidingWindow,
            Choice::Epoch => Algorithm::FixedWindow(Alignment::Epoch),
            Choice::FirstRequest => Algorithm::FixedWindow(Alignment::FirstRequest),
            Choice::Key => Algorithm::FixedWindow(Alignment::Key),
            Choice::Greedy(units) => Algorithm::TokenBucket {
                burst: burst(units),
                refill: Refill::Greedy,
            },
            Choice::Interval(units) => Algorithm::TokenBucket {
                burst: burst(units),
                refill: Refill::Interval,
            },
            Choice::Gcra(units) => Algorithm::Gcra {
                burst: burst(units),
            },
            Choice::LeakyBucket { queue, max_wait } => Algorithm::LeakyBucket {
                queue: u32::from(queue),
                max_wait: Duration::from_millis(u64::from(max_wait)),
            },
        };
        let number = 1 + usize::from(self.number_of_rates) % self.rates.len();
        let rates: Option<Vec<Rate>> = self.rates[..number]
            .iter()
            .map(|(count, secs)| {
                let period = Period::from_secs(u32::from(*secs) + 1).ok()?;
                Rate::new(u32::from(*count) + 1, period).ok()
            })
            .collect();
        Policy::new(algorithm, Rates::new(rates?).ok()?).ok()
    }
}

impl Side {
    fn new(policy: Policy) -> Self {
        let rates = policy.rates().clone();
        let states_of = |key| -> Option<Vec<Obvious>> {
            let states = rates.iter();
            states
                .map(|rate| Obvious::new(policy.algorithm(), rate, hash(key)))
                .collect()
        };
        let truth = match (0..KEYS).map(states_of).collect() {
            Some(keys) => Truth::Obvious(keys),
            None => Truth::Window(SlidingWindow::new(rates.iter().copied())),
        };
        let capacity = Capacity::new(64).expect("64 is a capacity");
        Self {
            limit: Limit::new(policy, capacity),
            rates,
            truth,
        }
    }

    /// The largest cost that each rate admits.
    fn remaining(&self, key: u64, now: Timestamp) -> Vec<u64> {
        match &self.truth {
            Truth::Window(window) => window
                .statuses(key, None, now)
                .iter()
                .map(|rate| u64::from(rate.remaining))
                .collect(),
            Truth::Obvious(keys) => {
                let states = self.rates.iter().zip(&keys[key as usize]);
                states
                    .map(|(rate, state)| state.remaining(rate, now))
                    .collect()
            }
        }
    }

    fn admits(&self, key: u64, units: u32, now: Timestamp) -> bool {
        match &self.truth {
            Truth::Window(window) => window.admits(key, units, now),
            Truth::Obvious(_) => {
                let remaining = self.remaining(key, now);
                remaining.iter().all(|left| u64::from(units) <= *left)
            }
        }
    }

    fn charge(&mut self, key: u64, units: u32, now: Timestamp) {
        match &mut self.truth {
            Truth::Window(window) => window.charge(key, units, now),
            Truth::Obvious(keys) => {
                for (rate, state) in self.rates.iter().zip(&mut keys[key as usize]) {
                    state.charge(rate, u64::from(units), now);
                }
            }
        }
    }

    fn agrees(&self, now: Timestamp) {
        for key in 0..KEYS {
            let decision = self.limit.peek(hash(key), Cost::ONE, now);
            let statuses = decision.statuses();
            let seen: Vec<u64> = statuses
                .iter()
                .map(|rate| u64::from(rate.remaining))
                .collect();
            assert_eq!(
                seen,
                self.remaining(key, now),
                "key {key} of {:?}",
                self.limit
            );
        }
    }
}

fn hash(key: u64) -> KeyHash {
    let mut hasher = Seed::from_bytes([3; 16]).hasher();
    hasher.part(&key.to_le_bytes()).finish()
}

/// Asks both for the same: which limit, which key, how much.
fn ask(sides: &mut [Side; 2], wanted: &[(usize, u64, Cost)], now: Timestamp) {
    let asks: Vec<Ask<'_>> = wanted
        .iter()
        .map(|(side, key, cost)| Ask {
            limit: &sides[*side].limit,
            key: hash(*key),
            cost: *cost,
            payer: None,
        })
        .collect();
    let verdict = decide(&asks, now);
    let all = |then| {
        wanted
            .iter()
            .all(|(side, key, cost)| sides[*side].admits(*key, cost.get(), then))
    };
    assert_eq!(verdict.outcome() == Outcome::Admitted, all(now));
    match verdict.retry_after() {
        Some(NEVER) => {}
        Some(wait) => {
            let then = now.saturating_add(wait);
            assert!(all(then), "not admitted after {wait:?}");
            let before = then.saturating_sub(Duration::from_nanos(1));
            assert!(!all(before), "admitted before {wait:?}");
        }
        None => {
            for (side, key, cost) in wanted {
                sides[*side].charge(*key, cost.get(), now);
            }
        }
    }
}

fuzz_target!(|case: Case| {
    let [Some(one), Some(two)] = case.demands.each_ref().map(Demand::policy) else {
        return;
    };
    let mut sides = [Side::new(one), Side::new(two)];
    let (mut now, mut latest) = (START, START);
    // All keys get their slots now: a slot that another key took over does not come back when the clock does.
    for side in 0..sides.len() {
        for key in 0..KEYS {
            ask(&mut sides, &[(side, key, Cost::ONE)], now);
        }
    }
    for operation in case.operations.iter().take(60) {
        match operation {
            Operation::Wait(millis) => {
                // A key that is silent for months is another test's business.
                now = now.saturating_add(Duration::from_millis(u64::from(millis % (1 << 27))));
            }
            Operation::Tick(nanos) => {
                now = now.saturating_add(Duration::from_nanos(u64::from(*nanos)))
            }
            Operation::StepBack(millis) => {
                let back = now.saturating_sub(Duration::from_millis(u64::from(*millis)));
                now = back.max(latest.saturating_sub(MOST_BACK));
            }
            Operation::Ask(parts) => {
                let wanted = parts.iter().enumerate().filter_map(|(side, part)| {
                    let (key, units) = (*part)?;
                    Some((side, u64::from(key) % KEYS, Cost::new(u32::from(units))?))
                });
                ask(&mut sides, &wanted.collect::<Vec<_>>(), now);
            }
        }
        latest = latest.max(now);
        for side in &sides {
            side.agrees(now);
        }
    }
});
