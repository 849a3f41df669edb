//! Holds admitted requests until their response and their end, as the log has them.
//!
//! A request whose charges wait for the response, or that holds permits, is settled at the time of its response and gives its permits back
//! at its end. Without durations in the log both are the time of its begin.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use http::{HeaderMap, StatusCode};
use sluicegate_limiter::Timestamp;

use sluicegate_decide::admission::{
    Admitted, FinalResponse, LimitNote, LoggedCost, RequestEnd, ResponseSource,
};

/// Most requests that wait for their end; beyond that the one with the earliest end is settled early.
pub(super) const MAX_IN_FLIGHT: usize = 1 << 20;

/// A request in flight.
pub(super) struct InFlightRequest {
    pub(super) admitted: Admitted,
    /// The time of its response.
    pub(super) answered: Timestamp,
    /// The time of its end.
    pub(super) ended: Timestamp,
    /// The status and the source of the response; `None` without one.
    pub(super) response: Option<(StatusCode, ResponseSource)>,
    /// Fields of the response that costs are read from.
    pub(super) fields: Option<Box<HeaderMap>>,
    /// The facts about its end that costs are measured by.
    pub(super) end: RequestEnd<'static>,
    /// The costs that its end settles.
    pub(super) costs: Vec<LoggedCost>,
    /// The index of its route.
    pub(super) route: usize,
}

/// The requests in flight, by the time of their next event.
#[derive(Default)]
pub(super) struct RequestsInFlight {
    waiting: BinaryHeap<WaitingRequest>,
    added: u64,
    /// Requests that were settled early.
    pub(super) settled_early: u64,
}

struct WaitingRequest {
    at: Timestamp,
    /// Requests with the same time keep their order.
    turn: u64,
    request: InFlightRequest,
    is_answered: bool,
}

impl RequestsInFlight {
    /// Adds a request. Returns its notes where it must be settled at once.
    pub(super) fn add(&mut self, request: InFlightRequest) -> Option<(usize, Vec<LimitNote>)> {
        self.added += 1;
        let turn = self.added;
        let at = match request.admitted.is_pending() {
            true => request.answered,
            false => request.ended,
        };
        self.waiting.push(WaitingRequest {
            at,
            turn,
            request,
            is_answered: false,
        });
        if self.waiting.len() <= MAX_IN_FLIGHT {
            return None;
        }
        self.settled_early += 1;
        self.waiting.pop().map(WaitingRequest::finish)
    }

    /// Settles the next event up to `now`, and returns the route of its request and the notes about it; `None` where nothing is due.
    pub(super) fn settle_due(&mut self, now: Timestamp) -> Option<(usize, Vec<LimitNote>)> {
        if self.waiting.peek()?.at > now {
            return None;
        }
        let mut waiting = self.waiting.pop()?;
        if !waiting.request.admitted.is_pending() {
            // Its end: dropped, it gives its permits back.
            return Some((waiting.request.route, Vec::new()));
        }
        let notes = waiting.settle();
        let route = waiting.request.route;
        let admitted = &waiting.request.admitted;
        if admitted.is_pending() || admitted.holds_permits() {
            waiting.at = waiting.request.ended.max(waiting.at);
            self.waiting.push(waiting);
        }
        Some((route, notes))
    }
}

impl WaitingRequest {
    /// Settles the charges by the response, and at the second call those that wait for the end.
    fn settle(&mut self) -> Vec<LimitNote> {
        if std::mem::replace(&mut self.is_answered, true) {
            return self.end();
        }
        let none = HeaderMap::new();
        let fields = self.request.fields.as_deref().unwrap_or(&none);
        // Its turn in the queue of a leaky bucket has come before.
        self.request.admitted.start();
        match self.request.response {
            Some((status, by)) => {
                let response = FinalResponse { by, status, fields };
                self.request.admitted.settle(Some(response), self.at)
            }
            None => self.end(),
        }
    }

    fn end(&mut self) -> Vec<LimitNote> {
        let request = &mut self.request;
        let end = RequestEnd {
            logged: &request.costs,
            ..request.end
        };
        request.admitted.end(&end, self.at)
    }

    fn finish(mut self) -> (usize, Vec<LimitNote>) {
        let mut notes = self.settle();
        if self.request.admitted.is_pending() {
            notes.extend(self.settle());
        }
        (self.request.route, notes)
    }
}

impl PartialEq for WaitingRequest {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for WaitingRequest {}

impl PartialOrd for WaitingRequest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for WaitingRequest {
    /// The greatest of a heap is the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.turn).cmp(&(self.at, self.turn))
    }
}
