//! Owns the error of sending on a stream that takes nothing more.

use std::error::Error;
use std::fmt;

/// The stream is over, or its answer has passed the part that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamGone;

impl fmt::Display for StreamGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stream takes nothing of the kind any more")
    }
}

impl Error for StreamGone {}
