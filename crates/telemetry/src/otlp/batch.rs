//! Makes the body of a call: as many whole spans as it may carry, and around them the resource and the scope.

use super::bounds;
use super::settings::SoftwareName;
use super::span::{SPANS, attribute};
use super::wire::{FieldReader, bytes, message};

/// The version of the conventions that the names of attributes follow.
const SCHEMA: &[u8] = b"https://opentelemetry.io/schemas/1.37.0";

/// The spans of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanBatch<'b> {
    /// The encoded spans.
    pub spans: &'b [u8],
    /// The number of spans.
    pub count: u64,
}

/// Returns the first spans of `waiting`: at least one, and no more once [`bounds::BATCH`] bytes are reached.
#[must_use]
pub fn first_batch(waiting: &[u8]) -> SpanBatch<'_> {
    let mut rest = FieldReader(waiting);
    let mut count = 0;
    let mut end = 0;
    while end < bounds::BATCH && rest.next().is_some() {
        count += 1;
        end = waiting.len() - rest.0.len();
    }
    SpanBatch {
        spans: &waiting[..end],
        count,
    }
}

/// Encodes the `ExportTraceServiceRequest` of a batch. `attributes` are those of the resource, beside `service.version`.
#[must_use]
pub fn body(
    batch: SpanBatch<'_>,
    attributes: &[(Box<str>, Box<str>)],
    software: SoftwareName,
) -> Vec<u8> {
    let mut text = Vec::with_capacity(batch.spans.len() + 1024);
    // ResourceSpans: resource, scope_spans, schema_url.
    message(&mut text, 1, |into| {
        message(into, 1, |into| {
            for (name, value) in attributes {
                attribute(into, 1, name, value);
            }
            attribute(into, 1, "service.version", software.version);
        });
        message(into, 2, |into| {
            message(into, 1, |into| bytes(into, 1, software.name.as_bytes()));
            into.extend_from_slice(batch.spans);
            bytes(into, 3, SCHEMA);
        });
        bytes(into, 3, SCHEMA);
    });
    text
}

// `first_batch` counts the fields that stand between resource and schema.
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
        let first = first_batch(&waiting);
        assert_eq!(first.count, 6);
        let second = first_batch(&waiting[first.spans.len()..]);
        assert_eq!(second.count, 1);
        assert_eq!(first.spans.len() + second.spans.len(), waiting.len());
        let mut large = Vec::new();
        bytes(&mut large, SPANS, &vec![0; bounds::BATCH + 1]);
        assert_eq!(first_batch(&large).spans.len(), large.len());
        assert_eq!(first_batch(&[]).count, 0);
    }
}
