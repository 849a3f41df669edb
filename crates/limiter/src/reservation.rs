//! Holds a charge that may still change: taken now, settled or released when the request's outcome is known.
//!
//! A reservation is a charge like any other and counts at once, so parallel requests cannot slip through between asking
//! and settling. It holds handles of its limits, no borrow: it may live while a response is awaited. Dropped without being
//! settled it leaves the charge as it is.
//!
//! # Limits
//! What is given back is what still counts: a window that has gone by gives nothing back, and a debt only what has not
//! drained, and a log what it had room to show. After an edit of a limit's structure the new table gives back what it can
//! find: logs that go on from words do not know when the words were charged; a key that is counted in overflow there stays
//! charged. All of it errs towards refusing.

use crate::ask::Ask;
use crate::cost::Cost;
use crate::key::KeyHash;
use crate::limit::{ChargeReceipt, Limit};
use crate::time::Timestamp;

/// Charges of one request that may still be settled or released.
#[must_use = "dropped, it leaves the whole cost charged"]
#[derive(Debug)]
pub struct Reservation(Box<[ReservedCharge]>);

/// The charge of one ask.
#[derive(Debug)]
struct ReservedCharge {
    limit: Limit,
    key: KeyHash,
    cost: Cost,
    receipt: ChargeReceipt,
}

/// The final charge of one ask, once the outcome of the request is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settle {
    /// Keeps the reserved cost.
    Keep,
    /// Refunds the whole cost: the request does not count for this limit.
    Refund,
    /// Charges this cost instead of the reserved one.
    Adjust(Cost),
}

/// The result of settling a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// Every ask kept its reserved cost.
    Unchanged,
    /// Some ask had reserved more or less, and was corrected as far as the charge still counts.
    Corrected,
}

impl Reservation {
    pub(crate) fn new<'a>(made: impl Iterator<Item = (&'a Ask<'a>, ChargeReceipt)>) -> Self {
        let part = |(ask, receipt): (&Ask<'_>, ChargeReceipt)| ReservedCharge {
            limit: ask.limit.clone(),
            key: ask.key,
            cost: ask.cost,
            receipt,
        };
        Self(made.map(part).collect())
    }

    /// Makes every ask cost `actual`: what was reserved beyond is given back as far as it still counts, what is missing is
    /// charged whether it fits or not, since it is spent.
    pub fn settle(self, actual: Cost, now: Timestamp) -> Settlement {
        self.settle_each(now, |_| Settle::Adjust(actual))
    }

    /// Gives everything back that still counts.
    pub fn release(self, now: Timestamp) {
        self.settle_each(now, |_| Settle::Refund);
    }

    /// Gives everything back that still counts of a request that was held back and never went. Of a leaky bucket that is the whole cost,
    /// provided that it leaves before its turn, and that the requests behind it move up.
    pub fn withdraw(self, now: Timestamp) {
        for part in &self.0 {
            part.limit.withdraw(part.key, &part.receipt, part.cost, now);
        }
    }

    /// Settles each ask on its own, by its index: limits of one request may count by different outcomes.
    pub fn settle_each(self, now: Timestamp, settle: impl Fn(usize) -> Settle) -> Settlement {
        let mut settlement = Settlement::Unchanged;
        for (ask, part) in self.0.iter().enumerate() {
            if part.settle(settle(ask), now) == Settlement::Corrected {
                settlement = Settlement::Corrected;
            }
        }
        settlement
    }

    /// Settles the asks whose outcome is known, by their index, and returns a reservation of the others, in their order; `None` where all
    /// are settled.
    #[must_use = "dropped, it leaves the rest charged"]
    pub fn settle_known(
        self,
        now: Timestamp,
        known: impl Fn(usize) -> Option<Settle>,
    ) -> Option<Self> {
        let mut rest = Vec::new();
        for (ask, part) in self.0.into_vec().into_iter().enumerate() {
            match known(ask) {
                Some(settle) => {
                    part.settle(settle, now);
                }
                None => rest.push(part),
            }
        }
        (!rest.is_empty()).then(|| Self(rest.into()))
    }
}

impl ReservedCharge {
    fn settle(&self, settle: Settle, now: Timestamp) -> Settlement {
        let reserved = self.cost.get();
        let actual = match settle {
            Settle::Keep => reserved,
            Settle::Refund => 0,
            Settle::Adjust(cost) => cost.get(),
        };
        let mut settlement = Settlement::Unchanged;
        if let Some(surplus) = Cost::new(reserved.saturating_sub(actual)) {
            self.limit.undo(self.key, &self.receipt, surplus, now);
            settlement = Settlement::Corrected;
        }
        if let Some(missing) = Cost::new(actual.saturating_sub(reserved)) {
            self.limit.charge_unchecked(self.key, missing, now);
            settlement = Settlement::Corrected;
        }
        settlement
    }
}
