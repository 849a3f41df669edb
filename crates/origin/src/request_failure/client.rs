//! Defines the failures for which the client of a request is to blame.

use std::{fmt, io};

use sluicegate_http1::RuleViolation;

use sluicegate_decide::response::{GatewayProblem, HttpViolation};

/// A failure of a client.
#[derive(Debug)]
pub enum ClientFailure {
    /// It closed the connection in the middle of its body.
    Closed,
    /// It left while a limit delayed its request.
    LeftDelay,
    /// It left while another request fetched its response.
    LeftFetch,
    /// It left while its request waited for a place at a server, or for a connection.
    LeftWait,
    /// Its connection or stream broke.
    Broken(io::Error),
    /// It did not read a piece of the answer in time.
    Unread,
    /// It is silent in the middle of its body, or sends it below the minimum rate. It may still read.
    Stalled,
    /// Its body is larger than the route accepts.
    BodyTooLarge,
    /// Two parsers could read its body in two ways.
    MalformedBody(RuleViolation),
    /// Its stream breaks a rule of HTTP/2 behind the head, as with a body of another length than the announced one.
    MalformedStream,
    /// HTTP/2, which the origin speaks, cannot carry its head.
    NotForHttp2,
}

impl ClientFailure {
    /// Returns the problem to answer with; `None` where the client left.
    pub(super) fn problem(&self) -> Option<GatewayProblem> {
        match self {
            Self::Closed
            | Self::LeftDelay
            | Self::LeftFetch
            | Self::LeftWait
            | Self::Broken(_)
            | Self::Unread => None,
            Self::Stalled => Some(GatewayProblem::BodyTimeout),
            Self::BodyTooLarge => Some(GatewayProblem::BodyTooLarge),
            Self::MalformedBody(rule) => Some(GatewayProblem::BadRequest((*rule).into())),
            Self::MalformedStream => Some(GatewayProblem::BadRequest(HttpViolation::Http2)),
            Self::NotForHttp2 => Some(GatewayProblem::BadRequest(HttpViolation::Other)),
        }
    }
}

impl From<io::Error> for ClientFailure {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

impl fmt::Display for ClientFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "the client closed the connection",
            Self::LeftDelay => "the client left its place",
            Self::LeftFetch => "the client left while another request fetched its response",
            Self::LeftWait => "the client left while its request waited for a server",
            Self::Broken(error) => return error.fmt(f),
            Self::Unread => {
                "the client did not read a piece of the answer within client_write_timeout"
            }
            Self::Stalled => GatewayProblem::BodyTimeout.detail(),
            Self::BodyTooLarge => GatewayProblem::BodyTooLarge.detail(),
            Self::MalformedBody(RuleViolation::Trailer) => "the trailer of the body is too long",
            Self::MalformedBody(_) => "the chunks of the body can be read in two ways",
            Self::MalformedStream => HttpViolation::Http2.detail(),
            Self::NotForHttp2 => HttpViolation::Other.detail(),
        })
    }
}
