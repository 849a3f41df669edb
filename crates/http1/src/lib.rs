//! HTTP/1.1 messages without I/O, for proxies.
//!
//! A proxy that reads a message in one way and forwards it to a server that reads it in another lets requests be smuggled (RFC 9112
//! §11.2). This crate rejects what two parsers could read in two ways; each rule is a variant of [`RuleViolation`].
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod authority;
mod bytes;
mod chunks;
mod framing_names;
pub mod raw_query;
mod request;
mod respell;
mod target;
mod violation;

pub use authority::Authority;
pub use chunks::{BadChunks, ChunkLimits, Chunks};
pub use framing_names::{CONTENT_LENGTH, TRANSFER_ENCODING, is_framing_lookalike};
pub use request::{Body, Head, HeadForm, leading_line_end};
pub use respell::respell;
pub use violation::RuleViolation;
