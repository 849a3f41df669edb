//! Memory is taken when keys use it, and no more than a limit says.
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

/// Goal: a table takes what its keys need and never more than it said, and many tables of a few keys take little. Method: resident memory
/// around a flood of twice as many keys as fit, and, with mapped memory, around a thousand tables of the default size with ten keys each.
#[test]
fn memory_is_taken_when_used_and_bounded() {
    const KEYS: u64 = 1_000_000;
    const SLACK: usize = 4 << 20;
    let before = resident();
    let flooded = limit(&[(5, 600)], KEYS);
    if cfg!(feature = "mmap") {
        assert!(resident() - before < SLACK, "nothing is there before a key");
    }
    for number in 0..2 * KEYS {
        admits(&flooded, number, START);
    }
    let taken = resident() - before;
    assert!(
        taken < flooded.bytes() + SLACK,
        "{taken} of {}",
        flooded.bytes()
    );
    drop(flooded);

    if cfg!(feature = "mmap") {
        let before = resident();
        let limits: Vec<_> = (0..1_000).map(|_| limit(&[(5, 600)], 262_144)).collect();
        for limit in &limits {
            for number in 0..10 {
                admits(limit, number, START);
            }
        }
        let taken = resident() - before;
        // The budget of huge pages, and ten small pages for each of the others.
        assert!(taken < 400 << 20, "{taken}");
    }
}
