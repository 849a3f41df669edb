//! The table against the oracle: random requests over several limits decide alike, stand alike, and charge all or
//! nothing.

mod common;
mod oracle;

use std::time::Duration;

use common::{capacity, cost, key, rate};
use oracle::SlidingWindow;
use proptest::prelude::*;
use sluicegate_limiter::{
    Ask, Decision, Limit, MAX_COUNT, Outcome, Rate, Rates, Timestamp, Verdict, decide,
};

const KEYS: u64 = 4;
const LIMITS: usize = 3;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Operation {
    /// A request: which limits, under which keys, for how much.
    Ask(Vec<(usize, u64, u32)>),
    /// Time passes.
    Wait(Duration),
    /// The clock steps back.
    StepBack(Duration),
    /// The counts of a limit are edited.
    Edit(usize, Vec<u32>),
}

/// Whether the clock may step back.
#[derive(Clone, Copy, PartialEq)]
enum Clock {
    Forward,
    Any,
}

fn any_rates() -> impl Strategy<Value = Rates> {
    let period = prop_oneof![
        1u32..12,
        50u32..70,
        Just(3600),
        Just(86_400),
        Just(31 * 86_400)
    ];
    let count = prop_oneof![6 => 1u32..12, 1 => Just(MAX_COUNT)];
    prop::collection::btree_map(period, count, 1..=4).prop_map(|numbers| {
        Rates::new(numbers.into_iter().map(|(secs, count)| rate(count, secs)))
            .expect("distinct periods")
    })
}

fn any_wait() -> impl Strategy<Value = Duration> {
    prop_oneof![
        3 => (0u64..3_000_000_000).prop_map(Duration::from_nanos),
        3 => (0u64..100_000).prop_map(Duration::from_millis),
        1 => (0u64..200_000).prop_map(Duration::from_secs),
        1 => (0u64..80 * 86_400).prop_map(Duration::from_secs),
    ]
}

fn any_operation(clock: Clock) -> impl Strategy<Value = Operation> {
    let amount =
        prop_oneof![8 => Just(1u32), 3 => 1u32..6, 1 => Just(MAX_COUNT), 1 => Just(u32::MAX)];
    let asks = prop::collection::vec((0..LIMITS, 0..KEYS, amount), 1..4).prop_map(Operation::Ask);
    let back = prop_oneof![
        (0u64..3_000).prop_map(Duration::from_millis),
        (0u64..100_000).prop_map(Duration::from_secs),
        (0u64..10 * 86_400).prop_map(Duration::from_secs),
    ];
    let edit = (0..LIMITS, prop::collection::vec(1u32..12, 4))
        .prop_map(|(limit, counts)| Operation::Edit(limit, counts));
    prop_oneof![
        12 => asks,
        6 => any_wait().prop_map(Operation::Wait),
        if clock == Clock::Any { 2 } else { 0 } => back.prop_map(Operation::StepBack),
        1 => edit,
    ]
}

fn any_operations(clock: Clock) -> impl Strategy<Value = Vec<Operation>> {
    prop::collection::vec(any_operation(clock), 1..60)
}

/// The limits and their oracles, side by side.
struct Bench {
    start: Timestamp,
    now: Timestamp,
    limits: Vec<Limit>,
    oracles: Vec<SlidingWindow>,
}

impl Bench {
    fn new(rates: Vec<Rates>, now: Timestamp) -> Self {
        let oracles = rates
            .iter()
            .map(|rates| SlidingWindow::new(rates.iter().copied()))
            .collect();
        let limits = rates
            .into_iter()
            .map(|rates| Limit::new(rates, capacity(64)))
            .collect();
        Self {
            start: now,
            now,
            limits,
            oracles,
        }
    }

    fn apply(&mut self, operation: &Operation) -> Result<(), TestCaseError> {
        match operation {
            Operation::Ask(asks) => self.ask(asks)?,
            Operation::Wait(time) => {
                // A key that is silent for 193 days is another test's business.
                let then = self.now.saturating_add(*time);
                if then.saturating_since(self.start) < Duration::from_secs(150 * 86_400) {
                    self.now = then;
                }
            }
            Operation::StepBack(time) => self.now = self.now.saturating_sub(*time),
            Operation::Edit(limit, counts) => self.edit(*limit, counts),
        }
        Ok(())
    }

    fn ask(&mut self, asks: &[(usize, u64, u32)]) -> Result<(), TestCaseError> {
        let now = self.now;
        let before = self.read_all();
        let table_asks: Vec<Ask<'_>> = asks
            .iter()
            .map(|(limit, number, units)| Ask {
                limit: &self.limits[*limit],
                key: key(*number),
                cost: cost(*units),
                payer: None,
            })
            .collect();
        let verdict = decide(&table_asks, now);
        // Asks for the same counter stand or fall by what they take together.
        let joint = |ask: &(usize, u64, u32)| {
            let same = asks
                .iter()
                .filter(|other| (other.0, other.1) == (ask.0, ask.1));
            same.fold(0u32, |sum, other| sum.saturating_add(other.2))
        };
        if asks
            .iter()
            .all(|ask| self.oracles[ask.0].admits(ask.1, joint(ask), now))
        {
            prop_assert_eq!(verdict.outcome(), Outcome::Admitted);
            for (index, (limit, number, units)) in asks.iter().enumerate() {
                self.oracles[*limit].charge(*number, *units, now);
                compare(
                    &verdict.decisions()[index],
                    &self.oracles[*limit],
                    *number,
                    None,
                    now,
                )?;
            }
        } else {
            prop_assert_ne!(verdict.outcome(), Outcome::Admitted);
            for (index, ask) in asks.iter().enumerate() {
                compare(
                    &verdict.decisions()[index],
                    &self.oracles[ask.0],
                    ask.1,
                    Some(joint(ask)),
                    now,
                )?;
            }
            self.comes_true(&verdict, asks.iter().map(|ask| (ask.0, ask.1, joint(ask))))?;
            prop_assert_eq!(before, self.read_all(), "a refusal leaves no trace");
        }
        Ok(())
    }

    /// The moment to come back is the first at which the oracle admits.
    fn comes_true(
        &self,
        verdict: &Verdict,
        mut asks: impl Iterator<Item = (usize, u64, u32)> + Clone,
    ) -> Result<(), TestCaseError> {
        let wait = verdict.retry_after().expect("a refusal has a wait");
        let end = Timestamp::from_nanos(u64::MAX);
        if asks.clone().any(|(limit, _, units)| {
            self.oracles[limit]
                .rates
                .iter()
                .any(|rate| rate.count() < units)
        }) {
            prop_assert_eq!(wait, sluicegate_limiter::NEVER);
        } else if self.now.saturating_add(wait) < end
            && asks
                .clone()
                .all(|(limit, number, _)| self.oracles[limit].remembers(number, self.now))
        {
            let then = self.now.saturating_add(wait);
            prop_assert!(
                asks.all(|(limit, number, units)| self.oracles[limit].admits(number, units, then))
            );
        }
        Ok(())
    }

    fn edit(&mut self, limit: usize, counts: &[u32]) {
        let edited: Vec<Rate> = self.oracles[limit]
            .rates
            .iter()
            .zip(counts)
            .map(|(old, count)| rate(*count, old.period().as_secs()))
            .collect();
        let rates = Rates::new(edited.iter().copied()).expect("the same periods");
        self.limits[limit] =
            self.limits[limit].edited(rates, self.limits[limit].capacity(), self.now);
        self.oracles[limit].rates = edited;
    }

    fn read_all(&self) -> Vec<Decision> {
        let reads = self
            .limits
            .iter()
            .flat_map(|limit| (0..KEYS).map(|number| limit.peek(key(number), cost(1), self.now)));
        reads.collect()
    }
}

fn compare(
    decision: &Decision,
    oracle: &SlidingWindow,
    number: u64,
    asked: Option<u32>,
    now: Timestamp,
) -> Result<(), TestCaseError> {
    let expected = oracle.statuses(number, asked, now);
    for (status, expected) in decision.statuses().iter().zip(&expected) {
        prop_assert_eq!(status.remaining, expected.remaining);
        prop_assert_eq!(status.next_free, expected.next_free);
        prop_assert_eq!(status.reset, expected.reset);
    }
    let longest = expected
        .iter()
        .filter(|rate| rate.refuses)
        .map(|rate| rate.next_free)
        .max();
    let refusing = longest.and_then(|longest| {
        expected
            .iter()
            .position(|rate| rate.refuses && rate.next_free == longest)
    });
    prop_assert_eq!(decision.refusing_rate(), refusing);
    prop_assert_eq!(decision.retry_after(), longest);
    Ok(())
}

fn run(
    rates: Vec<Rates>,
    start: Timestamp,
    operations: &[Operation],
    clock: Clock,
) -> Result<(), TestCaseError> {
    let mut bench = Bench::new(rates, start);
    if clock == Clock::Any {
        // All keys get their slots now: a slot that another key took over does not come back when the clock does.
        for limit in 0..LIMITS {
            for number in 0..KEYS {
                bench.ask(&[(limit, number, 1)])?;
            }
        }
    }
    operations
        .iter()
        .try_for_each(|operation| bench.apply(operation))
}

fn any_start() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        4 => (1_700_000_000u64..1_900_000_000).prop_map(Timestamp::from_secs),
        1 => Just(Timestamp::from_secs(0)),
        // The seconds around a turn of the stamps.
        1 => ((1 << 24) * 100 - 200u64..(1 << 24) * 100).prop_map(Timestamp::from_secs),
        1 => Just(Timestamp::from_nanos(u64::MAX / 2)),
    ]
}

proptest! {
    /// Goal: C1 and C2, sequentially. Method: random requests, waits of all sizes and edits; every verdict and status
    /// against the oracle.
    #[test]
    fn decisions_are_those_of_the_oracle(
        rates in prop::collection::vec(any_rates(), LIMITS),
        start in any_start(),
        operations in any_operations(Clock::Forward),
    ) {
        run(rates, start, &operations, Clock::Forward)?;
    }

    /// Goal: no clock breaks the limiter. Method: as above with steps back of milliseconds to days.
    #[test]
    fn clocks_that_step_back_are_judged_as_the_oracle_does(
        rates in prop::collection::vec(any_rates(), LIMITS),
        start in any_start(),
        operations in any_operations(Clock::Any),
    ) {
        run(rates, start, &operations, Clock::Any)?;
    }
}
