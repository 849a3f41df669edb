//! Owns the ways in which a try at a server ends, and which of them the rules mean.

use crate::config::rules::FailureClass;

/// How a try failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection could be made, so nothing was sent.
    Connect,
    /// No answer came in time.
    Timeout,
    /// The connection broke before the answer was whole.
    Reset,
    /// It was answered with this status.
    Status(u16),
}

impl Failure {
    /// Whether the rules mean it.
    #[must_use]
    pub fn is_among(self, classes: &[FailureClass]) -> bool {
        classes.iter().any(|class| match (class, self) {
            (FailureClass::Connect, Self::Connect)
            | (FailureClass::Timeout, Self::Timeout)
            | (FailureClass::Reset, Self::Reset) => true,
            (FailureClass::Status(statuses), Self::Status(status)) => statuses.contains(&status),
            _ => false,
        })
    }
}

/// What came of a try, as metrics tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryOutcome {
    /// 101 to 199: a connection that now speaks another protocol.
    Switched,
    /// 200 to 299.
    Success,
    /// 300 to 399.
    Redirection,
    /// 400 to 499.
    ClientError,
    /// 500 to 599.
    ServerError,
    /// No connection.
    Connect,
    /// No answer in time.
    Timeout,
    /// A broken connection.
    Reset,
    /// The request ended before its answer: its client left, or broke a rule.
    Abandoned,
}

impl TryOutcome {
    /// Every outcome, in the order of its discriminants.
    pub const ALL: [Self; 9] = [
        Self::Switched,
        Self::Success,
        Self::Redirection,
        Self::ClientError,
        Self::ServerError,
        Self::Connect,
        Self::Timeout,
        Self::Reset,
        Self::Abandoned,
    ];

    /// As metrics and status write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Switched => "1xx",
            Self::Success => "2xx",
            Self::Redirection => "3xx",
            Self::ClientError => "4xx",
            Self::ServerError => "5xx",
            Self::Connect => "connect",
            Self::Timeout => "timeout",
            Self::Reset => "reset",
            Self::Abandoned => "abandoned",
        }
    }
}

impl From<Failure> for TryOutcome {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Connect => Self::Connect,
            Failure::Timeout => Self::Timeout,
            Failure::Reset => Self::Reset,
            Failure::Status(..=199) => Self::Switched,
            Failure::Status(200..=299) => Self::Success,
            Failure::Status(300..=399) => Self::Redirection,
            Failure::Status(400..=499) => Self::ClientError,
            Failure::Status(_) => Self::ServerError,
        }
    }
}
