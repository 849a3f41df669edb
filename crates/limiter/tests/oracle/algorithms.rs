//! The other algorithms, obvious and sequential: each knows one key and one rate, in whole milliseconds.

use sluicegate_limiter::{Algorithm, Alignment, KeyHash, Rate, Refill, Timestamp};

/// One key under one rate.
#[derive(Clone, Debug)]
pub(crate) enum Obvious {
    /// A count and when its window began.
    Window {
        begins: Begins,
        start: i64,
        count: u64,
    },
    /// Missing tokens and the index of the period that they were counted in.
    Interval {
        burst: u64,
        index: i64,
        missing: u64,
    },
    /// The moment of every unit, rounded up, in the order of the charges.
    Log(Vec<i64>),
    /// What had filled the bucket at a moment, in units times the period.
    Leak {
        burst: u64,
        most_wait: u64,
        at: i64,
        level: i128,
    },
}

/// When windows begin.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Begins {
    /// At multiples of the period, and so many milliseconds later.
    Every(i64),
    /// With a first request.
    First,
}

/// The milliseconds by which the windows of a key begin later than those of the clock: the hash without its lowest bit goes through the
/// finalizer of SplitMix64, and its upper half is the part of 2^32 of the period.
fn offset(key: KeyHash, rate: &Rate) -> i64 {
    let round = 1_u128 << 64;
    let mut hash = u128::from(key.bits() / 2);
    hash = (hash ^ (hash / (1 << 30))) * 0xBF58_476D_1CE4_E5B9 % round;
    hash = (hash ^ (hash / (1 << 27))) * 0x94D0_49BB_1331_11EB % round;
    hash ^= hash / (1 << 31);
    (hash / (1 << 32) * u128::from(rate.period().as_secs()) * 1_000 / (1 << 32)) as i64
}

impl Obvious {
    /// The state of `key`; `None` for algorithms that have an oracle of their own.
    pub(crate) fn new(algorithm: &Algorithm, rate: &Rate, key: KeyHash) -> Option<Self> {
        let leak = |burst: u32, most_wait: u64| Self::Leak {
            burst: u64::from(burst),
            most_wait,
            at: 0,
            level: 0,
        };
        match algorithm {
            Algorithm::Exact => Some(Self::Log(Vec::new())),
            Algorithm::FixedWindow(alignment) => Some(Self::Window {
                begins: match alignment {
                    Alignment::FirstRequest => Begins::First,
                    Alignment::Key => Begins::Every(offset(key, rate)),
                    _ => Begins::Every(0),
                },
                start: i64::MIN / 2,
                count: 0,
            }),
            Algorithm::TokenBucket {
                burst,
                refill: Refill::Interval,
            } => Some(Self::Interval {
                burst: u64::from(burst.unwrap_or(rate.count())),
                index: 0,
                missing: 0,
            }),
            Algorithm::TokenBucket { burst, .. } | Algorithm::Gcra { burst } => {
                Some(leak(burst.unwrap_or(rate.count()), u64::MAX >> 20))
            }
            Algorithm::LeakyBucket { queue, max_wait } => {
                Some(leak(queue + 1, max_wait.as_millis() as u64))
            }
            _ => None,
        }
    }

    fn millis(now: Timestamp) -> i64 {
        (now.as_nanos() / 1_000_000) as i64
    }

    /// What is used now, as this state sees it.
    fn seen(&self, rate: &Rate, now: Timestamp) -> Self {
        let (now, period) = (Self::millis(now), i64::from(rate.period().as_secs()) * 1000);
        let mut seen = self.clone();
        match &mut seen {
            Self::Window {
                begins,
                start,
                count,
            } => {
                if now >= *start + period {
                    *start = match begins {
                        Begins::First => now,
                        Begins::Every(offset) => (now - *offset) / period * period + *offset,
                    };
                    *count = 0;
                }
            }
            Self::Log(_) => {}
            Self::Interval { index, missing, .. } => {
                for _ in *index..now / period {
                    if *missing == 0 {
                        break;
                    }
                    *missing = missing.saturating_sub(u64::from(rate.count()));
                }
                *index = (*index).max(now / period);
            }
            Self::Leak { at, level, .. } => {
                *level = (*level - i128::from(now - *at) * i128::from(rate.count())).max(0);
                *at = now;
            }
        }
        seen
    }

    /// The largest cost that is admitted.
    pub(crate) fn remaining(&self, rate: &Rate, now: Timestamp) -> u64 {
        let period = i128::from(rate.period().as_secs()) * 1000;
        match self.seen(rate, now) {
            Self::Window { count, .. } => u64::from(rate.count()).saturating_sub(count),
            Self::Interval { burst, missing, .. } => burst.saturating_sub(missing),
            Self::Log(moments) => {
                let counts = |at: &&i64| i128::from(**at) + period > i128::from(Self::millis(now));
                u64::from(rate.count()).saturating_sub(moments.iter().filter(counts).count() as u64)
            }
            Self::Leak {
                burst,
                most_wait,
                level,
                ..
            } => {
                if level > i128::from(most_wait) * i128::from(rate.count()) {
                    0
                } else {
                    ((i128::from(burst) * period - level).max(0) / period) as u64
                }
            }
        }
    }

    pub(crate) fn charge(&mut self, rate: &Rate, cost: u64, now: Timestamp) {
        *self = self.seen(rate, now);
        match self {
            Self::Window { count, .. } => *count += cost,
            Self::Interval { missing, .. } => *missing += cost,
            Self::Log(moments) => {
                let latest = moments.iter().copied().max().unwrap_or(0);
                let at = now.as_nanos().div_ceil(1_000_000) as i64;
                moments.extend((0..cost).map(|_| at.max(latest)));
            }
            Self::Leak { level, .. } => {
                *level += i128::from(cost) * i128::from(rate.period().as_secs()) * 1000;
            }
        }
    }
}
