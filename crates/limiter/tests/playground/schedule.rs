//! Makes random schedules: a limit, and what is asked of one key of it when.

use std::time::Duration;

use sluicegate_limiter::{
    Algorithm, Alignment, Cost, MAX_COUNT, Period, Policy, Rate, Rates, Refill, Timestamp,
};

/// Kinds of algorithm: each with its alignment or refill.
pub(crate) const KINDS: usize = 9;
/// Asks of a schedule.
const ASKS: usize = 100;
const NANOS_PER_MILLI: u64 = 1_000_000;
const START: u64 = 1_800_000_000_000_000_000;

/// A limit, new, and what happens to one key of it.
pub(crate) struct Schedule {
    pub(crate) policy: Policy,
    pub(crate) asks: Vec<Asked>,
}

/// One ask, and a moment at which the state is probed for a cost.
pub(crate) struct Asked {
    pub(crate) now: Timestamp,
    pub(crate) cost: Cost,
    pub(crate) probe: Timestamp,
    pub(crate) probe_cost: Cost,
}

/// Random numbers that are the same for the same seed: SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both included.
    fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.next().is_multiple_of(times)
    }
}

impl Schedule {
    /// A schedule for an algorithm of this kind.
    pub(crate) fn random(kind: usize, random: &mut Random) -> Self {
        let policy = loop {
            let rates = rates(random, kind == 1);
            let algorithm = algorithm(kind, &rates, random);
            // A burst may take too long to come back: another one then.
            if let Ok(policy) = Policy::new(algorithm, rates) {
                break policy;
            }
        };
        let mut now = START + random.within(0, 100_000_000_000_000);
        let asks = (0..ASKS)
            .map(|_| {
                now = next_moment(now, &policy, random);
                Asked {
                    now: Timestamp::from_nanos(now),
                    cost: cost(&policy, random),
                    probe: Timestamp::from_nanos(next_moment(now, &policy, random)),
                    probe_cost: cost(&policy, random),
                }
            })
            .collect();
        Self { policy, asks }
    }
}

fn rates(random: &mut Random, of_a_log: bool) -> Rates {
    loop {
        let rates: Vec<Rate> = (0..random.within(1, 3))
            .map(|_| {
                let secs = match random.within(0, 9) {
                    0..=5 => random.within(1, 12),
                    6 | 7 => random.within(50, 70),
                    8 => 3_600,
                    _ => 31 * 86_400,
                };
                let count = match random.within(0, 19) {
                    0 if of_a_log => 1_024,
                    0 => u64::from(MAX_COUNT),
                    1..=3 => random.within(20, 200),
                    _ => random.within(1, 12),
                };
                let period = Period::from_secs(secs as u32).expect("a period");
                Rate::new(count as u32, period).expect("a rate")
            })
            .collect();
        // Two of the same period: others then.
        if let Ok(rates) = Rates::new(rates) {
            return rates;
        }
    }
}

fn algorithm(kind: usize, rates: &Rates, random: &mut Random) -> Algorithm {
    let most = rates.iter().map(|rate| rate.count()).max().unwrap_or(1);
    let units = |random: &mut Random| random.within(1, 2 * u64::from(most).min(50)) as u32;
    let burst = match random.one_in(3) {
        true => None,
        false => Some(units(random)),
    };
    match kind {
        0 => Algorithm::SlidingWindow,
        1 => Algorithm::Exact,
        2 => Algorithm::FixedWindow(Alignment::Epoch),
        3 => Algorithm::FixedWindow(Alignment::FirstRequest),
        4 => Algorithm::TokenBucket {
            burst,
            refill: Refill::Greedy,
        },
        5 => Algorithm::TokenBucket {
            burst,
            refill: Refill::Interval,
        },
        6 => Algorithm::Gcra { burst },
        7 => Algorithm::FixedWindow(Alignment::Key),
        _ => Algorithm::LeakyBucket {
            queue: units(random) - 1,
            max_wait: Duration::from_micros(random.within(0, 20_000_000)),
        },
    }
}

fn cost(policy: &Policy, random: &mut Random) -> Cost {
    let count = policy.rates().as_slice()[0].count();
    let units = match random.within(0, 19) {
        0 => u64::from(u32::MAX),
        1 => u64::from(count) + random.within(0, 1),
        2..=6 => random.within(1, 5),
        7 => random.within(1, u64::from(count)),
        _ => 1,
    };
    Cost::new(units as u32).expect("a cost")
}

/// The next moment: soon, at the edge of a window, after one, after months, or before.
fn next_moment(now: u64, policy: &Policy, random: &mut Random) -> u64 {
    let rates = policy.rates().as_slice();
    let rate = rates[random.next() as usize % rates.len()];
    let period = u64::from(rate.period().as_secs()) * 1_000 * NANOS_PER_MILLI;
    let edge = now - now % period + period;
    match random.within(0, 39) {
        0..=9 => now + random.within(0, 3 * NANOS_PER_MILLI),
        10..=19 => now + random.within(0, 2 * period / u64::from(rate.count())),
        20..=25 => now + random.within(0, 2_000) * NANOS_PER_MILLI,
        26..=28 => edge - random.within(0, 2 * NANOS_PER_MILLI),
        29..=31 => edge + random.within(0, NANOS_PER_MILLI) % 3,
        32 | 33 => now + random.within(0, 2 * period),
        34 => now + random.within(0, 400 * 86_400_000) * NANOS_PER_MILLI,
        35..=37 => now - random.within(0, 5_000_000_000),
        38 => now - random.within(0, period),
        _ => now - random.within(0, 2 * 86_400_000) * NANOS_PER_MILLI,
    }
}
