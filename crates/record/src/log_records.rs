//! Writes the line of a request as a log record for the OpenTelemetry collector.
//!
//! The record is made of the line itself: its body is the JSON line, and its attributes are the fields of that line. So it has what the
//! rules of `[log]` leave in a line, and nothing else. A field that OpenTelemetry's conventions name is an attribute of that name, as
//! spans have it; the others are called `sluicegate.*`.

use sluicegate_base::clock;
use sluicegate_telemetry::otlp::{ExportQueue, LogHead, LogTrace, write_log};
use sluicegate_telemetry::rfc3339::TimeFormatter;

use super::conventions;
use super::line::{self, LogEntry};

/// Bytes of a line for which there is room at first: most have fewer.
const LINE: usize = 1024;

/// Fields of a line that are attributes by the conventions, or fields of the record.
const CONVENTIONAL: [&str; 11] = [
    "time",
    "trace_id",
    "span_id",
    "client",
    "peer",
    "method",
    "host",
    "protocol",
    "status",
    "bytes_in",
    "bytes_out",
];

/// Takes the record of a line.
pub(super) fn append(queue: &ExportQueue, entry: &LogEntry<'_>) {
    queue.append(|into, time| write(into, time, entry));
}

/// Appends the record of a line.
fn write(into: &mut Vec<u8>, time: &mut TimeFormatter, entry: &LogEntry<'_>) {
    let outcome = entry.outcome;
    let mut line = Vec::with_capacity(LINE);
    line::json(&mut line, time, entry);
    let line = line.trim_ascii_end();
    let observed = clock::wall();
    let head = LogHead {
        // By the wall clock, as spans: the clock of limits may be ahead of it.
        time_unix_nanos: observed.saturating_sub(outcome.total).as_nanos(),
        observed_unix_nanos: observed.as_nanos(),
        trace: outcome.trace.map(|trace| LogTrace {
            trace_id: trace.bits(),
            span_id: trace.span(),
            flags: trace.flags(),
        }),
    };
    write_log(into, &head, line, |attributes| {
        conventions::request(attributes, outcome);
        conventions::response(attributes, outcome);
        // A line is an object; were it none, the record would have its body all the same.
        let _ = attributes.json_members(line, attribute_name);
    });
}

/// Returns the parts of the name of the attribute for a field of the line; `None` where the conventions name it.
fn attribute_name(field: &str) -> Option<[&str; 2]> {
    match field {
        // The name that spans have for it.
        "id" => Some(["sluicegate.", "request_id"]),
        field if CONVENTIONAL.contains(&field) => None,
        field => Some(["sluicegate.", field]),
    }
}

#[cfg(test)]
#[path = "log_records_tests.rs"]
mod tests;
