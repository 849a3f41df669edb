//! Says how long bans last: the first one, by how much each repeat is longer, and the longest.

use std::fmt;
use std::time::Duration;

/// Shortest ban: below it a rate does the same.
const MIN_BAN: Duration = Duration::from_secs(1);
/// Highest level: 7 bits of a packed ban state.
pub(super) const MAX_LEVEL: u8 = 127;
/// Factors are counted in hundredths.
const WHOLE: u64 = 100;

/// The ratio of a repeated ban to the one before: 1 to 100, in hundredths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BanFactor(u16);

impl BanFactor {
    /// The smallest: every ban is as long as the first.
    pub const ONE: Self = Self(100);
    /// Each ban is twice as long as the one before.
    pub const TWO: Self = Self(200);
    /// The largest: a hundred times.
    pub const MAX: Self = Self(10_000);

    /// `hundredths` hundredths: 150 is 1.5.
    ///
    /// # Errors
    /// Outside 100 to 10,000.
    pub const fn from_hundredths(hundredths: u32) -> Result<Self, BanError> {
        if hundredths < Self::ONE.0 as u32 || hundredths > Self::MAX.0 as u32 {
            return Err(BanError::Factor { got: hundredths });
        }
        Ok(Self(hundredths as u16))
    }

    /// The hundredths, 100 to 10,000.
    #[must_use]
    pub const fn hundredths(self) -> u32 {
        self.0 as u32
    }
}

/// The rules for the lengths of bans.
///
/// The first ban of a key has level 1 and lasts `first`; a ban of the level above lasts `factor` times as long, at most
/// `max`. For every `max` that passes without a new ban, counted from the end of the latest, one level is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BanRules {
    first: Duration,
    factor: BanFactor,
    max: Duration,
    /// The level that a strike does not lead beyond: the first whose ban lasts `max`.
    top: u8,
}

impl BanRules {
    /// Longest ban: 366 days.
    pub const MAX_BAN: Duration = Duration::from_secs(366 * 24 * 60 * 60);

    /// Bans that last `first`, then each `factor` times the one before, at most `max`; all in whole milliseconds, what
    /// is below is cut off.
    ///
    /// # Errors
    /// When `first` is shorter than a second, or `max` shorter than `first` or longer than [`BanRules::MAX_BAN`].
    pub fn new(first: Duration, factor: BanFactor, max: Duration) -> Result<Self, BanError> {
        if first < MIN_BAN || first > Self::MAX_BAN {
            return Err(BanError::First { got: first });
        }
        if max < first || max > Self::MAX_BAN {
            return Err(BanError::Max { got: max, first });
        }
        let first = whole_millis(first);
        let max = whole_millis(max);
        let mut rules = Self {
            first,
            factor,
            max,
            top: MAX_LEVEL,
        };
        let is_top = |level: &u8| {
            let [this, next] = [*level, level + 1].map(|level| rules.millis(level));
            this == next
        };
        rules.top = (1..MAX_LEVEL).find(is_top).unwrap_or(MAX_LEVEL);
        Ok(rules)
    }

    /// Length of the first ban.
    #[must_use]
    pub fn first(&self) -> Duration {
        self.first
    }

    /// Ratio of each ban to the one before.
    #[must_use]
    pub fn factor(&self) -> BanFactor {
        self.factor
    }

    /// Length of the longest ban, and time without a ban after which one level is forgotten.
    #[must_use]
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The level that no strike leads beyond, at most 127.
    #[must_use]
    pub fn top(&self) -> u8 {
        self.top
    }

    /// Length of a ban of `level`; zero for level 0.
    #[must_use]
    pub fn length(&self, level: u8) -> Duration {
        match level {
            0 => Duration::ZERO,
            level => Duration::from_millis(self.millis(level)),
        }
    }

    /// Milliseconds of a ban of `level`, at least 1.
    pub(super) fn millis(&self, level: u8) -> u64 {
        let max = millis(self.max);
        let mut millis = millis(self.first);
        for _ in 1..level {
            // Both below 2^35 and 2^14.
            millis = (millis * u64::from(self.factor.0) / WHOLE).min(max);
            if millis == max {
                break;
            }
        }
        millis
    }
}

fn millis(duration: Duration) -> u64 {
    // At most 366 days.
    duration.as_millis() as u64
}

fn whole_millis(duration: Duration) -> Duration {
    Duration::from_millis(millis(duration))
}

/// The error of making rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BanError {
    /// The first ban is shorter than a second, or longer than 366 days.
    First {
        /// The rejected length.
        got: Duration,
    },
    /// The factor is below 1 or above 100.
    Factor {
        /// The rejected factor, in hundredths.
        got: u32,
    },
    /// The longest ban is shorter than the first, or longer than 366 days.
    Max {
        /// The rejected length.
        got: Duration,
        /// Length of the first ban.
        first: Duration,
    },
}

impl fmt::Display for BanError {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First { got } => {
                write!(into, "a ban lasts 1 second to 366 days, not {got:?}")
            }
            Self::Factor { got } => {
                let whole = got / 100;
                let hundredths = got % 100;
                write!(into, "a factor is 1 to 100, not {whole}.{hundredths:02}")
            }
            Self::Max { got, first } => write!(
                into,
                "the longest ban lasts at least as long as the first, {first:?}, and at most 366 days, not {got:?}"
            ),
        }
    }
}

impl std::error::Error for BanError {}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const TEN_MINUTES: Duration = Duration::from_secs(600);

    /// Goal: no number that means something else. Method: both sides of every bound.
    #[test]
    fn rules_outside_their_bounds_are_refused() {
        let new = |first, max| BanRules::new(first, BanFactor::TWO, max);
        assert!(new(MIN_BAN, MIN_BAN).is_ok());
        let got = Duration::from_millis(999);
        assert_eq!(new(got, DAY), Err(BanError::First { got }));
        let first = TEN_MINUTES;
        let got = first - Duration::from_millis(1);
        assert_eq!(new(first, got), Err(BanError::Max { got, first }));
        assert!(new(first, BanRules::MAX_BAN).is_ok());
        assert!(new(first, BanRules::MAX_BAN + MIN_BAN).is_err());
        assert!(new(Duration::MAX, Duration::MAX).is_err());
        assert_eq!(
            BanFactor::from_hundredths(99),
            Err(BanError::Factor { got: 99 })
        );
        assert_eq!(BanFactor::from_hundredths(10_000), Ok(BanFactor::MAX));
        assert!(BanFactor::from_hundredths(10_001).is_err());
    }

    /// Goal: the lengths that an operator expects. Method: those of ten minutes, doubled, up to a day; and factors at both
    /// ends.
    #[test]
    fn each_ban_is_longer_than_the_one_before_up_to_the_longest() {
        let rules = BanRules::new(TEN_MINUTES, BanFactor::TWO, DAY).expect("rules");
        let minutes = [0, 10, 20, 40, 80, 160, 320, 640, 1280, 1440, 1440];
        for (level, minutes) in minutes.into_iter().enumerate() {
            assert_eq!(rules.length(level as u8).as_secs(), 60 * minutes);
        }
        assert_eq!((rules.top(), rules.length(u8::MAX)), (9, DAY));
        let flat = BanRules::new(TEN_MINUTES, BanFactor::ONE, DAY).expect("rules");
        assert_eq!((flat.top(), flat.length(u8::MAX)), (1, TEN_MINUTES));
        let steep = BanRules::new(TEN_MINUTES, BanFactor::MAX, DAY).expect("rules");
        assert_eq!(
            (steep.top(), steep.length(2)),
            (3, Duration::from_secs(60_000))
        );
        let slow = BanFactor::from_hundredths(101).expect("a factor");
        let slow = BanRules::new(MIN_BAN, slow, BanRules::MAX_BAN).expect("rules");
        assert_eq!(slow.top(), MAX_LEVEL);
        assert!((1..MAX_LEVEL).all(|level| slow.length(level) < slow.length(level + 1)));
    }
}
