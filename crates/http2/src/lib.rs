//! HTTP/2 without I/O, for proxies: the server's side, RFC 9113.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod error_code;
mod field_lines;
mod field_rules;
pub mod frame;
pub mod hpack;
mod priority;
mod request_head;
mod stream_id;
mod violation;

pub use error_code::ErrorCode;
pub use field_lines::FieldLines;
pub use priority::StreamPriority;
pub use request_head::{ExtendedConnect, RequestHead};
pub use stream_id::StreamId;
pub use violation::RuleViolation;
