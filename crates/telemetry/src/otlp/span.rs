//! Writes one span as OTLP encodes it: its head, then its attributes.

use super::wire::{FieldNumber, bytes, fixed32, fixed64, message, uint, varint};

/// `ScopeSpans.spans`: a buffer is a sequence of these fields, and a batch is some of them one after the other.
pub(super) const SPANS: FieldNumber = 2;

/// `Span.attributes`.
const ATTRIBUTES: FieldNumber = 9;

/// `Span.kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// The span of a request that the program answers.
    Server = 2,
    /// The span of a request that the program sends.
    Client = 3,
}

/// The fields that every span has beside its name.
#[derive(Clone, Copy, Debug)]
pub struct SpanHead {
    /// The id of the trace.
    pub trace_id: u128,
    /// The id of the span.
    pub span_id: u64,
    /// The id of its parent; `None` where it begins the trace. The parent of a server's span is in another process.
    pub parent_id: Option<u64>,
    /// Its kind.
    pub kind: SpanKind,
    /// Its start, in nanoseconds since the Unix epoch.
    pub start_unix_nanos: u64,
    /// Its end, in nanoseconds since the Unix epoch.
    pub end_unix_nanos: u64,
}

/// Appends a span: `name` writes its name, `attributes` its attributes.
pub fn write_span(
    into: &mut Vec<u8>,
    head: &SpanHead,
    name: impl FnOnce(&mut Vec<u8>),
    attributes: impl FnOnce(&mut SpanAttributes<'_>),
) {
    message(into, SPANS, |into| {
        write_head(into, head, name);
        attributes(&mut SpanAttributes(into));
    });
}

/// Writes ids, name and times.
fn write_head(into: &mut Vec<u8>, head: &SpanHead, name: impl FnOnce(&mut Vec<u8>)) {
    /// Bit 0: the trace is recorded; bit 8: bit 9 is valid; bit 9: the parent is in another process.
    const FLAGS: u32 = 0x101;
    const REMOTE: u32 = 0x200;
    bytes(into, 1, &head.trace_id.to_be_bytes());
    bytes(into, 2, &head.span_id.to_be_bytes());
    if let Some(parent) = head.parent_id {
        bytes(into, 4, &parent.to_be_bytes());
    }
    message(into, 5, name);
    uint(into, 6, head.kind as u64);
    fixed64(into, 7, head.start_unix_nanos);
    fixed64(into, 8, head.end_unix_nanos);
    let remote = match (head.kind, head.parent_id) {
        (SpanKind::Server, Some(_)) => REMOTE,
        _ => 0,
    };
    fixed32(into, 16, FLAGS | remote);
}

/// Writes the attributes of a span.
#[derive(Debug)]
pub struct SpanAttributes<'a>(&'a mut Vec<u8>);

impl SpanAttributes<'_> {
    /// Adds a text.
    pub fn string(&mut self, name: &str, value: &str) {
        attribute(self.0, ATTRIBUTES, name, value);
    }

    /// Adds a number.
    pub fn number(&mut self, name: &str, value: u64) {
        message(self.0, ATTRIBUTES, |into| {
            bytes(into, 1, name.as_bytes());
            message(into, 2, |into| {
                // Written even where it is 0: a value without a field has no kind.
                into.push(3 << 3);
                varint(into, value);
            });
        });
    }

    /// Sets the status of the span to failed.
    pub fn fail(&mut self) {
        const STATUS: FieldNumber = 15;
        const FAILED: u64 = 2;
        message(self.0, STATUS, |into| uint(into, 3, FAILED));
    }
}

/// Writes an attribute that is a text into a message where attributes have the number `field`.
pub(super) fn attribute(into: &mut Vec<u8>, field: FieldNumber, name: &str, value: &str) {
    message(into, field, |into| {
        bytes(into, 1, name.as_bytes());
        message(into, 2, |into| bytes(into, 1, value.as_bytes()));
    });
}
