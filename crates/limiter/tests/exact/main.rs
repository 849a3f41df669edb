//! The exact sliding log against the plainest oracle there is, in one thread, in eight, and under floods.

mod brute;
#[path = "../common/mod.rs"]
mod common;
mod edit;
mod flood;
mod model;
mod oracle;
mod stress;

use common::{START, after, cost, key, rates};
use sluicegate_limiter::exact::{LogCharge, LogTable};
use sluicegate_limiter::{Cost, Rates, Timestamp};

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
        .map_or(0, |status| status.remaining)
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
