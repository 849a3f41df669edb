//! Defines the outcomes of an attempt at a server, which of them the rules treat as failures, and their names in log and
//! metrics.

use crate::config::rules::FailureClass;

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
            _ => false,
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

/// The cause of a request's failure at its origin: the field `failure` of the access log, and the label of the metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// No address of the origin is known.
    Resolve,
    /// No connection: refused, unreachable, no local socket.
    Connect,
    /// No connection in time.
    ConnectTimeout,
    /// The TLS handshake failed.
    Tls,
    /// The server broke the protocol that the configuration names, or speaks another.
    Protocol,
    /// No response head within `timeouts.read`.
    TtfbTimeout,
    /// No byte of the body within `timeouts.read`.
    ReadTimeout,
    /// The server did not take the request within `timeouts.write`.
    WriteTimeout,
    /// No whole response within `timeouts.total`.
    TotalTimeout,
    /// The connection closed before the response head was complete.
    Closed,
    /// The connection or the stream was reset before the response head was complete.
    Reset,
    /// The response head is not HTTP.
    MalformedHead,
    /// The response head has too many fields.
    TooManyFields,
    /// The response head has too many bytes.
    HeadTooLarge,
    /// The framing of the response body is invalid.
    MalformedBody,
    /// The response body ended early.
    Truncated,
    /// No server is in service: checks fail, or servers are ejected or drained.
    NoServer,
    /// Every server has all requests or connections that it may have, and the queue is full.
    CircuitFull,
    /// Every server was full for `pending_timeout`.
    PendingTimeout,
}

impl FailureKind {
    /// Every kind, in the order of its discriminants.
    pub const ALL: [Self; 19] = [
        Self::Resolve,
        Self::Connect,
        Self::ConnectTimeout,
        Self::Tls,
        Self::Protocol,
        Self::TtfbTimeout,
        Self::ReadTimeout,
        Self::WriteTimeout,
        Self::TotalTimeout,
        Self::Closed,
        Self::Reset,
        Self::MalformedHead,
        Self::TooManyFields,
        Self::HeadTooLarge,
        Self::MalformedBody,
        Self::Truncated,
        Self::NoServer,
        Self::CircuitFull,
        Self::PendingTimeout,
    ];

    /// The name in log and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::ConnectTimeout => "connect-timeout",
            Self::Tls => "tls",
            Self::Protocol => "protocol",
            Self::TtfbTimeout => "ttfb-timeout",
            Self::ReadTimeout => "read-timeout",
            Self::WriteTimeout => "write-timeout",
            Self::TotalTimeout => "total-timeout",
            Self::Closed => "closed",
            Self::Reset => "reset",
            Self::MalformedHead => "malformed-head",
            Self::TooManyFields => "too-many-fields",
            Self::HeadTooLarge => "head-too-large",
            Self::MalformedBody => "malformed-body",
            Self::Truncated => "truncated",
            Self::NoServer => "no-server",
            Self::CircuitFull => "circuit-full",
            Self::PendingTimeout => "pending-timeout",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a counter of one kind never counts another. Method: the position of each kind in the list.
    #[test]
    fn kinds_are_listed_in_their_order() {
        for (index, kind) in FailureKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index, "{}", kind.as_str());
        }
    }
}
