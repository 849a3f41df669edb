//! Divides requests by their result, as those read it who look at the whole gateway: answered, rejected, failed and by whom.

use serde::Serialize;
use sluicegate_decide::outcome::RequestDisposition;

use super::request_series::CODES;

/// The index of 5xx in [`CODES`].
const SERVER_ERROR: usize = 5;

/// The result of a request; each request has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestResult {
    Answered,
    Rejected,
    FailedByGateway,
    FailedByOrigin,
    ClientGone,
}

/// Numbers of requests by their result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestTotals {
    /// All requests.
    pub all: u64,
    /// Requests that a limit, a ban, a list or a rule of the protocol rejected.
    pub rejected: u64,
    /// Requests that the gateway answered with a 5xx of its own, or left without a whole answer: its origin cannot be reached, its store is
    /// away, it has no room.
    pub failed_by_gateway: u64,
    /// Requests that an origin answered with 5xx.
    pub failed_by_origins: u64,
    /// Requests whose client left or stalled.
    pub clients_gone: u64,
}

impl RequestResult {
    /// Returns the result of a request with this disposition, and a status of this class of [`CODES`].
    pub(super) const fn new(disposition: RequestDisposition, code: usize) -> Self {
        match disposition {
            RequestDisposition::Refused
            | RequestDisposition::Challenged
            | RequestDisposition::Banned
            | RequestDisposition::RefusedConcurrency
            | RequestDisposition::Blocked
            | RequestDisposition::Rejected => Self::Rejected,
            RequestDisposition::OriginFailed
            | RequestDisposition::RefusedStoreAway
            | RequestDisposition::Internal
            | RequestDisposition::CutOff => Self::FailedByGateway,
            RequestDisposition::ClientGone => Self::ClientGone,
            RequestDisposition::Forwarded | RequestDisposition::Cached if code == SERVER_ERROR => {
                Self::FailedByOrigin
            }
            RequestDisposition::Allowed | RequestDisposition::NoRoute if code == SERVER_ERROR => {
                Self::FailedByGateway
            }
            // An answer that the route words is what the operator wants, whatever its status is.
            RequestDisposition::Forwarded
            | RequestDisposition::Cached
            | RequestDisposition::Responded
            | RequestDisposition::Allowed
            | RequestDisposition::NoRoute => Self::Answered,
        }
    }
}

impl RequestTotals {
    /// Adds `count` requests with this disposition and class of status.
    pub(super) fn add(&mut self, disposition: RequestDisposition, code: usize, count: u64) {
        debug_assert!(code < CODES.len(), "a class of statuses");
        self.all += count;
        match RequestResult::new(disposition, code) {
            RequestResult::Answered => {}
            RequestResult::Rejected => self.rejected += count,
            RequestResult::FailedByGateway => self.failed_by_gateway += count,
            RequestResult::FailedByOrigin => self.failed_by_origins += count,
            RequestResult::ClientGone => self.clients_gone += count,
        }
    }

    /// Returns the growth since `earlier`; nothing where numbers shrank, because a reload removed a route.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            all: self.all.saturating_sub(earlier.all),
            rejected: self.rejected.saturating_sub(earlier.rejected),
            failed_by_gateway: (self.failed_by_gateway).saturating_sub(earlier.failed_by_gateway),
            failed_by_origins: (self.failed_by_origins).saturating_sub(earlier.failed_by_origins),
            clients_gone: self.clients_gone.saturating_sub(earlier.clients_gone),
        }
    }

    /// Returns the sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            all: self.all + other.all,
            rejected: self.rejected + other.rejected,
            failed_by_gateway: self.failed_by_gateway + other.failed_by_gateway,
            failed_by_origins: self.failed_by_origins + other.failed_by_origins,
            clients_gone: self.clients_gone + other.clients_gone,
        }
    }

    /// Returns the requests that got a 5xx, or no whole answer, by no fault of their clients.
    #[must_use]
    pub fn failed(self) -> u64 {
        self.failed_by_gateway + self.failed_by_origins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every request is counted once, and a failure under the side that wrote its status; a route that responds with 503 does not
    /// fail. Method: each disposition with a status of 2xx and of 5xx.
    #[test]
    fn a_failure_is_counted_by_who_answered() {
        let total = |code| {
            let mut totals = RequestTotals::default();
            for disposition in RequestDisposition::ALL {
                totals.add(disposition, code, 1);
            }
            totals
        };
        let expected = |failed_by_gateway, failed_by_origins| RequestTotals {
            all: 16,
            rejected: 6,
            failed_by_gateway,
            failed_by_origins,
            clients_gone: 1,
        };
        assert_eq!(total(2), expected(4, 0));
        assert_eq!(total(SERVER_ERROR), expected(6, 2));
        assert_eq!(CODES[SERVER_ERROR], "5xx");
        let responded = RequestResult::new(RequestDisposition::Responded, SERVER_ERROR);
        assert_eq!(responded, RequestResult::Answered);
        let grown = expected(6, 2).since(expected(4, 0));
        assert_eq!((grown.all, grown.failed()), (0, 4));
    }
}
