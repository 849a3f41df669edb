//! Maps an error of the proxy to a status, in one place: who is to blame, and which answer follows.

use std::io;

use pingora::{Error, ErrorSource, ErrorType};
use sluicegate_http1::RuleViolation;

use crate::origin::NO_CONNECTION;
use crate::record::RequestDisposition;
use crate::response::{GatewayProblem, HttpViolation};

/// A failure, by who is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProxyFault {
    /// The client broke a rule and gets an answer.
    Client(GatewayProblem),
    /// The client left or stalled, so there is no answer.
    ClientGone,
    /// The origin failed.
    Origin(GatewayProblem),
    /// The gateway failed.
    Us,
}

/// The cause of the error for [`GatewayProblem::OriginFull`], whose status another problem has too.
pub(super) const OVERFULL: &str = "the origin has all the requests that it may";

/// The cause of the error for [`GatewayProblem::Overloaded`].
pub(super) const OVERLOADED: &str = "as many requests are on their way to origins as may be";

/// The cause of the error for [`GatewayProblem::Unread`].
pub(super) const UNREAD: &str = "as many bytes wait for clients as may";

/// The cause of the error for [`GatewayProblem::KeyBodies`].
pub(super) const KEY_BODIES: &str = "as many bytes of bodies are held for keys as may";

/// Returns the error that [`ProxyFault::of`] maps back to a problem that the gateway found itself.
pub(super) fn error_for(problem: GatewayProblem) -> Box<Error> {
    Error::new(ErrorType::HTTPStatus(problem.status().as_u16()))
}

/// Returns whether the bytes that were read are malformed, rather than missing.
fn is_unreadable(error: &Error) -> bool {
    error
        .root_cause()
        .downcast_ref::<io::Error>()
        .is_some_and(|cause| cause.kind() == io::ErrorKind::InvalidData)
}

impl ProxyFault {
    /// Returns the fault behind an error.
    pub(super) fn of(error: &Error) -> Self {
        use ErrorType as E;
        match (error.esource(), error.etype()) {
            (_, E::HTTPStatus(408)) => Self::Client(GatewayProblem::BodyTimeout),
            (_, E::HTTPStatus(413)) => Self::Client(GatewayProblem::BodyTooLarge),
            (_, E::HTTPStatus(503)) => Self::Origin(GatewayProblem::NoServer),
            (_, E::Custom(OVERFULL | NO_CONNECTION)) => Self::Origin(GatewayProblem::OriginFull),
            // The cap of one client, or of all clients together.
            (_, E::Custom(OVERLOADED)) => Self::Client(GatewayProblem::Overloaded),
            (_, E::Custom(UNREAD)) => Self::Client(GatewayProblem::Unread),
            (_, E::Custom(KEY_BODIES)) => Self::Client(GatewayProblem::KeyBodies),
            (_, E::HTTPStatus(504)) => Self::Origin(GatewayProblem::OriginTimeout),
            (_, E::HTTPStatus(400..=499)) => {
                Self::Client(GatewayProblem::BadRequest(HttpViolation::Other))
            }
            // The listener has checked the head; the proxy then rejects only a field that `Connection` names.
            (ErrorSource::Downstream, E::InvalidHTTPHeader) => {
                Self::Client(GatewayProblem::BadRequest(HttpViolation::ConnectionOption))
            }
            (ErrorSource::Downstream, E::InvalidH2) => {
                Self::Client(GatewayProblem::BadRequest(HttpViolation::Http2))
            }
            // Chunks that two parsers could frame in two ways; Pingora finds some, the listener most.
            (ErrorSource::Downstream, E::Custom("InvalidChunk" | "InvalidTrailerEnd")) => {
                Self::Client(GatewayProblem::BadRequest(RuleViolation::Chunks.into()))
            }
            (ErrorSource::Downstream, E::ReadError) if is_unreadable(error) => {
                Self::Client(GatewayProblem::BadRequest(RuleViolation::Chunks.into()))
            }
            // The client is silent in the middle of its body, and may still read.
            (ErrorSource::Downstream, E::ReadTimedout) => Self::Client(GatewayProblem::BodyTimeout),
            (ErrorSource::Downstream, _) => Self::ClientGone,
            (ErrorSource::Upstream, E::ConnectTimedout | E::ReadTimedout | E::WriteTimedout) => {
                Self::Origin(GatewayProblem::OriginTimeout)
            }
            (ErrorSource::Upstream, _) => Self::Origin(GatewayProblem::BadGateway),
            (ErrorSource::Internal | ErrorSource::Unset, _) => Self::Us,
        }
    }

    /// Returns the problem to answer with; `None` where no client is left.
    pub(super) fn problem(self) -> Option<GatewayProblem> {
        match self {
            Self::Client(problem) | Self::Origin(problem) => Some(problem),
            Self::ClientGone => None,
            Self::Us => Some(GatewayProblem::Internal),
        }
    }

    /// Returns whether the client's connection may carry another request: neither the client nor its bytes are to blame.
    pub(super) fn leaves_client_usable(self) -> bool {
        matches!(self, Self::Origin(_)) || self.is_full()
    }

    /// Returns whether a budget of the gateway is full, in all or for the client.
    pub(super) fn is_full(self) -> bool {
        use GatewayProblem as P;
        matches!(self, Self::Client(P::Overloaded | P::Unread | P::KeyBodies))
    }

    /// Returns the disposition for the record.
    pub(super) fn disposition(self) -> RequestDisposition {
        match self {
            Self::Client(_) => RequestDisposition::Rejected,
            Self::ClientGone => RequestDisposition::ClientGone,
            Self::Origin(_) => RequestDisposition::OriginFailed,
            Self::Us => RequestDisposition::Internal,
        }
    }
}

/// Returns the disposition of a request that a stage other than admission rejects.
pub(super) fn disposition_of(problem: GatewayProblem) -> RequestDisposition {
    match problem {
        GatewayProblem::NoRoute => RequestDisposition::NoRoute,
        GatewayProblem::Blocked => RequestDisposition::Blocked,
        _ => RequestDisposition::Rejected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(error_type: ErrorType, blame: fn(&mut Error)) -> ProxyFault {
        let mut error = Error::new(error_type);
        blame(&mut error);
        ProxyFault::of(&error)
    }

    /// Goal: 502, 503 and 504 are distinguished. Method: the errors that Pingora raises for each.
    #[test]
    fn failures_of_the_origin_are_distinguished() {
        let upstream = Error::as_up;
        assert_eq!(
            fault(ErrorType::ConnectRefused, upstream),
            ProxyFault::Origin(GatewayProblem::BadGateway)
        );
        assert_eq!(
            fault(ErrorType::ReadTimedout, upstream),
            ProxyFault::Origin(GatewayProblem::OriginTimeout)
        );
        assert_eq!(
            ProxyFault::of(&error_for(GatewayProblem::NoServer)),
            ProxyFault::Origin(GatewayProblem::NoServer)
        );
    }

    /// Goal: a client that left is not recorded as a failure of the gateway. Method: the errors of a broken connection, and of a
    /// reset stream.
    #[test]
    fn a_client_that_left_gets_no_answer() {
        for gone in [ErrorType::ReadError, ErrorType::H2Error] {
            let gone = fault(gone, Error::as_down);
            assert_eq!(gone, ProxyFault::ClientGone);
            assert_eq!(gone.problem(), None);
        }
    }
}
