//! Says what a store needs to know to judge a policy's rates: the integers of each algorithm, worked out here.
//!
//! Whatever takes a division or more than 53 bits is done here, once and exactly, so that a script whose numbers are doubles
//! adds and compares small integers only.

use std::ops::Deref;
use std::time::Duration;

use arrayvec::ArrayVec;

use crate::algorithm::{Meter, Policy};
use crate::cost::Cost;
use crate::exact::LogTable;
use crate::rate::{MAX_RATES, Rate};
use crate::time::Timestamp;

/// The terms of each rate, in the order of the policy's rates; a slice that owns what it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyTerms(ArrayVec<RateTerms, MAX_RATES>);

/// The terms of one rate, by its algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateTerms {
    /// Two counts of a sliding window.
    Sliding {
        /// The rate.
        rate: Rate,
    },
    /// A count that starts again with each window.
    Window {
        /// The rate.
        rate: Rate,
        /// The alignment of the windows.
        begins: WindowStart,
    },
    /// Tokens that come back at multiples of the period.
    Interval {
        /// The rate.
        rate: Rate,
        /// Tokens of a full bucket.
        burst: u32,
    },
    /// A debt that drains.
    Drain {
        /// The rate.
        rate: Rate,
        /// The debt that the cost adds.
        cost: DrainTime,
        /// Most that may be owed before the asked cost is added; `None` if it never fits.
        room: Option<DrainTime>,
        /// The ceiling of the debt for unchecked charges.
        ceiling: DrainTime,
        /// A moment further ahead of now than this is from a clock that stepped back, and counts for nothing.
        horizon: Duration,
    },
    /// A log of admissions, of which [`Policy::log_entries`] are kept.
    Log {
        /// The rate.
        rate: Rate,
    },
}

/// The alignment of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowStart {
    /// At multiples of the period since the Unix epoch.
    Epoch,
    /// At a key's first request after its last window ended.
    First,
    /// At these windows of a calendar: the one before, the one that the moment lies in, the one after.
    Calendar([CalendarWindow; 3]),
}

/// A window of a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalendarWindow {
    /// Its first second since the epoch; before it for the window that the epoch lies in.
    pub begin: i64,
    /// Its seconds.
    pub length: u32,
}

/// A debt, as the time in which it drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DrainTime {
    /// Whole milliseconds.
    pub millis: u64,
    /// And so many ticks of 1/count ms, fewer than the count.
    pub ticks: u32,
}

impl Deref for PolicyTerms {
    type Target = [RateTerms];

    fn deref(&self) -> &[RateTerms] {
        &self.0
    }
}

impl DrainTime {
    /// Converts ticks, of which `count` make a millisecond.
    pub(crate) fn of(ticks: i64, count: u32) -> Option<Self> {
        let ticks = u64::try_from(ticks).ok()?;
        let count = u64::from(count.max(1));
        Some(Self {
            millis: ticks / count,
            // Below the count.
            ticks: (ticks % count) as u32,
        })
    }
}

impl RateTerms {
    /// The rate.
    #[must_use]
    pub fn rate(&self) -> Rate {
        match self {
            Self::Sliding { rate }
            | Self::Window { rate, .. }
            | Self::Interval { rate, .. }
            | Self::Drain { rate, .. }
            | Self::Log { rate } => *rate,
        }
    }
}

impl Policy {
    /// The terms by which `cost` is judged near a moment: of a calendar they hold for the windows beside that moment's too.
    #[must_use]
    pub fn terms(&self, cost: Cost, near: Timestamp) -> PolicyTerms {
        let rates = self.rates().as_slice();
        let is_log = self.log_entries().is_some();
        let terms = self.meters().into_iter().zip(rates).map(|(meter, rate)| {
            if is_log {
                return RateTerms::Log { rate: *rate };
            }
            match meter {
                Meter::Sliding(_) => RateTerms::Sliding { rate: *rate },
                Meter::Window(rate, shape) => RateTerms::Window {
                    rate,
                    begins: self
                        .spans(near)
                        .map_or_else(|| shape.begins(), WindowStart::Calendar),
                },
                Meter::Interval(rate, burst) => RateTerms::Interval { rate, burst },
                Meter::Drain(rate, shape) => shape.terms(rate, cost),
            }
        });
        PolicyTerms(terms.collect())
    }

    /// Entries that a log keeps; `None` for any other algorithm than `exact`.
    #[must_use]
    pub fn log_entries(&self) -> Option<u32> {
        let is_exact = *self.algorithm() == crate::algorithm::Algorithm::Exact;
        is_exact.then(|| LogTable::entries_for(self.rates()))
    }

    /// The windows around a moment, if they follow a calendar.
    fn spans(&self, near: Timestamp) -> Option<[CalendarWindow; 3]> {
        let (zone, unit) = self.calendar()?;
        let span_of = |second: i64| {
            let moment = Timestamp::from_secs(u64::try_from(second).unwrap_or(0));
            zone.window(unit, moment).span()
        };
        // Below 2^35.
        let here = span_of(near.as_secs() as i64)?;
        let before = span_of(here.begin - 1)?;
        let after = span_of(here.begin + i64::from(here.length))?;
        Some([before, here, after])
    }
}
