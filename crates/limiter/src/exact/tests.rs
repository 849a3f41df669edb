//! Holders that die: at any write of any change, the log goes on and counts no less than was charged.

use std::collections::HashMap;
use std::time::Duration;

use super::*;
use crate::rate::{Period, Rate};
use log::death;

const START: Timestamp = Timestamp::from_secs(1_800_000_000);
/// Changes of each table.
const STEPS: u64 = if cfg!(miri) { 20 } else { 100_000 };
/// Milliseconds that everything here counts for.
const PERIOD: u64 = 1_000;

fn rates(count: u32) -> Rates {
    let period = Period::from_secs(1).expect("a period");
    Rates::new([Rate::new(count, period).expect("a rate")]).expect("rates")
}

fn key(number: u64) -> KeyHash {
    crate::Seed::from_bytes([9; 16])
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

/// Goal: `log`, invariant 1. Method: random charges, forced ones, releases and settings of more keys than slots; every
/// other change dies at a random write, is found so, mended and made again; no key ever has more left than what it was
/// charged leaves, and a period later all are free.
#[test]
fn a_holder_that_dies_at_any_write_lets_no_charge_be_forgotten() {
    for count in [1, 2, 3, 6] {
        let rates = rates(count);
        let table = LogTable::with_buckets(1, &rates).with_backoff_limit(2);
        let mut random = Random(u64::from(count));
        let mut charged: HashMap<u64, Vec<u64>> = HashMap::new();
        let mut receipts: Vec<(u64, u64, LogReceipt)> = Vec::new();
        let (mut millis, mut deaths) = (0, 0);
        for step in 0..STEPS {
            millis += [0, 0, 1, random.below(300), random.below(1_500)][random.below(5) as usize];
            let now = after(millis);
            let (number, units) = (random.below(18), 1 + random.below(3) as u32);
            if step % 2 == 0 {
                death::after(random.below(8) as u32);
            }
            let log = charged.entry(number).or_default();
            match random.below(8) {
                0 => {
                    receipts.push((
                        number,
                        millis,
                        table.charge_unchecked(key(number), &rates, cost(units), now),
                    ));
                    log.extend((0..units).map(|_| millis));
                }
                1 => {
                    table.set(key(number), &rates, cost(units), now);
                    // In overflow it is charged so much.
                    log.clear();
                    log.extend((0..units).map(|_| millis));
                    receipts.retain(|(owner, _, _)| *owner != number);
                }
                2 | 3 if !receipts.is_empty() => {
                    let index = random.below(receipts.len() as u64) as usize;
                    let (number, at, receipt) = receipts.swap_remove(index);
                    let units = receipt.units();
                    table.undo(receipt);
                    let log = charged.entry(number).or_default();
                    for _ in 0..units {
                        if let Some(index) = log.iter().position(|moment| *moment == at) {
                            log.remove(index);
                        }
                    }
                }
                _ => {
                    if let LogCharge::Admitted(_, receipt) =
                        table.charge(key(number), &rates, cost(units), now)
                    {
                        log.extend((0..units).map(|_| millis));
                        receipts.push((number, millis, receipt));
                    }
                }
            }
            deaths += u64::from(step % 2 == 0 && !death::averted());
            receipts.retain(|(_, at, _)| at + PERIOD > millis);
            let counted = charged.get(&number).map_or(0, |log| {
                log.iter().filter(|at| **at + PERIOD > millis).count() as u32
            });
            let answer = table.peek(key(number), &rates, Cost::ONE, now);
            let left = answer.statuses()[0].remaining;
            assert!(
                left <= count.saturating_sub(counted),
                "{left} of {count} left of key {number}, which was charged {counted}"
            );
        }
        assert!(deaths > STEPS / 34, "{deaths}");
        let later = after(millis + PERIOD);
        assert!((0..18).all(|number| {
            table.peek(key(number), &rates, Cost::ONE, later).statuses()[0].remaining == count
        }));
    }
}

/// Goal: nobody waits for a dead process after a restart. Method: logs left while it is held at every step of a
/// charge, then healed; a broken hold would show as a mended log, an endless wait as a test without end.
#[test]
fn a_table_that_was_healed_is_in_nobodys_hands() {
    let rates = rates(2);
    for writes in 0..4 {
        let table = LogTable::with_buckets(1, &rates).with_backoff_limit(u32::MAX);
        assert!(matches!(
            table.charge(key(1), &rates, Cost::ONE, START),
            LogCharge::Admitted(..)
        ));
        for number in [1, 2] {
            let tag = Tag::new(key(number));
            let candidate_buckets = table.memory.candidate_buckets(tag);
            let slot = table.find(tag, candidate_buckets).unwrap_or(3);
            let log = table.memory.slot(slot);
            death::after(writes);
            if let Ok(guard) = log.take(log.control(), 0, u32::MAX) {
                let _ = guard
                    .name(tag)
                    .and_then(|()| guard.append(1_800_000_000_000, 1));
            }
            death::averted();
        }
        table.healed();
        let first = table.peek(key(1), &rates, Cost::ONE, START);
        assert!(
            first.statuses()[0].remaining <= 1,
            "what was charged counts"
        );
        for number in [1, 2, 3] {
            while matches!(
                table.charge(key(number), &rates, Cost::ONE, START),
                LogCharge::Admitted(..)
            ) {}
        }
    }
}

/// Goal: no pattern of bits panics or loops, as a torn file may hold any. Method: random words everywhere, then healed
/// and used.
#[test]
fn damaged_memory_is_judged_without_a_panic() {
    let mut random = Random(77);
    for count in [1, 2, 5, if cfg!(miri) { 20 } else { 1024 }] {
        let rates = rates(count);
        for _ in 0..if cfg!(miri) { 1 } else { 20 } {
            let table = LogTable::with_buckets(2, &rates);
            let mut bits = std::iter::repeat_with(|| random.below(u64::MAX) << (random.0 % 12));
            table.scrawl(&mut bits, &[key(1), key(2)]);
            table.healed();
            for number in 0..if cfg!(miri) { 4 } else { 40 } {
                let now = Timestamp::from_nanos(random.below(u64::MAX));
                if let LogCharge::Admitted(_, receipt) =
                    table.charge(key(number), &rates, Cost::ONE, now)
                {
                    table.undo(receipt);
                }
                table.charge_unchecked(key(number), &rates, cost(3), now);
                table.reset(key(number));
            }
            assert!(table.active_keys(&rates, START).count() <= 30);
            assert!(table.occupancy(&rates, START).live <= 30);
        }
    }
}
