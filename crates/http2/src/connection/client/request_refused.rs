//! Owns the reason why a request cannot be sent now.

use std::error::Error;
use std::fmt;

/// The reason why a request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestRefused {
    /// The connection has all streams that it may have, or is going away.
    NoStream,
    /// The server has not said that it takes extended CONNECT.
    ExtendedConnect,
}

impl fmt::Display for RequestRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoStream => "the connection has no free stream",
            Self::ExtendedConnect => "the server does not take extended CONNECT",
        })
    }
}

impl Error for RequestRefused {}
