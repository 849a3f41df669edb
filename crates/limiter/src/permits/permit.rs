//! Owns one place among the requests in flight, and gives it back.

use std::fmt;
use std::sync::Arc;

use crate::sync::Ordering;
use crate::table::SlotRef;

use super::PermitCounters;
use super::count::ONE;

/// A place among the requests in flight of a key. Dropping it gives the place back: once, in the table where it was
/// taken, whatever was edited since, from any thread.
///
/// It keeps that table's memory, so it is worth dropping. One that is leaked (`mem::forget`) stays taken.
#[must_use = "dropped, it is given back at once"]
pub struct Permit {
    counters: Arc<PermitCounters>,
    slot_ref: SlotRef,
}

impl Permit {
    pub(super) fn new(counters: &Arc<PermitCounters>, slot_ref: SlotRef) -> Self {
        let counters = Arc::clone(counters);
        Self { counters, slot_ref }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.counters.give_back(self.slot_ref);
    }
}

impl PermitCounters {
    /// Takes one permit out of the words of a seat. Wait-free: a slot whose word counts a permit changes neither its key
    /// nor its generation, and an overflow word is a plain number.
    pub(super) fn give_back(&self, slot_ref: SlotRef) {
        for word in self.table.words_of(slot_ref) {
            // Release: pairs with the taking that finds room by it, so that what was done under this permit is seen
            // under that one.
            word.fetch_sub(ONE, Ordering::Release);
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        let placement = self.slot_ref.placement();
        into.debug_struct("Permit")
            .field("counted", &placement)
            .finish_non_exhaustive()
    }
}
