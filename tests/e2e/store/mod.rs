//! The script in a real redis-server, beside the local core: the same vectors, the same answers to whatever is asked, and what
//! becomes of keys.

mod faults;
mod keys;
mod model;
mod server;
mod vectors;

use std::time::Duration;

use sluicegate_decide::store::{KeyName, StoreAsk};
use sluicegate_limiter::{
    Algorithm, Cost, Decision, KeyHash, Period, Policy, Rate, Rates, Timestamp,
};

/// A moment in the middle of nowhere.
const START: Timestamp = Timestamp::from_secs(1_800_000_000);

fn rates(numbers: &[(u32, u32)]) -> Rates {
    let rate = |(count, secs): &(u32, u32)| Rate::new(*count, Period::from_secs(*secs).unwrap());
    Rates::new(numbers.iter().map(|numbers| rate(numbers).unwrap())).unwrap()
}

fn policy(algorithm: Algorithm, numbers: &[(u32, u32)]) -> Policy {
    Policy::new(algorithm, rates(numbers)).unwrap()
}

fn cost(units: u32) -> Cost {
    Cost::new(units).unwrap()
}

fn after(millis: u64) -> Timestamp {
    START.saturating_add(Duration::from_millis(millis))
}

/// The name of a key by a number.
fn name(number: u64, limit: &str) -> KeyName {
    KeyName::new("test", KeyHash::from_bits(number), limit)
}

fn ask<'a>(policy: &'a Policy, name: &'a KeyName, units: u32) -> StoreAsk<'a> {
    StoreAsk {
        policy,
        name,
        cost: cost(units),
    }
}

/// All that a decision says.
fn said(decision: &Decision) -> (Option<usize>, Vec<sluicegate_limiter::RateStatus>, Duration) {
    (
        decision.refusing_rate(),
        decision.statuses().to_vec(),
        decision.delay(),
    )
}
