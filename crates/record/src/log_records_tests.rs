//! Reads the records by OpenTelemetry's own definitions.

use http::HeaderValue;
use http::header::USER_AGENT;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Received;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ScopeLogs};
use proptest::prelude::*;
use prost::Message;
use serde_json::Value;
use sluicegate_base::received::ReceivedFields;

use super::*;
use crate::example::{Example, refused};
use crate::outcome::Outcome;
use sluicegate_config::rules::{AccessLogTarget, LogFormat, LogRules};

/// Returns the record that a collector gets of an outcome, under rules with a field and another format.
fn received(outcome: &Outcome<'_>) -> LogRecord {
    let rules = LogRules {
        fields: vec![USER_AGENT],
        format: LogFormat::Combined,
        ..LogRules::to(AccessLogTarget::Off)
    };
    let entry = LogEntry {
        outcome,
        rules: &rules,
        left_out: 3,
    };
    let mut into = Vec::new();
    write(&mut into, &mut TimeFormatter::default(), &entry);
    let mut scope = ScopeLogs::decode(&*into).expect("these are records");
    assert_eq!(scope.log_records.len(), 1);
    scope.log_records.remove(0)
}

/// Returns the value of an attribute as JSON.
fn json_of(value: Option<AnyValue>) -> Value {
    match value.and_then(|value| value.value) {
        Some(Received::StringValue(text)) => text.into(),
        Some(Received::IntValue(number)) => number.into(),
        Some(Received::DoubleValue(number)) => number.into(),
        Some(Received::ArrayValue(array)) => {
            let values = array.values.into_iter();
            values.map(|value| json_of(Some(value))).collect()
        }
        Some(Received::KvlistValue(members)) => {
            let members = members.values.into_iter();
            members
                .map(|member| (member.key, json_of(member.value)))
                .collect()
        }
        other => panic!("{other:?}"),
    }
}

/// Returns an attribute as JSON; null without one.
fn attribute(record: &LogRecord, name: &str) -> Value {
    let mut found = record.attributes.iter().filter(|pair| pair.key == name);
    let value = found
        .next()
        .map(|KeyValue { value, .. }| json_of(value.clone()));
    assert!(found.next().is_none(), "{name} stands twice");
    value.unwrap_or_default()
}

/// Returns the line that is the body of a record.
fn line_of(record: &LogRecord) -> serde_json::Map<String, Value> {
    let Value::String(line) = json_of(record.body.clone()) else {
        panic!("{record:?}");
    };
    serde_json::from_str(&line).expect("a line is JSON")
}

/// Goal: attributes are the fields of the line, and no field is missing. Method: a rejected request with many fields; each field of the
/// body is compared with its attribute.
#[test]
fn each_field_of_the_line_is_an_attribute() {
    let (route, verdict) = refused();
    let mut fields = ReceivedFields::new();
    fields.append(USER_AGENT, HeaderValue::from_static("curl \"8\""));
    let example = Example {
        route: Some(&route),
        verdict: Some(&verdict),
        fields: Some(&fields),
        ..Example::default()
    };
    let outcome = example.outcome();
    let record = received(&outcome);
    let took = record.observed_time_unix_nano - record.time_unix_nano;
    assert_eq!(u128::from(took), outcome.total.as_nanos());
    let line = line_of(&record);
    for (field, value) in &line {
        let name = match &**field {
            "time" => continue,
            "protocol" => {
                assert_eq!(attribute(&record, "network.protocol.version"), "1.1");
                continue;
            }
            "client" => "client.address",
            "peer" => "network.peer.address",
            "method" => "http.request.method",
            "host" => "server.address",
            "status" => "http.response.status_code",
            "bytes_in" => "http.request.body.size",
            "bytes_out" => "http.response.body.size",
            "id" => "sluicegate.request_id",
            other => &format!("sluicegate.{other}"),
        };
        assert_eq!(attribute(&record, name), *value, "{field}");
    }
    for field in [
        "limit",
        "key",
        "key_values",
        "fields",
        "target",
        "route",
        "left_out",
    ] {
        assert!(line.contains_key(field), "{field}: {line:?}");
    }
    assert_eq!(attribute(&record, "url.path"), "/auth/sendOTP");
    assert_eq!(attribute(&record, "http.route"), "/auth/sendOTP");
}

proptest! {
    /// Goal: nothing that a client sends makes a record that a collector cannot read, or a large one. Method: any bytes for what is its.
    #[test]
    fn any_request_makes_a_record_that_can_be_read(
        method in proptest::collection::vec(any::<u8>(), 0..100),
        host in proptest::collection::vec(any::<u8>(), 0..600),
        target in proptest::collection::vec(any::<u8>(), 0..5_000),
    ) {
        let example = Example {
            method: &method,
            host: &host,
            target: &target,
            ..Example::default()
        };
        let record = received(&example.outcome());
        let line = line_of(&record);
        prop_assert_eq!(attribute(&record, "sluicegate.target"), line["target"].clone());
        prop_assert!(record.encoded_len() < 48 * 1024);
    }
}
