//! Writes families of metrics as OTLP encodes them: counters as cumulative sums, gauges, and histograms with explicit bounds.
//!
//! Names, descriptions and labels are those of the text format ([`crate::exposition`]), so a query finds the same series whichever way they
//! took.

use prometheus::proto::{Histogram, LabelPair, Metric, MetricType};

use super::ExportQueue;
use super::attributes::attribute;
use super::batch::RECORDS;
use super::bounds;
use super::wire::{FieldNumber, bytes, fixed64, message, uint};
use crate::exposition::SampledFamily;

/// `AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE`
const CUMULATIVE: u64 = 2;

/// The times of a sample.
#[derive(Clone, Copy, Debug)]
pub struct MetricTimes {
    /// The time at which counters were 0, in nanoseconds since the Unix epoch: the start of the process.
    pub start_unix_nanos: u64,
    /// The time of the sample, in nanoseconds since the Unix epoch.
    pub sample_unix_nanos: u64,
}

impl ExportQueue {
    /// Takes the series of a family: [`bounds::SERIES`] at a time are one record, so that no record is much larger than a batch.
    pub fn append_family(&self, family: &SampledFamily, times: MetricTimes) {
        for series in family.all_series().chunks(bounds::SERIES) {
            self.append(|into, _| write_metric(into, family, series, times));
        }
    }
}

/// Appends a `Metric` with these series of `family`.
fn write_metric(into: &mut Vec<u8>, family: &SampledFamily, series: &[Metric], times: MetricTimes) {
    message(into, RECORDS, |into| {
        bytes(into, 1, family.name().as_bytes());
        bytes(into, 2, family.help().as_bytes());
        bytes(into, 3, unit_of(family.name()).as_bytes());
        match family.kind() {
            MetricType::COUNTER => message(into, 7, |into| {
                for series in series {
                    let value = series.get_counter().get_value();
                    number_point(into, series, value, Some(times.start_unix_nanos), times);
                }
                uint(into, 2, CUMULATIVE);
                // `is_monotonic`
                uint(into, 3, 1);
            }),
            MetricType::HISTOGRAM => message(into, 9, |into| {
                for series in series {
                    histogram_point(into, series, times);
                }
                uint(into, 2, CUMULATIVE);
            }),
            _ => message(into, 5, |into| {
                for series in series {
                    number_point(into, series, series.get_gauge().get_value(), None, times);
                }
            }),
        }
    });
}

/// Returns the unit, in UCUM, that the name of a metric ends with, as Prometheus' conventions have it; empty where it is a count of things.
fn unit_of(name: &str) -> &'static str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    match name.rsplit('_').next() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        _ => "",
    }
}

/// Appends a `NumberDataPoint`.
fn number_point(
    into: &mut Vec<u8>,
    series: &Metric,
    value: f64,
    start_unix_nanos: Option<u64>,
    times: MetricTimes,
) {
    message(into, 1, |into| {
        if let Some(start) = start_unix_nanos {
            fixed64(into, 2, start);
        }
        fixed64(into, 3, times.sample_unix_nanos);
        fixed64(into, 4, value.to_bits());
        labels(into, 7, series.get_label());
    });
}

/// Appends a `HistogramDataPoint`.
fn histogram_point(into: &mut Vec<u8>, series: &Metric, times: MetricTimes) {
    let histogram = series.get_histogram();
    message(into, 1, |into| {
        fixed64(into, 2, times.start_unix_nanos);
        fixed64(into, 3, times.sample_unix_nanos);
        fixed64(into, 4, histogram.get_sample_count());
        fixed64(into, 5, histogram.get_sample_sum().to_bits());
        message(into, 6, |into| bucket_counts(into, histogram));
        message(into, 7, |into| {
            for bucket in histogram.get_bucket() {
                into.extend_from_slice(&bucket.upper_bound().to_le_bytes());
            }
        });
        labels(into, 9, series.get_label());
    });
}

/// Appends the count of each bucket alone, and that of the values above the last bound: buckets of the text format include those below.
fn bucket_counts(into: &mut Vec<u8>, histogram: &Histogram) {
    let buckets = histogram.get_bucket().iter();
    let counts = buckets.map(|bucket| bucket.cumulative_count());
    let mut below = 0;
    for cumulative in counts.chain([histogram.get_sample_count()]) {
        into.extend_from_slice(&cumulative.saturating_sub(below).to_le_bytes());
        below = cumulative;
    }
}

fn labels(into: &mut Vec<u8>, field: FieldNumber, labels: &[LabelPair]) {
    for label in labels {
        attribute(into, field, label.name(), label.value());
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::metrics::v1::metric::Data;
    use opentelemetry_proto::tonic::metrics::v1::{Metric as Received, ScopeMetrics};
    use prost::Message;

    use super::*;
    use crate::histogram::{Histogram, HistogramSum};

    const TIMES: MetricTimes = MetricTimes {
        start_unix_nanos: 5,
        sample_unix_nanos: 6,
    };

    /// Returns the metrics that a collector gets of a family, as OpenTelemetry's own types read them.
    fn received(family: &SampledFamily) -> Vec<Received> {
        let queue = ExportQueue::new("metrics", 1, 1 << 20);
        queue.append_family(family, TIMES);
        let mut waiting = Vec::new();
        queue.buffers.take(0, &mut waiting);
        ScopeMetrics::decode(&*waiting)
            .expect("these are metrics")
            .metrics
    }

    /// Returns the one metric of a family.
    fn metric(family: &SampledFamily) -> (Received, Data) {
        let [metric] = <[_; 1]>::try_from(received(family)).expect("one metric");
        let data = metric.data.clone().expect("it has data");
        (metric, data)
    }

    /// Goal: counters are monotonic sums since the start, gauges are gauges, and both have name, unit, help and labels. Method: one of
    /// each, decoded by OpenTelemetry's own types.
    #[test]
    fn counters_are_cumulative_sums_and_gauges_are_gauges() {
        let counter = SampledFamily::counter("cpu_seconds_total", "Time.")
            .series(&[("mode", "a\"b")], 1.5)
            .series(&[], 0);
        let (metric, Data::Sum(sum)) = self::metric(&counter) else {
            panic!("no sum");
        };
        assert_eq!(metric.name, "cpu_seconds_total");
        assert_eq!(metric.description, "Time.");
        assert_eq!(metric.unit, "s");
        assert!(sum.is_monotonic);
        assert_eq!(sum.aggregation_temporality, 2);
        let [first, second] = &*sum.data_points else {
            panic!("{sum:?}");
        };
        assert_eq!((first.start_time_unix_nano, first.time_unix_nano), (5, 6));
        let value = |value| {
            use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
            Some(Value::AsDouble(value))
        };
        assert_eq!(first.value, value(1.5));
        assert_eq!(second.value, value(0.0));
        assert_eq!(first.attributes[0].key, "mode");
        assert!(second.attributes.is_empty());

        let gauge = SampledFamily::gauge("memory_bytes", "Memory.").series(&[], 7);
        let (metric, Data::Gauge(gauge)) = self::metric(&gauge) else {
            panic!("no gauge");
        };
        assert_eq!(metric.unit, "By");
        assert_eq!(gauge.data_points[0].value, value(7.0));
        assert_eq!(gauge.data_points[0].time_unix_nano, 6);
    }

    /// Goal: buckets are counted alone, with one more of them than bounds. Method: values in, between and above two bounds.
    #[test]
    fn buckets_of_histograms_are_not_cumulative() {
        let histogram = Histogram::<2>::default();
        for value in [5, 15, 15, 25] {
            histogram.observe(&[10, 20], value);
        }
        let mut family = SampledFamily::histogram("durations_seconds", "Durations.");
        let sum = HistogramSum::sum(std::iter::once(&histogram));
        family.push_histogram(&[("route", "/")], &sum, &[10, 20], 10.0);
        let (_, Data::Histogram(histogram)) = metric(&family) else {
            panic!("no histogram");
        };
        assert_eq!(histogram.aggregation_temporality, 2);
        let point = &histogram.data_points[0];
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (5, 6));
        assert_eq!(point.bucket_counts, [1, 2, 1]);
        assert_eq!(point.explicit_bounds, [1.0, 2.0]);
        assert_eq!((point.count, point.sum), (4, Some(6.0)));
        assert_eq!(point.attributes[0].key, "route");
    }

    /// Goal: a family of many series is several records, and one without a series none. Method: one series more than a record has.
    #[test]
    fn a_large_family_is_several_records() {
        let mut family = SampledFamily::gauge("many", "Many.");
        assert!(received(&family).is_empty());
        for number in 0..=bounds::SERIES {
            family.push(&[("number", &number.to_string())], 1);
        }
        let metrics = received(&family);
        assert!(metrics.iter().all(|metric| metric.name == "many"));
        let points = metrics.iter().map(|metric| match &metric.data {
            Some(Data::Gauge(gauge)) => gauge.data_points.len(),
            other => panic!("{other:?}"),
        });
        assert_eq!(points.collect::<Vec<_>>(), [bounds::SERIES, 1]);
    }
}
