//! Holds the charges and permits of an admitted request, however the request ends.
//!
//! [`Admitted`] is the evidence that a request passed. Where a limit settles by the response, or holds the request back, it also holds the
//! transaction of the request. Dropping it settles that: an error, a client that leaves, a panic or a cancelled task leaks nothing.
//!
//! Permits of limits with `concurrency` are held here too, beyond the head of the response: a download or a WebSocket is in flight as long
//! as it lasts. They are given back when its bytes have left, just before its end is sent, so that a client that has its response may ask
//! again at once.

use sluicegate_limiter::Timestamp;

use super::limit_event::LimitNote;
use super::settlement::{FinalResponse, RequestEnd};
use super::transaction::{SettlementFacts, Transaction};

/// The evidence that a request passed admission, with the charges and permits that it holds.
#[derive(Debug)]
pub struct Admitted {
    /// `None` where the request holds nothing.
    pending: Option<Box<Transaction>>,
}

impl Admitted {
    /// Returns the evidence for a request whose charges stand as they were made.
    pub(super) const fn without_charges() -> Self {
        Self { pending: None }
    }

    /// Returns the evidence for a request of the gateway's own, which fetches anew what it has stored. Its reader paid for the response
    /// that it was given.
    #[must_use]
    pub const fn exempt() -> Self {
        Self::without_charges()
    }

    /// Returns the evidence for a request that holds the charges and permits of a committed transaction.
    pub(super) fn holding(transaction: Transaction) -> Self {
        let is_held = transaction.is_charged() || transaction.holds_permits();
        Self {
            pending: is_held.then(|| Box::new(transaction)),
        }
    }

    /// Returns whether some charge is not settled.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        let pending = self.pending.as_ref();
        pending.is_some_and(|pending| pending.is_charged())
    }

    /// Ends the time for which limits held the request back: its place is used from now on.
    pub fn start(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.start();
        }
    }

    /// Returns the units that the limit with this index on the route is charged and that are not settled.
    #[must_use]
    pub fn charged_units(&self, limit: u8) -> u32 {
        let pending = self.pending.as_ref();
        pending.map_or(0, |pending| pending.charged_units(limit))
    }

    /// Returns whether others may wait for the end of this request.
    #[must_use]
    pub fn holds_permits(&self) -> bool {
        let pending = self.pending.as_ref();
        pending.is_some_and(|pending| pending.holds_permits())
    }

    /// Gives the permits back: of the response only its end is still to be sent.
    pub fn finish_response(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.release_permits();
        }
    }

    /// Settles the pending charges by the head of the response, or without one, and returns the notes about it. Charges that are settled
    /// stay so; costs that are known at the end of the request wait for [`end`](Self::end).
    pub fn settle(
        &mut self,
        response: Option<FinalResponse<'_>>,
        now: Timestamp,
    ) -> Vec<LimitNote> {
        let by = response.map_or(SettlementFacts::None, SettlementFacts::Response);
        self.settle_by(by, now)
    }

    /// Settles all pending charges by the end of the request, and returns the notes about it.
    pub fn end(&mut self, end: &RequestEnd<'_>, now: Timestamp) -> Vec<LimitNote> {
        self.settle_by(SettlementFacts::End(end), now)
    }

    fn settle_by(&mut self, by: SettlementFacts<'_>, now: Timestamp) -> Vec<LimitNote> {
        let pending = self.pending.as_mut();
        pending.map_or_else(Vec::new, |pending| pending.settle(by, now))
    }
}
