//! HTTP/3 without I/O, for proxies: the server's side of a connection, RFC 9114.
//!
//! [`ServerConnection`] takes the bytes of QUIC's streams, and the ends of these, and returns events; answers become bytes a stream. QUIC
//! itself (packets, loss, windows, the limits of streams) is the caller's, who passes on what its transport says and does what
//! [`ServerConnection::take_action`] asks of it.
//!
//! - [`frame`] reads and writes frames and settings, [`varint`] their integers. Each rule is a [`RuleViolation`] with the code that the
//!   RFCs demand, cited beside the line.
//! - [`qpack`] decodes fields into lines of HTTP/1.1 in one buffer, the form in which a proxy keeps and forwards them, and encodes them.
//!   There is no dynamic table.
//! - [`RequestHead`] and the rules for requests are those of the crate for HTTP/2: RFC 9114 §4.2 and §4.3 repeat them.
//!
//! The crate reads no clock, starts no thread, and waits for nothing. No input makes it panic.
//!
//! # Limits
//! [`ConnectionLimits`] bounds a connection; the caller bounds the streams that QUIC admits, and all connections of a peer together. A
//! connection keeps fields that are not whole ([`ServerConnection::held_back`]), a short frame of the control stream, and heads of answers
//! that QUIC has not taken. It keeps no byte of a body: they are lent to the caller, who reads no more bytes of a stream than it has room
//! for. So QUIC grants the client what the request's path takes.
//!
//! # Example
//! ```
//! use std::time::Duration;
//! use sluicegate_http3::{ConnectionEvent, ServerConnection, StreamEnd, StreamId};
//! # use sluicegate_http3::{ConnectionLimits, ExtendedConnect, FloodLimits};
//! # let limits = ConnectionLimits {
//! #     max_field_list: 16384,
//! #     extended_connect: ExtendedConnect::Refused,
//! #     floods: FloodLimits {
//! #         control_frames: 10_000, control_frames_per_second: 330, control_frames_per_request: 10,
//! #         control_frames_per_data_frame: 3, cancelled_streams: 200, broken_streams: 128, remembered_resets: 0,
//! #     },
//! # };
//! let now = Duration::ZERO;
//! let mut connection = ServerConnection::new(limits, now);
//! let stream = StreamId::new(0);
//! connection.open(stream, now);
//! // HEADERS of `GET http://a/`, from the static table of QPACK.
//! let mut input = &[1, 8, 0, 0, 0xd1, 0xd6, 0xc1, 0x50, 1, b'a'][..];
//! while let Some(event) = connection.receive(stream, &mut input, StreamEnd::Here, now) {
//!     let ConnectionEvent::Request { head, end, .. } = event else { continue };
//!     assert_eq!((head.path(), end), (Some(&b"/"[..]), StreamEnd::Here));
//!     let fields = [(&b"content-length"[..], &b"2"[..])];
//!     connection.send_head(stream, 200, fields)?;
//!     assert_eq!(connection.begin_data(stream, 2)?, 2);
//! }
//! // QUIC takes HEADERS and the head of DATA, then the body, then the end.
//! let written = connection.output(stream).len();
//! connection.advance_output(stream, written);
//! connection.advance_data(stream, 2);
//! connection.end_answer(stream)?;
//! assert!(connection.take_finish(stream));
//! assert_eq!(connection.open_requests(), 0);
//! # Ok::<(), sluicegate_http3::StreamGone>(())
//! ```
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod connection;
mod error_code;
pub mod frame;
pub mod qpack;
mod stream_id;
pub mod varint;
mod violation;

pub use sluicegate_http2::{
    ExtendedConnect, FieldLines, FloodLimits, PseudoFieldPlaces, RequestHead, StreamEnd,
    StreamGone, StreamPriority,
};

pub use connection::{
    ConnectionEvent, ConnectionLimits, FieldWriter, ServerConnection, StreamAction,
};
pub use error_code::ErrorCode;
pub use stream_id::{StreamId, StreamKind};
pub use violation::RuleViolation;
