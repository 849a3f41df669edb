//! Defines the kinds of failures of origins, and their names in log and metrics.

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
    /// More interim heads came before the final one than one response may have.
    TooManyInterimHeads,
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
    /// Every server is at its limit of `adaptive_concurrency`.
    AdaptiveLimit,
    /// Every server is near its limit of `adaptive_concurrency`, and the client has most of the requests.
    HeavyClient,
}

impl FailureKind {
    /// Every kind, in the order of its discriminants.
    pub const ALL: [Self; 22] = [
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
        Self::TooManyInterimHeads,
        Self::MalformedBody,
        Self::Truncated,
        Self::NoServer,
        Self::CircuitFull,
        Self::PendingTimeout,
        Self::AdaptiveLimit,
        Self::HeavyClient,
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
            Self::TooManyInterimHeads => "too-many-interim-heads",
            Self::MalformedBody => "malformed-body",
            Self::Truncated => "truncated",
            Self::NoServer => "no-server",
            Self::CircuitFull => "circuit-full",
            Self::PendingTimeout => "pending-timeout",
            Self::AdaptiveLimit => "adaptive-limit",
            Self::HeavyClient => "heavy-client",
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_decide::outcome::RequestDisposition;
    use sluicegate_decide::own_failure::OwnFailure;

    use super::*;

    /// Goal: a counter of one kind never counts another. Method: the position of each kind in the list.
    #[test]
    fn kinds_are_listed_in_their_order() {
        for (index, kind) in FailureKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index, "{}", kind.as_str());
        }
    }

    /// Goal: an operator finds each value of `failure`. Method: a row for each kind, and a kind for each row.
    #[test]
    fn every_kind_is_in_the_operators_guide() {
        let guide = include_str!("../../../../docs/operations/logs.md");
        let (_, table) = guide
            .split_once("\n| `failure` | status | meaning |\n")
            .unwrap();
        let (table, _) = table.split_once("\n\n").unwrap();
        let first = |row: &str| row.split('`').nth(1).map(str::to_owned);
        let mut rows: Vec<_> = table.lines().filter_map(first).collect();
        let own = OwnFailure::ALL.map(OwnFailure::as_str);
        let of_origins = FailureKind::ALL.map(FailureKind::as_str);
        let of_store = [RequestDisposition::RefusedStoreAway.as_str()];
        let mut kinds = [&own[..], &of_origins, &of_store].concat();
        rows.sort_unstable();
        kinds.sort_unstable();
        assert_eq!(rows, kinds);
    }
}
