//! Spans that an OpenTelemetry collector is told of.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::Signal;

use crate::harness::*;

const ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// Rules that tell a collector of every recorded request; `/otp` takes one an hour.
fn rules(endpoint: &str, more: &str) -> String {
    format!(
        r#"
[client]
trusted_proxies = ["127.0.0.1"]
[tracing]
propagate = true
[tracing.otlp]
endpoint = "{endpoint}"
interval = "20ms"
{more}
[limit.otp]
key = "client.ip"
rates = ["1 per 1h"]
[[route]]
path = "/otp"
limits = ["otp"]
origin = "app"
[[route]]
path = "/*"
origin = "app"
"#
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn counted(gateway: &Gateway, result: &str) -> f64 {
    let labels = [("signal", "traces"), ("result", result)];
    let metrics = gateway.metrics().await;
    metrics.sum("sluicegate_otlp_records_total", &labels)
}

#[tokio::test]
async fn a_request_and_its_way_to_the_origin_are_spans_of_the_clients_trace() {
    // Goal: a collector shows client, gateway and origin as one tree, with the operator's attributes and headers. Method: a request
    // with a
    // traceparent; the ids of both spans beside those that the origin got, and that the log has.
    let (origin, collector) = (Origin::echo(), Collector::start());
    let more = "service_name = \"edge\"\nattributes = { region = \"eu\" }\n\
                headers = { x-tenant = \"t\", authorization = { file = \"../token\" } }";
    let gateway = Setup::new()
        .origin("app", &origin)
        .file("token", "Bearer 42\n")
        .rules(&rules(&collector.endpoint(), more))
        .start()
        .await;
    let request = get("/a/b?secret=1").header("traceparent", &format!("00-{ID}-{SPAN}-01"));
    let answer = gateway.send(request).await;
    let id = answer.header("x-request-id").unwrap();
    let spans = collector.spans_of(id, 2).await;
    let [ours, theirs] = &spans[..] else {
        panic!("{spans:?}");
    };
    let lines = gateway.lines_of(std::slice::from_ref(&answer)).await;
    assert_eq!(hex(&ours.0.trace_id), ID);
    assert_eq!(hex(&ours.0.parent_span_id), SPAN);
    assert_eq!(lines[0]["span_id"], hex(&ours.0.span_id));
    assert_eq!((ours.0.kind, &*ours.0.name), (2, "GET /*"));
    for (name, value) in [
        ("http.request.method", "GET"),
        ("url.path", "/a/b"),
        ("url.scheme", "http"),
        ("client.address", "127.0.0.1"),
        ("network.protocol.version", "1.1"),
        ("http.response.status_code", "200"),
        ("http.route", "/*"),
        ("sluicegate.outcome", "forwarded"),
    ] {
        assert_eq!(ours.said(name), value, "{name}");
    }
    assert!(!format!("{spans:?}").contains("secret"));

    assert_eq!(theirs.0.kind, 3);
    assert_eq!(theirs.0.parent_span_id, ours.0.span_id);
    assert_eq!(
        theirs.said("server.port"),
        origin.address().port().to_string()
    );
    assert_eq!(theirs.said("http.response.status_code"), "200");
    let parent = format!("00-{ID}-{}-01", hex(&theirs.0.span_id));
    assert_eq!(answer.echo().header("traceparent"), Some(&*parent));
    assert!(ours.0.start_time_unix_nano <= theirs.0.start_time_unix_nano);
    assert!(theirs.0.start_time_unix_nano <= theirs.0.end_time_unix_nano);

    let call = collector.calls().remove(0);
    assert_eq!(call.head.uri, "/v1/traces");
    for (name, value) in [
        ("content-type", "application/x-protobuf"),
        ("authorization", "Bearer 42"),
        ("x-tenant", "t"),
    ] {
        assert_eq!(call.head.headers[name], value);
    }
    assert_eq!(call.resource("service.name"), "edge");
    assert_eq!(call.resource("region"), "eu");
}

#[tokio::test]
async fn only_recorded_requests_have_spans_rejections_included() {
    // Goal: a sender's flag and the share decide, not what became of a request. Method: two refusals and an unrecorded request on one
    // connection, the second refusal by the short way; the collector has three spans of the gateway's and one to the origin.
    let (origin, collector) = (Origin::echo(), Collector::start());
    let gateway = Gateway::before(&origin, &rules(&collector.endpoint(), "")).await;
    let mut client = gateway.client().await;
    let unrecorded = get("/x").header("traceparent", &format!("00-{ID}-{SPAN}-00"));
    let parent = client.send(unrecorded).await.echo();
    assert!(parent.header("traceparent").unwrap().ends_with("-00"));
    assert_eq!(client.get("/otp").await.status, 200);
    for _ in 0..2 {
        let refused = client.get("/otp").await;
        assert_eq!(refused.status, 429);
        let id = refused.header("x-request-id").unwrap();
        let spans = collector.spans_of(id, 1).await;
        assert_eq!(spans.len(), 1, "{spans:?}");
        assert_eq!(spans[0].0.name, "GET /otp");
        assert_eq!(spans[0].said("sluicegate.limit"), "otp");
        assert_eq!(spans[0].said("sluicegate.verdict"), "rejected");
        assert_eq!(spans[0].said("http.response.status_code"), "429");
    }
    let all = collector.spans();
    assert_eq!(all.len(), 4, "{all:?}");
    assert!(all.iter().all(|span| hex(&span.0.trace_id) != ID));
}

#[tokio::test]
async fn a_collector_that_takes_nothing_harms_no_request_and_gets_what_fits_when_it_is_back() {
    // Goal: requests continue, memory is bounded, lost spans are counted, and the rest arrives. Method: a collector that answers 503
    // to long
    // paths until spans are dropped, then takes them.
    let origin = Origin::echo();
    let is_back = Arc::new(AtomicBool::new(false));
    let collector = Collector::answering({
        let is_back = Arc::clone(&is_back);
        move |_, _| {
            if is_back.load(Ordering::Relaxed) {
                200
            } else {
                503
            }
        }
    });
    let gateway = Gateway::before(&origin, &rules(&collector.endpoint(), "")).await;
    let mut client = gateway.client().await;
    let long = format!("/{}", "x".repeat(1900));
    eventually("spans are dropped", async || {
        for _ in 0..100 {
            assert_eq!(client.get(&long).await.status, 200);
        }
        (counted(&gateway, "dropped").await > 0.0).then_some(())
    })
    .await;
    eventually("it is told once", async || {
        let log = gateway.stderr();
        (log.matches("is unavailable: it answers 503").count() == 1).then_some(())
    })
    .await;

    is_back.store(true, Ordering::Relaxed);
    eventually("what fits has come", async || {
        (collector.spans().len() > 100).then_some(())
    })
    .await;
    eventually("it is told that it is back", async || {
        gateway
            .stderr()
            .contains("is available again")
            .then_some(())
    })
    .await;
    // There is room again once what waited has gone: whether a certain request met it is a matter of time, so some may be needed.
    eventually("new spans come", async || {
        client.get("/after").await;
        let after = |span: &Told| span.said("url.path") == "/after";
        collector.spans().iter().any(after).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_collector_that_cannot_be_reached_is_named_in_the_log_and_holds_up_no_end() {
    // Goal: the log has the reason of missing spans. Method: a closed port, a request, SIGTERM.
    let origin = Origin::echo();
    let mut gateway = Gateway::before(&origin, &rules("http://127.0.0.1:1", "")).await;
    assert_eq!(gateway.get("/x").await.status, 200);
    eventually("it is told", async || {
        let why = "the collector at 127.0.0.1:1 is unavailable: it cannot be reached";
        gateway.stderr().contains(why).then_some(())
    })
    .await;
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.exit_code().await, 0);
    assert!(
        gateway
            .stderr()
            .contains("the collector is unavailable, the last spans are lost")
    );
}

#[tokio::test]
async fn what_may_succeed_is_brought_again_and_what_cannot_is_counted() {
    // Goal: 429 with Retry-After loses nothing, 400 loses its batch and no more. Method: a collector that answers so, to its first
    // call and
    // to a certain path.
    let origin = Origin::echo();
    let collector = Collector::answering(|number, call| {
        let is_lost = |span: &Told| span.said("url.path") == "/lost";
        let is_lost = call.spans.iter().any(is_lost);
        match number {
            0 => 429,
            _ if is_lost => 400,
            _ => 200,
        }
    });
    let gateway = Gateway::before(&origin, &rules(&collector.endpoint(), "")).await;
    let answer = gateway.get("/first").await;
    let first = answer.header("x-request-id").unwrap();
    assert_eq!(collector.spans_of(first, 2).await.len(), 2);
    gateway.get("/lost").await;
    eventually("a batch is refused", async || {
        (counted(&gateway, "refused").await > 0.0).then_some(())
    })
    .await;
    let why = "rejected spans: it answers 400";
    eventually("it is told", async || {
        gateway.stderr().contains(why).then_some(())
    })
    .await;
    let answer = gateway.get("/third").await;
    let third = answer.header("x-request-id").unwrap();
    collector.spans_of(third, 2).await;
    assert_eq!(counted(&gateway, "dropped").await, 0.0);
}

#[tokio::test]
async fn the_last_spans_are_sent_before_the_end() {
    // Goal: a process that ends loses no spans. Method: an interval of a minute, a request, SIGTERM.
    let (origin, collector) = (Origin::echo(), Collector::start());
    let rules = rules(&collector.endpoint(), "").replace("20ms", "1m");
    let mut gateway = Gateway::before(&origin, &rules).await;
    gateway.get("/last").await;
    let line = gateway.access_line().await;
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.exit_code().await, 0);
    let id = line["id"].as_str().unwrap();
    assert_eq!(collector.spans_of(id, 2).await.len(), 2);
}

#[tokio::test]
async fn a_reload_changes_the_collector() {
    // Goal: a collector is named, changed and left out without a restart. Method: one, another, none.
    let (origin, old, new) = (Origin::echo(), Collector::start(), Collector::start());
    let mut gateway = Gateway::before(&origin, &rules(&old.endpoint(), "")).await;
    let answer = gateway.get("/old").await;
    old.spans_of(answer.header("x-request-id").unwrap(), 2)
        .await;
    gateway.reload(&rules(&new.endpoint(), "")).await;
    let answer = gateway.get("/new").await;
    new.spans_of(answer.header("x-request-id").unwrap(), 2)
        .await;
    assert_eq!(old.spans().len(), 2);
    let without = rules("", "").replace("[tracing.otlp]\nendpoint = \"\"\ninterval = \"20ms\"", "");
    gateway.reload(&without).await;
    let answer = gateway.get("/none").await;
    let lines = gateway.lines_of(std::slice::from_ref(&answer)).await;
    // The origin is under the gateway's span again, for nobody is told of another.
    let parent = answer.echo().header("traceparent").unwrap().to_owned();
    assert!(parent.contains(lines[0]["span_id"].as_str().unwrap()));
}
