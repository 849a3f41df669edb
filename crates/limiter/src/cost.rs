//! Says what one request takes from a limit.

use std::num::NonZeroU32;

/// The units that a request takes from every rate of a limit; at least 1, so that no request passes uncounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(NonZeroU32);

impl Cost {
    /// One unit, the default cost of a request.
    pub const ONE: Self = Self(NonZeroU32::MIN);

    /// `units` units; `None` for zero.
    #[must_use]
    pub const fn new(units: u32) -> Option<Self> {
        match NonZeroU32::new(units) {
            Some(units) => Some(Self(units)),
            None => None,
        }
    }

    /// The units.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// Both costs together, or the largest that can be told: no rate admits that one.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.get()))
    }

    /// The cost of so many requests, or the largest that can be told: no rate admits that one.
    #[must_use]
    pub const fn saturating_mul(self, requests: NonZeroU32) -> Self {
        Self(self.0.saturating_mul(requests))
    }
}
