//! Defines the outcomes of an attempt at a server, which of them the rules treat as failures, and their names in metrics.

use sluicegate_config::rules::FailureClass;

/// The failure of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptFailure {
    /// No connection could be made, so nothing was sent.
    Connect,
    /// No answer came in time.
    Timeout,
    /// The connection broke before the answer was whole.
    Reset,
    /// The server answered with this status.
    Status(u16),
}

impl AttemptFailure {
    /// Returns whether one of these classes contains it.
    #[must_use]
    pub fn is_among(self, classes: &[FailureClass]) -> bool {
        classes.iter().any(|class| match (class, self) {
            (FailureClass::Connect, Self::Connect)
            | (FailureClass::Timeout, Self::Timeout)
            | (FailureClass::Reset, Self::Reset) => true,
            (FailureClass::Status(statuses), Self::Status(status)) => statuses.contains(&status),
            (
                FailureClass::Connect
                | FailureClass::Timeout
                | FailureClass::Reset
                | FailureClass::Status(_),
                Self::Connect | Self::Timeout | Self::Reset | Self::Status(_),
            ) => false,
        })
    }
}

/// The outcome of an attempt, a label of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
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

impl AttemptOutcome {
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

    /// Returns whether the server is to blame.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        match self {
            Self::ServerError | Self::Connect | Self::Timeout | Self::Reset => true,
            Self::Switched
            | Self::Success
            | Self::Redirection
            | Self::ClientError
            | Self::Abandoned => false,
        }
    }

    /// Returns its name in metrics and `/status`.
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

impl From<AttemptFailure> for AttemptOutcome {
    fn from(failure: AttemptFailure) -> Self {
        match failure {
            AttemptFailure::Connect => Self::Connect,
            AttemptFailure::Timeout => Self::Timeout,
            AttemptFailure::Reset => Self::Reset,
            AttemptFailure::Status(..=199) => Self::Switched,
            AttemptFailure::Status(200..=299) => Self::Success,
            AttemptFailure::Status(300..=399) => Self::Redirection,
            AttemptFailure::Status(400..=499) => Self::ClientError,
            AttemptFailure::Status(_) => Self::ServerError,
        }
    }
}
