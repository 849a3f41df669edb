//! Decides what a collector's response means: the records are accepted, rejected, or may be accepted later.
//!
//! The OTLP specification, "OTLP/HTTP Response", names the statuses that are worth another call; all others are for good, since the same
//! bytes would be answered alike.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;

use super::wire::{FieldReader, FieldValue};

/// The response of a collector.
#[derive(Clone, Debug)]
pub(super) struct ExportReply {
    pub(super) status: StatusCode,
    /// The pause that the collector asks for.
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Bytes,
}

/// The meaning of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReplyMeaning {
    /// The collector has the records.
    Accepted,
    /// The collector has the records but for this number, for this reason.
    PartlyRejected(u64, String),
    /// The collector rejects the records for good.
    Rejected(String),
    /// The collector cannot accept the records now.
    Later(String, Option<Duration>),
}

/// The characters of a collector's own message that are logged.
const MESSAGE: usize = 200;

impl ExportReply {
    /// Returns the meaning for a batch of `count` records.
    pub(super) fn meaning(&self, count: u64) -> ReplyMeaning {
        let status = self.status;
        if status.is_success() {
            let (rejected, why) = rejected(&self.body);
            return match rejected.min(count) {
                0 => ReplyMeaning::Accepted,
                rejected => ReplyMeaning::PartlyRejected(rejected, why),
            };
        }
        let why = format!("it answers {status}");
        match status.as_u16() {
            429 | 502 | 503 | 504 => ReplyMeaning::Later(why, self.retry_after),
            _ => ReplyMeaning::Rejected(why),
        }
    }
}

/// Reads `partial_success`, which the responses of all signals have in one form: the number of rejected records, and the reason. Of
/// metrics the number is that of rejected points, of which a record has one or more.
fn rejected(body: &[u8]) -> (u64, String) {
    let partial = FieldReader(body).find_map(|field| match field {
        (1, FieldValue::Bytes(partial)) => Some(partial),
        _ => None,
    });
    let mut rejected = 0;
    let mut why = String::new();
    for field in FieldReader(partial.unwrap_or_default()) {
        match field {
            (1, FieldValue::Uint(records)) => rejected = records,
            (2, FieldValue::Bytes(words)) => {
                let words = String::from_utf8_lossy(words);
                why = words.chars().take(MESSAGE).collect();
                why = why.escape_debug().to_string();
            }
            _ => {}
        }
    }
    (rejected, why)
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::logs::v1::{
        ExportLogsPartialSuccess, ExportLogsServiceResponse,
    };
    use opentelemetry_proto::tonic::collector::metrics::v1::{
        ExportMetricsPartialSuccess, ExportMetricsServiceResponse,
    };
    use opentelemetry_proto::tonic::collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceResponse,
    };
    use prost::Message;

    use super::*;

    fn meaning(status: u16, body: Bytes) -> ReplyMeaning {
        let status = StatusCode::from_u16(status).expect("a status");
        let retry_after = Some(Duration::from_secs(7));
        let answer = ExportReply {
            status,
            retry_after,
            body,
        };
        answer.meaning(10)
    }

    /// Goal: a batch is posted again only where that may succeed. Method: the statuses that the specification names, and others.
    #[test]
    fn only_a_batch_that_may_be_accepted_later_is_posted_again() {
        for status in [429, 502, 503, 504] {
            let meaning = meaning(status, Bytes::new());
            assert!(
                matches!(meaning, ReplyMeaning::Later(_, Some(_))),
                "{status}: {meaning:?}"
            );
        }
        for status in [301, 400, 401, 404, 413, 415, 500, 501] {
            let meaning = meaning(status, Bytes::new());
            assert!(
                matches!(meaning, ReplyMeaning::Rejected(_)),
                "{status}: {meaning:?}"
            );
        }
        assert_eq!(meaning(200, Bytes::new()), ReplyMeaning::Accepted);
    }

    /// Goal: lines and metrics that a collector rejects are counted as spans are. Method: partial successes as OpenTelemetry's own types
    /// write them.
    #[test]
    fn the_responses_of_all_signals_are_read_alike() {
        let lines = ExportLogsServiceResponse {
            partial_success: Some(ExportLogsPartialSuccess {
                rejected_log_records: 3,
                error_message: "too old".to_owned(),
            }),
        };
        let metrics = ExportMetricsServiceResponse {
            partial_success: Some(ExportMetricsPartialSuccess {
                rejected_data_points: 3,
                error_message: "too old".to_owned(),
            }),
        };
        for body in [lines.encode_to_vec(), metrics.encode_to_vec()] {
            let rejected = ReplyMeaning::PartlyRejected(3, "too old".to_owned());
            assert_eq!(meaning(200, body.into()), rejected);
        }
    }

    /// Goal: spans that a collector rejects are counted. Method: partial successes as OpenTelemetry's own types write them, and bytes
    /// that are none.
    #[test]
    fn spans_that_a_collector_rejects_are_counted() {
        let said = |rejected_spans, error_message: &str| {
            let partial_success = Some(ExportTracePartialSuccess {
                rejected_spans,
                error_message: error_message.to_owned(),
            });
            let body = ExportTraceServiceResponse { partial_success };
            meaning(200, body.encode_to_vec().into())
        };
        assert_eq!(
            said(3, "too old\n"),
            ReplyMeaning::PartlyRejected(3, "too old\\n".to_owned())
        );
        assert_eq!(
            said(99, ""),
            ReplyMeaning::PartlyRejected(10, String::new())
        );
        assert_eq!(said(0, "a word of advice"), ReplyMeaning::Accepted);
        for nonsense in [&b"\xff\xff\xff"[..], b"{}", b"\x0a\x7f"] {
            assert_eq!(
                meaning(200, Bytes::from_static(nonsense)),
                ReplyMeaning::Accepted
            );
        }
    }
}
