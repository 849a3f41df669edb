//! Says how many keys a limit holds at once; memory follows from it and is fixed when the limit is made.

use std::fmt;

/// Keys that may owe something at the same time without any of them sharing a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capacity(u32);

impl Capacity {
    /// The default: about 9 MB with one rate; [`Limit::bytes_for`](crate::Limit::bytes_for) computes it for any
    /// policy.
    pub const DEFAULT: Self = Self(262_144);
    /// The largest: 2^30 keys, 33 GB with one rate.
    pub const MAX: Self = Self(1 << 30);

    /// A capacity of `keys` keys.
    ///
    /// # Errors
    /// Outside 1 to 2^30.
    pub fn new(keys: u64) -> Result<Self, CapacityError> {
        match u32::try_from(keys) {
            Ok(keys) if (1..=Self::MAX.0).contains(&keys) => Ok(Self(keys)),
            _ => Err(CapacityError { got: keys }),
        }
    }

    /// The keys.
    #[must_use]
    pub const fn keys(self) -> u64 {
        self.0 as u64
    }
}

impl Default for Capacity {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The error of [`Capacity::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityError {
    /// The rejected number of keys.
    pub got: u64,
}

impl fmt::Display for CapacityError {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            into,
            "a capacity is 1 to {} keys, not {}",
            Capacity::MAX.0,
            self.got
        )
    }
}

impl std::error::Error for CapacityError {}
