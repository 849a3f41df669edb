//! Short spellings for the tests.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

#[cfg(feature = "mmap")]
use sluicegate_limiter::OpenOutcome;
use sluicegate_limiter::{
    Ask, Capacity, Cost, Decision, KeyHash, Limit, Outcome, Period, Rate, Rates, Seed, Timestamp,
    Verdict, decide,
};

/// A moment in the middle of nowhere, at the start of a window of any period that divides 10 hours.
pub(crate) const START: Timestamp = Timestamp::from_secs(1_800_000_000);

pub(crate) fn rate(count: u32, secs: u32) -> Rate {
    Rate::new(count, Period::from_secs(secs).expect("a period")).expect("a rate")
}

pub(crate) fn rates(numbers: &[(u32, u32)]) -> Rates {
    Rates::new(numbers.iter().map(|(count, secs)| rate(*count, *secs))).expect("rates")
}

/// `count` rates that all admit `units` in the windows that START begins.
pub(crate) fn alike(count: u32, units: u32) -> Rates {
    Rates::new((1..=count).map(|rank| rate(units, 600 * rank))).expect("rates")
}

pub(crate) fn capacity(keys: u64) -> Capacity {
    Capacity::new(keys).expect("a capacity")
}

/// What `open` finds once nobody else has the file. A child that another test starts at this moment holds whatever files this
/// process has open, until it has become another program.
#[cfg(feature = "mmap")]
pub(crate) fn alone<T>(open: impl Fn() -> (T, OpenOutcome)) -> (T, OpenOutcome) {
    loop {
        let (opened, adopted) = open();
        if adopted != OpenOutcome::Joined {
            return (opened, adopted);
        }
        drop(opened);
        std::thread::yield_now();
    }
}

pub(crate) fn limit(numbers: &[(u32, u32)], keys: u64) -> Limit {
    Limit::new(rates(numbers), capacity(keys))
}

pub(crate) fn key(number: u64) -> KeyHash {
    Seed::from_bytes([3; 16])
        .hasher()
        .part(&number.to_le_bytes())
        .finish()
}

pub(crate) fn cost(units: u32) -> Cost {
    Cost::new(units).expect("a cost")
}

pub(crate) fn after(millis: u64) -> Timestamp {
    START.saturating_add(Duration::from_millis(millis))
}

pub(crate) fn ask(limit: &Limit, number: u64) -> Ask<'_> {
    Ask {
        limit,
        key: key(number),
        cost: Cost::ONE,
        payer: None,
    }
}

/// Asks one limit for one unit.
pub(crate) fn take(limit: &Limit, number: u64, now: Timestamp) -> Verdict {
    decide(&[ask(limit, number)], now)
}

pub(crate) fn admits(limit: &Limit, number: u64, now: Timestamp) -> bool {
    take(limit, number, now).outcome() == Outcome::Admitted
}

pub(crate) fn peek(limit: &Limit, number: u64, now: Timestamp) -> Decision {
    limit.peek(key(number), Cost::ONE, now)
}

/// What is left of the first rate.
pub(crate) fn left(limit: &Limit, number: u64, now: Timestamp) -> u32 {
    peek(limit, number, now).statuses()[0].remaining
}

/// Runs `work` on so many threads that start together.
pub(crate) fn together(threads: usize, work: impl Fn(usize) + Sync) {
    let start = Barrier::new(threads);
    thread::scope(|scope| {
        for thread in 0..threads {
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                start.wait();
                work(thread);
            });
        }
    });
}
