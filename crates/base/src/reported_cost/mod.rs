//! Finds the number to which a JSON pointer leads in the body of a response, while the body passes in pieces.
//!
//! The body may be JSON, several JSON texts behind each other, or a stream of server-sent events whose data is JSON. The last text that has
//! a number there counts: a language model reports its tokens in the last event, and sends `null` or nothing before.
//!
//! # Limits
//! Nothing of the body is kept but the path to the current value, which is as long as the pointer, the name of a member, as far as it can
//! match, and [`COST_NUMBER_BYTES`](crate::bounds::COST_NUMBER_BYTES) of a number. So the length of the body does not matter, nor that of
//! an event.

mod event_stream;
mod json;

use std::sync::Arc;

use event_stream::EventLines;
use json::NumberScanner;

/// The form of a body that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportForm {
    /// JSON texts: one, or several behind each other.
    Json,
    /// Server-sent events.
    Events,
}

/// The number that a body reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedNumber {
    /// This number, rounded up.
    Found(u64),
    /// Something else is there.
    Malformed,
}

/// The reader of one body.
#[derive(Debug)]
pub struct CostReader {
    /// `None` for a body of JSON alone.
    events: Option<EventLines>,
    scanner: NumberScanner,
}

impl ReportForm {
    /// Returns the form of a body with this `Content-Type`; `None` for one that is not read.
    #[must_use]
    pub fn from_content_type(content_type: &[u8]) -> Option<Self> {
        let essence = content_type.split(|byte| *byte == b';').next()?;
        let essence = essence.trim_ascii().to_ascii_lowercase();
        match &*essence {
            b"text/event-stream" => Some(Self::Events),
            b"application/json"
            | b"application/x-ndjson"
            | b"application/ndjson"
            | b"application/jsonl"
            | b"application/json-seq" => Some(Self::Json),
            other if other.starts_with(b"application/") && other.ends_with(b"+json") => {
                Some(Self::Json)
            }
            _ => None,
        }
    }
}

impl CostReader {
    /// Returns a reader of the number behind these steps of a JSON pointer.
    #[must_use]
    pub fn new(form: ReportForm, steps: Arc<[Arc<str>]>) -> Self {
        Self {
            events: (form == ReportForm::Events).then(EventLines::default),
            scanner: NumberScanner::new(steps),
        }
    }

    /// Returns the steps of the pointer.
    #[must_use]
    pub fn steps(&self) -> &[Arc<str>] {
        self.scanner.steps()
    }

    /// Reads the next piece of the body.
    pub fn read(&mut self, piece: &[u8]) {
        match &mut self.events {
            None => self.scanner.read(piece),
            Some(events) => events.read(piece, &mut self.scanner),
        }
    }

    /// Returns the number so far; `None` where there is none.
    #[must_use]
    pub fn number(&self) -> Option<ReportedNumber> {
        self.scanner.number()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn steps(pointer: &str) -> Arc<[Arc<str>]> {
        pointer.split('/').skip(1).map(Arc::from).collect()
    }

    fn found(form: ReportForm, pointer: &str, body: &[u8]) -> Option<ReportedNumber> {
        let mut reader = CostReader::new(form, steps(pointer));
        reader.read(body);
        reader.number()
    }

    fn in_json(pointer: &str, body: &str) -> Option<ReportedNumber> {
        found(ReportForm::Json, pointer, body.as_bytes())
    }

    fn in_events(pointer: &str, body: &str) -> Option<ReportedNumber> {
        found(ReportForm::Events, pointer, body.as_bytes())
    }

    const USAGE: &str = "/usage/total_tokens";

    /// Goal: the number that a pointer leads to, and nothing that only looks like it. Method: texts with the names elsewhere: in strings,
    /// in lists, deeper, higher, escaped.
    #[test]
    fn a_pointer_leads_to_a_number() {
        use ReportedNumber::{Found, Malformed};
        for (pointer, body, number) in [
            (USAGE, r#"{"usage":{"total_tokens":42}}"#, Some(Found(42))),
            (
                USAGE,
                "{\"id\":\"x\",\n \"usage\" : {\"a\":[1,{}], \"total_tokens\" :\t7 } , \"z\":1}",
                Some(Found(7)),
            ),
            (
                USAGE,
                r#"{"choices":[{"usage":{"total_tokens":1}}],"usage":{"total_tokens":2}}"#,
                Some(Found(2)),
            ),
            (USAGE, r#"{"text":"\"usage\":{\"total_tokens\":9}"}"#, None),
            (
                USAGE,
                r#"{"text":"}","usage":{"total_tokens":3}}"#,
                Some(Found(3)),
            ),
            (
                USAGE,
                r#"{"text":"\\","usage":{"total_tokens":3}}"#,
                Some(Found(3)),
            ),
            (
                USAGE,
                r#"{"\u0075sage":{"total_tokens":3}}"#,
                Some(Found(3)),
            ),
            (USAGE, r#"{"x":{"usage":{"total_tokens":3}}}"#, None),
            (USAGE, r#"{"usage":{"x":{"total_tokens":3}}}"#, None),
            (USAGE, r#"{"usage":null}"#, None),
            (USAGE, r#"{"usage":{"total_tokens":null}}"#, None),
            (USAGE, r#"{"usage":{"total_tokens":"12"}}"#, Some(Malformed)),
            (USAGE, r#"{"usage":{"total_tokens":true}}"#, Some(Malformed)),
            (USAGE, r#"{"usage":{"total_tokens":{}}}"#, Some(Malformed)),
            (USAGE, r#"{"usage":{"total_tokens":-3}}"#, Some(Malformed)),
            (USAGE, r#"{"usage":{"total_tokens":1.2}}"#, Some(Found(2))),
            (
                USAGE,
                r#"{"usage":{"total_tokens":1e3}}"#,
                Some(Found(1_000)),
            ),
            (USAGE, r#"{"usage":{"total_tokens":0}}"#, Some(Found(0))),
            (
                USAGE,
                r#"{"usage":{"total_tokens":99999999999999999999}}"#,
                Some(Found(u64::MAX)),
            ),
            (
                USAGE,
                r#"{"usage":{"total_tokens":1},"usage":{"total_tokens":2}}"#,
                Some(Found(2)),
            ),
            (
                USAGE,
                "{\"usage\":{\"total_tokens\":5}}\n{\"usage\":{\"total_tokens\":6}}\n{\"usage\":null}\n",
                Some(Found(6)),
            ),
            (USAGE, r#"[{"usage":{"total_tokens":5}}]"#, None),
            ("/1/n", r#"[{"n":1},{"n":2},{"n":3}]"#, Some(Found(2))),
            ("/a/0", r#"{"a":[8,9]}"#, Some(Found(8))),
            ("/", r#"{"":4}"#, Some(Found(4))),
        ] {
            assert_eq!(in_json(pointer, body), number, "{body}");
        }
    }

    /// Goal: the last event with the number counts, and what a model writes forges no event. Method: streams as OpenAI sends them, all line
    /// ends, data in several lines, text that looks like an event.
    #[test]
    fn the_last_event_with_the_number_counts() {
        use ReportedNumber::Found;
        let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}],\"usage\":null}\n\n\
            : comment\n\n\
            event: usage\ndata:{\"choices\":[],\"usage\":{\"total_tokens\":11}}\nid: 1\n\n\
            data: [DONE]\n\n";
        assert_eq!(in_events(USAGE, stream), Some(Found(11)));
        for ends in ["\r\n", "\r"] {
            assert_eq!(
                in_events(USAGE, &stream.replace('\n', ends)),
                Some(Found(11))
            );
        }
        let split = "data: {\"usage\":\ndata: {\"total_tokens\":\ndata: 5}}\n\n";
        assert_eq!(in_events(USAGE, split), Some(Found(5)));
        let cut = "data: {\"usage\":{\n\ndata: \"total_tokens\":5}}\n\n";
        assert_eq!(in_events(USAGE, cut), None);
        let forged =
            "data: {\"text\":\"\\n\\ndata: {\\\"usage\\\":{\\\"total_tokens\\\":0}}\"}\n\n";
        assert_eq!(in_events(USAGE, forged), None);
        assert_eq!(
            in_events(USAGE, "datum: {\"usage\":{\"total_tokens\":5}}\n\n"),
            None
        );
    }

    /// Goal: media types. Method: those of the field's neighbors.
    #[test]
    fn json_and_events_are_read() {
        for (value, form) in [
            ("application/json", Some(ReportForm::Json)),
            ("Application/JSON; charset=utf-8", Some(ReportForm::Json)),
            ("application/problem+json", Some(ReportForm::Json)),
            ("application/x-ndjson", Some(ReportForm::Json)),
            ("text/event-stream;charset=utf-8", Some(ReportForm::Events)),
            ("text/plain", None),
            ("", None),
        ] {
            assert_eq!(
                ReportForm::from_content_type(value.as_bytes()),
                form,
                "{value}"
            );
        }
    }

    proptest! {
        /// Goal: how a body is cut into pieces does not matter, and nothing that an origin sends stops the reader. Method: texts of what
        /// JSON and events are made of, whole and in pieces; valid JSON against a parser.
        #[test]
        fn pieces_are_read_as_the_whole(
            body in "(\\{\"usage\":|\\{\"total_tokens\":|data: |[0-9]{1,3}|[{}\\[\\]\",:\\\\ a\n\r]){0,40}",
            size in 1usize..7,
            events in any::<bool>(),
        ) {
            let form = if events { ReportForm::Events } else { ReportForm::Json };
            let mut reader = CostReader::new(form, steps(USAGE));
            for piece in body.as_bytes().chunks(size) {
                reader.read(piece);
            }
            prop_assert_eq!(reader.number(), found(form, USAGE, body.as_bytes()));
        }

        #[test]
        fn numbers_are_those_of_a_parser(
            before in json_value(), after in json_value(), tokens in any::<u32>(), deep in 0usize..3,
        ) {
            let usage = serde_json::json!({"x": before, "total_tokens": tokens, "y": after});
            let mut value = serde_json::json!({"a": before, "usage": usage, "b": after});
            let mut pointer = String::from(USAGE);
            for _ in 0..deep {
                value = serde_json::json!({"n": [before, value]});
                pointer.insert_str(0, "/n/1");
            }
            let body = value.to_string();
            prop_assert_eq!(value.pointer(&pointer).and_then(|n| n.as_u64()), Some(tokens.into()));
            prop_assert_eq!(in_json(&pointer, &body), Some(ReportedNumber::Found(tokens.into())));
            let stream = format!("data: {body}\n\ndata: [DONE]\n\n");
            prop_assert_eq!(in_events(&pointer, &stream), Some(ReportedNumber::Found(tokens.into())));
        }
    }

    fn json_value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(serde_json::Value::from),
            any::<i32>().prop_map(serde_json::Value::from),
            "[a\"\\\\{}\\[\\]:,\n]{0,8}".prop_map(serde_json::Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
                prop::collection::vec((r#"usage|total_tokens|[a"{}]{0,4}"#, inner), 0..4)
                    .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        })
    }
}
