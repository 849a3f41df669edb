//! The table against the oracle: random operations are answered alike and stand alike.

use std::time::Duration;

use proptest::prelude::*;
use sluicegate_limiter::exact::{ComputedAnswer, ForgetOutcome, LogCharge, LogReceipt, LogTable};
use sluicegate_limiter::{Capacity, NEVER, Rate, RateStatus, Rates, Timestamp};

use super::oracle::{JUST_NOW, Oracle};
use super::{cost, key, rates};

const KEYS: u64 = 3;
/// How far the clock may step back of its latest reading, so that nothing counts again which had expired for a log that
/// keeps 37 days.
const FURTHEST_BACK: Duration = Duration::from_secs(5 * 86_400);
const LAST: Timestamp = Timestamp::from_nanos(u64::MAX);

/// One thing that happens.
#[derive(Clone, Debug)]
enum Operation {
    /// A request of a key for so many units.
    Charge(u64, u32),
    /// The same, whether it fits or not.
    ChargeUnchecked(u64, u32),
    /// A receipt is given back, all or a part: which, counted back from the latest, and how much.
    Release(usize, u32),
    /// A key is forgotten.
    ForgetOutcome(u64),
    /// A key is said to have used so much.
    Set(u64, u32),
    /// Time passes.
    Wait(Duration),
    /// The clock steps back.
    StepBack(Duration),
}

/// Rates and how much a log of them holds.
fn any_rates() -> impl Strategy<Value = Rates> {
    let period = prop_oneof![
        4 => 1u32..12,
        1 => 50u32..70,
        1 => Just(86_400),
        1 => Just(31 * 86_400)
    ];
    let count = prop_oneof![6 => 1u32..12, 1 => 60u32..70, 1 => Just(1024u32)];
    prop::collection::btree_map(period, count, 1..=4).prop_map(|numbers| {
        let numbers: Vec<_> = numbers
            .into_iter()
            .map(|(secs, count)| (count, secs))
            .collect();
        rates(&numbers)
    })
}

fn any_operation() -> impl Strategy<Value = Operation> {
    let units =
        || prop_oneof![6 => Just(1u32), 3 => 1u32..8, 1 => 500u32..1100, 1 => Just(u32::MAX)];
    let time = || {
        prop_oneof![
            3 => (0u64..3_000_000_000).prop_map(Duration::from_nanos),
            3 => (0u64..30_000).prop_map(Duration::from_millis),
            1 => (0u64..200_000).prop_map(Duration::from_secs),
            1 => (0u64..80 * 86_400).prop_map(Duration::from_secs),
        ]
    };
    prop_oneof![
        12 => (0..KEYS, units()).prop_map(|(key, units)| Operation::Charge(key, units)),
        2 => (0..KEYS, 1u32..4).prop_map(|(key, units)| Operation::ChargeUnchecked(key, units)),
        4 => (0usize..6, units()).prop_map(|(back, units)| Operation::Release(back, units)),
        1 => (0..KEYS).prop_map(Operation::ForgetOutcome),
        1 => (0..KEYS, 1u32..8).prop_map(|(key, units)| Operation::Set(key, units)),
        8 => time().prop_map(Operation::Wait),
        2 => time().prop_map(Operation::StepBack),
    ]
}

/// A table and its oracle, side by side.
struct Bench {
    rates: Rates,
    size: u32,
    table: LogTable,
    oracle: Oracle,
    receipts: Vec<(u64, u64, LogReceipt)>,
    now: Timestamp,
    /// The latest reading of the clock.
    latest: Timestamp,
}

impl Bench {
    fn new(rates: Rates, now: Timestamp) -> Self {
        let capacity = Capacity::new(64).expect("a capacity");
        let largest = rates.iter().map(|rate| rate.count()).max().expect("a rate");
        let size = largest.next_multiple_of(2);
        Self {
            size,
            oracle: Oracle::new(size),
            table: LogTable::new(capacity, &rates),
            rates,
            receipts: Vec::new(),
            now,
            latest: now,
        }
    }

    fn apply(&mut self, operation: &Operation) -> Result<(), TestCaseError> {
        let now = self.now;
        match *operation {
            Operation::Charge(number, units) => self.charge(number, units)?,
            Operation::ChargeUnchecked(number, units) => {
                // What exceeds the log is another test's business.
                if self.oracle.counted(number) + u64::from(units) <= u64::from(self.size) {
                    let receipt =
                        self.table
                            .charge_unchecked(key(number), &self.rates, cost(units), now);
                    let at = self.oracle.charge(number, units, now);
                    self.receipts.push((number, at, receipt));
                }
            }
            Operation::Release(back, units) => {
                let count = self.receipts.len();
                if let Some(index) = count.checked_sub(back + 1) {
                    let (number, at, receipt) = &mut self.receipts[index];
                    let wanted = units.min(receipt.units());
                    let released = self.table.release(receipt, cost(units));
                    // Once is once: what a receipt gave back, it does not give back again.
                    let removed = self.oracle.remove(*number, *at, wanted);
                    let longest = self.rates.iter().map(|rate| rate.period().as_secs()).max();
                    let expires = *at + u64::from(longest.expect("a rate")) * 1_000;
                    if expires > self.latest.as_nanos() / 1_000_000 {
                        prop_assert_eq!(released, removed);
                    } else {
                        prop_assert!(released <= removed, "what expired may be gone");
                    }
                }
            }
            Operation::ForgetOutcome(number) => {
                let outcome = self.table.reset(key(number));
                prop_assert_ne!(outcome, ForgetOutcome::Shared);
                self.oracle.reset(number);
                self.receipts.retain(|(owner, _, _)| *owner != number);
            }
            Operation::Set(number, units) => {
                let latest = self.oracle.latest(number);
                self.table.set(key(number), &self.rates, cost(units), now);
                self.oracle.reset(number);
                let kept = units.min(self.size);
                self.oracle.charge(number, kept, now.max(latest));
                self.receipts.retain(|(owner, _, _)| *owner != number);
            }
            Operation::Wait(time) => {
                self.now = now.saturating_add(time);
                self.latest = self.latest.max(self.now);
            }
            Operation::StepBack(time) => {
                let furthest = self.latest.saturating_sub(FURTHEST_BACK);
                self.now = now.saturating_sub(time).max(furthest);
            }
        }
        // All keys stand as the oracle says, whatever was done to one of them.
        for number in 0..KEYS {
            let answer = self.table.peek(key(number), &self.rates, cost(1), self.now);
            let refused = (!self.oracle.admits(number, &self.rates, 1, self.now)).then_some(1);
            self.compare(&answer, number, refused)?;
        }
        Ok(())
    }

    fn charge(&mut self, number: u64, units: u32) -> Result<(), TestCaseError> {
        let now = self.now;
        let fits = self.oracle.admits(number, &self.rates, units, now);
        match self
            .table
            .charge(key(number), &self.rates, cost(units), now)
        {
            LogCharge::Admitted(answer, receipt) => {
                prop_assert!(fits, "an admission that the oracle refuses");
                let at = self.oracle.charge(number, units, now);
                self.receipts.push((number, at, receipt));
                self.compare(&answer, number, None)
            }
            LogCharge::Refused(answer) => {
                prop_assert!(!fits, "a refusal that the oracle admits");
                self.compare(&answer, number, Some(units))?;
                self.comes_true(&answer, number, units)
            }
        }
    }

    fn compare(
        &self,
        answer: &ComputedAnswer,
        number: u64,
        refused: Option<u32>,
    ) -> Result<(), TestCaseError> {
        let mut longest = None;
        for (index, rate) in self.rates.iter().enumerate() {
            let refused =
                refused.filter(|units| !self.oracle.has_room(number, rate, *units, self.now));
            let expected = self.oracle.status(number, rate, refused, self.now);
            prop_assert_eq!(answer.statuses()[index], expected);
            if refused.is_some() && longest.is_none_or(|(_, wait)| expected.next_free > wait) {
                longest = Some((index, expected.next_free));
            }
        }
        prop_assert_eq!(answer.refusing(), longest.map(|(rate, _)| rate));
        Ok(())
    }

    /// The moment to come back is the first at which the oracle admits, and no longer than the period away; a wait of the whole period
    /// leaves out by how much entries are ahead of now.
    fn comes_true(
        &self,
        answer: &ComputedAnswer,
        number: u64,
        units: u32,
    ) -> Result<(), TestCaseError> {
        let rate = answer.refusing().expect("a refusal names its rate");
        let wait = answer.statuses()[rate].next_free;
        let period = |rate: &Rate| Duration::from_secs(rate.period().as_secs().into());
        let statuses = answer.statuses();
        let never_stepped_back = self.now >= self.latest;
        prop_assert!(!never_stepped_back || wait == NEVER || wait <= period(&statuses[rate].rate));
        let is_whole = |status: &RateStatus| status.next_free == period(&status.rate);
        let left_out = match statuses.iter().any(is_whole) {
            true => JUST_NOW,
            false => Duration::ZERO,
        };
        let then = self.now.saturating_add(wait).saturating_add(left_out);
        if wait < NEVER && then < LAST {
            prop_assert!(self.oracle.admits(number, &self.rates, units, then));
            let before = then.saturating_sub(left_out + Duration::from_nanos(1));
            prop_assert!(!self.oracle.admits(number, &self.rates, units, before));
        }
        Ok(())
    }
}

fn any_start() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        4 => (1_700_000_000u64..1_900_000_000).prop_map(Timestamp::from_secs),
        1 => Just(Timestamp::from_secs(0)),
        1 => Just(Timestamp::from_nanos(1)),
        // Around the turns of 32 bits of milliseconds and of an era.
        1 => (400u64..420).prop_map(|lap| Timestamp::from_nanos((lap << 32) * 1_000_000 - 5_000_000_000)),
        1 => (1600u64..1700).prop_map(|era| Timestamp::from_nanos((era << 30) * 1_000_000 - 5_000_000_000)),
        1 => Just(Timestamp::from_nanos(u64::MAX - 1_000_000_000_000)),
        1 => Just(LAST),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Goal: C1 and C2, sequentially, and nothing refused that fits. Method: random charges, forced ones, releases
    /// whole and in part, resets, waits of all sizes and steps back; every answer against the oracle.
    #[test]
    fn answers_are_those_of_the_oracle(
        rates in any_rates(),
        start in any_start(),
        operations in prop::collection::vec(any_operation(), 1..60),
    ) {
        let mut bench = Bench::new(rates, start);
        // All keys get their slots now: what a key owed before another took its slot would not come back with the
        // clock.
        for number in 0..KEYS {
            bench.charge(number, 1)?;
        }
        operations.iter().try_for_each(|operation| bench.apply(operation))?;
    }
}
