//! Owns the error of a request that cannot be sent now.

use std::error::Error;
use std::fmt;

/// The connection has all streams that it may have, or is going away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRefused;

impl fmt::Display for RequestRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection has no free stream")
    }
}

impl Error for RequestRefused {}
