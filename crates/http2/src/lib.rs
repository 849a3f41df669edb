//! HTTP/2 without I/O, for proxies: both sides of a connection, RFC 9113.
//!
//! [`ServerConnection`] and [`ClientConnection`] are a connection as bytes in, events and bytes out. Each keeps the state of all streams in
//! one value without a lock, bounds what the peer may cause by counters of its own, and puts what all streams have ready into one buffer,
//! for one write.
//!
//! - [`frame`] reads and writes frames. Each rule is a [`RuleViolation`] with the code that the RFC demands, cited beside the line.
//! - [`hpack`] decodes fields into lines of HTTP/1.1 in one buffer, the form in which a proxy keeps and forwards them, and encodes them.
//! - [`RequestHead`] is a list of fields that keeps the rules for requests, and [`ResponseHead`] one that keeps those for responses; others
//!   never leave the crate.
//!
//! HTTP/3 has the same rules for messages, and HPACK's integers and strings: `sluicegate-http3` takes from here what judges and reads them.
//!
//! The crate reads no clock, starts no thread, and waits for nothing. No input makes it panic.
//!
//! # Limits
//! [`ConnectionLimits`] and [`ClientLimits`] bound a connection; the caller bounds all connections of a peer together. A connection keeps
//! a frame or a block of fields that is not whole ([`ServerConnection::held_back`]), two tables of 4 KiB, and its output. It keeps no byte
//! of a body.
//!
//! # Example
//! ```
//! use std::time::Duration;
//! use sluicegate_http2::frame::{FrameKind, FrameHead, FrameFlags, PREFACE, write_settings};
//! use sluicegate_http2::{ConnectionEvent, ServerConnection, StreamEnd, StreamId};
//! # use sluicegate_http2::{ConnectionLimits, ExtendedConnect, FloodLimits};
//! # let limits = ConnectionLimits {
//! #     max_streams: 100, max_field_list: 16384, stream_window: 65536, connection_window: 1 << 20, output_bytes: 65536,
//! #     extended_connect: ExtendedConnect::Refused,
//! #     floods: FloodLimits {
//! #         control_frames: 10_000, control_frames_per_second: 330, control_frames_per_request: 10,
//! #         control_frames_per_data_frame: 3, cancelled_streams: 200, broken_streams: 128, remembered_resets: 1024,
//! #     },
//! # };
//!
//! let now = Duration::ZERO;
//! let mut connection = ServerConnection::new(limits, now);
//! let mut read = PREFACE.to_vec();
//! write_settings(&mut read, &[]);
//! // HEADERS of `GET http://a/`, from the static table of HPACK.
//! read.extend([0, 0, 6, 1, 5, 0, 0, 0, 1, 0x82, 0x86, 0x84, 0x41, 1, b'a']);
//!
//! let mut input = &read[..];
//! while let Some(event) = connection.receive(&mut input, now) {
//!     let ConnectionEvent::Request { stream, head, end } = event else { continue };
//!     assert_eq!((stream, head.path(), end), (StreamId::new(1), Some(&b"/"[..]), StreamEnd::Here));
//!     let fields = [(&b"content-length"[..], &b"2"[..])];
//!     connection.send_head(stream, 200, fields, StreamEnd::NotYet)?;
//!     assert_eq!(connection.send_data(stream, b"ok", StreamEnd::Here)?, 2);
//! }
//! // The socket takes all of it: SETTINGS, their acknowledgment, HEADERS and DATA.
//! let written = connection.output().len();
//! connection.advance_output(written);
//! assert_eq!(connection.open_streams(), 0);
//! # Ok::<(), sluicegate_http2::StreamGone>(())
//! ```
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod connection;
mod error_code;
mod field_lines;
mod field_rules;
pub mod frame;
pub mod hpack;
mod priority;
mod request_head;
mod response_head;
mod stream_id;
mod violation;

pub use connection::{
    ClientConnection, ClientEvent, ClientLimits, ConnectionEvent, ConnectionLimits, FieldWriter,
    FloodCounters, FloodLimits, RequestPseudoFields, RequestRefused, ServerConnection, StreamEnd,
    StreamGone,
};
pub use error_code::ErrorCode;
pub use field_lines::{FieldLines, TrailerBuilder};
pub use priority::StreamPriority;
pub use request_head::{ExtendedConnect, HeadBuilder, PseudoFieldPlaces, RequestHead};
pub use response_head::ResponseHead;
pub use stream_id::StreamId;
pub use violation::RuleViolation;
