//! Decides what a collector's answer means: it has the spans, it never will, or it may later.
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
    /// The pause that it asks for.
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Bytes,
}

/// The result of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReplyMeaning {
    /// It has the spans.
    Taken,
    /// It has them but for so many, and says why.
    TakenBut(u64, String),
    /// It does not want them.
    Refused(String),
    /// It cannot take them now.
    Later(String, Option<Duration>),
}

/// Characters of a collector's own words that are logged.
const WORDS: usize = 200;

impl ExportReply {
    /// Returns the result for a batch of `count` spans.
    pub(super) fn meaning(&self, count: u64) -> ReplyMeaning {
        let status = self.status;
        if status.is_success() {
            let (rejected, why) = rejected(&self.body);
            return match rejected.min(count) {
                0 => ReplyMeaning::Taken,
                rejected => ReplyMeaning::TakenBut(rejected, why),
            };
        }
        let why = format!("it answers {status}");
        match status.as_u16() {
            429 | 502 | 503 | 504 => ReplyMeaning::Later(why, self.retry_after),
            _ => ReplyMeaning::Refused(why),
        }
    }
}

/// `ExportTraceServiceResponse.partial_success`: how many spans were not taken, and why.
fn rejected(body: &[u8]) -> (u64, String) {
    let partial = FieldReader(body).find_map(|field| match field {
        (1, FieldValue::Bytes(partial)) => Some(partial),
        _ => None,
    });
    let (mut rejected, mut why) = (0, String::new());
    for field in FieldReader(partial.unwrap_or_default()) {
        match field {
            (1, FieldValue::Uint(spans)) => rejected = spans,
            (2, FieldValue::Bytes(words)) => {
                let words = String::from_utf8_lossy(words);
                why = words.chars().take(WORDS).collect();
                why = why.escape_debug().to_string();
            }
            _ => {}
        }
    }
    (rejected, why)
}

#[cfg(test)]
mod tests {
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

    /// Goal: what may succeed is tried again, what cannot is not. Method: the statuses that the specification names, and others.
    #[test]
    fn only_what_may_succeed_later_is_tried_again() {
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
                matches!(meaning, ReplyMeaning::Refused(_)),
                "{status}: {meaning:?}"
            );
        }
        assert_eq!(meaning(200, Bytes::new()), ReplyMeaning::Taken);
    }

    /// Goal: spans that a collector leaves out are known. Method: partial successes as OpenTelemetry's own types write them, and bytes
    /// that are none.
    #[test]
    fn what_a_collector_leaves_out_is_known() {
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
            ReplyMeaning::TakenBut(3, "too old\\n".to_owned())
        );
        assert_eq!(said(99, ""), ReplyMeaning::TakenBut(10, String::new()));
        assert_eq!(said(0, "a word of advice"), ReplyMeaning::Taken);
        for nonsense in [&b"\xff\xff\xff"[..], b"{}", b"\x0a\x7f"] {
            assert_eq!(
                meaning(200, Bytes::from_static(nonsense)),
                ReplyMeaning::Taken
            );
        }
    }
}
