//! Gives readings their names and help texts, and writes them in Prometheus' text format 0.0.4.
//!
//! Families are built at each scrape from what exists at that moment, rather than registered: a route, limit or server that
//! is gone leaves no series behind. Every name is documented in `docs/operations/metrics.md`.

use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};
use prometheus::{Encoder, TextEncoder};

use super::histogram::HistogramSum;
use super::limit_counters::{LimitCounter, SeriesPresence};
use super::metrics::{CODES, DECISION_BOUNDS, DURATION_BOUNDS, LimitCounts, Metrics};
use super::outcome::{CacheUse, Disposition};
use super::process::ProcessStats;
use sluicegate_redis_link::{CallResult, LinkEvent};

use super::store_calls::{ROUND_TRIP_BOUNDS, StoreCallCounts, label_of};
use super::{Recorder, former_names};
use crate::store::DecisionSource;

/// `Content-Type` of [`text`].
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric and its series.
#[derive(Debug)]
pub(crate) struct SampledFamily {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    series: Vec<Metric>,
}

impl SampledFamily {
    /// A count that only grows.
    pub(crate) fn counter(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            kind: MetricType::COUNTER,
            series: Vec::new(),
        }
    }

    /// A value that goes up and down.
    pub(crate) fn gauge(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            kind: MetricType::GAUGE,
            series: Vec::new(),
        }
    }

    fn histogram(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            kind: MetricType::HISTOGRAM,
            series: Vec::new(),
        }
    }

    /// Adds a series.
    pub(crate) fn series(mut self, labels: &[(&str, &str)], value: impl Into<SampleValue>) -> Self {
        self.push(labels, value);
        self
    }

    /// Adds a series.
    pub(crate) fn push(&mut self, labels: &[(&str, &str)], value: impl Into<SampleValue>) {
        let SampleValue(value) = value.into();
        let mut metric = Metric::from_label(pairs(labels));
        if self.kind == MetricType::COUNTER {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
        self.series.push(metric);
    }

    fn push_histogram<const N: usize>(
        &mut self,
        labels: &[(&str, &str)],
        reading: &HistogramSum<N>,
        bounds: &[u64; N],
        unit: f64,
    ) {
        let mut cumulative = 0;
        let buckets = bounds.iter().zip(reading.within).map(|(&bound, count)| {
            cumulative += count;
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(bound as f64 / unit);
            bucket.set_cumulative_count(cumulative);
            bucket
        });
        let mut histogram = Histogram::default();
        histogram.set_bucket(buckets.collect());
        histogram.set_sample_count(reading.count());
        histogram.set_sample_sum(reading.sum as f64 / unit);
        let mut metric = Metric::from_label(pairs(labels));
        metric.set_histogram(histogram);
        self.series.push(metric);
    }
}

/// A sample's value; the text format knows only floating point. Exact up to 2^53.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleValue(f64);

impl From<u64> for SampleValue {
    fn from(value: u64) -> Self {
        Self(value as f64)
    }
}

impl From<f64> for SampleValue {
    fn from(value: f64) -> Self {
        Self(value)
    }
}

impl From<bool> for SampleValue {
    fn from(value: bool) -> Self {
        Self(f64::from(u8::from(value)))
    }
}

/// Returns the text of `families`, those that were renamed under both names; families without a series are left out.
pub(crate) fn text(families: impl IntoIterator<Item = SampledFamily>) -> Vec<u8> {
    let families: Vec<MetricFamily> = families
        .into_iter()
        .filter(|family| !family.series.is_empty())
        .map(|family| {
            let mut written = MetricFamily::default();
            written.set_name(family.name.to_owned());
            written.set_help(family.help.to_owned());
            written.set_field_type(family.kind);
            written.set_metric(family.series);
            written
        })
        .flat_map(|family| [former_names::former_family(&family), Some(family)])
        .flatten()
        .collect();
    let mut text = Vec::new();
    if let Err(error) = TextEncoder::new().encode(&families, &mut text) {
        tracing::error!("metrics: the text is incomplete: {error}");
    }
    text
}

/// Returns the metrics of the recorder and of the process.
pub(crate) fn families(recorder: &Recorder) -> Vec<SampledFamily> {
    let mut all = requests(recorder);
    all.extend(store(&recorder.metrics.store));
    all.extend(recorder.metrics.handshakes.families());
    all.push(recorder.metrics.proxy_headers.family());
    all.push(recorder.metrics.untrusted_forwarding.family());
    all.extend(access_log(recorder));
    #[cfg(feature = "otlp")]
    all.extend(recorder.spans.families());
    all.extend(process(&ProcessStats::read()));
    all.push(
        SampledFamily::gauge(
            "sluicegate_build_info",
            "Always 1; the label is the version.",
        )
        .series(&[("version", env!("CARGO_PKG_VERSION"))], true),
    );
    all
}

fn requests(recorder: &Recorder) -> Vec<SampledFamily> {
    let metrics = &recorder.metrics;
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
        for (disposition, by_code) in Disposition::ALL.iter().zip(reading.requests) {
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
    let mut decisions = SampledFamily::histogram(
        "sluicegate_limits_duration_seconds",
        "What the decision over all limits of a request took.",
    );
    decisions.push_histogram(&[], &metrics.read_decisions(), &DECISION_BOUNDS, 1e9);
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
        "Connections of HTTP/2 that were ended because their client only made work: requests given up, streams reset, empty frames.",
    );
    abuse.push(&[], metrics.abuse.read());
    let mut all = vec![requests, cache, durations, decisions];
    all.extend(limits(metrics));
    all.extend([in_flight, reloads, abuse]);
    all
}

/// The counters of each limit on each route.
fn limits(metrics: &Metrics) -> Vec<SampledFamily> {
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

/// Nothing until there was a store.
fn store(tallies: &StoreCallCounts) -> Vec<SampledFamily> {
    let mut calls = SampledFamily::counter(
        "sluicegate_store_calls_total",
        "Calls of the store, by what came of them; many that travel in one piece are one.",
    );
    let mut round_trips = SampledFamily::histogram(
        "sluicegate_store_round_trip_seconds",
        "How long calls that were sent to the store took.",
    );
    let tried = tallies.events(LinkEvent::Connected) + tallies.events(LinkEvent::NotConnected);
    if tried == 0 {
        return Vec::new();
    }
    for result in CallResult::ALL {
        calls.push(&[("result", label_of(result))], tallies.calls(result));
    }
    round_trips.push_histogram(&[], &tallies.round_trips(), &ROUND_TRIP_BOUNDS, 1e6);
    let count = |family: SampledFamily, event| family.series(&[], tallies.events(event));
    vec![
        calls,
        round_trips,
        SampledFamily::counter(
            "sluicegate_store_connects_total",
            "Tries to connect to a server of the store, by result.",
        )
        .series(&[("result", "ok")], tallies.events(LinkEvent::Connected))
        .series(
            &[("result", "failed")],
            tallies.events(LinkEvent::NotConnected),
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

fn access_log(recorder: &Recorder) -> [SampledFamily; 4] {
    let tallies = recorder.log.tallies();
    [
        SampledFamily::counter(
            "sluicegate_access_log_lines_total",
            "Access log lines taken.",
        )
        .series(&[], tallies.lines),
        SampledFamily::counter(
            "sluicegate_access_log_dropped_total",
            "Access log lines dropped because a buffer was full.",
        )
        .series(&[], tallies.dropped),
        SampledFamily::counter(
            "sluicegate_access_log_write_errors_total",
            "Writes and reopenings of the access log that failed.",
        )
        .series(&[], tallies.write_errors),
        SampledFamily::counter(
            "sluicegate_access_log_left_out_total",
            "Requests that the rules of the access log leave out.",
        )
        .series(&[("by", "refused")], tallies.left_out.refused)
        .series(&[("by", "only")], tallies.left_out.filtered),
    ]
}

fn process(process: &ProcessStats) -> Vec<SampledFamily> {
    let cpu = SampledFamily::counter(
        "process_cpu_seconds_total",
        "User and system CPU time spent, in seconds.",
    );
    let gauges = [
        (
            "process_resident_memory_bytes",
            "Memory in RAM, in bytes.",
            process.resident_bytes.map(SampleValue::from),
        ),
        (
            "process_virtual_memory_bytes",
            "Address space, in bytes.",
            process.virtual_bytes.map(SampleValue::from),
        ),
        (
            "process_open_fds",
            "File descriptors in use.",
            process.open_fds.map(SampleValue::from),
        ),
        (
            "process_max_fds",
            "File descriptors allowed.",
            process.max_fds.map(SampleValue::from),
        ),
        (
            "process_threads",
            "Threads.",
            process.threads.map(SampleValue::from),
        ),
        (
            "process_start_time_seconds",
            "Start, in seconds since the Unix epoch.",
            process.start_seconds.map(SampleValue::from),
        ),
    ];
    let cpu = process.cpu_seconds.map(|seconds| cpu.series(&[], seconds));
    let gauges = gauges.into_iter().filter_map(|(name, help, value)| {
        Some(SampledFamily::gauge(name, help).series(&[], value?))
    });
    cpu.into_iter().chain(gauges).collect()
}

fn pairs(labels: &[(&str, &str)]) -> Vec<LabelPair> {
    labels
        .iter()
        .map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value((*value).to_owned());
            pair
        })
        .collect()
}

#[cfg(test)]
#[path = "exposition_tests.rs"]
mod tests;
