//! Lines of the access log and metrics that an OpenTelemetry collector gets; its spans are in `spans.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::harness::*;

/// Rules whose collector gets `signals`; `/otp` takes one request an hour of each user, and no request to `/quiet` has a line.
fn rules(endpoint: &str, signals: &str, more: &str) -> String {
    let propagate = signals.contains("traces");
    format!(
        r#"
[tracing]
propagate = {propagate}
[tracing.otlp]
endpoint = "{endpoint}"
interval = "20ms"
service_name = "edge"
signals = {signals}
{more}
[limit.otp]
key = "header.x-user"
rates = ["1 per 1h"]
on_missing = "skip"
[[route]]
path = "/otp"
limits = ["otp"]
origin = "app"
[[route]]
path = "/quiet"
origin = "app"
[[route]]
path = "/*"
origin = "app"
"#
    )
}

fn before(origin: &Origin, rules: &str) -> Setup {
    Setup::new()
        .origin("app", origin)
        .log_line("keys = \"masked\"")
        .log_line("fields = [\"user-agent\"]")
        .log_line("only = 'route != \"/quiet\"'")
        .rules(rules)
}

async fn counted(gateway: &Gateway, signal: &str, result: &str) -> f64 {
    let labels = [("signal", signal), ("result", result)];
    let metrics = gateway.metrics().await;
    metrics.sum("sluicegate_otlp_records_total", &labels)
}

fn id_of(answer: &Response) -> &str {
    answer.header("x-request-id").unwrap()
}

/// Asserts that each field of a line of the access log is in the record.
fn assert_has_fields(record: &ReceivedLine, line: &Value) {
    assert_eq!(record.body(), *line);
    for (field, value) in line.as_object().unwrap() {
        let attribute = match &**field {
            "time" | "trace_id" | "span_id" | "protocol" => continue,
            "client" => "client.address",
            "method" => "http.request.method",
            "host" => "server.address",
            "status" => "http.response.status_code",
            "bytes_in" => "http.request.body.size",
            "bytes_out" => "http.response.body.size",
            "id" => "sluicegate.request_id",
            own => &format!("sluicegate.{own}"),
        };
        assert_eq!(record.attribute(attribute), *value, "{field}: {record:?}");
    }
}

#[tokio::test]
async fn each_line_of_the_access_log_is_a_log_record_with_its_fields() {
    // Goal: a collector has the lines that the access log has, with every field, masked alike, beside their spans. Method: a forwarded
    // and a rejected request, one that `only` leaves out, and one while the access log itself is off; records are compared with lines.
    let origin = Origin::echo();
    let collector = Collector::start();
    let rules = rules(&collector.endpoint(), r#"["logs", "traces"]"#, "");
    let mut gateway = before(&origin, &rules).start().await;
    let request = |target: &str| get(target).header("x-user", "+4915112345678");
    gateway.get("/quiet").await;
    let mut answers = Vec::new();
    for target in ["/a/b?secret=1", "/otp", "/otp"] {
        let agent = ("user-agent", "a \"b\"");
        answers.push(gateway.send(request(target).header(agent.0, agent.1)).await);
    }
    assert_eq!(answers[2].status, 429);
    let lines = gateway.lines_of(&answers).await;
    for (answer, line) in answers.iter().zip(&lines) {
        let record = collector.line_of(id_of(answer)).await;
        assert_has_fields(&record, line);
        let spans = collector.spans_of(id_of(answer), 1).await;
        assert_eq!(record.0.trace_id, spans[0].0.trace_id);
        assert_eq!(record.0.span_id, spans[0].0.span_id);
        assert_eq!((record.0.severity_number, record.0.flags), (9, 1));
        assert!(record.0.time_unix_nano <= record.0.observed_time_unix_nano);
    }
    assert_eq!(lines[2]["limit"], "otp");
    assert!(lines[2]["key_values"][0].as_str().unwrap().contains('*'));
    let first = collector.line_of(id_of(&answers[0])).await;
    assert_eq!(first.attribute("url.path"), "/a/b");
    assert_eq!(first.attribute("http.route"), "/*");
    assert_eq!(first.attribute("network.protocol.version"), "1.1");

    let off = before(&origin, &rules).without_access_log();
    let generation = gateway.generation().await;
    gateway.write_setup(off, Writing::Rename);
    gateway.serves_after(generation).await;
    let answer = gateway.send(request("/unlogged")).await;
    let record = collector.line_of(id_of(&answer)).await;
    assert_eq!(record.body()["target"], "/unlogged");
    let targets = collector.lines().into_iter();
    let targets: Vec<_> = targets.map(|line| line.body()["target"].clone()).collect();
    assert_eq!(targets.len(), 4, "{targets:?}");
    assert!(
        !gateway
            .access_log()
            .iter()
            .any(|line| line["target"] == "/unlogged")
    );
    let mut calls = collector.calls().into_iter();
    let call = calls.find(|call| !call.lines.is_empty()).unwrap();
    assert_eq!(call.head.uri, "/v1/logs");
    assert_eq!(call.resource("service.name"), "edge");
    let instance = call.resource("service.instance.id");
    let all = collector.calls();
    assert!(
        all.iter()
            .all(|call| call.resource("service.instance.id") == instance)
    );
    assert_eq!(instance.len(), 36);
}

/// The series of a scrape that are exported and do not change by themselves.
fn lasting(mut values: SeriesValues) -> SeriesValues {
    let changes = |name: &str| {
        let by_itself = ["process_", "sluicegate_otlp_", "sluicegate_clock_ahead"];
        by_itself.iter().any(|start| name.starts_with(start))
    };
    values.retain(|(name, _), _| !changes(name));
    values
}

#[tokio::test]
async fn every_metric_is_exported_with_the_value_of_the_scrape() {
    // Goal: a collector has the series of `/metrics`, each interval and at the end. Method: requests, until a sample equals a scrape;
    // then an interval that does not end, another request, and SIGTERM.
    let origin = Origin::echo();
    let collector = Collector::start();
    let rules = |interval: &str| {
        let more = format!("metrics_interval = \"{interval}\"");
        self::rules(&collector.endpoint(), r#"["metrics"]"#, &more)
    };
    let mut gateway = before(&origin, &rules("1s")).start().await;
    for target in ["/a", "/b", "/otp", "/otp"] {
        gateway.send(get(target).header("x-user", "1")).await;
    }
    let mut differences = Vec::new();
    eventually("a sample equals the scrape", async || {
        let text = gateway.admin(get("/metrics")).await;
        let scraped = lasting(Metrics::parse(text.text()).values());
        let sampled = lasting(collector.latest_sample());
        differences = scraped
            .iter()
            .filter(|(series, value)| sampled.get(*series) != Some(*value))
            .map(|(series, value)| (series.clone(), *value, sampled.get(series).copied()))
            .collect();
        let is_equal = differences.is_empty() && sampled.len() == scraped.len();
        (is_equal && scraped.len() > 100).then_some(())
    })
    .await;
    let call = collector.calls().remove(0);
    assert_eq!(call.head.uri, "/v1/metrics");
    assert_eq!(call.resource("service.name"), "edge");
    let duration = call.metrics.iter();
    let mut duration =
        duration.filter(|metric| metric.name == "sluicegate_request_duration_seconds");
    let duration = duration.next().unwrap();
    assert_eq!(duration.unit, "s");
    assert!(!duration.description.is_empty());
    assert!(collector.spans().is_empty() && collector.lines().is_empty());

    gateway.reload(&rules("1h")).await;
    let forwarded = |sample: SeriesValues| -> f64 {
        let requests = sample.into_iter();
        let requests = requests.filter(|((name, _), _)| name == "sluicegate_requests_total");
        requests.map(|(_, value)| value).sum()
    };
    gateway.get("/last").await;
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.exit_code().await, 0);
    assert_eq!(forwarded(collector.latest_sample()), 5.0);
}

#[tokio::test]
async fn a_signal_that_is_not_accepted_waits_within_its_bound_and_delays_no_other() {
    // Goal: nothing is lost within the bounds, what exceeds them is counted by signal, and a reload changes what is sent. Method: a
    // collector that answers 503 to lines until spans have come, then until lines are dropped; then rules with metrics only.
    let origin = Origin::echo();
    let is_back = Arc::new(AtomicBool::new(false));
    let collector = Collector::answering({
        let is_back = Arc::clone(&is_back);
        move |_, call| match call.head.uri.path() {
            "/v1/logs" if !is_back.load(Ordering::Relaxed) => 503,
            _ => 200,
        }
    });
    let signals = r#"["traces", "logs"]"#;
    let mut gateway = Gateway::before(&origin, &rules(&collector.endpoint(), signals, "")).await;
    let mut client = gateway.client().await;
    for _ in 0..20 {
        let answer = client.get("/early").await;
        collector.spans_of(id_of(&answer), 2).await;
    }
    assert!(collector.lines().is_empty());
    is_back.store(true, Ordering::Relaxed);
    eventually("the lines have come", async || {
        (collector.lines().len() == 20).then_some(())
    })
    .await;
    assert_eq!(counted(&gateway, "logs", "dropped").await, 0.0);

    is_back.store(false, Ordering::Relaxed);
    let long = format!("/{}", "x".repeat(1900));
    let mut requests = 20.0;
    eventually("lines are dropped", async || {
        for _ in 0..100 {
            assert_eq!(client.get(&long).await.status, 200);
        }
        requests += 100.0;
        (counted(&gateway, "logs", "dropped").await > 0.0).then_some(())
    })
    .await;
    for why in [
        "unavailable: it answers 503",
        "; access log lines are buffered in memory",
    ] {
        assert!(gateway.stderr().contains(why), "{}", gateway.stderr());
    }
    is_back.store(true, Ordering::Relaxed);
    eventually("each line is sent or dropped", async || {
        let sent = counted(&gateway, "logs", "sent").await;
        let dropped = counted(&gateway, "logs", "dropped").await;
        (sent + dropped == requests && sent == collector.lines().len() as f64).then_some(())
    })
    .await;

    let lines = collector.lines().len();
    let spans = collector.spans().len();
    let more = "metrics_interval = \"1s\"";
    let metrics = rules(&collector.endpoint(), r#"["metrics"]"#, more);
    gateway.reload(&metrics).await;
    client.get("/late").await;
    eventually("metrics come", async || {
        let requests = |((name, _), value): (_, f64)| {
            let name: String = name;
            (name == "sluicegate_requests_total").then_some(value)
        };
        let sample = collector.latest_sample();
        let all: f64 = sample.into_iter().filter_map(requests).sum();
        (all == requests_of(&gateway).await).then_some(())
    })
    .await;
    assert_eq!(collector.lines().len(), lines);
    assert!(collector.spans().len() >= spans);
    let late = |span: &Told| span.said("url.path") == "/late";
    assert!(!collector.spans().iter().any(late));
}

async fn requests_of(gateway: &Gateway) -> f64 {
    let metrics = gateway.metrics().await;
    metrics.sum("sluicegate_requests_total", &[])
}
