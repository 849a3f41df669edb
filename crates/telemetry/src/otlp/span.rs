//! Writes one span as OTLP encodes it: its head, then its attributes.

use std::ops::{Deref, DerefMut};

use super::attributes::AttributeWriter;
use super::batch::RECORDS;
use super::wire::{FieldNumber, bytes, fixed32, fixed64, message, uint};

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
    message(into, RECORDS, |into| {
        write_head(into, head, name);
        attributes(&mut SpanAttributes(AttributeWriter::new(into, ATTRIBUTES)));
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

/// Writes the attributes of a span, and its status.
#[derive(Debug)]
pub struct SpanAttributes<'a>(AttributeWriter<'a>);

impl SpanAttributes<'_> {
    /// Sets the status of the span to failed.
    pub fn fail(&mut self) {
        const STATUS: FieldNumber = 15;
        const FAILED: u64 = 2;
        message(self.0.buffer(), STATUS, |into| uint(into, 3, FAILED));
    }
}

impl<'a> Deref for SpanAttributes<'a> {
    type Target = AttributeWriter<'a>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for SpanAttributes<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
