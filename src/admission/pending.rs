//! Owns the charges of an admitted request until they are settled, however the request ends.
//!
//! [`Admitted`] is the evidence that a request passed. Where a limit settles by the response, or holds the request back, it also holds the
//! charges. Dropping it refunds them while the request waits, and afterwards settles them as for a request without a response. So an
//! error, a client that leaves, a panic or a cancelled task leaks nothing: however a request ends, this is dropped.
//!
//! Permits of limits with `concurrency` are held here too, beyond the head of the response: a download or a WebSocket is in flight as long
//! as it lasts. They are given back just before the last bytes are written, so that a client that has its response may ask again at once.

use std::sync::Arc;
use std::time::Duration;

use arrayvec::ArrayVec;
use sluicegate_limiter::{MAX_ASKS, Permit, Settle, Timestamp};

use super::backend::BackendCharge;
use super::limit::ActiveLimit;
use super::report::{LimitEvent, LimitNote};
use super::settlement::FinalResponse;
use crate::clock;

/// The evidence that a request passed admission, with the charges and permits that it holds.
#[derive(Debug)]
pub struct Admitted {
    pending: Option<Box<PendingCharges>>,
    /// Given back when the response ends, or when this is dropped.
    permits: Vec<Permit>,
}

/// Charges that are not settled.
#[derive(Debug)]
pub(super) struct PendingCharges {
    charges: Vec<PendingCharge>,
    progress: RequestProgress,
}

/// The progress of a request through admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestProgress {
    /// Its limits hold it back, or are not all decided: until it goes on, dropping its charges refunds them.
    HeldBack,
    /// It is on its way to its response.
    UnderWay,
}

/// One charge and the limits that it is of, by ask.
#[derive(Debug)]
struct PendingCharge {
    charge: BackendCharge,
    limits: ArrayVec<ChargedLimit, MAX_ASKS>,
    reporting: Reporting,
}

/// A limit that is charged, with its index on the route.
pub(super) type ChargedLimit = (u8, Arc<ActiveLimit>);

/// Says whether the report of the request names the settlement of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reporting {
    /// It does.
    Yes,
    /// It does not: the limit's own charge is reported already.
    No,
}

impl Admitted {
    /// Returns the evidence for a request whose charges stand as they were made.
    pub(super) const fn settled() -> Self {
        Self {
            pending: None,
            permits: Vec::new(),
        }
    }

    /// Returns the evidence for a request of the gateway's own, which fetches anew what it has stored. Its reader paid for the response
    /// that it was given.
    #[must_use]
    pub const fn exempt() -> Self {
        Self::settled()
    }

    /// Returns the evidence for a request that holds these charges and permits.
    pub(super) fn holding(pending: PendingCharges, permits: Vec<Permit>) -> Self {
        Self {
            pending: (!pending.charges.is_empty()).then(|| Box::new(pending)),
            permits,
        }
    }

    /// Returns whether some charge is not settled.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Ends the time for which limits held the request back: its place is used from now on.
    pub fn start(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.start();
            if pending.charges.is_empty() {
                self.pending = None;
            }
        }
    }

    /// Returns whether others may wait for the end of this request.
    #[must_use]
    pub fn holds_permits(&self) -> bool {
        !self.permits.is_empty()
    }

    /// Gives the permits back: the response is about to end.
    pub fn finish_response(&mut self) {
        self.permits.clear();
    }

    /// Settles the pending charges by the response, or without one, and returns the notes about it. Charges that are settled stay so.
    pub fn settle(
        &mut self,
        response: Option<FinalResponse<'_>>,
        now: Timestamp,
    ) -> Vec<LimitNote> {
        match self.pending.take() {
            Some(mut pending) => pending.settle(response, now),
            None => Vec::new(),
        }
    }
}

impl PendingCharges {
    /// Returns no charges, for a request that its limits hold back for so long.
    pub(super) fn before(delay: Duration) -> Self {
        Self {
            charges: Vec::new(),
            progress: if delay.is_zero() {
                RequestProgress::UnderWay
            } else {
                RequestProgress::HeldBack
            },
        }
    }

    /// Returns no charges, for a request that some limit may still reject, or that may end before it is decided.
    pub(super) fn undecided() -> Self {
        Self {
            charges: Vec::new(),
            progress: RequestProgress::HeldBack,
        }
    }

    /// The request passes, after its limits have held it back for so long.
    pub(super) fn decided(&mut self, delay: Duration) {
        if delay.is_zero() {
            self.start();
        }
    }

    fn start(&mut self) {
        self.progress = RequestProgress::UnderWay;
        // Dropped, a charge stands.
        self.charges.retain(PendingCharge::waits_for_response);
    }

    /// Returns whether the request goes on at once.
    pub(super) fn is_under_way(&self) -> bool {
        self.progress == RequestProgress::UnderWay
    }

    /// Adds a charge of `limits`, unless it stands as it was made.
    pub(super) fn add(
        &mut self,
        charge: BackendCharge,
        limits: ArrayVec<ChargedLimit, MAX_ASKS>,
        reporting: Reporting,
    ) {
        let mut charge = PendingCharge {
            charge,
            limits,
            reporting,
        };
        if !self.is_under_way() || charge.waits_for_response() {
            charge.charge.open();
            self.charges.push(charge);
        }
    }

    fn settle(&mut self, response: Option<FinalResponse<'_>>, now: Timestamp) -> Vec<LimitNote> {
        let mut notes = Vec::new();
        for charge in self.charges.drain(..) {
            charge.settle(self.progress, response, now, &mut notes);
        }
        notes
    }
}

impl PendingCharge {
    fn waits_for_response(&self) -> bool {
        self.limits
            .iter()
            .any(|(_, limit)| limit.settlement.is_some())
    }

    fn settle(
        self,
        progress: RequestProgress,
        response: Option<FinalResponse<'_>>,
        now: Timestamp,
        notes: &mut Vec<LimitNote>,
    ) {
        let settled = |(limit, active): &ChargedLimit| {
            let (settle, event) = match (progress, &active.settlement) {
                (RequestProgress::HeldBack, _) => (Settle::Refund, Some(LimitEvent::Released)),
                (RequestProgress::UnderWay, Some(rule)) => rule.settle(response),
                (RequestProgress::UnderWay, None) => (Settle::Keep, None),
            };
            if self.reporting == Reporting::Yes {
                notes.extend(event.map(|event| LimitNote {
                    limit: *limit,
                    event,
                }));
            }
            settle
        };
        let settled: ArrayVec<Settle, MAX_ASKS> = self.limits.iter().map(settled).collect();
        match progress {
            RequestProgress::HeldBack => self.charge.withdraw(now),
            RequestProgress::UnderWay => self
                .charge
                .settle_each(now, |ask| settled.get(ask).copied().unwrap_or(Settle::Keep)),
        }
    }
}

impl Drop for PendingCharges {
    fn drop(&mut self) {
        if !self.charges.is_empty() {
            self.settle(None, clock::now());
        }
    }
}
