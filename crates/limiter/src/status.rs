//! Holds the values that a table states about a key: the status of each rate, the counter, the rates that refuse.
//!
//! Plain values, below the tables that fill them and the decisions that show them.

use std::ops::Deref;
use std::time::Duration;

use arrayvec::ArrayVec;

use crate::cost::Cost;
use crate::rate::{MAX_RATES, Rate};

/// The wait for a cost that no amount of waiting admits, since it exceeds the rate's count, or its burst or queue where it
/// has one: 136 years, which every header can carry.
pub const NEVER: Duration = Duration::from_secs(u32::MAX as u64);

/// The status of one rate for one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateStatus {
    /// The rate.
    pub rate: Rate,
    /// Whole units of cost that would be admitted right now; after the charge, where one was made.
    pub remaining: u32,
    /// From now until `remaining` grows by one if nothing else arrives, zero when all is free. For a rate that refuses:
    /// until the refused cost would fit, [`NEVER`] if it exceeds what the rate ever admits at once.
    pub next_free: Duration,
    /// From now until everything is free if nothing else arrives.
    pub reset: Duration,
}

impl RateStatus {
    /// Returns the status with so many units more that remain.
    pub(crate) fn refunded(self, units: u32) -> Self {
        Self {
            remaining: self.remaining.saturating_add(units),
            ..self
        }
    }

    /// Returns a status that holds `delay` from now, with at most `remaining` units until then.
    pub(crate) fn delayed(self, delay: Duration, remaining: u32) -> Self {
        let from_now = |wait: Duration| {
            if wait == Duration::ZERO || wait == NEVER {
                wait
            } else {
                wait.saturating_add(delay)
            }
        };
        Self {
            remaining: self.remaining.min(remaining),
            next_free: from_now(self.next_free),
            reset: from_now(self.reset),
            ..self
        }
    }
}

/// The status of every rate of a limit, in the order of the limit's rates; a slice that owns its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateStatuses(ArrayVec<RateStatus, MAX_RATES>);

impl RateStatuses {
    /// Collects the first [`MAX_RATES`] statuses.
    pub(crate) fn new(statuses: impl Iterator<Item = RateStatus>) -> Self {
        Self(statuses.take(MAX_RATES).collect())
    }
}

impl Deref for RateStatuses {
    type Target = [RateStatus];

    fn deref(&self) -> &[RateStatus] {
        &self.0
    }
}

impl IntoIterator for RateStatuses {
    type Item = RateStatus;
    type IntoIter = arrayvec::IntoIter<RateStatus, MAX_RATES>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// The counter that a key is counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPlacement {
    /// The key has a slot of its own, or it would get one.
    OwnSlot,
    /// Together with other new keys, since every slot it could use belongs to a key that still owes: the capacity is
    /// too small. A refusal by what new keys share is of this kind even where a slot is free by now.
    Overflow,
    /// Nowhere: it has no slot, and is refused one since the payer of the request has taken its share of a crowded table.
    OverShare,
}

/// The operation that a decision answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskOutcome {
    /// The charge was made.
    Charged(Cost),
    /// No cost was given.
    Peeked,
    /// A cost that was not taken.
    NotCharged(Cost),
}

/// The rates of a limit that refuse: a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RefusingRates(pub(crate) u8);

impl RefusingRates {
    /// The rates whose bits are set.
    pub(crate) const fn of_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Adds a rate to the set.
    #[inline(always)]
    pub(crate) fn add(&mut self, rate: usize) {
        self.0 |= 1 << rate;
    }

    pub(crate) fn has(self, rate: usize) -> bool {
        self.0 & 1 << rate != 0
    }
}
