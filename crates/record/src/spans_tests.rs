//! Reads the spans by OpenTelemetry's own definitions.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use http::HeaderValue;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use proptest::prelude::*;
use prost::Message;
use sluicegate_base::received::ReceivedFields;
use sluicegate_decide::request_id::RequestId;
use sluicegate_decide::trace_fields::TRACEPARENT;
use sluicegate_telemetry::otlp::{SoftwareName, body, first_batch};

use super::super::conventions::without_methods;
use super::*;
use crate::RequestMetrics;
use crate::example::{Example, NOW, verdict_of};
use crate::trace::{FlagAuthority, SpanExport};
use sluicegate_config::Share;

const ENDED: Timestamp = Timestamp::from_secs(1_800_000_000);

fn trace(parent: Option<&'static str>) -> TraceContext {
    let parent = parent.map(|text| (TRACEPARENT.clone(), HeaderValue::from_static(text)));
    let headers: ReceivedFields = parent.into_iter().collect();
    let id = RequestId::from_bits(7);
    TraceContext::from_headers(&headers, id, FlagAuthority::Gateway, Share::ALL)
        .exported_as(SpanExport::Spans)
}

/// Returns the resource and the spans that the collector gets of an outcome.
fn received(outcome: &Outcome<'_>, trace: &TraceContext) -> (ResourceSpans, Vec<Span>) {
    let mut waiting = Vec::new();
    server(&mut waiting, outcome, trace, ENDED);
    if let Some(origin) = &outcome.origin {
        client(&mut waiting, outcome, origin, trace, ENDED);
    }
    let said = [("service.name".into(), "edge".into())];
    let software = SoftwareName {
        name: "sluicegate",
        version: "1.0",
    };
    let text = body(first_batch(&waiting), &said, software);
    let request = ExportTraceServiceRequest::decode(&*text).expect("it is one");
    let [mut resource] = <[_; 1]>::try_from(request.resource_spans).expect("one resource");
    let spans = resource.scope_spans[0].spans.split_off(0);
    (resource, spans)
}

/// An attribute as text.
fn said(span: &Span, name: &str) -> Option<String> {
    let mut values = span.attributes.iter().filter(|pair| pair.key == name);
    let value = values.next()?.value.clone()?.value?;
    assert!(values.next().is_none(), "{name} is said twice");
    Some(match value {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        other => panic!("{other:?}"),
    })
}

/// Goal: both spans say what the conventions ask for. Method: a forwarded request under a client's span, whose origin was tried twice.
#[test]
fn a_forwarded_request_is_two_spans() {
    let (route, verdict) = verdict_of(1);
    let server_at = SocketAddr::new(Ipv4Addr::new(10, 0, 0, 9).into(), 3000).into();
    let example = Example {
        route: Some(&route),
        verdict: Some(&verdict),
        origin: Some(OriginUse {
            name: "app",
            server: &server_at,
            attempts: 2,
            began: NOW.saturating_add(Duration::from_micros(500)),
            status: Some(503),
            wait: Some(Duration::from_micros(1_050)),
            request_id: None,
            has_large_trailer: false,
        }),
        ..Example::default()
    };
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let trace = trace(Some(parent));
    let (resource, spans) = received(&example.outcome(), &trace);
    let attributes = &resource.resource.as_ref().expect("a resource").attributes;
    assert_eq!(attributes[0].key, "service.name");
    let [ours, theirs] = &spans[..] else {
        panic!("{spans:?}");
    };

    assert_eq!(ours.trace_id, trace.bits().to_be_bytes());
    assert_eq!(ours.span_id, trace.span().to_be_bytes());
    assert_eq!(ours.parent_span_id, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
    assert_eq!((ours.kind, ours.flags), (2, 0x301));
    assert_eq!(ours.name, "POST /auth/sendOTP");
    assert_eq!(ours.end_time_unix_nano, ENDED.as_nanos());
    let took = ours.end_time_unix_nano - ours.start_time_unix_nano;
    assert_eq!(took, 12_345_678);
    for (name, value) in [
        ("http.request.method", "POST"),
        ("url.path", "/auth/sendOTP"),
        ("url.scheme", "http"),
        ("server.address", "example.com"),
        ("client.address", "203.0.113.7"),
        ("network.protocol.version", "1.1"),
        ("http.route", "/auth/sendOTP"),
        ("http.response.status_code", "200"),
        ("sluicegate.outcome", "forwarded"),
        ("sluicegate.verdict", "admitted"),
        ("sluicegate.decision_ns", "412"),
        ("sluicegate.request_id", "00000000000000000000000000000abc"),
    ] {
        assert_eq!(said(ours, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(
        (said(ours, "sluicegate.limit"), &ours.status),
        (None, &None)
    );

    assert_eq!(theirs.trace_id, ours.trace_id);
    assert_eq!(theirs.span_id, trace.exit().to_be_bytes());
    assert_eq!(theirs.parent_span_id, ours.span_id);
    assert_eq!((theirs.kind, theirs.flags), (3, 0x101));
    let later = theirs.start_time_unix_nano - ours.start_time_unix_nano;
    assert_eq!(later, 500_000);
    for (name, value) in [
        ("server.address", "10.0.0.9"),
        ("server.port", "3000"),
        ("http.request.resend_count", "1"),
        ("http.response.status_code", "503"),
        ("error.type", "503"),
        ("sluicegate.origin", "app"),
        ("sluicegate.first_byte_ns", "1050000"),
    ] {
        assert_eq!(said(theirs, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(theirs.status.as_ref().expect("it failed").code, 2);
}

/// Goal: a refusal names its limit and is no failure of the server. Method: the second request of a limit of one.
#[test]
fn a_refusal_names_its_limit() {
    let (route, verdict) = verdict_of(2);
    let example = Example {
        route: Some(&route),
        verdict: Some(&verdict),
        ..Example::default()
    };
    let (_, spans) = received(&example.outcome(), &trace(None));
    let [span] = &spans[..] else {
        panic!("{spans:?}");
    };
    assert!(span.parent_span_id.is_empty() && span.status.is_none());
    assert_eq!(said(span, "sluicegate.limit").as_deref(), Some("otp"));
    assert_eq!(
        said(span, "sluicegate.verdict").as_deref(),
        Some("rejected")
    );
    assert_eq!(
        said(span, "http.response.status_code").as_deref(),
        Some("429")
    );
}

/// Goal: names of routes become templates of paths. Method: names that were made, and some that were given.
#[test]
fn the_methods_of_a_route_are_said_once() {
    for (name, route) in [
        ("POST /auth/sendOTP", "/auth/sendOTP"),
        ("GET,POST a.test/x", "a.test/x"),
        ("/x", "/x"),
        ("login", "login"),
    ] {
        assert_eq!(without_methods(name), route);
    }
}

proptest! {
    /// Goal: nothing that a client sends makes a span that a collector cannot read, or a large one. Method: any bytes for what is its.
    #[test]
    fn any_request_makes_a_span_that_can_be_read(
        method in proptest::collection::vec(any::<u8>(), 0..100),
        host in proptest::collection::vec(any::<u8>(), 0..600),
        target in proptest::collection::vec(any::<u8>(), 0..5_000),
        client: Option<IpAddr>,
    ) {
        let route = RequestMetrics::new().route(&Arc::from("r"), &[]);
        let example = Example {
            method: &method,
            host: &host,
            target: &target,
            client,
            route: Some(&route),
            ..Example::default()
        };
        let (_, spans) = received(&example.outcome(), &trace(None));
        prop_assert_eq!(spans.len(), 1);
        prop_assert!(spans[0].encoded_len() < 12 * 1024);
    }
}
