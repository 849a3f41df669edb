//! Says what a limit demands: an algorithm and the rates that it judges. Combinations that cannot be are errors here, with
//! what to write instead.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::rate::MAX_ENTRIES;
use crate::rate::{MAX_COUNT, MAX_RATES, Rate, Rates};
use crate::time::Timestamp;

use super::calendar::{CalendarUnit, CalendarZone};
use super::{CompiledRate, drain, fixed_window, gcra, leaky_bucket, sliding_window};

/// The algorithm that judges the rates of a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Two counts a rate; see `algorithm::sliding_window` for what it guarantees.
    #[default]
    SlidingWindow,
    /// A log of the latest admissions, counts up to 1024: never more than the count in any window at all; see `exact`.
    Exact,
    /// A count that starts again with each window.
    FixedWindow(Alignment),
    /// Requests take tokens, and tokens come back.
    TokenBucket {
        /// Tokens of a full bucket; `None` is the rate's count.
        burst: Option<u32>,
        /// The schedule of refills.
        refill: Refill,
    },
    /// Requests one emission interval apart, with a tolerance.
    Gcra {
        /// Requests that may come at once; `None` is the rate's count.
        burst: Option<u32>,
    },
    /// Admitted requests are released one by one; the decision carries the delay.
    LeakyBucket {
        /// Requests that may wait.
        queue: u32,
        /// Longest wait of a request in the queue; whole milliseconds count.
        max_wait: Duration,
    },
}

/// The alignment of the windows of [`Algorithm::FixedWindow`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// At multiples of the period since the Unix epoch.
    Epoch,
    /// Begin with a key's first request after its last window ended.
    FirstRequest,
    /// At multiples of the period since the Unix epoch, and later by a part of the period that follows from the hash of the key: each
    /// key has its own, and they are spread evenly.
    Key,
    /// Begin with the days, weeks or months of a place.
    Calendar {
        /// The place.
        zone: Arc<CalendarZone>,
        /// The span of a window.
        unit: CalendarUnit,
    },
}

/// The refill schedule of [`Algorithm::TokenBucket`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refill {
    /// All the time, one every period / count.
    Greedy,
    /// The rate's count at once, at multiples of the period since the Unix epoch.
    Interval,
}

/// An algorithm and the rates that it judges; only combinations that can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    algorithm: Algorithm,
    rates: Rates,
}

impl Policy {
    /// Combines rates with an algorithm.
    ///
    /// # Errors
    /// Combinations that cannot be: a burst of zero or above [`MAX_COUNT`], or one that takes more than 62 days to come
    /// back; a calendar unit whose length is not the rate's period; a count above 1024 where all admissions are kept.
    pub fn new(algorithm: Algorithm, rates: Rates) -> Result<Self, PolicyError> {
        for rate in &rates {
            match &algorithm {
                Algorithm::SlidingWindow
                | Algorithm::FixedWindow(
                    Alignment::Epoch | Alignment::FirstRequest | Alignment::Key,
                ) => {}
                Algorithm::Exact => {
                    if rate.count() as usize > MAX_ENTRIES {
                        return Err(PolicyError::Count { rate: *rate });
                    }
                }
                Algorithm::FixedWindow(Alignment::Calendar { unit, .. }) => {
                    if rate.period().as_secs() != unit.secs() {
                        return Err(PolicyError::CalendarUnit {
                            unit: *unit,
                            rate: *rate,
                        });
                    }
                }
                Algorithm::TokenBucket { burst, .. } | Algorithm::Gcra { burst } => {
                    check_burst(rate, burst.unwrap_or(rate.count()))?;
                }
                Algorithm::LeakyBucket { queue, .. } => {
                    check_burst(rate, queue.saturating_add(1))?;
                }
            }
        }
        Ok(Self { algorithm, rates })
    }

    /// The algorithm that judges the rates.
    #[must_use]
    pub fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }

    /// The rates, by rising period.
    #[must_use]
    pub fn rates(&self) -> &Rates {
        &self.rates
    }

    /// Computes the part of this policy that each of `nodes` may admit, so that together they admit no less than the
    /// policy does: counts, bursts and queues divided by their number and rounded up, so at most a unit a node more.
    #[must_use]
    pub fn share(&self, nodes: NonZeroU32) -> Self {
        self.with_units(|units| units.div_ceil(nodes.get()))
    }

    /// Computes this policy with counts, bursts and queues of so many hundredths of what they are, rounded up, so that none becomes zero.
    ///
    /// # Errors
    /// [`PolicyError::Count`] where all admissions are kept and a count would exceed 1024.
    pub fn scaled(&self, hundredths: NonZeroU32) -> Result<Self, PolicyError> {
        let scaled = self.with_units(|units| {
            let units = u64::from(units) * u64::from(hundredths.get());
            u32::try_from(units.div_ceil(100)).map_or(MAX_COUNT, |units| units.min(MAX_COUNT))
        });
        Self::new(scaled.algorithm, scaled.rates)
    }

    fn with_units(&self, part: impl Fn(u32) -> u32) -> Self {
        let rates = self.rates.with_counts(&part);
        // Rounded up apart from the count a burst may take longer to come back than any may.
        let fastest = rates.iter().map(most_burst).min().unwrap_or(MAX_COUNT);
        let burst_of = |burst: Option<u32>| burst.map(|burst| part(burst).min(fastest));
        let algorithm = match &self.algorithm {
            Algorithm::TokenBucket { burst, refill } => Algorithm::TokenBucket {
                burst: burst_of(*burst),
                refill: *refill,
            },
            Algorithm::Gcra { burst } => Algorithm::Gcra {
                burst: burst_of(*burst),
            },
            Algorithm::LeakyBucket { queue, max_wait } => Algorithm::LeakyBucket {
                queue: part(*queue).min(fastest.saturating_sub(1)),
                max_wait: *max_wait,
            },
            other => other.clone(),
        };
        Self { algorithm, rates }
    }

    /// The meters of the rates; behind the last, the last again.
    pub(crate) fn compiled_rates(&self) -> [CompiledRate; MAX_RATES] {
        let rates = self.rates.as_slice();
        std::array::from_fn(|rate| self.compiled(rates[rate.min(rates.len() - 1)]))
    }

    fn compiled(&self, rate: Rate) -> CompiledRate {
        let burst_of = |burst: &Option<u32>| burst.unwrap_or(rate.count());
        match &self.algorithm {
            // Logs are judged by themselves (`exact`), and never by a meter.
            Algorithm::SlidingWindow | Algorithm::Exact => {
                CompiledRate::Sliding(sliding_window::SlidingRate::new(rate))
            }
            Algorithm::FixedWindow(Alignment::Epoch) => {
                CompiledRate::Window(rate, fixed_window::WindowGrid::Epoch)
            }
            Algorithm::FixedWindow(Alignment::FirstRequest) => {
                CompiledRate::Window(rate, fixed_window::WindowGrid::First)
            }
            Algorithm::FixedWindow(Alignment::Key) => {
                CompiledRate::Window(rate, fixed_window::WindowGrid::Key(None))
            }
            // Of what moment does not matter: the judgement puts its own in its place.
            Algorithm::FixedWindow(Alignment::Calendar { zone, unit }) => {
                CompiledRate::Window(rate, zone.window(*unit, Timestamp::default()))
            }
            Algorithm::TokenBucket {
                burst,
                refill: Refill::Interval,
            } => CompiledRate::Interval(rate, burst_of(burst)),
            Algorithm::TokenBucket {
                burst,
                refill: Refill::Greedy,
            } => CompiledRate::Drain(rate, drain::DrainBounds::of_burst(burst_of(burst))),
            Algorithm::Gcra { burst } => CompiledRate::Drain(rate, gcra::shape(burst_of(burst))),
            Algorithm::LeakyBucket { queue, max_wait } => {
                let most_wait = u32::try_from(max_wait.as_millis()).unwrap_or(u32::MAX);
                CompiledRate::Drain(rate, leaky_bucket::shape(*queue, most_wait))
            }
        }
    }

    /// The place and unit, if windows follow a calendar.
    pub(crate) fn calendar(&self) -> Option<(&CalendarZone, CalendarUnit)> {
        match &self.algorithm {
            Algorithm::FixedWindow(Alignment::Calendar { zone, unit }) => Some((zone, *unit)),
            _ => None,
        }
    }

    /// Returns whether states of a limit with this policy mean the same under `other`: counts and bursts may differ.
    pub(crate) fn keeps_states_of(&self, other: &Self) -> bool {
        if let (Algorithm::Exact, _) | (_, Algorithm::Exact) = (&self.algorithm, &other.algorithm) {
            // Moments mean the same whatever the rates, but two handles of a table must agree on how long a key owes.
            return self.algorithm == other.algorithm
                && self.rates.longest().period() == other.rates.longest().period();
        }
        self.calendar() == other.calendar()
            && self.rates.len() == other.rates.len()
            && self
                .compiled_rates()
                .iter()
                .zip(other.compiled_rates())
                .all(|(one, two)| {
                    let now = Timestamp::default();
                    one.at(now).keeps_words_of(&two.at(now))
                })
    }
}

impl From<Rates> for Policy {
    /// Uses the sliding window.
    fn from(rates: Rates) -> Self {
        Self {
            algorithm: Algorithm::SlidingWindow,
            rates,
        }
    }
}

/// A burst is at least 1, fits its bits, and comes back in time.
fn check_burst(rate: &Rate, burst: u32) -> Result<(), PolicyError> {
    if burst == 0 || burst > MAX_COUNT {
        return Err(PolicyError::Burst { got: burst });
    }
    let most = most_burst(rate);
    if burst > most {
        return Err(PolicyError::Slow {
            rate: *rate,
            got: burst,
            most,
        });
    }
    Ok(())
}

/// The largest burst that comes back within 62 days.
fn most_burst(rate: &Rate) -> u32 {
    let most =
        drain::MAX_FILL * u64::from(rate.count()) / (u64::from(rate.period().as_secs()) * 1_000);
    u32::try_from(most).unwrap_or(u32::MAX)
}

/// The error of [`Policy::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// `exact` keeps at most 1024 admissions of a key.
    Count {
        /// The rate that needs more.
        rate: Rate,
    },
    /// The burst, or the queue and one, is outside 1 to [`MAX_COUNT`].
    Burst {
        /// The rejected burst.
        got: u32,
    },
    /// A full burst takes more than 62 days to come back.
    Slow {
        /// The rate at which it does.
        rate: Rate,
        /// The rejected count.
        got: u32,
        /// The largest burst of this rate.
        most: u32,
    },
    /// Windows of a calendar, and a rate with another period.
    CalendarUnit {
        /// The span of the windows.
        unit: CalendarUnit,
        /// The rate.
        rate: Rate,
    },
}

impl fmt::Display for PolicyError {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { rate } => write!(
                into,
                "`exact` keeps {MAX_ENTRIES} admissions of a key, too few for {rate}; \
                 write at most {MAX_ENTRIES} per {}, or `sliding-window`",
                rate.period()
            ),
            Self::Burst { got } => {
                write!(
                    into,
                    "a burst, or a queue and one, is 1 to {MAX_COUNT}, not {got}"
                )
            }
            Self::Slow { rate, got, most } => write!(
                into,
                "at {rate} a burst of {got} takes more than 62 days to come back; write at most {most}"
            ),
            Self::CalendarUnit { unit, rate } => {
                let (name, span) = match unit {
                    CalendarUnit::Day => ("days", "1d"),
                    CalendarUnit::Week => ("weeks", "7d"),
                    CalendarUnit::Month => ("months", "31d"),
                };
                let count = rate.count();
                write!(
                    into,
                    "{rate} cannot follow {name}; write \"{count} per {span}\", and other periods in a limit of their own"
                )
            }
        }
    }
}

impl std::error::Error for PolicyError {}
