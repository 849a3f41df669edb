//! HTTP/2 without I/O, for proxies: the server's side, RFC 9113.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod error_code;
pub mod frame;
pub mod hpack;
mod stream_id;
mod violation;

pub use error_code::ErrorCode;
pub use stream_id::StreamId;
pub use violation::RuleViolation;
