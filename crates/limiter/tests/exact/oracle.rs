//! What an exact limit is, written down in the most obvious way: a list of moments, one a unit, in the order of the
//! charges, of which the latest are kept: as many as the largest count, or one more, since logs are even.

use std::collections::HashMap;
use std::time::Duration;

use sluicegate_limiter::{NEVER, Rate, RateStatus, Rates, Timestamp};

const MILLI: u64 = 1_000_000;

/// The most by which an entry is ahead of now without a clock that stepped back.
pub(crate) const JUST_NOW: Duration = Duration::from_millis(10);

/// The latest units that each key was admitted for, in milliseconds, rounded up.
pub(crate) struct Oracle {
    size: usize,
    keys: HashMap<u64, Vec<u64>>,
}

impl Oracle {
    pub(crate) fn new(size: u32) -> Self {
        Self {
            size: size as usize,
            keys: HashMap::new(),
        }
    }

    fn log(&self, key: u64) -> &[u64] {
        self.keys.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Units that were ever admitted and not given back.
    pub(crate) fn counted(&self, key: u64) -> u64 {
        self.log(key).len() as u64
    }

    /// When the latest unit was entered.
    pub(crate) fn latest(&self, key: u64) -> Timestamp {
        let latest = self.log(key).iter().copied().max().unwrap_or(0);
        Timestamp::from_nanos(latest.saturating_mul(MILLI))
    }

    /// Units that count in the rate's period: those of `(now − P, now]`, and those ahead of now.
    fn used(&self, key: u64, rate: &Rate, now: Timestamp) -> u64 {
        let period = u64::from(rate.period().as_secs()) * 1_000;
        let counts = |moment: &&u64| **moment + period > now.as_nanos() / MILLI;
        self.log(key).iter().filter(counts).count() as u64
    }

    pub(crate) fn has_room(&self, key: u64, rate: &Rate, cost: u32, now: Timestamp) -> bool {
        self.used(key, rate, now) + u64::from(cost) <= u64::from(rate.count())
    }

    pub(crate) fn admits(&self, key: u64, rates: &Rates, cost: u32, now: Timestamp) -> bool {
        rates.iter().all(|rate| self.has_room(key, rate, cost, now))
    }

    /// Enters a charge; what it was entered as.
    pub(crate) fn charge(&mut self, key: u64, cost: u32, now: Timestamp) -> u64 {
        let log = self.keys.entry(key).or_default();
        let latest = log.iter().copied().max().unwrap_or(0);
        let at = now.as_nanos().div_ceil(MILLI).max(latest);
        log.extend((0..cost).map(|_| at));
        log.drain(..log.len().saturating_sub(self.size));
        at
    }

    /// Removes units that were entered as `at`; how many there were.
    pub(crate) fn remove(&mut self, key: u64, at: u64, units: u32) -> u32 {
        let log = self.keys.entry(key).or_default();
        let mut removed = 0;
        while removed < units {
            let Some(index) = log.iter().position(|moment| *moment == at) else {
                break;
            };
            log.remove(index);
            removed += 1;
        }
        removed
    }

    pub(crate) fn reset(&mut self, key: u64) {
        self.keys.remove(&key);
    }

    /// How a rate stands; `refused` is the cost that it has no room for.
    pub(crate) fn status(
        &self,
        key: u64,
        rate: &Rate,
        refused: Option<u32>,
        now: Timestamp,
    ) -> RateStatus {
        let count = u64::from(rate.count());
        let used = self.used(key, rate, now);
        let remaining = count.saturating_sub(used);
        let period = u64::from(rate.period().as_secs()) * 1_000;
        // Room changes only when an entry expires: try these moments, in order.
        let mut ends: Vec<u64> = self.log(key).iter().map(|moment| moment + period).collect();
        ends.sort_unstable();
        let first = |holds: &dyn Fn(u64) -> bool| {
            let used_at = |end: u64| {
                self.log(key)
                    .iter()
                    .filter(|moment| **moment + period > end)
                    .count() as u64
            };
            let end = ends
                .iter()
                .copied()
                .filter(|end| *end > now.as_nanos() / MILLI)
                .find(|end| holds(used_at(*end)));
            end.map_or(Duration::ZERO, |end| {
                let wait =
                    Duration::from_millis(end).saturating_sub(Duration::from_nanos(now.as_nanos()));
                let whole = Duration::from_millis(period);
                // What was entered just now, or by a thread that was a little faster, is waited for as long as it counts.
                if wait > whole + JUST_NOW {
                    wait.min(NEVER)
                } else {
                    wait.min(whole)
                }
            })
        };
        let next_free = match refused {
            Some(cost) if cost > rate.count() => NEVER,
            Some(cost) => first(&|used| used + u64::from(cost) <= count),
            None => first(&|used| count.saturating_sub(used) > remaining),
        };
        RateStatus {
            rate: *rate,
            remaining: remaining as u32,
            next_free,
            reset: first(&|used| used == 0),
        }
    }
}
