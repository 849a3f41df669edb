//! Memory is taken when a limit is made, and none after that.
#![cfg(target_os = "linux")]

mod common;

use common::{START, admits, limit};

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    const PAGE: usize = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages: usize = statm
        .split_whitespace()
        .nth(1)
        .and_then(|field| field.parse().ok())
        .expect("the second field is a number");
    pages * PAGE
}

/// Goal: a flood takes no memory. Method: resident memory before, after the making, and after twice as many keys as
/// fit.
#[test]
fn all_memory_is_there_from_the_start() {
    const KEYS: u64 = 1_000_000;
    let before = resident();
    let limit = limit(&[(5, 600)], KEYS);
    let made = resident();
    assert!(
        made - before > limit.bytes() / 10 * 9,
        "{} of {} bytes are there",
        made - before,
        limit.bytes()
    );
    for number in 0..2 * KEYS {
        admits(&limit, number, START);
    }
    assert!(
        resident() - made < limit.bytes() / 100,
        "{} bytes more",
        resident() - made
    );
}
