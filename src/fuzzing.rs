//! Shows fuzzers what no other crate may see: how the head of a request is read.
//!
//! It exists under `cfg(fuzzing)`, which only the builds of `fuzz/` set, so nothing here is part of the crate's interface; and in unit
//! tests, so that a change that breaks it is noticed where no fuzzer is built.

use crate::listener::head::{Body, Head};

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
        Head::Malformed => Framing::Malformed,
        Head::Whole { bytes, body, .. } => Framing::Whole {
            head: bytes,
            body: match body {
                Body::Length(bytes) => Following::Length(bytes),
                Body::Chunked => Following::Chunks,
            },
        },
    }
}
