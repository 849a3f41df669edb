//! Owns what a request that passed still owes its limits, and sees to it that it is paid however the request ends.
//!
//! [`Admitted`] is the evidence that a request passed. Where a limit waits for the answer it also holds the charges, and dropping it
//! settles them as for a request without one. So an error, a client that leaves, a panic or a cancelled task leaks nothing: whatever
//! ends a request drops this.

use std::sync::Arc;

use arrayvec::ArrayVec;
use sluicegate_limiter::{Due, MAX_ASKS, Reservation, Timestamp};

use super::judged::{Finding, Note};
use super::limit::ActiveLimit;
use super::terms::Answer;
use crate::clock;

/// The evidence that a request passed admission, with what is still to be settled.
#[derive(Debug)]
pub struct Admitted(Option<Box<Pending>>);

/// Charges that wait for the answer; one reservation a verdict.
#[derive(Debug, Default)]
pub(super) struct Pending(Vec<Charge>);

/// One reservation and the limits that it is of, by ask, with their index on the route.
#[derive(Debug)]
pub(super) struct Charge {
    reservation: Reservation,
    asked: ArrayVec<(u8, Arc<ActiveLimit>), MAX_ASKS>,
}

impl Admitted {
    /// A request whose charges stand as they were made.
    pub(super) const fn settled() -> Self {
        Self(None)
    }

    /// A request that owes what is in `pending`.
    pub(super) fn owing(pending: Pending) -> Self {
        Self((!pending.0.is_empty()).then(|| Box::new(pending)))
    }

    /// Whether some limit still waits for the answer.
    #[must_use]
    pub fn waits_for_answer(&self) -> bool {
        self.0.is_some()
    }

    /// Settles what is owed by the answer, or without one, and says what came of it. What was settled stays so.
    pub fn settle(&mut self, answer: Option<Answer<'_>>, now: Timestamp) -> Vec<Note> {
        match self.0.take() {
            Some(mut pending) => pending.settle(answer, now),
            None => Vec::new(),
        }
    }
}

impl Pending {
    /// Adds a reservation, unless none of its limits waits for anything.
    pub(super) fn add(
        &mut self,
        reservation: Reservation,
        asked: ArrayVec<(u8, Arc<ActiveLimit>), MAX_ASKS>,
    ) {
        if asked.iter().any(|(_, limit)| limit.terms.is_some()) {
            self.0.push(Charge { reservation, asked });
        }
    }

    fn settle(&mut self, answer: Option<Answer<'_>>, now: Timestamp) -> Vec<Note> {
        let mut notes = Vec::new();
        for Charge { reservation, asked } in self.0.drain(..) {
            let found = |(limit, active): &(u8, Arc<ActiveLimit>)| {
                let (due, finding) = match &active.terms {
                    Some(terms) => terms.due(answer),
                    None => (Due::AsReserved, None),
                };
                notes.extend(finding.map(|finding: Finding| Note {
                    limit: *limit,
                    finding,
                }));
                due
            };
            let dues: ArrayVec<Due, MAX_ASKS> = asked.iter().map(found).collect();
            reservation.settle_each(now, |ask| dues.get(ask).copied().unwrap_or(Due::AsReserved));
        }
        notes
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            self.settle(None, clock::now());
        }
    }
}
