//! Counts the units of a limit that requests in flight hold in reserve until their cost is known.
//!
//! The counters of a limit do not tell these units from those that were spent: both are charged. An operator who sees a budget at its end
//! wants to know which of both it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The units in reserve of one limit, over all of its keys.
#[derive(Debug, Default)]
pub struct ReservedUnits(AtomicU64);

/// The reserve of one request; dropping it ends it.
#[derive(Debug)]
pub(super) struct HeldReserve {
    units: u32,
    of: Arc<ReservedUnits>,
}

impl ReservedUnits {
    /// Returns the sum.
    #[must_use]
    pub fn sum(&self) -> u64 {
        // Relaxed, here and below: a number for people, by which nothing is decided.
        self.0.load(Ordering::Relaxed)
    }

    /// Adds the reserve of a request.
    pub(super) fn hold(self: &Arc<Self>, units: u32) -> HeldReserve {
        self.0.fetch_add(units.into(), Ordering::Relaxed);
        HeldReserve {
            units,
            of: Arc::clone(self),
        }
    }
}

impl Drop for HeldReserve {
    fn drop(&mut self) {
        self.of.0.fetch_sub(self.units.into(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the sum is that of the requests in flight. Method: two reserves, of which one ends.
    #[test]
    fn a_reserve_counts_as_long_as_it_is_held() {
        let reserved = Arc::new(ReservedUnits::default());
        let first = reserved.hold(7);
        let second = reserved.hold(100);
        assert_eq!(reserved.sum(), 107);
        drop(first);
        assert_eq!(reserved.sum(), 100);
        drop(second);
        assert_eq!(reserved.sum(), 0);
    }
}
