//! Access logs of common servers as one stream of requests in the order of time.
//!
//! [`LogReader`] opens logs, plain or compressed, detects the [`LogFormat`] of each by its first lines, and returns one [`LoggedRequest`]
//! after the other. Lines that are a little out of order are sorted, several logs are merged. A line that is not a request, or whose time
//! is far from that of the lines around it, is counted and never fatal. The crate knows nothing of limits or gateways.
//!
//! - [`LogFormat`] parses one line into a [`ParsedLine`], whose texts borrow from it.
//! - [`LogFormat::named`] also takes a `log_format` out of nginx's configuration, and a `LogFormat` out of Apache's.
//! - [`LogFacts`] says which values the first lines of the logs have.
//!
//! # Limits
//! A line has at most [`MAX_LINE`] bytes and keeps [`MAX_FIELDS`] named values; a [`FieldSelection`] says which request fields.
//! Requests that wait for earlier ones take at most [`MAX_HELD_BYTES`].
//!
//! # Example
//! ```
//! use sluicegate_access_log::{LogFormat, ParsedLine};
//!
//! let line = br#"203.0.113.7 - - [21/Nov/2026:07:10:38 +0000] "POST /auth/sendOTP HTTP/1.1" 429 345 "-" "curl/8.5.0""#;
//! let mut format = LogFormat::detect(line).expect("a format");
//! assert_eq!(format.name(), "combined");
//!
//! let mut request = ParsedLine::default();
//! format.parse(line, &mut request)?;
//! assert_eq!(request.target.raw(), b"/auth/sendOTP");
//! assert_eq!(request.status, 429);
//! # Ok::<(), sluicegate_access_log::LineError>(())
//! ```
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod address;
mod calendar;
mod envelope;
mod facts;
mod field_selection;
mod format;
mod formats;
mod json;
mod line;
mod lines;
mod log_clock;
mod log_parser;
mod member_order;
mod messages;
mod minute_cache;
mod parse_cache;
mod prefix;
mod reader;
mod reorder;
mod request;
mod scan;
mod skipped;
mod source;
mod template;
mod text;
mod time;
mod values;

pub use facts::LogFacts;
pub use field_selection::FieldSelection;
pub use format::LogFormat;
pub use formats::json_members::MemberNames;
pub use formats::w3c::ColumnOrder;
pub use line::{FieldKind, LineError, LoggedTreatment, MAX_FIELDS, ParsedField, ParsedLine};
pub use lines::MAX_LINE;
pub use reader::{BrokenLine, LogReader, MisreadLog, OpenError, ReadOptions, ReadStats};
pub use reorder::{MAX_HELD_BYTES, OrderStats, REORDER_WINDOW, TimeSpread};
pub use request::{LoggedField, LoggedFields, LoggedRequest};
pub use skipped::{SkippedCounts, SkippedKind};
pub use template::LogTemplate;
pub use text::{EscapeSyntax, RawText};
