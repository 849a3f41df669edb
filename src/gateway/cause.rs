//! Finds the cause of a request without a proper answer: a kind that log and metrics share, and the text of the operating
//! system, of TLS or of the parser.
//!
//! The client gets a status and no more; the cause is for the operator. Text that the other side may have chosen is escaped and
//! bounded.

use std::borrow::Cow;
use std::fmt::Write;
use std::{fmt, io};

use pingora::{Error, ErrorType};
use sluicegate_base::bounds::{FAILURE_REASON, RESPONSE_HEAD};

use crate::budgets::{BytesCap, RequestCap, RequestCaps};
use crate::config::rules::OriginTimeouts;
use crate::failure::FailureKind;
use crate::response::GatewayProblem;

/// Maximum bytes of the first line of a malformed head that are shown.
const FIRST_LINE: usize = 60;

/// The cure for a self-signed certificate that `openssl req -x509` makes, which is also marked as a certificate authority.
const SELF_SIGNED_AUTHORITY: &str = "the server shows the certificate of an authority; make it with \
     -addext basicConstraints=critical,CA:FALSE, and name it in ca_file";

/// The cause of an HTTP/2 stream that ends because its client does not read, or reads too slowly.
const UNTAKEN: &str = "the client did not read a piece of the answer within client_write_timeout";

/// The cause of a request without a proper answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cause {
    /// The kind of the failure; `None` where the origin is not to blame.
    pub(super) failure: Option<&'static str>,
    /// The description.
    pub(super) reason: Cow<'static, str>,
}

/// The error of a response head with more fields than `max_response_fields` of its origin.
#[derive(Debug)]
pub(super) struct TooManyFields {
    /// The value of the key.
    pub(super) most: usize,
}

impl fmt::Display for TooManyFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self.most;
        write!(
            f,
            "more than {most} header fields; raise max_response_fields of this origin if they are right"
        )
    }
}

impl std::error::Error for TooManyFields {}

/// The progress of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// No connection yet.
    Connecting,
    /// Connected, without a response head.
    Waiting,
    /// The response head came, and so many bytes of the body, of those that the head announced.
    Reading { bytes: u64, of: Option<u64> },
}

impl Cause {
    /// Returns the cause of a failure of the origin.
    pub(super) fn of_origin(kind: FailureKind, reason: String) -> Self {
        Self {
            failure: Some(kind.as_str()),
            reason: reason.into(),
        }
    }

    /// Returns the cause of a request that exceeded a cap on requests in flight to origins.
    pub(super) fn of_cap(cap: RequestCap, caps: RequestCaps) -> Self {
        let most = match cap {
            RequestCap::All => caps.all,
            RequestCap::Client => caps.of_client.get().into(),
        };
        Self {
            failure: Some("origin-requests-full"),
            reason: format!("{} = {most}", cap.as_str()).into(),
        }
    }

    /// Returns the cause of an answer that exceeded a cap on unread bytes.
    pub(super) fn of_unread(cap: BytesCap, most: u64) -> Self {
        let whose = clients_of(cap);
        Self {
            failure: Some("unread-full"),
            reason: format!("answers wait for {whose} to read them; max_unread_bytes = {most}")
                .into(),
        }
    }

    /// Returns the cause of a request whose body exceeded a cap on bodies that are read for keys.
    pub(super) fn of_key_bodies(cap: BytesCap, most: u64) -> Self {
        let whose = clients_of(cap);
        Self {
            failure: Some("key-bodies-full"),
            reason: format!("bodies of {whose} are read for keys; max_key_bodies_bytes = {most}")
                .into(),
        }
    }

    /// Returns the cause of an error that is not the origin's.
    pub(super) fn of_error(error: &Error) -> Option<Self> {
        let text = match error.etype() {
            // Pingora's text mentions a timeout alone.
            ErrorType::WriteTimedout => UNTAKEN.to_owned(),
            _ => text(error),
        };
        (!text.is_empty()).then(|| Self {
            failure: None,
            reason: bounded(&text).into(),
        })
    }

    /// Returns the cause of a rejection by the gateway itself.
    pub(super) fn of_problem(problem: GatewayProblem) -> Self {
        Self {
            failure: match problem {
                GatewayProblem::Crowded => Some("delay-queue-full"),
                GatewayProblem::NotStored => Some("not-stored"),
                _ => None,
            },
            reason: problem.detail().into(),
        }
    }
}

/// Returns the clients whose bytes reached a cap.
fn clients_of(cap: BytesCap) -> &'static str {
    match cap {
        BytesCap::All => "all clients",
        BytesCap::Client => "this client",
    }
}

/// Returns the kind and the reason of an attempt's failure.
pub(super) fn explain(
    error: &Error,
    stage: Stage,
    timeouts: &OriginTimeouts,
) -> (FailureKind, String) {
    let kind = match stage {
        Stage::Connecting => connecting(error),
        Stage::Waiting => waiting(error, timeouts),
        Stage::Reading { .. } => reading(error, timeouts),
    };
    let reason = match kind {
        FailureKind::ConnectTimeout => {
            let what = match context(error) {
                Some(context) if context.starts_with("connecting to server") => "TLS handshake",
                Some(context) if context.contains("total-connection") => {
                    "connection, TLS included,"
                }
                _ => "connection",
            };
            format!("no {what} within {:?}", timeouts.connect)
        }
        FailureKind::TtfbTimeout => format!("no response head within {:?}", timeouts.read),
        FailureKind::ReadTimeout => format!("no byte for {:?}", timeouts.read),
        FailureKind::WriteTimeout => format!("the request was not taken for {:?}", timeouts.write),
        FailureKind::TotalTimeout => format!(
            "the response was not complete within {:?}",
            timeouts.total.unwrap_or_default()
        ),
        FailureKind::HeadTooLarge => format!("more than {RESPONSE_HEAD} bytes of header fields"),
        FailureKind::Tls => tls_text(error),
        FailureKind::MalformedHead => head_text(error),
        FailureKind::Truncated if matches!(root(error).etype(), ErrorType::ConnectionClosed) => {
            "connection closed".to_owned()
        }
        FailureKind::Closed => closed_text(error),
        _ => text(error),
    };
    (kind, bounded(&(reason + &progress(stage))))
}

/// Returns the kind of a failure before the connection was made.
fn connecting(error: &Error) -> FailureKind {
    use ErrorType as E;
    match error.etype() {
        E::ConnectTimedout | E::TLSHandshakeTimedout => FailureKind::ConnectTimeout,
        E::TLSHandshakeFailure | E::InvalidCert | E::TLSWantX509Lookup => FailureKind::Tls,
        E::HandshakeError | E::H1Error | E::H2Error | E::H2Downgrade | E::InvalidH2 => {
            FailureKind::Protocol
        }
        // The kernel accepted the connection, and it was reset before its first use.
        _ if is_reset(error) => FailureKind::Reset,
        _ => FailureKind::Connect,
    }
}

/// Returns whether the operating system reports a reset by the other side.
fn is_reset(error: &Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error.root_cause());
    while let Some(inner) = cause {
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            return io.kind() == io::ErrorKind::ConnectionReset;
        }
        cause = inner.source();
    }
    false
}

/// Returns the kind of a failure before the response head was complete.
fn waiting(error: &Error, timeouts: &OriginTimeouts) -> FailureKind {
    use ErrorType as E;
    match error.etype() {
        // The read timeout is shortened to the total one.
        E::ReadTimedout if timeouts.total.is_some_and(|total| total <= timeouts.read) => {
            FailureKind::TotalTimeout
        }
        E::ReadTimedout => FailureKind::TtfbTimeout,
        E::WriteTimedout => FailureKind::WriteTimeout,
        E::HTTPStatus(504) => FailureKind::TotalTimeout,
        E::ConnectionClosed => FailureKind::Closed,
        E::InvalidHTTPHeader => match parser(error) {
            None if error.root_cause().is::<TooManyFields>() => FailureKind::TooManyFields,
            None if context(error).is_some_and(|context| context.contains("larger than")) => {
                FailureKind::HeadTooLarge
            }
            _ => FailureKind::MalformedHead,
        },
        E::HandshakeError | E::H2Downgrade | E::InvalidH2 => FailureKind::Protocol,
        // The h2 crate writes this into errors that it detects; "received" marks those that the other side reports.
        E::H2Error if text(error).contains("error detected: ") => FailureKind::Protocol,
        _ => FailureKind::Reset,
    }
}

/// Returns the kind of a failure after the response head.
fn reading(error: &Error, timeouts: &OriginTimeouts) -> FailureKind {
    use ErrorType as E;
    match error.etype() {
        E::ReadTimedout if timeouts.total.is_some_and(|total| total <= timeouts.read) => {
            FailureKind::TotalTimeout
        }
        E::ReadTimedout => FailureKind::ReadTimeout,
        E::WriteTimedout => FailureKind::WriteTimeout,
        E::HTTPStatus(504) => FailureKind::TotalTimeout,
        E::Custom("InvalidChunk" | "InvalidTrailerEnd") => FailureKind::MalformedBody,
        E::InvalidHTTPHeader => FailureKind::MalformedHead,
        _ => FailureKind::Truncated,
    }
}

/// Returns a text that says how far the response got.
fn progress(stage: Stage) -> String {
    match stage {
        Stage::Connecting | Stage::Waiting => String::new(),
        Stage::Reading {
            bytes,
            of: Some(all),
        } => format!(", after {bytes} of {all} bytes of the body"),
        Stage::Reading { bytes, of: None } => format!(", after {bytes} bytes of the body"),
    }
}

/// Returns the innermost of Pingora's errors.
fn root(error: &Error) -> &Error {
    let mut root = error;
    while let Some(cause) = &root.cause
        && let Some(inner) = cause.downcast_ref::<Box<Error>>()
    {
        root = inner;
    }
    root
}

/// Returns the context of the innermost of Pingora's errors.
fn context(error: &Error) -> Option<&str> {
    root(error).context.as_ref().map(|context| context.as_str())
}

fn parser(error: &Error) -> Option<httparse::Error> {
    error.root_cause().downcast_ref().copied()
}

/// Returns the text of the operating system or of a library; without one, that of Pingora.
fn text(error: &Error) -> String {
    let inner = root(error);
    match (&inner.cause, &inner.context) {
        (Some(cause), _) => cause.to_string(),
        (None, Some(context)) => context.as_str().to_owned(),
        (None, None) => match inner.etype() {
            ErrorType::HTTPStatus(_) => String::new(),
            other => other.as_str().to_owned(),
        },
    }
}

/// Returns the text of a failed handshake, which Pingora puts into a context together with its own text and the server name.
fn tls_text(error: &Error) -> String {
    let text = match context(error) {
        Some(context) => context.to_owned(),
        None => text(error),
    };
    let end = text.rfind(", SNI:").unwrap_or(text.len());
    let inner = &text[..end];
    let begin = ["cause: ", "context: ", "failed: "]
        .iter()
        .find_map(|word| inner.rfind(word).map(|at| at + word.len()));
    let inner = &inner[begin.unwrap_or(0)..];
    let inner = inner.strip_prefix("tls stream error: ").unwrap_or(inner);
    if inner.contains("CaUsedAsEndEntity") {
        return format!("{inner}: {SELF_SIGNED_AUTHORITY}");
    }
    inner.to_owned()
}

/// Returns the parse error of a head, and the beginning of its first line.
fn head_text(error: &Error) -> String {
    let Some(parser) = parser(error) else {
        return text(error);
    };
    // Pingora escapes these bytes.
    let head = context(error).and_then(|context| context.strip_prefix("buf: "));
    let line = head.unwrap_or_default().split("\\r\\n").next();
    let line: String = line.unwrap_or_default().chars().take(FIRST_LINE).collect();
    format!("{parser} in a head that begins with \"{line}\"")
}

/// Returns a text that says how much of a head came before its connection closed.
fn closed_text(error: &Error) -> String {
    let read = context(error).and_then(|context| context.rsplit_once(": "));
    match read.map(|(_, bytes)| bytes) {
        Some("0") => "connection closed before the response".to_owned(),
        Some(bytes) => format!("connection closed after {bytes} bytes of the response head"),
        None => "connection closed".to_owned(),
    }
}

/// Returns printable ASCII of at most [`FAILURE_REASON`] bytes.
fn bounded(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(FAILURE_REASON));
    for character in text.trim().chars() {
        let before = out.len();
        if character == ' ' || character.is_ascii_graphic() {
            out.push(character);
        } else {
            // A write into a string does not fail.
            let _ = write!(out, "{}", character.escape_default());
        }
        if out.len() > FAILURE_REASON {
            out.truncate(before.min(FAILURE_REASON - 3));
            out.push_str("...");
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn timeouts(total: Option<u64>) -> OriginTimeouts {
        OriginTimeouts {
            connect: Duration::from_secs(2),
            read: Duration::from_secs(30),
            write: Duration::from_secs(30),
            total: total.map(Duration::from_secs),
            idle: None,
        }
    }

    /// Goal: the cause of a Pingora error stays readable. Method: errors as Pingora 0.9.1 raises them, at each stage.
    #[test]
    fn causes_keep_the_text_of_their_source() {
        use ErrorType as E;
        let reading = Stage::Reading {
            bytes: 10,
            of: Some(1000),
        };
        let refused = io::Error::from_raw_os_error(111);
        let reset = io::Error::from_raw_os_error(104);
        for (error, stage, kind, reason) in [
            (
                Error::because(E::ConnectRefused, "Fail to connect", refused)
                    .more_context("Peer: 127.0.0.1:9"),
                Stage::Connecting,
                FailureKind::Connect,
                "Connection refused (os error 111)",
            ),
            (
                Error::because(
                    E::ConnectError,
                    "Fail to connect",
                    io::Error::from_raw_os_error(104),
                ),
                Stage::Connecting,
                FailureKind::Reset,
                "Connection reset by peer (os error 104)",
            ),
            (
                Error::explain(E::ConnectTimedout, "timeout 2s connecting to server a"),
                Stage::Connecting,
                FailureKind::ConnectTimeout,
                "no connection within 2s",
            ),
            (
                Error::explain(
                    E::TLSHandshakeFailure,
                    "TLS connect() failed:  TLSHandshakeFailure context: invalid peer certificate: UnknownIssuer, SNI: a.b",
                ),
                Stage::Connecting,
                FailureKind::Tls,
                "invalid peer certificate: UnknownIssuer",
            ),
            (
                Error::explain(
                    E::ConnectionClosed,
                    "while reading response headers, bytes already read: 17",
                ),
                Stage::Waiting,
                FailureKind::Closed,
                "connection closed after 17 bytes of the response head",
            ),
            (
                Error::because(
                    E::InvalidHTTPHeader,
                    "buf: SSH-2.0-x\\r\\nsecret: 1",
                    httparse::Error::Version,
                ),
                Stage::Waiting,
                FailureKind::MalformedHead,
                "invalid HTTP version in a head that begins with \"SSH-2.0-x\"",
            ),
            (
                Error::because(E::ReadError, "when reading body", reset),
                reading,
                FailureKind::Truncated,
                "Connection reset by peer (os error 104), after 10 of 1000 bytes of the body",
            ),
            (
                Error::explain(E::ConnectionClosed, "Peer prematurely closed connection"),
                reading,
                FailureKind::Truncated,
                "connection closed, after 10 of 1000 bytes of the body",
            ),
        ] {
            let told = explain(&error, stage, &timeouts(None));
            assert_eq!(told, (kind, reason.to_owned()), "{error}");
        }
        let silent = Error::new(E::ReadTimedout);
        let (kind, reason) = explain(&silent, Stage::Waiting, &timeouts(Some(5)));
        assert_eq!(kind, FailureKind::TotalTimeout);
        assert_eq!(reason, "the response was not complete within 5s");
    }

    proptest! {
        /// Goal: text from an origin neither breaks a log line nor makes it long. Method: any text.
        #[test]
        fn a_reason_is_short_printable_ascii(text in any::<String>(), times in 1_usize..100) {
            let reason = bounded(&text.repeat(times));
            prop_assert!(reason.len() <= FAILURE_REASON);
            prop_assert!(reason.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()));
        }
    }
}
