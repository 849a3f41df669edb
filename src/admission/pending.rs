//! Owns what a request that passed still owes its limits, and sees to it that it is paid however the request ends.
//!
//! [`Admitted`] is the evidence that a request passed. Where a limit waits for the answer, or holds the request back, it also holds the
//! charges. Dropping it gives them back while the request waits, and afterwards settles them as for a request without an answer. So
//! an error, a client that leaves, a panic or a cancelled task leaks nothing: whatever ends a request drops this.
//!
//! Permits of limits with `concurrency` are held here too, beyond the answer's head: a download or a WebSocket is in flight as long as it
//! lasts. They are given back just before the last bytes are written, so that a client that has its answer may ask again at once.

use std::sync::Arc;
use std::time::Duration;

use arrayvec::ArrayVec;
use sluicegate_limiter::{MAX_ASKS, Permit, Reservation, Settle, Timestamp};

use super::limit::ActiveLimit;
use super::report::{LimitEvent, LimitNote};
use super::settlement::FinalResponse;
use crate::clock;
use crate::store::{RemoteCharge, ReplicatedCharge};

/// The evidence that a request passed admission, with what is still to be settled.
#[derive(Debug)]
pub struct Admitted {
    pending: Option<Box<Pending>>,
    /// Given back when the answer ends, or when this is dropped.
    permits: Vec<Permit>,
}

/// Charges that are not settled: of each verdict what was taken here, and what in a store.
#[derive(Debug)]
pub(super) struct Pending {
    charges: Vec<Charge>,
    stage: Stage,
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its limits hold it back; until it goes on nothing was used.
    HeldBack,
    /// It is on its way to its answer.
    UnderWay,
}

/// One charge and the limits that it is of, by ask, with their index on the route.
#[derive(Debug)]
pub(super) struct Charge {
    made: Made,
    asked: Asked,
    voice: Voice,
}

/// Where a charge was made.
#[derive(Debug)]
pub(super) enum Made {
    /// In the counters of this node.
    Here(Reservation),
    /// In counters of this node that others are told of.
    Exchanged(ReplicatedCharge),
    /// In the store that several nodes share.
    Abroad(RemoteCharge),
}

/// Limits with their index on the route, by ask.
pub(super) type Asked = ArrayVec<(u8, Arc<ActiveLimit>), MAX_ASKS>;

/// Whether what comes of a charge is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    /// It is.
    Heard,
    /// It is not: it is told of the limit's own charge already.
    Silent,
}

impl Admitted {
    /// A request whose charges stand as they were made.
    pub(super) const fn settled() -> Self {
        Self {
            pending: None,
            permits: Vec::new(),
        }
    }

    /// A request that nobody made: the gateway fetches anew what it has stored. Its reader paid for what it was given.
    #[must_use]
    pub const fn exempt() -> Self {
        Self::settled()
    }

    /// A request that owes what is in `pending`, and holds these permits.
    pub(super) fn owing(pending: Pending, permits: Vec<Permit>) -> Self {
        Self {
            pending: (!pending.charges.is_empty()).then(|| Box::new(pending)),
            permits,
        }
    }

    /// Whether some charge is not settled.
    #[must_use]
    pub fn owes(&self) -> bool {
        self.pending.is_some()
    }

    /// The request was held back and goes on: its place is used now.
    pub fn go_on(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.go_on();
            if pending.charges.is_empty() {
                self.pending = None;
            }
        }
    }

    /// Whether others may wait for the end of this request.
    #[must_use]
    pub fn holds_permits(&self) -> bool {
        !self.permits.is_empty()
    }

    /// The answer is about to end: the request is no longer in flight.
    pub fn land(&mut self) {
        self.permits.clear();
    }

    /// Settles what is owed by the answer, or without one, and says what came of it. What was settled stays so.
    pub fn settle(&mut self, answer: Option<FinalResponse<'_>>, now: Timestamp) -> Vec<LimitNote> {
        match self.pending.take() {
            Some(mut pending) => pending.settle(answer, now),
            None => Vec::new(),
        }
    }
}

impl Pending {
    /// Nothing yet, of a request that its limits hold back for so long.
    pub(super) fn before(delay: Duration) -> Self {
        Self {
            charges: Vec::new(),
            stage: if delay.is_zero() {
                Stage::UnderWay
            } else {
                Stage::HeldBack
            },
        }
    }

    /// Nothing yet, of a request that some limit may still refuse, or that may end before it is decided.
    pub(super) fn undecided() -> Self {
        Self {
            charges: Vec::new(),
            stage: Stage::HeldBack,
        }
    }

    /// The request passes, after its limits have held it back for so long.
    pub(super) fn decided(&mut self, delay: Duration) {
        if delay.is_zero() {
            self.go_on();
        }
    }

    /// Its place is used from now on.
    fn go_on(&mut self) {
        self.stage = Stage::UnderWay;
        // Dropped, a charge stands.
        self.charges.retain(Charge::waits_for_answer);
    }

    /// Whether the request goes on at once.
    pub(super) fn is_under_way(&self) -> bool {
        self.stage == Stage::UnderWay
    }

    /// Adds a charge, unless it stands as it was made.
    pub(super) fn add(&mut self, made: impl Into<Made>, asked: Asked, voice: Voice) {
        let mut charge = Charge {
            made: made.into(),
            asked,
            voice,
        };
        if !self.is_under_way() || charge.waits_for_answer() {
            if let Made::Exchanged(made) = &mut charge.made {
                made.open();
            }
            self.charges.push(charge);
        }
    }

    fn settle(&mut self, answer: Option<FinalResponse<'_>>, now: Timestamp) -> Vec<LimitNote> {
        let mut notes = Vec::new();
        for charge in self.charges.drain(..) {
            charge.settle(self.stage, answer, now, &mut notes);
        }
        notes
    }
}

impl Charge {
    fn waits_for_answer(&self) -> bool {
        self.asked
            .iter()
            .any(|(_, limit)| limit.settlement.is_some())
    }

    fn settle(
        self,
        stage: Stage,
        answer: Option<FinalResponse<'_>>,
        now: Timestamp,
        notes: &mut Vec<LimitNote>,
    ) {
        let come_to = |(limit, active): &(u8, Arc<ActiveLimit>)| {
            let (due, event) = match (stage, &active.settlement) {
                (Stage::HeldBack, _) => (Settle::Refund, Some(LimitEvent::Released)),
                (Stage::UnderWay, Some(settlement)) => settlement.due(answer),
                (Stage::UnderWay, None) => (Settle::Keep, None),
            };
            if self.voice == Voice::Heard {
                notes.extend(event.map(|event| LimitNote {
                    limit: *limit,
                    event,
                }));
            }
            due
        };
        let dues: ArrayVec<Settle, MAX_ASKS> = self.asked.iter().map(come_to).collect();
        let due = |ask: usize| dues.get(ask).copied().unwrap_or(Settle::Keep);
        match self.made {
            Made::Here(reservation) if stage == Stage::HeldBack => reservation.withdraw(now),
            Made::Here(reservation) => {
                reservation.settle_each(now, due);
            }
            Made::Exchanged(charge) => charge.settle_each(now, due),
            Made::Abroad(charge) => charge.settle_each(now, due),
        }
    }
}

impl From<Reservation> for Made {
    fn from(reservation: Reservation) -> Self {
        Self::Here(reservation)
    }
}

impl From<ReplicatedCharge> for Made {
    fn from(charge: ReplicatedCharge) -> Self {
        Self::Exchanged(charge)
    }
}

impl From<RemoteCharge> for Made {
    fn from(charge: RemoteCharge) -> Self {
        Self::Abroad(charge)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.charges.is_empty() {
            self.settle(None, clock::now());
        }
    }
}
