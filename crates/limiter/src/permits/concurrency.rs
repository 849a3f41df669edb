//! Says how many requests of one key may be in flight.

use std::fmt;

use crate::rate::MAX_COUNT;

/// Requests of one key that may be in flight at the same time, 1 to [`Concurrency::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Concurrency(u32);

impl Concurrency {
    /// The largest: 1,048,575, as a rate's count.
    pub const MAX: Self = Self(MAX_COUNT);

    /// `permits` requests.
    ///
    /// # Errors
    /// Outside 1 to [`Concurrency::MAX`]: there is no number that means "unlimited" or "never".
    pub const fn new(permits: u32) -> Result<Self, ConcurrencyError> {
        if permits == 0 || permits > Self::MAX.0 {
            return Err(ConcurrencyError { got: permits });
        }
        Ok(Self(permits))
    }

    /// The requests.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Concurrency {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(into, "{} in flight", self.0)
    }
}

/// The error of [`Concurrency::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConcurrencyError {
    /// The rejected number.
    pub got: u32,
}

impl fmt::Display for ConcurrencyError {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = Concurrency::MAX.0;
        write!(
            into,
            "1 to {most} requests may be in flight, not {}",
            self.got
        )
    }
}

impl std::error::Error for ConcurrencyError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no number that means something else. Method: both sides of both bounds.
    #[test]
    fn a_concurrency_outside_its_bounds_is_refused() {
        assert_eq!(Concurrency::new(0), Err(ConcurrencyError { got: 0 }));
        assert_eq!(Concurrency::new(1).map(Concurrency::get), Ok(1));
        assert_eq!(Concurrency::new(MAX_COUNT), Ok(Concurrency::MAX));
        assert!(Concurrency::new(MAX_COUNT + 1).is_err());
    }
}
