//! Writes one record of a log as OTLP encodes it: its times, its trace, the line as its body, then its attributes.

use super::attributes::AttributeWriter;
use super::batch::RECORDS;
use super::wire::{FieldNumber, bytes, fixed32, fixed64, message, uint};

/// `LogRecord.attributes`.
const ATTRIBUTES: FieldNumber = 6;

/// The fields that every record of a log has beside its line.
#[derive(Clone, Copy, Debug)]
pub struct LogHead {
    /// The time of the event, in nanoseconds since the Unix epoch.
    pub time_unix_nanos: u64,
    /// The time at which the record was made, in nanoseconds since the Unix epoch.
    pub observed_unix_nanos: u64,
    /// The span that the event belongs to.
    pub trace: Option<LogTrace>,
}

/// The span that a record of a log belongs to.
#[derive(Clone, Copy, Debug)]
pub struct LogTrace {
    /// The id of the trace.
    pub trace_id: u128,
    /// The id of the span.
    pub span_id: u64,
    /// The `trace-flags` of W3C Trace Context.
    pub flags: u8,
}

/// Appends a record of severity INFO: `line`, which is UTF-8, is its body, and `attributes` writes its attributes.
pub fn write_log(
    into: &mut Vec<u8>,
    head: &LogHead,
    line: &[u8],
    attributes: impl FnOnce(&mut AttributeWriter<'_>),
) {
    const INFO: u64 = 9;
    message(into, RECORDS, |into| {
        fixed64(into, 1, head.time_unix_nanos);
        uint(into, 2, INFO);
        bytes(into, 3, b"INFO");
        message(into, 5, |into| bytes(into, 1, line));
        if let Some(trace) = &head.trace {
            fixed32(into, 8, trace.flags.into());
            bytes(into, 9, &trace.trace_id.to_be_bytes());
            bytes(into, 10, &trace.span_id.to_be_bytes());
        }
        fixed64(into, 11, head.observed_unix_nanos);
        attributes(&mut AttributeWriter::new(into, ATTRIBUTES));
    });
}
