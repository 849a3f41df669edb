//! Checks that a scrape shows what was recorded, under names of the configuration alone.

use std::sync::Arc;

use super::super::access_log::AccessLog;
use super::super::example::{Example, limit};
use super::super::metrics::RequestMetrics;
use super::super::route_metrics::RouteMetrics;
use super::*;
use sluicegate_config::rules::{AccessLogTarget, LogRules, Name};
use sluicegate_limiter::{Ask, Cost, Seed, decide};
use sluicegate_telemetry::exposition;

fn recorder() -> RequestRecorder {
    let log = AccessLog::start(&LogRules::to(AccessLogTarget::Off)).expect("nothing is opened");
    RequestRecorder::new(Arc::new(RequestMetrics::new()), log)
}

fn scraped(recorder: &RequestRecorder) -> String {
    String::from_utf8(exposition::text(families(recorder))).expect("the text is UTF-8")
}

fn names<const N: usize>(names: [&str; N]) -> [Name; N] {
    names.map(Arc::from)
}

/// Records `requests` of one client on `route`, whose only limit admits one.
fn record(recorder: &RequestRecorder, route: &RouteMetrics, requests: usize) {
    let limit = limit();
    let key = Seed::from_bytes([1; 16]).hasher().part(b"client").finish();
    for _ in 0..requests {
        let verdict = decide(
            &[Ask {
                limit: &limit,
                key,
                cost: Cost::ONE,
                payer: None,
            }],
            super::super::example::NOW,
        );
        recorder.record(
            &Example {
                route: Some(route),
                verdict: Some(&verdict),
                ..Example::default()
            }
            .outcome(),
        );
    }
}

/// Goal: every counter of a request is shown. Method: one admitted, two refused, one unmatched; exact samples.
#[test]
fn a_scrape_shows_what_was_recorded() {
    let recorder = recorder();
    let [name, otp] = names(["otp route", "otp"]);
    let route = recorder.metrics.route(&name, &[otp]);
    record(&recorder, &route, 3);
    recorder.record(&Example::default().outcome());
    recorder.metrics.reloads.failed();
    let in_flight = recorder.metrics.in_flight();
    let text = scraped(&recorder);
    for sample in [
        "sluicegate_requests_total{route=\"otp route\",outcome=\"responded\",code=\"2xx\"} 1",
        "sluicegate_requests_total{route=\"otp route\",outcome=\"rate-limited\",code=\"4xx\"} 2",
        "sluicegate_requests_total{route=\"\",outcome=\"no-route\",code=\"2xx\"} 1",
        "sluicegate_request_duration_seconds_bucket{route=\"otp route\",le=\"0.01\"} 0",
        "sluicegate_request_duration_seconds_bucket{route=\"otp route\",le=\"0.025\"} 3",
        "sluicegate_request_duration_seconds_bucket{route=\"otp route\",le=\"+Inf\"} 3",
        "sluicegate_request_duration_seconds_sum{route=\"otp route\"} 0.037035",
        "sluicegate_limits_duration_seconds_bucket{le=\"0.0000005\"} 3",
        "sluicegate_limits_duration_seconds_count 3",
        "sluicegate_limit_admitted_total{route=\"otp route\",limit=\"otp\"} 1",
        "sluicegate_limit_refused_total{route=\"otp route\",limit=\"otp\"} 2",
        "sluicegate_requests_in_flight 1",
        "sluicegate_reloads_total{result=\"ok\"} 0",
        "sluicegate_reloads_total{result=\"failed\"} 1",
        "sluicegate_access_log_dropped_total 0",
    ] {
        assert!(
            text.lines().any(|line| line == sample),
            "{sample} is not in\n{text}"
        );
    }
    drop(in_flight);
    assert_eq!(recorder.metrics.requests_in_flight(), 0);
}

/// Goal: labels stay bounded over reloads, and counts survive them. Method: a thousand reloads that rename a route, while
/// one route stays and another loses a limit.
#[test]
fn labels_that_a_reload_removed_are_forgotten() {
    let recorder = recorder();
    let metrics = &recorder.metrics;
    let [kept, otp, ip] = names(["kept", "otp", "ip"]);
    record(&recorder, &metrics.route(&kept, &[Arc::clone(&otp), ip]), 1);
    for reload in 0..1_000 {
        let passing = metrics.route(&Arc::from(format!("passing {reload}")), &[Arc::clone(&otp)]);
        let staying = metrics.route(&kept, &[Arc::clone(&otp)]);
        record(&recorder, &passing, 1);
        record(&recorder, &staying, 1);
        metrics.retain_routes([&passing, &staying]);
    }
    let staying = metrics.route(&kept, &[otp]);
    metrics.retain_routes([&staying]);
    let text = scraped(&recorder);
    assert!(
        !text.contains("passing") && !text.contains("limit=\"ip\""),
        "{text}"
    );
    assert!(
        text.contains("sluicegate_limit_admitted_total{route=\"kept\",limit=\"otp\"} 1001"),
        "{text}"
    );
    assert!(text.lines().count() < 145, "{text}");
}

/// Goal: a route named after its pattern cannot break the format. Method: quotes, backslashes and line feeds in a name.
#[test]
fn any_route_name_is_a_valid_label() {
    let recorder = recorder();
    let route = recorder.metrics.route(&Arc::from("a\"b\\c\nd"), &[]);
    recorder.record(
        &Example {
            route: Some(&route),
            ..Example::default()
        }
        .outcome(),
    );
    assert!(scraped(&recorder).contains(r#"{route="a\"b\\c\nd",outcome="#));
}
