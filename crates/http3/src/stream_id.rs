//! Owns the numbers of QUIC's streams.

use std::fmt;

use crate::varint;

/// The number of a stream, RFC 9000 §2.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u64);

/// The kind of a stream, which its two lowest bits say, RFC 9000 §2.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// A request and its answer, RFC 9114 §6.1.
    Request,
    /// Bytes of the client alone, RFC 9114 §6.2.
    FromClient,
    /// Bytes of the server alone.
    FromServer,
    /// Both directions, begun by the server, which HTTP/3 has no use for, RFC 9114 §6.1.
    Undefined,
}

impl StreamId {
    /// The greatest number that a request may have.
    pub const LAST_REQUEST: Self = Self(varint::GREATEST - 3);

    /// Returns the stream with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Returns the kind of the stream.
    #[must_use]
    pub const fn kind(self) -> StreamKind {
        match self.0 % 4 {
            0 => StreamKind::Request,
            1 => StreamKind::Undefined,
            2 => StreamKind::FromClient,
            _ => StreamKind::FromServer,
        }
    }

    /// Returns the next stream of its kind.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(4))
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
