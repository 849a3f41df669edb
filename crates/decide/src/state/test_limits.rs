//! Defines the limit that tests of persistence open, edit and find again.

use sluicegate_limiter::{Capacity, Limit, Period, Policy, Rate, Rates, TableId, Timestamp};

use super::{CounterPersistence, CounterStorage, CounterTable};

pub(super) const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);
const ID: TableId<'static> = TableId {
    name: "otp",
    key: "client.ip/32,/64",
};

pub(super) fn policy(count: u32, secs: u32) -> Policy {
    let period = Period::from_secs(secs).expect("a period");
    let rate = Rate::new(count, period).expect("a rate");
    Rates::new([rate]).expect("rates").into()
}

pub(super) fn table(policy: &Policy) -> CounterTable<'_> {
    CounterTable {
        id: ID,
        policy,
        capacity: Capacity::new(100).expect("a capacity"),
    }
}

pub(super) fn open(storage: &CounterStorage, policy: &Policy) -> (Limit, CounterPersistence) {
    storage.table(&table(policy), None, NOW)
}
