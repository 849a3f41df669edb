//! Defines the failures of a connection to a server before it carries a request.

use std::fmt;
use std::time::Duration;

use super::kind::FailureKind;

/// A connection that could not be made. Nothing was sent.
#[derive(Debug)]
pub enum ConnectFailure {
    /// A step took longer than this.
    Timeout(ConnectStep, Duration),
    /// The TLS handshake failed, with the text of the library.
    Tls(String),
    /// The server does not speak the protocol of its origin.
    Protocol(String),
    /// The server reset the connection before its first use, with the text of the operating system.
    Reset(String),
    /// The connection was refused, the server is unreachable, or there is no local socket: the text of the operating system.
    Other(String),
}

/// A step on the way to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectStep {
    /// The connection of TCP.
    Tcp,
    /// The handshake of TLS.
    Tls,
    /// Both.
    All,
}

impl ConnectFailure {
    /// Returns its kind.
    pub(super) fn kind(&self) -> FailureKind {
        match self {
            Self::Timeout(..) => FailureKind::ConnectTimeout,
            Self::Tls(_) => FailureKind::Tls,
            Self::Protocol(_) => FailureKind::Protocol,
            Self::Reset(_) => FailureKind::Reset,
            Self::Other(_) => FailureKind::Connect,
        }
    }
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout(ConnectStep::Tcp, after) => write!(f, "no connection within {after:?}"),
            Self::Timeout(ConnectStep::Tls, after) => {
                write!(f, "no TLS handshake within {after:?}")
            }
            Self::Timeout(ConnectStep::All, after) => {
                write!(f, "no connection, TLS included, within {after:?}")
            }
            Self::Tls(text) | Self::Protocol(text) | Self::Reset(text) | Self::Other(text) => {
                f.write_str(text)
            }
        }
    }
}
