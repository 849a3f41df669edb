//! Holds the charges and permits of an admitted request, however the request ends.
//!
//! [`Admitted`] is the evidence that a request passed. Where a limit settles by the response, or holds the request back, it also holds the
//! transactions of the request. Dropping it settles them: an error, a client that leaves, a panic or a cancelled task leaks nothing.
//!
//! Permits of limits with `concurrency` are held here too, beyond the head of the response: a download or a WebSocket is in flight as long
//! as it lasts. They are given back just before the last bytes are written, so that a client that has its response may ask again at once.

use sluicegate_limiter::{Permit, Timestamp};

use super::report::LimitNote;
use super::settlement::FinalResponse;
use super::transaction::Transaction;

/// The evidence that a request passed admission, with the charges and permits that it holds.
#[derive(Debug)]
pub struct Admitted {
    /// `None` where the request holds nothing.
    pending: Option<Box<PendingCharges>>,
}

/// The transactions of an admitted request that are not settled, and its permits.
#[derive(Debug)]
pub(super) struct PendingCharges {
    /// Each settles itself when it is dropped.
    transactions: Vec<Transaction>,
    /// Given back when the response ends, or when this is dropped.
    permits: Vec<Permit>,
    progress: RequestProgress,
}

/// The progress of a request through admission, which decides how its charges are settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RequestProgress {
    /// Its limits are not decided: dropping its charges refunds them.
    #[default]
    Undecided,
    /// It passes, and its limits hold it back, or others of them are not decided yet: dropping its charges withdraws them.
    HeldBack,
    /// It is on its way to its response, by which its charges are settled.
    UnderWay,
}

impl Admitted {
    /// Returns the evidence for a request whose charges stand as they were made.
    pub(super) const fn settled() -> Self {
        Self { pending: None }
    }

    /// Returns the evidence for a request of the gateway's own, which fetches anew what it has stored. Its reader paid for the response
    /// that it was given.
    #[must_use]
    pub const fn exempt() -> Self {
        Self::settled()
    }

    /// Returns the evidence for a request that holds these charges and permits.
    pub(super) fn holding(pending: PendingCharges) -> Self {
        let holds_nothing = pending.transactions.is_empty() && pending.permits.is_empty();
        Self {
            pending: (!holds_nothing).then(|| Box::new(pending)),
        }
    }

    /// Returns whether some charge is not settled.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        let pending = self.pending.as_ref();
        pending.is_some_and(|pending| !pending.transactions.is_empty())
    }

    /// Ends the time for which limits held the request back: its place is used from now on.
    pub fn start(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.start();
        }
    }

    /// Returns whether others may wait for the end of this request.
    #[must_use]
    pub fn holds_permits(&self) -> bool {
        let pending = self.pending.as_ref();
        pending.is_some_and(|pending| !pending.permits.is_empty())
    }

    /// Gives the permits back: the response is about to end.
    pub fn finish_response(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.permits.clear();
        }
    }

    /// Settles the pending charges by the response, or without one, and returns the notes about it. Charges that are settled stay so.
    pub fn settle(
        &mut self,
        response: Option<FinalResponse<'_>>,
        now: Timestamp,
    ) -> Vec<LimitNote> {
        let pending = self.pending.iter_mut();
        pending
            .flat_map(|pending| pending.transactions.drain(..))
            .flat_map(|mut transaction| transaction.settle(response, now))
            .collect()
    }
}

impl PendingCharges {
    /// Returns no charges, for a request of this progress.
    pub(super) const fn new(progress: RequestProgress) -> Self {
        Self {
            transactions: Vec::new(),
            permits: Vec::new(),
            progress,
        }
    }

    /// Returns the progress of the request.
    pub(super) const fn progress(&self) -> RequestProgress {
        self.progress
    }

    /// Adds a transaction that is committed, unless all its charges stand as they were made.
    pub(super) fn add(&mut self, mut committed: Transaction) {
        self.permits.append(&mut committed.permits);
        if committed.is_charged() {
            self.transactions.push(committed);
        }
    }

    /// Adds a permit.
    pub(super) fn add_permit(&mut self, permit: Option<Permit>) {
        self.permits.extend(permit);
    }

    /// The request goes on: charges that do not depend on its response stand.
    pub(super) fn start(&mut self) {
        self.progress = RequestProgress::UnderWay;
        self.transactions.iter_mut().for_each(Transaction::start);
        self.transactions.retain(Transaction::is_charged);
    }
}
