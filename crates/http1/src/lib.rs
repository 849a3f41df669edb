//! HTTP/1.1 messages without I/O, for proxies.
//!
//! A proxy that reads a message in one way and forwards it to a server that reads it in another lets requests be smuggled (RFC 9112
//! §11.2), and one that reads an answer otherwise than its origin wrote it gives a part of it to another client (§11.1). This crate
//! rejects what two parsers could read in two ways; each rule is a variant of [`RuleViolation`], cited beside the line that keeps it.
//!
//! - [`RequestHead`] and [`ResponseHead`] parse a head once, into ranges over the received bytes, and decide its [`BodyFraming`].
//! - [`ConnectionOptions`] decides whether a connection persists, and whether it nominates a field, which then ends with the
//!   connection, as those of [`is_hop_by_hop`] do.
//! - [`BodyReader`] finds the data and the end in any split of a body, in each framing; [`ChunkDecoder`] does so for chunks alone.
//! - [`FieldLines::kept_lines`], [`BodyFraming::field_line`] and [`chunk_line`] are what a message is written from.
//! - [`raw_query`] writes queries as RFC 3986 has them, and [`is_framing_lookalike`] finds names that some recipients take for a framing
//!   field.
//!
//! The crate reads no clock, allocates nothing but the ranges of fields, and waits for nothing.
//!
//! # Example
//! ```
//! use sluicegate_http1::{BodyFraming, HeadError, HeadLimits, HeadProgress, RequestHead, RuleViolation};
//!
//! let limits = HeadLimits { bytes: 16 * 1024, fields: 100, target: 8 * 1024 };
//! let mut head = RequestHead::new();
//!
//! let read = b"POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello";
//! assert_eq!(head.parse(read, &limits), Ok(HeadProgress::Whole(53)));
//! assert_eq!(head.framing(), BodyFraming::Length(5));
//!
//! // Two framings: one server would end the body by the first, another by the second.
//! head.clear();
//! let read = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n";
//! assert_eq!(head.parse(read, &limits), Err(HeadError::Rule(RuleViolation::TwoFramings)));
//! ```
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod authority;
mod body_reader;
mod bytes;
mod chunks;
mod connection_options;
mod fields;
mod framing;
mod framing_lines;
mod framing_names;
mod head;
mod known_field;
mod lines;
pub mod raw_query;
mod request;
mod request_line;
mod respell;
mod response;
mod status_line;
mod target;
mod version;
mod violation;

pub use authority::Authority;
pub use body_reader::{BodyPieces, BodyReader, TruncatedBody};
pub use bytes::LINE_END;
pub use chunks::{BodyPiece, ChunkDecoder, ChunkLimits, ChunkPieces};
pub use connection_options::{ConnectionOptions, nominated_by};
pub use fields::{FieldLines, FieldPlaces, HeaderField};
pub use framing::BodyFraming;
pub use framing_lines::{FramingLine, LAST_CHUNK, chunk_line};
pub use framing_names::{CONTENT_LENGTH, TRANSFER_ENCODING, is_framing_lookalike};
pub use head::{HeadError, HeadLimits, HeadProgress};
pub use known_field::{KnownField, is_hop_by_hop};
pub use request::{RequestHead, TargetForm};
pub use request_line::{first_words, leading_line_end};
pub use response::{AnsweredMethod, ResponseHead};
pub use version::HttpVersion;
pub use violation::RuleViolation;
