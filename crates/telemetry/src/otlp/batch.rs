//! Makes the body of a call: as many whole records as it may carry, and around them the resource and the scope.

use super::attributes::attribute;
use super::bounds;
use super::settings::SoftwareName;
use super::wire::{FieldNumber, FieldReader, bytes, message};

/// `ScopeSpans.spans`, `ScopeLogs.log_records` and `ScopeMetrics.metrics`: a buffer is a sequence of these fields, and a batch is some of
/// them one after the other.
pub(super) const RECORDS: FieldNumber = 2;

/// The version of the conventions that the names of attributes follow.
const SCHEMA: &[u8] = b"https://opentelemetry.io/schemas/1.37.0";

/// The records of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordBatch<'b> {
    /// The encoded records.
    pub records: &'b [u8],
    /// The number of records.
    pub count: u64,
}

/// Returns the first records of `waiting`: at least one, and no more once [`bounds::BATCH`] bytes are reached.
#[must_use]
pub fn first_batch(waiting: &[u8]) -> RecordBatch<'_> {
    let mut rest = FieldReader(waiting);
    let mut count = 0;
    let mut end = 0;
    while end < bounds::BATCH && rest.next().is_some() {
        count += 1;
        end = waiting.len() - rest.0.len();
    }
    RecordBatch {
        records: &waiting[..end],
        count,
    }
}

/// Encodes the request of a batch: those of the three signals have one form, that of `ExportTraceServiceRequest`. `attributes` are those
/// of the resource, beside `service.version`.
#[must_use]
pub fn body(
    batch: RecordBatch<'_>,
    attributes: &[(Box<str>, Box<str>)],
    software: SoftwareName,
) -> Vec<u8> {
    let mut text = Vec::with_capacity(batch.records.len() + 1024);
    // ResourceSpans, ResourceLogs, ResourceMetrics: resource, scopes, schema_url.
    message(&mut text, 1, |into| {
        message(into, 1, |into| {
            for (name, value) in attributes {
                attribute(into, 1, name, value);
            }
            attribute(into, 1, "service.version", software.version);
        });
        message(into, 2, |into| {
            message(into, 1, |into| bytes(into, 1, software.name.as_bytes()));
            into.extend_from_slice(batch.records);
            bytes(into, 3, SCHEMA);
        });
        bytes(into, 3, SCHEMA);
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a batch ends with a whole record, near its size. Method: records of 100 KiB, and one that alone is larger than a batch.
    #[test]
    fn a_batch_ends_with_a_whole_record() {
        let mut waiting = Vec::new();
        for _ in 0..7 {
            bytes(&mut waiting, RECORDS, &[0; 100 * 1024]);
        }
        let first = first_batch(&waiting);
        assert_eq!(first.count, 6);
        let second = first_batch(&waiting[first.records.len()..]);
        assert_eq!(second.count, 1);
        assert_eq!(first.records.len() + second.records.len(), waiting.len());
        let mut large = Vec::new();
        bytes(&mut large, RECORDS, &vec![0; bounds::BATCH + 1]);
        assert_eq!(first_batch(&large).records.len(), large.len());
        assert_eq!(first_batch(&[]).count, 0);
    }
}
