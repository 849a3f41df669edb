//! Says how much may pass: a rate is a count and a period, a limit has one to four of them.
//!
//! # Limits
//! A count has 20 bits and a period at most 31 days, since a rate's state is packed into one word
//! (see `sliding_window`). Four rates fill two cache lines with two keys; more would need a third.

use std::fmt;

use arrayvec::ArrayVec;

/// Largest count of a rate: what fits in 20 bits.
pub const MAX_COUNT: u32 = (1 << 20) - 1;
/// Longest period of a rate in seconds: 31 days, a calendar month.
pub const MAX_PERIOD: u32 = 31 * 24 * 60 * 60;
/// Most entries of a log, and so the largest count of a rate of an exact limit.
pub const MAX_ENTRIES: usize = 1024;
/// Most rates of one limit.
pub const MAX_RATES: usize = 4;

/// The span that a rate looks at, in whole seconds, 1 second to 31 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period(u32);

impl Period {
    /// A period of `secs` seconds.
    ///
    /// # Errors
    /// [`RateError::Period`] outside 1 to [`MAX_PERIOD`].
    pub const fn from_secs(secs: u32) -> Result<Self, RateError> {
        if secs == 0 || secs > MAX_PERIOD {
            return Err(RateError::Period { got: secs });
        }
        Ok(Self(secs))
    }

    /// Whole seconds.
    #[must_use]
    pub const fn as_secs(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Period {
    /// Writes the longest unit of which it is a whole number, as a configuration has it: "10m", "90s", "36h".
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(24 * 60 * 60, 'd'), (60 * 60, 'h'), (60, 'm')];
        let mut units = units.into_iter();
        let longest = units.find(|(secs, _)| self.0.is_multiple_of(*secs));
        let (secs, unit) = longest.unwrap_or((1, 's'));
        write!(into, "{}{unit}", self.0 / secs)
    }
}

/// "5 per 10m": at most `count` units of cost in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    count: u32,
    period: Period,
}

impl Rate {
    /// `count` per `period`.
    ///
    /// # Errors
    /// [`RateError::Count`] outside 1 to [`MAX_COUNT`]: there is no count that means "unlimited" or "never".
    pub const fn new(count: u32, period: Period) -> Result<Self, RateError> {
        if count == 0 || count > MAX_COUNT {
            return Err(RateError::Count { got: count });
        }
        Ok(Self { count, period })
    }

    /// Units of cost in a period, 1 to [`MAX_COUNT`].
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The period.
    #[must_use]
    pub const fn period(&self) -> Period {
        self.period
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(into, "{} per {}", self.count, self.period)
    }
}

/// The rates of one limit: one to [`MAX_RATES`], by rising period, no period twice. All of them must hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rates(ArrayVec<Rate, MAX_RATES>);

impl Rates {
    /// Sorts these rates by their periods.
    ///
    /// # Errors
    /// None at all, more than [`MAX_RATES`], or two with the same period, of which one could only be pointless.
    pub fn new(rates: impl IntoIterator<Item = Rate>) -> Result<Self, RatesError> {
        let mut sorted = ArrayVec::new();
        for rate in rates {
            sorted.try_push(rate).map_err(|_| RatesError::TooMany)?;
        }
        sorted.sort_by_key(Rate::period);
        let twice = |pair: &[Rate]| matches!(pair, [a, b] if a.period == b.period);
        if let Some(pair) = sorted.windows(2).find(|pair| twice(pair)) {
            return Err(RatesError::SamePeriod {
                period: pair[0].period,
            });
        }
        if sorted.is_empty() {
            return Err(RatesError::Empty);
        }
        Ok(Self(sorted))
    }

    /// The rates, by rising period.
    pub fn iter(&self) -> std::slice::Iter<'_, Rate> {
        self.0.iter()
    }

    /// The rates, by rising period.
    #[must_use]
    pub fn as_slice(&self) -> &[Rate] {
        &self.0
    }

    /// The same periods with other counts, brought to what a count may be.
    pub(crate) fn with_counts(&self, count_of: impl Fn(u32) -> u32) -> Self {
        let rate = |rate: &Rate| Rate {
            count: count_of(rate.count).clamp(1, MAX_COUNT),
            period: rate.period,
        };
        Self(self.0.iter().map(rate).collect())
    }

    /// The rate with the longest period.
    pub(crate) fn longest(&self) -> Rate {
        // There is always one, and they are sorted.
        self.0[self.0.len() - 1]
    }

    /// Number of rates, 1 to [`MAX_RATES`].
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl<'a> IntoIterator for &'a Rates {
    type Item = &'a Rate;
    type IntoIter = std::slice::Iter<'a, Rate>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The error of [`Rate::new`] and [`Period::from_secs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateError {
    /// The count is outside 1 to [`MAX_COUNT`].
    Count {
        /// The rejected count.
        got: u32,
    },
    /// The period is outside 1 to [`MAX_PERIOD`] seconds.
    Period {
        /// The rejected period, in seconds.
        got: u32,
    },
}

impl fmt::Display for RateError {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { got } => write!(into, "a rate counts 1 to {MAX_COUNT}, not {got}"),
            Self::Period { got } => {
                write!(into, "a period is 1 second to 31 days, not {got} seconds")
            }
        }
    }
}

impl std::error::Error for RateError {}

/// The error of [`Rates::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RatesError {
    /// No rate at all.
    Empty,
    /// More than [`MAX_RATES`].
    TooMany,
    /// Two rates with this period.
    SamePeriod {
        /// The period.
        period: Period,
    },
}

impl fmt::Display for RatesError {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(into, "a limit has at least one rate"),
            Self::TooMany => write!(into, "a limit has at most {MAX_RATES} rates"),
            Self::SamePeriod { period } => {
                write!(
                    into,
                    "two rates have the period of {} seconds; keep the smaller count",
                    period.0
                )
            }
        }
    }
}

impl std::error::Error for RatesError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(count: u32, secs: u32) -> Rate {
        Rate::new(count, Period::from_secs(secs).expect("a period")).expect("a rate")
    }

    /// Goal: no number that means something else. Method: both sides of every bound.
    #[test]
    fn counts_and_periods_outside_their_bounds_are_refused() {
        let second = Period::from_secs(1).expect("a period");
        assert_eq!(Period::from_secs(0), Err(RateError::Period { got: 0 }));
        assert!(Period::from_secs(MAX_PERIOD).is_ok());
        assert!(Period::from_secs(MAX_PERIOD + 1).is_err());
        assert_eq!(Rate::new(0, second), Err(RateError::Count { got: 0 }));
        assert!(Rate::new(MAX_COUNT, second).is_ok());
        assert!(Rate::new(MAX_COUNT + 1, second).is_err());
    }

    /// Goal: a rate reads as its operator wrote it. Method: periods that are whole numbers of each unit, and of none but seconds.
    #[test]
    fn a_period_is_written_in_its_longest_whole_unit() {
        for (secs, text) in [
            (1, "5 per 1s"),
            (90, "5 per 90s"),
            (600, "5 per 10m"),
            (5_400, "5 per 90m"),
            (36 * 3600, "5 per 36h"),
            (7 * 86_400, "5 per 7d"),
        ] {
            assert_eq!(rate(5, secs).to_string(), text);
        }
    }

    /// Goal: one order whatever the operator wrote. Method: unsorted, empty, doubled and too many rates.
    #[test]
    fn rates_are_sorted_and_their_periods_distinct() {
        let rates = Rates::new([rate(20, 60), rate(5, 3)]).expect("rates");
        assert_eq!(rates.as_slice(), [rate(5, 3), rate(20, 60)]);
        assert_eq!(Rates::new([]), Err(RatesError::Empty));
        assert_eq!(
            Rates::new((1..=5).map(|secs| rate(1, secs))),
            Err(RatesError::TooMany)
        );
        let period = Period::from_secs(3).expect("a period");
        assert_eq!(
            Rates::new([rate(1, 3), rate(9, 3)]),
            Err(RatesError::SamePeriod { period })
        );
    }
}
