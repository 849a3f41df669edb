//! Names the integers by which a store judges the rates of a policy.
//!
//! Plain values: `algorithm` computes them and `remote` puts them together.

use std::ops::Deref;
use std::time::Duration;

use arrayvec::ArrayVec;

use crate::rate::{MAX_RATES, Rate};

/// The terms of each rate, in the order of the policy's rates; a slice that owns what it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyTerms(pub(crate) ArrayVec<RateTerms, MAX_RATES>);

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
    /// A log of admissions, of which [`Policy::log_entries`](crate::Policy::log_entries) are kept.
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
    /// At multiples of the period since the Unix epoch, and so much later.
    Key {
        /// In milliseconds; less than the period.
        millis: u64,
    },
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
    pub(crate) fn new(ticks: i64, count: u32) -> Option<Self> {
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
