//! Makes a call's body: as many whole spans as it may bring, and around them who tells of them.

use super::span::{SPANS, attribute};
use super::wire::{FieldReader, bytes, message};
use crate::bounds;

/// The conventions that the names of attributes follow.
const SCHEMA: &[u8] = b"https://opentelemetry.io/schemas/1.37.0";

/// The spans that one call brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpanBatch<'b> {
    /// The encoded spans.
    pub(super) spans: &'b [u8],
    /// The number of spans.
    pub(super) count: u64,
}

/// The first of `waiting`: at least one, and no more once [`OTLP_BATCH`](bounds::OTLP_BATCH) bytes are reached.
pub(super) fn cut(waiting: &[u8]) -> SpanBatch<'_> {
    let mut rest = FieldReader(waiting);
    let mut count = 0;
    let mut end = 0;
    while end < bounds::OTLP_BATCH && rest.next().is_some() {
        count += 1;
        end = waiting.len() - rest.0.len();
    }
    SpanBatch {
        spans: &waiting[..end],
        count,
    }
}

/// `ExportTraceServiceRequest`.
pub(super) fn body(batch: SpanBatch<'_>, attributes: &[(Box<str>, Box<str>)]) -> Vec<u8> {
    let mut text = Vec::with_capacity(batch.spans.len() + 1024);
    // ResourceSpans: resource, scope_spans, schema_url.
    message(&mut text, 1, |into| {
        message(into, 1, |into| {
            for (name, value) in attributes {
                attribute(into, 1, name, value);
            }
            attribute(into, 1, "service.version", env!("CARGO_PKG_VERSION"));
        });
        message(into, 2, |into| {
            message(into, 1, |into| bytes(into, 1, b"sluicegate"));
            into.extend_from_slice(batch.spans);
            bytes(into, 3, SCHEMA);
        });
        bytes(into, 3, SCHEMA);
    });
    text
}

// What is written between them is what `cut` counts.
const _: () = assert!(SPANS == 2);

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a batch ends with a whole span, near its size. Method: spans of 100 KiB, and one that alone is larger than a batch.
    #[test]
    fn a_batch_ends_with_a_whole_span() {
        let mut waiting = Vec::new();
        for _ in 0..7 {
            bytes(&mut waiting, SPANS, &[0; 100 * 1024]);
        }
        let first = cut(&waiting);
        assert_eq!(first.count, 6);
        let second = cut(&waiting[first.spans.len()..]);
        assert_eq!(second.count, 1);
        assert_eq!(first.spans.len() + second.spans.len(), waiting.len());
        let mut large = Vec::new();
        bytes(&mut large, SPANS, &vec![0; bounds::OTLP_BATCH + 1]);
        assert_eq!(cut(&large).spans.len(), large.len());
        assert_eq!(cut(&[]).count, 0);
    }
}
