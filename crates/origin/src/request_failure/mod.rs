//! Defines why a request has no proper answer, by who is to blame: its client, its origin or the gateway.
//!
//! Each failure is made where it is found, with the text of the operating system, of TLS or of a parser, and is read by matches alone: the
//! status, the field `failure` of the log, and whether another attempt follows. Errors of Pingora become failures where its connector
//! returns them.

mod client;
mod connect;
mod gateway;
mod kind;
mod origin;

use std::fmt;

use sluicegate_decide::outcome::RequestDisposition;

use sluicegate_decide::response::GatewayProblem;

pub use client::ClientFailure;
pub use connect::{ConnectFailure, ConnectStep};
pub use gateway::GatewayFailure;
pub use kind::FailureKind;
pub use origin::{HeadFailure, OriginFailure, OriginTimeout, ResponseStage, StreamFailure};

/// A result whose failure is boxed: a result on the way of a request is small.
pub type Result<T, E = Box<RequestFailure>> = std::result::Result<T, E>;

/// The failure of a request.
#[derive(Debug)]
pub enum RequestFailure {
    /// The client left, was too slow, or broke a rule.
    Client(ClientFailure),
    /// The origin gave no proper answer.
    Origin(OriginFailure),
    /// The gateway has no room for the request, or failed.
    Gateway(GatewayFailure),
}

impl RequestFailure {
    /// Returns the failure of a step that the gateway itself could not take.
    pub fn internal(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Box<Self> {
        GatewayFailure::Internal(cause.into()).into()
    }

    /// Returns the problem to answer with; `None` where no client is left.
    #[must_use]
    pub fn problem(&self) -> Option<GatewayProblem> {
        match self {
            Self::Client(failure) => failure.problem(),
            Self::Origin(failure) => Some(failure.problem()),
            Self::Gateway(failure) => Some(failure.problem()),
        }
    }

    /// Returns the disposition for the record.
    #[must_use]
    pub fn disposition(&self) -> RequestDisposition {
        match self {
            Self::Client(failure) if failure.problem().is_none() => RequestDisposition::ClientGone,
            Self::Gateway(GatewayFailure::CutOff) => RequestDisposition::CutOff,
            Self::Gateway(GatewayFailure::Internal(_)) => RequestDisposition::Internal,
            Self::Client(_) | Self::Gateway(_) => RequestDisposition::Rejected,
            Self::Origin(_) => RequestDisposition::OriginFailed,
        }
    }

    /// Returns whether the client's connection may carry another request: neither the client nor the gateway broke.
    #[must_use]
    pub fn leaves_client_usable(&self) -> bool {
        match self {
            Self::Client(_)
            | Self::Gateway(GatewayFailure::CutOff | GatewayFailure::Internal(_)) => false,
            Self::Origin(_)
            | Self::Gateway(
                GatewayFailure::Requests(..)
                | GatewayFailure::UnreadAnswers(..)
                | GatewayFailure::KeyBodies(..)
                | GatewayFailure::LargeHeads(..),
            ) => true,
        }
    }
}

impl fmt::Display for RequestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(failure) => failure.fmt(f),
            Self::Origin(failure) => failure.fmt(f),
            Self::Gateway(failure) => failure.fmt(f),
        }
    }
}

impl From<ClientFailure> for Box<RequestFailure> {
    fn from(failure: ClientFailure) -> Self {
        Self::new(RequestFailure::Client(failure))
    }
}

impl From<OriginFailure> for Box<RequestFailure> {
    fn from(failure: OriginFailure) -> Self {
        Self::new(RequestFailure::Origin(failure))
    }
}

impl From<GatewayFailure> for Box<RequestFailure> {
    fn from(failure: GatewayFailure) -> Self {
        Self::new(RequestFailure::Gateway(failure))
    }
}

/// Converts the error of a head of Pingora, which has more fields than one holds.
impl From<Box<pingora::Error>> for Box<RequestFailure> {
    fn from(error: Box<pingora::Error>) -> Self {
        RequestFailure::internal(error)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use super::*;

    /// Goal: 502, 503 and 504 are distinguished. Method: a failure of each.
    #[test]
    fn failures_of_the_origin_are_distinguished() {
        let refused = ConnectFailure::Other("Connection refused".to_owned());
        let silent = OriginTimeout::FirstByte(Duration::from_secs(1));
        let none = (FailureKind::NoServer, String::new());
        for (failure, problem) in [
            (OriginFailure::Connect(refused), GatewayProblem::BadGateway),
            (
                OriginFailure::Timeout(silent),
                GatewayProblem::OriginTimeout,
            ),
            (
                OriginFailure::NoServer(none.0, none.1),
                GatewayProblem::NoServer,
            ),
        ] {
            let failure = Box::<RequestFailure>::from(failure);
            assert_eq!(failure.problem(), Some(problem));
            assert!(failure.leaves_client_usable());
        }
    }

    /// Goal: a client that left is not recorded as a failure of the gateway. Method: a broken connection.
    #[test]
    fn a_client_that_left_gets_no_answer() {
        let broken = ClientFailure::Broken(io::ErrorKind::ConnectionReset.into());
        let gone = Box::<RequestFailure>::from(broken);
        assert_eq!(gone.disposition(), RequestDisposition::ClientGone);
        assert_eq!(gone.problem(), None);
    }
}
