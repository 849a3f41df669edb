//! Shows fuzzers what no other crate may see: how the head of a request is read, and the header by which a proxy announces its client.
//!
//! It exists under `cfg(fuzzing)`, which only the builds of `fuzz/` set, so nothing here is part of the crate's interface; and in unit
//! tests, so that a change that breaks it is noticed where no fuzzer is built.

use std::net::SocketAddr;

use crate::listener::head::{Body, Head};
use crate::listener::proxy_protocol;

/// What a listener makes of the bytes read so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Not a whole head yet.
    Partial,
    /// One that is refused.
    Malformed,
    /// A whole head.
    Whole {
        /// Its length in bytes, with the empty line.
        head: usize,
        /// What follows it.
        body: Following,
    },
}

/// What follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Following {
    /// So many bytes.
    Length(usize),
    /// Chunks.
    Chunks,
}

/// Looks for a head at the start of `read`, as a listener does.
#[must_use]
pub fn framing(read: &[u8]) -> Framing {
    match Head::find(read) {
        Head::Partial => Framing::Partial,
        Head::Malformed(_) => Framing::Malformed,
        Head::Whole { bytes, body, .. } => Framing::Whole {
            head: bytes,
            body: match body {
                Body::Length(bytes) => Following::Length(bytes),
                Body::Chunked => Following::Chunks,
            },
        },
    }
}

/// What a listener makes of the first bytes of a connection, where proxies announce their clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// More bytes decide.
    Partial,
    /// They are something else.
    None,
    /// They begin like a header and are none.
    Malformed,
    /// A header.
    Whole {
        /// Its length in bytes.
        header: usize,
        /// Whom it announces, if anybody.
        client: Option<SocketAddr>,
    },
}

/// Looks for a header of the PROXY protocol at the start of `read`, as a listener does.
#[must_use]
pub fn announcement(read: &[u8]) -> Announcement {
    match proxy_protocol::Header::find(read) {
        proxy_protocol::Header::Partial => Announcement::Partial,
        proxy_protocol::Header::None => Announcement::None,
        proxy_protocol::Header::Malformed => Announcement::Malformed,
        proxy_protocol::Header::Whole(header, client) => Announcement::Whole { header, client },
    }
}
