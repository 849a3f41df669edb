//! What a limit's refusal may be followed by, or preceded: bans, and permits for what is in flight; in one thread beside
//! plain models, in eight, under floods and edits, and over the life of a process.

mod bans;
#[path = "../common/mod.rs"]
mod common;
mod permits;
#[cfg(all(feature = "mmap", not(miri)))]
mod persist;

use std::sync::Barrier;
use std::time::Duration;

use sluicegate_limiter::{BanFactor, BanRules, Capacity, Concurrency, KeyHash, Seed, Timestamp};

/// A moment in the middle of nowhere.
const START: Timestamp = Timestamp::from_secs(1_800_000_000);

fn key(number: u64) -> KeyHash {
    Seed::from_bytes([3; 16])
        .hasher()
        .part(&number.to_le_bytes())
        .finish()
}

fn capacity(keys: u64) -> Capacity {
    Capacity::new(keys).expect("a capacity")
}

fn concurrency(permits: u32) -> Concurrency {
    Concurrency::new(permits).expect("a concurrency")
}

fn after(secs: u64) -> Timestamp {
    START.saturating_add(Duration::from_secs(secs))
}

/// Bans of so many seconds at first and at most, each twice as long as the one before.
fn rules(first: u64, max: u64) -> BanRules {
    let [first, max] = [first, max].map(Duration::from_secs);
    BanRules::new(first, BanFactor::TWO, max).expect("rules")
}

/// Runs `work` on so many threads that start together.
fn together(threads: usize, work: impl Fn(usize) + Sync) {
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                start.wait();
                work(thread);
            });
        }
    });
}

/// A sequence of numbers; any will do.
fn random(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    *state >> 33
}
