//! Exports a private parser to the fuzz targets: of the header by which a proxy announces its client.
//!
//! It exists under `cfg(fuzzing)`, which only the builds of `fuzz/` set, so nothing here is part of the crate's interface; and
//! in unit tests, so that a change that breaks it is noticed where no fuzzer is built.

use std::net::SocketAddr;

use crate::listener::proxy_protocol;

/// The result of a listener's parser for the first bytes of a connection with the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// More bytes decide.
    Partial,
    /// No header.
    None,
    /// A malformed header.
    Malformed,
    /// A header.
    Whole {
        /// Its length in bytes.
        header: usize,
        /// The client that it announces, if any.
        client: Option<SocketAddr>,
    },
}

/// Parses a header of the PROXY protocol at the start of `read`, as a listener does.
#[must_use]
pub fn announcement(read: &[u8]) -> Announcement {
    match proxy_protocol::Header::find(read) {
        proxy_protocol::Header::Partial => Announcement::Partial,
        proxy_protocol::Header::None => Announcement::None,
        proxy_protocol::Header::Malformed => Announcement::Malformed,
        proxy_protocol::Header::Whole(header, client) => Announcement::Whole { header, client },
    }
}
