//! Describes why an order failed: a text for the operator, and a kind that decides the next step.

use std::fmt;

use instant_acme::{Error, Problem};

/// The failure of an order.
#[derive(Debug)]
pub(super) struct OrderError {
    pub(super) kind: OrderErrorKind,
    text: String,
}

/// The kind of an order's failure, which decides what the service does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrderErrorKind {
    /// The server rejects the order.
    Refused,
    /// A rate limit of the server rejects it.
    RateLimited,
    /// The server does not know the account.
    AccountUnknown,
    /// There was no answer, or no usable one, or it could not be stored.
    Failed,
}

impl OrderError {
    /// Returns a failure that the server did not report.
    pub(super) fn failed(why: impl fmt::Display) -> Self {
        Self {
            kind: OrderErrorKind::Failed,
            text: why.to_string(),
        }
    }

    /// Makes an error from the server's problem document for one of the names.
    pub(super) fn refused(name: &str, problem: &Problem) -> Self {
        let Self { kind, text } = Self::from(problem);
        Self {
            kind,
            text: format!("{name}: {text}"),
        }
    }

    /// Returns a rejection with a text of the gateway.
    pub(super) fn denied(why: impl fmt::Display) -> Self {
        Self {
            kind: OrderErrorKind::Refused,
            text: why.to_string(),
        }
    }
}

impl From<&Problem> for OrderError {
    fn from(problem: &Problem) -> Self {
        let name = problem.r#type.as_deref().unwrap_or_default();
        // RFC 8555 §6.7.
        let kind = match name.strip_prefix("urn:ietf:params:acme:error:") {
            Some("rateLimited") => OrderErrorKind::RateLimited,
            Some("accountDoesNotExist") => OrderErrorKind::AccountUnknown,
            _ => OrderErrorKind::Refused,
        };
        let text = problem.to_string();
        // `Problem` begins every text with this.
        let text = text.strip_prefix("API error: ").unwrap_or(&text);
        Self {
            kind,
            // The server's text goes into one line of the log.
            text: text.escape_debug().to_string(),
        }
    }
}

impl From<Error> for OrderError {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(problem) => Self::from(&problem),
            Error::Timeout(_) => Self::failed("the server does not come to an end with the order"),
            other => Self::failed(other.to_string().escape_debug()),
        }
    }
}

impl fmt::Display for OrderError {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the kind follows from the server's error type. Method: problems as servers send them.
    #[test]
    fn errors_are_classified_by_their_type() {
        for (name, kind) in [
            (
                "urn:ietf:params:acme:error:rateLimited",
                OrderErrorKind::RateLimited,
            ),
            (
                "urn:ietf:params:acme:error:accountDoesNotExist",
                OrderErrorKind::AccountUnknown,
            ),
            (
                "urn:ietf:params:acme:error:unauthorized",
                OrderErrorKind::Refused,
            ),
            ("about:blank", OrderErrorKind::Refused),
        ] {
            let problem = format!(r#"{{"type": "{name}", "detail": "no\nway"}}"#);
            let problem: Problem = serde_json::from_str(&problem).unwrap();
            let trouble = OrderError::refused("a.test", &problem);
            assert_eq!(trouble.kind, kind);
            assert_eq!(trouble.to_string(), format!("a.test: no\\nway ({name})"));
        }
    }
}
