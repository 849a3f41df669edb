//! Gives the counts of requests, limits and the store their names and help texts.
//!
//! Families are built at each scrape from what exists at that moment, rather than registered: a route, limit or server that
//! is gone leaves no series behind. Every name is documented in `docs/operations/metrics.md`.

use sluicegate_decide::outcome::{CacheUse, RequestDisposition};
use sluicegate_redis_link::{CallResult, LinkEvent};
use sluicegate_telemetry::exposition::SampledFamily;
use sluicegate_telemetry::process::ProcessStats;

use super::RequestRecorder;
use super::key_exchanges;
use super::limit_counters::{LimitCounter, SeriesPresence};
use super::metrics::{LimitCounts, RequestMetrics};
use super::request_series::{CODES, DECISION_BOUNDS, DURATION_BOUNDS};
use super::store_calls::{ROUND_TRIP_BOUNDS, StoreCallCounts, label_of};
use sluicegate_decide::store::DecisionSource;

/// Returns the families of the recorder and of the process.
pub fn families(recorder: &RequestRecorder) -> Vec<SampledFamily> {
    let mut all = requests(&recorder.metrics);
    all.extend(store(&recorder.metrics.store));
    all.extend(recorder.metrics.handshakes.families());
    all.push(key_exchanges::family());
    all.push(recorder.metrics.accept_errors.family());
    all.push(recorder.metrics.proxy_headers.family());
    all.push(recorder.metrics.untrusted_forwarding.family());
    all.push(recorder.metrics.descriptor_fields.family());
    all.push(recorder.metrics.geo_lookups.family());
    all.push(recorder.metrics.crawler_requests.family());
    all.push(recorder.metrics.crawler_look_ups.family());
    all.extend(access_log(recorder));
    all.extend(audit_log(recorder));
    #[cfg(feature = "otlp")]
    all.extend(recorder.exports.families());
    all.extend(ProcessStats::read().families());
    all.push(
        SampledFamily::gauge(
            "sluicegate_build_info",
            "Always 1; the label is the version.",
        )
        .series(&[("version", env!("CARGO_PKG_VERSION"))], true),
    );
    all
}

fn requests(metrics: &RequestMetrics) -> Vec<SampledFamily> {
    let mut all = Vec::from(by_route(metrics));
    all.push(decisions(metrics));
    all.extend(limits(metrics));
    all.extend(gateway(metrics));
    all
}

/// Returns the counts of each route.
fn by_route(metrics: &RequestMetrics) -> [SampledFamily; 3] {
    let mut requests = SampledFamily::counter(
        "sluicegate_requests_total",
        "Requests, by what became of them. The route is empty where none matched.",
    );
    let mut durations = SampledFamily::histogram(
        "sluicegate_request_duration_seconds",
        "From the head of a request read to the last byte of its answer sent.",
    );
    let mut cache = SampledFamily::counter(
        "sluicegate_cache_requests_total",
        "Requests on routes whose answers are stored, by how the cache was used.",
    );
    for reading in metrics.read_routes() {
        for (used, count) in CacheUse::ALL.iter().zip(reading.cache) {
            if count > 0 {
                cache.push(
                    &[("route", &*reading.route), ("result", used.as_str())],
                    count,
                );
            }
        }
        for (disposition, by_code) in RequestDisposition::ALL.iter().zip(reading.requests) {
            for (code, count) in CODES.iter().zip(by_code).filter(|(_, count)| *count > 0) {
                let labels = [
                    ("route", &*reading.route),
                    ("outcome", disposition.as_str()),
                    ("code", code),
                ];
                requests.push(&labels, count);
            }
        }
        if reading.durations.count() > 0 {
            durations.push_histogram(
                &[("route", &reading.route)],
                &reading.durations,
                &DURATION_BOUNDS,
                1e6,
            );
        }
    }
    [requests, cache, durations]
}

fn decisions(metrics: &RequestMetrics) -> SampledFamily {
    let mut decisions = SampledFamily::histogram(
        "sluicegate_limits_duration_seconds",
        "What the decision over all limits of a request took.",
    );
    decisions.push_histogram(&[], &metrics.read_decisions(), &DECISION_BOUNDS, 1e9);
    decisions
}

/// Returns the counts that no route has.
fn gateway(metrics: &RequestMetrics) -> [SampledFamily; 3] {
    let in_flight = SampledFamily::gauge(
        "sluicegate_requests_in_flight",
        "Requests that began and did not end.",
    )
    .series(&[], metrics.requests_in_flight());
    let mut reloads = SampledFamily::counter(
        "sluicegate_reloads_total",
        "Reloads of the configuration, by result.",
    );
    for (result, count) in metrics.reloads.read() {
        reloads.push(&[("result", result)], count);
    }
    let mut abuse = SampledFamily::counter(
        "sluicegate_http2_abuse_total",
        "Connections of HTTP/2 that were ended because their client only made work: requests given up, streams reset, control frames.",
    );
    abuse.push(&[], metrics.abuse.read());
    [in_flight, reloads, abuse]
}

/// Returns the counters of each limit on each route.
fn limits(metrics: &RequestMetrics) -> Vec<SampledFamily> {
    let mut families =
        LimitCounter::ALL.map(|counter| SampledFamily::counter(counter.name(), counter.help()));
    let mut store_decisions = SampledFamily::counter(
        "sluicegate_limit_store_decisions_total",
        "Decisions over a limit on a route that the store decides, by the source of the decision.",
    );
    for LimitCounts { route, limit, sums } in metrics.read_limits() {
        let [route, limit] = [("route", &*route), ("limit", &*limit)];
        let counters = LimitCounter::ALL.into_iter().zip(sums.counts);
        for (family, (counter, count)) in families.iter_mut().zip(counters) {
            if count > 0 || counter.presence() == SeriesPresence::Always {
                family.push(&[route, limit], count);
            }
        }
        for (source, count) in DecisionSource::ALL.iter().zip(sums.decided) {
            if count > 0 {
                store_decisions.push(&[route, limit, ("by", source.as_str())], count);
            }
        }
    }
    let mut all = Vec::from(families);
    all.push(store_decisions);
    all
}

/// Returns the counts of calls to the store; none before the first attempt to connect.
fn store(counts: &StoreCallCounts) -> Vec<SampledFamily> {
    let mut calls = SampledFamily::counter(
        "sluicegate_store_calls_total",
        "Calls of the store, by what came of them; many that travel in one piece are one.",
    );
    let mut round_trips = SampledFamily::histogram(
        "sluicegate_store_round_trip_seconds",
        "How long calls that were sent to the store took.",
    );
    let attempts = counts.events(LinkEvent::Connected) + counts.events(LinkEvent::NotConnected);
    if attempts == 0 {
        return Vec::new();
    }
    for result in CallResult::ALL {
        calls.push(&[("result", label_of(result))], counts.calls(result));
    }
    round_trips.push_histogram(&[], &counts.round_trips(), &ROUND_TRIP_BOUNDS, 1e6);
    let count = |family: SampledFamily, event| family.series(&[], counts.events(event));
    vec![
        calls,
        round_trips,
        SampledFamily::counter(
            "sluicegate_store_connects_total",
            "Tries to connect to a server of the store, by result.",
        )
        .series(&[("result", "ok")], counts.events(LinkEvent::Connected))
        .series(
            &[("result", "failed")],
            counts.events(LinkEvent::NotConnected),
        ),
        count(
            SampledFamily::counter(
                "sluicegate_store_breaker_opened_total",
                "How often calls to a server of the store were stopped, since it failed.",
            ),
            LinkEvent::BreakerOpened,
        ),
        count(
            SampledFamily::counter(
                "sluicegate_store_script_loads_total",
                "How often a server of the store was given the script.",
            ),
            LinkEvent::ScriptLoaded,
        ),
    ]
}

fn access_log(recorder: &RequestRecorder) -> [SampledFamily; 4] {
    let counts = recorder.log.counts();
    [
        SampledFamily::counter(
            "sluicegate_access_log_lines_total",
            "Access log lines taken.",
        )
        .series(&[], counts.lines),
        SampledFamily::counter(
            "sluicegate_access_log_dropped_total",
            "Access log lines dropped because a buffer was full.",
        )
        .series(&[], counts.dropped),
        SampledFamily::counter(
            "sluicegate_access_log_write_errors_total",
            "Writes and reopenings of the access log that failed.",
        )
        .series(&[], counts.write_errors),
        SampledFamily::counter(
            "sluicegate_access_log_left_out_total",
            "Requests that the rules of the access log leave out.",
        )
        .series(&[("by", "refused")], counts.left_out.refused)
        .series(&[("by", "only")], counts.left_out.filtered),
    ]
}

fn audit_log(recorder: &RequestRecorder) -> [SampledFamily; 3] {
    let counts = recorder.audit.counts();
    let counter = |name, help, value| SampledFamily::counter(name, help).series(&[], value);
    [
        counter(
            "sluicegate_audit_log_lines_total",
            "Audit log lines taken.",
            counts.lines,
        ),
        counter(
            "sluicegate_audit_log_dropped_total",
            "Audit log lines dropped because the buffer was full.",
            counts.dropped,
        ),
        counter(
            "sluicegate_audit_log_write_errors_total",
            "Writes and reopenings of the audit log that failed.",
            counts.write_errors,
        ),
    ]
}

#[cfg(test)]
#[path = "families_tests.rs"]
mod tests;
