//! The exact sliding log against the plainest oracle there is, in one thread, in eight, and under floods.

mod brute;
mod edit;
mod flood;
mod model;
mod oracle;
mod stress;

use std::time::Duration;

use sluicegate_limiter::exact::{LogCharge, LogTable};
use sluicegate_limiter::{Cost, KeyHash, Period, Rate, Rates, Seed, Timestamp};

/// A moment in the middle of nowhere.
const START: Timestamp = Timestamp::from_secs(1_800_000_000);

fn rates(numbers: &[(u32, u32)]) -> Rates {
    let rate = |(count, secs): &(u32, u32)| {
        Rate::new(*count, Period::from_secs(*secs).expect("a period")).expect("a rate")
    };
    Rates::new(numbers.iter().map(rate)).expect("rates")
}

fn key(number: u64) -> KeyHash {
    Seed::from_bytes([3; 16])
        .hasher()
        .part(&number.to_le_bytes())
        .finish()
}

fn cost(units: u32) -> Cost {
    Cost::new(units).expect("a cost")
}

fn after(millis: u64) -> Timestamp {
    START.saturating_add(Duration::from_millis(millis))
}

/// Asks for one unit.
fn admits(table: &LogTable, rates: &Rates, number: u64, now: Timestamp) -> bool {
    matches!(
        table.charge(key(number), rates, Cost::ONE, now),
        LogCharge::Admitted(..)
    )
}

/// What is left of the first rate.
fn left(table: &LogTable, rates: &Rates, number: u64, now: Timestamp) -> u32 {
    table
        .peek(key(number), rates, Cost::ONE, now)
        .statuses()
        .first()
        .map_or(0, |standing| standing.remaining)
}

/// Plain numbers that look random: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}
