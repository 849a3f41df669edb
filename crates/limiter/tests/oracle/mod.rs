//! The obvious limiter: every charge in a list, every count by going through it, every wait by trying. Shares no code
//! with the crate's own.
//!
//! It knows the contract, not the packing: windows by index, a clock that stepped back by up to a day judged in the
//! window of the latest charge, one that stepped back further forgotten.
#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod algorithms;

use std::collections::HashMap;
use std::time::Duration;

use sluicegate_limiter::{NEVER, Rate, Timestamp};

const DAY: u64 = 24 * 60 * 60;
const MILLI: u64 = 1_000_000;

/// A charge, by the second that it was made in, or that an earlier charge was already ahead to.
#[derive(Clone, Copy, Debug)]
struct Charge {
    second: u64,
    cost: u64,
}

/// One key's charges, in order.
#[derive(Clone, Debug, Default)]
struct History(Vec<Charge>);

/// One limit, sequential and slow.
#[derive(Clone, Debug)]
pub(crate) struct SlidingWindow {
    pub(crate) rates: Vec<Rate>,
    keys: HashMap<u64, History>,
}

/// How one rate stands, as the oracle sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) refuses: bool,
    pub(crate) remaining: u32,
    pub(crate) next_free: Duration,
    pub(crate) reset: Duration,
}

impl History {
    fn latest(&self) -> Option<u64> {
        self.0.iter().map(|charge| charge.second).max()
    }

    /// The history as a moment sees it: nothing, if the clock stepped back by more than a day.
    fn at(&self, now: Timestamp) -> Self {
        match self.latest() {
            Some(latest) if latest > now.as_secs() + DAY => Self::default(),
            _ => self.clone(),
        }
    }

    /// Units used at `now`, times the period in milliseconds.
    fn used(&self, period: u64, now: Timestamp) -> u128 {
        let index = now.as_secs() / period;
        let judged = self
            .latest()
            .map_or(index, |latest| index.max(latest / period));
        let elapsed = if judged == index {
            (now.as_nanos() - index * period * 1_000 * MILLI) / MILLI
        } else {
            0
        };
        let counted = |window: Option<u64>| -> u128 {
            let inside = |charge: &&Charge| Some(charge.second / period) == window;
            self.0
                .iter()
                .filter(inside)
                .map(|charge| u128::from(charge.cost))
                .sum()
        };
        let millis = u128::from(period * 1_000);
        counted(judged.checked_sub(1)) * (millis - u128::from(elapsed))
            + counted(Some(judged)) * millis
    }

    /// Whole units used at `now`.
    fn units(&self, period: u64, now: Timestamp) -> u128 {
        self.used(period, now) / u128::from(period * 1_000)
    }

    fn fits(&self, rate: &Rate, cost: u64, now: Timestamp) -> bool {
        let period = u64::from(rate.period().as_secs());
        self.units(period, now) + u128::from(cost) <= u128::from(rate.count())
    }
}

/// The shortest time from `now` on after which `holds`, which once true stays true, and is so within 40 days times two.
fn first(now: Timestamp, holds: impl Fn(Timestamp) -> bool) -> Duration {
    let (mut no, mut yes) = (0, 100 * DAY * 1_000 * MILLI);
    if holds(now) {
        return Duration::ZERO;
    }
    while yes - no > 1 {
        let middle = no + (yes - no) / 2;
        if holds(now.saturating_add(Duration::from_nanos(middle))) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    Duration::from_nanos(yes)
}

impl SlidingWindow {
    pub(crate) fn new(rates: impl IntoIterator<Item = Rate>) -> Self {
        Self {
            rates: rates.into_iter().collect(),
            keys: HashMap::new(),
        }
    }

    fn history(&self, key: u64, now: Timestamp) -> History {
        self.keys
            .get(&key)
            .map_or_else(History::default, |history| history.at(now))
    }

    /// Whether all of a key's history counts at `now`; what a clock that stepped back forgot, it remembers when it goes
    /// on.
    pub(crate) fn remembers(&self, key: u64, now: Timestamp) -> bool {
        let latest = self.keys.get(&key).and_then(History::latest);
        latest.is_none_or(|latest| latest <= now.as_secs() + DAY)
    }

    pub(crate) fn admits(&self, key: u64, cost: u32, now: Timestamp) -> bool {
        let history = self.history(key, now);
        self.rates
            .iter()
            .all(|rate| history.fits(rate, u64::from(cost), now))
    }

    pub(crate) fn charge(&mut self, key: u64, cost: u32, now: Timestamp) {
        let mut history = self.history(key, now);
        let second = history
            .latest()
            .map_or(now.as_secs(), |latest| latest.max(now.as_secs()));
        history.0.push(Charge {
            second,
            cost: u64::from(cost),
        });
        self.keys.insert(key, history);
    }

    /// How every rate stands; `asked` is the cost that was not taken, if any.
    pub(crate) fn statuses(&self, key: u64, asked: Option<u32>, now: Timestamp) -> Vec<Expected> {
        let history = self.history(key, now);
        let status = |rate: &Rate| {
            let fits = |cost: u32, now| history.fits(rate, u64::from(cost), now);
            // Room is monotonic in cost: the largest cost that fits, by halving.
            let (mut remaining, mut too_much) = (0, rate.count() + 1);
            while too_much - remaining > 1 {
                let middle = remaining + (too_much - remaining) / 2;
                if fits(middle, now) {
                    remaining = middle
                } else {
                    too_much = middle
                }
            }
            let refused = asked.filter(|cost| !fits(*cost, now));
            let next_free = match refused {
                Some(cost) if cost > rate.count() => NEVER,
                Some(cost) => first(now, |then| fits(cost, then)),
                None if remaining == rate.count() => Duration::ZERO,
                None => first(now, |then| fits(remaining + 1, then)),
            };
            let period = u64::from(rate.period().as_secs());
            let reset = first(now, |then| history.units(period, then) == 0);
            Expected {
                refuses: refused.is_some(),
                remaining,
                next_free,
                reset,
            }
        };
        self.rates.iter().map(status).collect()
    }
}

/// An exact log of admissions: the truth that an approximation is measured by.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlidingLog(Vec<(Timestamp, u32)>);

impl SlidingLog {
    pub(crate) fn push(&mut self, now: Timestamp, cost: u32) {
        self.0.push((now, cost));
    }

    /// The units within each span of this length that ends with an admission, its beginning excluded, and where it ends.
    pub(crate) fn spans(&self, span: Duration) -> impl Iterator<Item = (Timestamp, u64)> {
        self.0.iter().enumerate().map(move |(last, (end, _))| {
            let units = self.0[..=last]
                .iter()
                .rev()
                .take_while(|(at, _)| at.saturating_add(span) > *end)
                .map(|(_, cost)| u64::from(*cost))
                .sum();
            (*end, units)
        })
    }

    /// Most units within any span of this length that is aligned to the epoch.
    pub(crate) fn most_aligned(&self, period: u32) -> u64 {
        let mut windows: HashMap<u64, u64> = HashMap::new();
        for (at, cost) in &self.0 {
            *windows.entry(at.as_secs() / u64::from(period)).or_default() += u64::from(*cost);
        }
        windows.into_values().max().unwrap_or(0)
    }
}
