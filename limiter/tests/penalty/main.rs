//! Permits for what is in flight: in one thread beside a plain model, in eight, under floods and edits.

mod permits;

use std::sync::Barrier;

use sluicegate_limiter::{Capacity, Concurrency, KeyHash, Seed};

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
