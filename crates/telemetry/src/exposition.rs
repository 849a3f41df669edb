//! Builds families of metrics and writes them in Prometheus' text format 0.0.4.
//!
//! A program builds its families at each scrape from what it has counted. Nothing is registered, so what is gone leaves no series behind.

use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};
use prometheus::{Encoder, TextEncoder};

use crate::histogram::HistogramSum;

/// The target of process logs: the module of the gateway that this file was part of, so that filters by module go on as they are.
const LOG_TARGET: &str = "sluicegate::record::exposition";

/// The `Content-Type` of [`text`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A family of metrics, with its series.
#[derive(Debug)]
pub struct SampledFamily {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    series: Vec<Metric>,
}

impl SampledFamily {
    /// Starts a family of counts that only grow.
    pub fn counter(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            kind: MetricType::COUNTER,
            series: Vec::new(),
        }
    }

    /// Starts a family of values that go up and down.
    pub fn gauge(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            kind: MetricType::GAUGE,
            series: Vec::new(),
        }
    }

    /// Starts a family of histograms.
    pub fn histogram(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            kind: MetricType::HISTOGRAM,
            series: Vec::new(),
        }
    }

    /// Adds a series and returns the family.
    pub fn series(mut self, labels: &[(&str, &str)], value: impl Into<SampleValue>) -> Self {
        self.push(labels, value);
        self
    }

    /// Adds a series.
    pub fn push(&mut self, labels: &[(&str, &str)], value: impl Into<SampleValue>) {
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

    /// Adds a histogram. `bounds` are those that its values were observed with, and a value divided by `unit` is in the unit of the metric.
    pub fn push_histogram<const N: usize>(
        &mut self,
        labels: &[(&str, &str)],
        sum: &HistogramSum<N>,
        bounds: &[u64; N],
        unit: f64,
    ) {
        let mut cumulative = 0;
        let buckets = bounds.iter().zip(sum.within).map(|(&bound, count)| {
            cumulative += count;
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(bound as f64 / unit);
            bucket.set_cumulative_count(cumulative);
            bucket
        });
        let mut histogram = Histogram::default();
        histogram.set_bucket(buckets.collect());
        histogram.set_sample_count(sum.count());
        histogram.set_sample_sum(sum.sum as f64 / unit);
        let mut metric = Metric::from_label(pairs(labels));
        metric.set_histogram(histogram);
        self.series.push(metric);
    }
}

#[cfg(feature = "otlp")]
impl SampledFamily {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn help(&self) -> &'static str {
        self.help
    }

    pub(crate) fn kind(&self) -> MetricType {
        self.kind
    }

    pub(crate) fn all_series(&self) -> &[Metric] {
        &self.series
    }
}

/// The value of a sample: floating point, as the text format has it, so exact up to 2^53.
#[derive(Clone, Copy, Debug)]
pub struct SampleValue(f64);

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

/// Returns the text of `families`; families without a series are left out.
pub fn text(families: impl IntoIterator<Item = SampledFamily>) -> Vec<u8> {
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
        .collect();
    let mut text = Vec::new();
    if let Err(error) = TextEncoder::new().encode(&families, &mut text) {
        tracing::error!(target: LOG_TARGET, "metrics: the text is incomplete: {error}");
    }
    text
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
mod tests {
    use super::*;
    use crate::histogram::Histogram;

    /// Goal: each kind of family is written as Prometheus reads it. Method: one of each kind, and one without a series.
    #[test]
    fn every_kind_of_family_is_written_with_its_type() {
        let histogram = Histogram::<2>::default();
        for value in [5, 15, 25] {
            histogram.observe(&[10, 20], value);
        }
        let mut durations = SampledFamily::histogram("durations_seconds", "Durations.");
        let sum = HistogramSum::sum(std::iter::once(&histogram));
        durations.push_histogram(&[("route", "a\"b")], &sum, &[10, 20], 10.0);
        let families = vec![
            SampledFamily::counter("requests_total", "Requests.").series(&[("code", "2xx")], 3),
            SampledFamily::gauge("ready", "Ready.").series(&[], true),
            SampledFamily::gauge("empty", "Empty."),
            durations,
        ];
        let expected = "\
# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{code=\"2xx\"} 3
# HELP ready Ready.
# TYPE ready gauge
ready 1
# HELP durations_seconds Durations.
# TYPE durations_seconds histogram
durations_seconds_bucket{route=\"a\\\"b\",le=\"1\"} 1
durations_seconds_bucket{route=\"a\\\"b\",le=\"2\"} 2
durations_seconds_bucket{route=\"a\\\"b\",le=\"+Inf\"} 3
durations_seconds_sum{route=\"a\\\"b\"} 4.5
durations_seconds_count{route=\"a\\\"b\"} 3
";
        let text = String::from_utf8(text(families)).expect("the text is UTF-8");
        assert_eq!(text, expected);
    }
}
