//! Measures the exact algorithm's table: bytes a key, keys without a slot when all keys of a capacity are alive, and
//! what a decision costs beside the approximated window's, in one run.
//!
//! Run with `cargo run --release -p sluicegate-limiter --example exact`. Each measurement takes a fraction of a second;
//! tables that would not fit into 1 GB are skipped.

use std::error::Error;
use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

use sluicegate_limiter::{
    Algorithm, Ask, Capacity, Cost, KeyHash, Limit, Period, Policy, Rate, Rates, Seed, Timestamp,
    Verdict, decide,
};

const START: Timestamp = Timestamp::from_secs(1_800_000_000);
const DECISIONS: u64 = 400_000;
const MOST_BYTES: u64 = 1 << 30;

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "bytes a key, and keys without a slot, of a full table")?;
    for (count, keys) in [
        (1, 1_000_000),
        (5, 1_000_000),
        (20, 1_000_000),
        (100, 100_000),
        (1024, 20_000),
    ] {
        let limit = exact(count, Capacity::new(keys)?)?;
        for key in &hashes(keys) {
            black_box(charge(&limit, *key, START));
        }
        let (occupancy, bytes) = (limit.occupancy(START), limit.bytes() as f64);
        writeln!(
            out,
            "N = {count:4}, {keys:7} keys: {:6.1} bytes a key, {:6.1} a slot, {} of 10^6 keys without a slot",
            bytes / keys as f64,
            bytes / occupancy.slots as f64,
            limit.stats().admitted_in_overflow as f64 * 1e6 / keys as f64,
        )?;
    }
    writeln!(
        out,
        "\nns a decision, back to back: refused; admitted; admitted by the approximated window"
    )?;
    for keys in [1, 1_000, 100_000] {
        for count in [5, 100, 1024] {
            let capacity = Capacity::new(keys)?;
            let policy = Policy::new(Algorithm::Exact, rates(count)?)?;
            if Limit::bytes_for(&policy, capacity) > MOST_BYTES {
                continue;
            }
            let logs = Limit::new(policy, capacity);
            let hashes = hashes(keys);
            // Full logs: all of them refuse.
            for key in &hashes {
                logs.set(*key, Cost::new(count).unwrap_or(Cost::ONE), START);
            }
            let refused = measure(&hashes, |key, _| {
                let now = START.saturating_add(Duration::from_secs(5));
                black_box(charge(&logs, key, now));
            });
            // As fast as the slowest of these rates frees: every decision admits, into a full log.
            let admitted = measure(&hashes, |key, turn| {
                let now = START.saturating_add(Duration::from_secs(700 + 600 * turn));
                black_box(charge(&logs, key, now));
            });
            let words = Limit::new(rates(count)?, capacity);
            let window = measure(&hashes, |key, turn| {
                let now = START.saturating_add(Duration::from_secs(700 + 1200 * turn));
                black_box(charge(&words, key, now));
            });
            writeln!(
                out,
                "{keys:6} keys, N = {count:4}: {refused:6.1}  {admitted:6.1}  {window:6.1}"
            )?;
        }
    }
    Ok(())
}

/// Nanoseconds of a decision, the least of three rounds; `turn` counts the times that the keys were gone through.
fn measure(keys: &[KeyHash], mut decide: impl FnMut(KeyHash, u64)) -> f64 {
    let turns = (DECISIONS / keys.len() as u64).max(1);
    let mut least = f64::MAX;
    for round in 0..3 {
        let start = Instant::now();
        for turn in 0..turns {
            for key in keys {
                decide(*key, round * turns + turn);
            }
        }
        let nanos = start.elapsed().as_nanos() as f64;
        least = least.min(nanos / (turns * keys.len() as u64) as f64);
    }
    least
}

fn hashes(keys: u64) -> Vec<KeyHash> {
    let hash = |number: u64| {
        Seed::from_bytes([5; 16])
            .hasher()
            .part(&number.to_le_bytes())
            .finish()
    };
    (0..keys).map(hash).collect()
}

fn exact(count: u32, capacity: Capacity) -> Result<Limit, Box<dyn Error>> {
    let policy = Policy::new(Algorithm::Exact, rates(count)?)?;
    Ok(Limit::new(policy, capacity))
}

fn charge(limit: &Limit, key: KeyHash, now: Timestamp) -> Verdict {
    let cost = Cost::ONE;
    decide(
        &[Ask {
            limit,
            key,
            cost,
            payer: None,
        }],
        now,
    )
}

fn rates(count: u32) -> Result<Rates, Box<dyn Error>> {
    Ok(Rates::new([Rate::new(count, Period::from_secs(600)?)?])?)
}
