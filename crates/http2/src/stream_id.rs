//! Owns the numbers of streams.

use std::fmt;

/// The number of a stream, RFC 9113 §5.1.1. 0 is the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u32);

impl StreamId {
    /// The connection as a whole.
    pub const CONNECTION: Self = Self(0);
    /// The greatest number.
    pub const MAX: Self = Self(0x7fff_ffff);

    /// Returns the stream with this number, without the reserved bit, RFC 9113 §4.1.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number & Self::MAX.0)
    }

    /// Returns the number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns whether it stands for the connection.
    #[must_use]
    pub const fn is_connection(self) -> bool {
        self.0 == 0
    }

    /// Returns whether a client opens the stream: those of a server are even.
    #[must_use]
    pub const fn is_of_client(self) -> bool {
        self.0 % 2 == 1
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
