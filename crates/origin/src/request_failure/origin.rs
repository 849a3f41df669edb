//! Defines the failures for which the origin of a request is to blame.

use std::time::Duration;
use std::{fmt, io};

use sluicegate_base::bounds::{INTERIM_BYTES, INTERIM_HEADS, RESPONSE_HEAD};
use sluicegate_decide::response::GatewayProblem;
use sluicegate_http1::RuleViolation;
use sluicegate_http2::ErrorCode;

use super::connect::ConnectFailure;
use super::kind::FailureKind;

/// A failure of an origin, or of one of its servers.
#[derive(Debug)]
pub enum OriginFailure {
    /// No server is in service, for this reason.
    NoServer(FailureKind, String),
    /// Every server has all requests or connections that it may have, for this reason.
    Full(FailureKind, String),
    /// There is no connection to the server.
    Connect(ConnectFailure),
    /// The server was too slow.
    Timeout(OriginTimeout),
    /// The connection closed behind so many bytes of the response head.
    Closed(usize),
    /// The connection or the stream broke.
    Broken(io::Error),
    /// A stream of HTTP/2 ended before its final head.
    Stream(StreamFailure),
    /// The head of the response cannot be passed on.
    Head(HeadFailure),
    /// The chunks of the response body are malformed.
    MalformedBody(RuleViolation),
    /// The connection closed before the end of the response body.
    Truncated,
}

/// A wait for a server that took longer than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginTimeout {
    /// For the response head.
    FirstByte(Duration),
    /// For the next bytes of the response.
    Read(Duration),
    /// For room for the next bytes of the request.
    Write(Duration),
    /// For the whole response.
    Total(Duration),
}

/// The end of a stream of HTTP/2 that has no final head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFailure {
    /// The server asks for HTTP/1.1, or sends what is not HTTP/2.
    NotHttp2,
    /// The server did not process the request: it refused the stream (RFC 9113 §8.7), or its GOAWAY with this code left it out, whatever
    /// the code (§6.8).
    Unprocessed(ErrorCode),
    /// The server broke this rule of HTTP/2.
    BrokenRule(sluicegate_http2::RuleViolation),
    /// The server reset the stream with this code.
    Reset(ErrorCode),
}

/// A response head that cannot be passed on.
#[derive(Debug)]
pub enum HeadFailure {
    /// More fields than `max_response_fields`, which has this value.
    TooManyFields(usize),
    /// More bytes than [`RESPONSE_HEAD`].
    TooLarge,
    /// More interim heads before it than [`INTERIM_HEADS`], or more bytes of them than [`INTERIM_BYTES`].
    TooManyInterim,
    /// It breaks a rule; with the beginning of its first line, escaped.
    Malformed(RuleViolation, String),
    /// Two different `Content-Length`, RFC 9110 §8.6.
    TwoLengths,
    /// 101 to a request without an upgrade.
    UnaskedSwitch,
    /// 101 that does not switch to the protocol that the client asked for, RFC 9110 §7.8.
    OtherProtocol,
    /// 101 that does not prove that the server read the key of a WebSocket, RFC 6455 §4.1.
    WrongAccept,
}

/// The progress of a response at its failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseStage {
    /// No final head.
    Awaited,
    /// The head came, and so many bytes of the body, of those that the head announced.
    Reading {
        /// Bytes that came.
        bytes: u64,
        /// Bytes that were announced.
        of: Option<u64>,
    },
}

impl OriginFailure {
    /// Returns its kind at this stage.
    #[must_use]
    pub fn kind(&self, stage: ResponseStage) -> FailureKind {
        match self {
            Self::NoServer(kind, _) | Self::Full(kind, _) => *kind,
            Self::Connect(failure) => failure.kind(),
            Self::Timeout(OriginTimeout::FirstByte(_)) => FailureKind::TtfbTimeout,
            Self::Timeout(OriginTimeout::Read(_)) => FailureKind::ReadTimeout,
            Self::Timeout(OriginTimeout::Write(_)) => FailureKind::WriteTimeout,
            Self::Timeout(OriginTimeout::Total(_)) => FailureKind::TotalTimeout,
            Self::Closed(_) => FailureKind::Closed,
            Self::Broken(_) if stage == ResponseStage::Awaited => FailureKind::Reset,
            Self::Broken(_) | Self::Truncated => FailureKind::Truncated,
            Self::Stream(StreamFailure::NotHttp2 | StreamFailure::BrokenRule(_)) => {
                FailureKind::Protocol
            }
            Self::Stream(StreamFailure::Unprocessed(_) | StreamFailure::Reset(_)) => {
                FailureKind::Reset
            }
            Self::Head(HeadFailure::TooManyFields(_)) => FailureKind::TooManyFields,
            Self::Head(HeadFailure::TooLarge) => FailureKind::HeadTooLarge,
            Self::Head(HeadFailure::TooManyInterim) => FailureKind::TooManyInterimHeads,
            Self::Head(
                HeadFailure::Malformed(..)
                | HeadFailure::TwoLengths
                | HeadFailure::UnaskedSwitch
                | HeadFailure::OtherProtocol
                | HeadFailure::WrongAccept,
            ) => FailureKind::MalformedHead,
            Self::MalformedBody(_) => FailureKind::MalformedBody,
        }
    }

    /// Returns the problem to answer with.
    pub(super) fn problem(&self) -> GatewayProblem {
        match self {
            Self::NoServer(..) => GatewayProblem::NoServer,
            Self::Full(..) => GatewayProblem::OriginFull,
            Self::Connect(ConnectFailure::Timeout(..)) | Self::Timeout(_) => {
                GatewayProblem::OriginTimeout
            }
            Self::Connect(_)
            | Self::Closed(_)
            | Self::Broken(_)
            | Self::Stream(..)
            | Self::Head(_)
            | Self::MalformedBody(_)
            | Self::Truncated => GatewayProblem::BadGateway,
        }
    }
}

impl From<HeadFailure> for OriginFailure {
    fn from(failure: HeadFailure) -> Self {
        Self::Head(failure)
    }
}

impl From<StreamFailure> for OriginFailure {
    fn from(failure: StreamFailure) -> Self {
        Self::Stream(failure)
    }
}

impl fmt::Display for OriginFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoServer(_, reason) | Self::Full(_, reason) => f.write_str(reason),
            Self::Connect(failure) => failure.fmt(f),
            Self::Timeout(timeout) => timeout.fmt(f),
            Self::Closed(0) => f.write_str("connection closed before the response"),
            Self::Closed(bytes) => {
                write!(
                    f,
                    "connection closed after {bytes} bytes of the response head"
                )
            }
            Self::Broken(error) => error.fmt(f),
            Self::Stream(failure) => failure.fmt(f),
            Self::Head(failure) => failure.fmt(f),
            Self::MalformedBody(rule) => rule.fmt(f),
            Self::Truncated => f.write_str("connection closed"),
        }
    }
}

impl fmt::Display for OriginTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FirstByte(after) => write!(f, "no response head within {after:?}"),
            Self::Read(after) => write!(f, "no byte for {after:?}"),
            Self::Write(after) => write!(f, "the request was not taken for {after:?}"),
            Self::Total(after) => write!(f, "the response was not complete within {after:?}"),
        }
    }
}

impl fmt::Display for StreamFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHttp2 => {
                f.write_str("the server asks for HTTP/1.1, or sends what is not HTTP/2")
            }
            Self::Unprocessed(code) => {
                write!(f, "the server did not process the request: {code}")
            }
            Self::BrokenRule(rule) => write!(f, "the server broke a rule of HTTP/2: {rule}"),
            Self::Reset(code) => write!(f, "the server reset the stream: {code}"),
        }
    }
}

impl fmt::Display for HeadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, line) = match self {
            Self::TooManyFields(most) => {
                return write!(
                    f,
                    "more than {most} header fields; raise max_response_fields of this origin if they are right"
                );
            }
            Self::TooLarge => return write!(f, "more than {RESPONSE_HEAD} bytes of header fields"),
            Self::TooManyInterim => {
                return write!(
                    f,
                    "more than {INTERIM_HEADS} interim heads, or {INTERIM_BYTES} bytes of them"
                );
            }
            Self::TwoLengths => return f.write_str("two different Content-Length"),
            Self::UnaskedSwitch => return f.write_str("101 to a request without an upgrade"),
            Self::OtherProtocol => {
                return f.write_str("101 to another protocol than the client asked for");
            }
            Self::WrongAccept => return f.write_str("101 with a wrong Sec-WebSocket-Accept"),
            Self::Malformed(RuleViolation::Version | RuleViolation::NotHttp, line) => {
                ("invalid HTTP version", line)
            }
            Self::Malformed(RuleViolation::StatusLine, line) => ("invalid response status", line),
            Self::Malformed(rule, _) => return rule.fmt(f),
        };
        write!(f, "{what} in a head that begins with \"{line}\"")
    }
}

impl fmt::Display for ResponseStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Awaited => Ok(()),
            Self::Reading {
                bytes,
                of: Some(all),
            } => write!(f, ", after {bytes} of {all} bytes of the body"),
            Self::Reading { bytes, of: None } => write!(f, ", after {bytes} bytes of the body"),
        }
    }
}
