//! An OpenTelemetry collector that takes OTLP over HTTP, reads it by OpenTelemetry's own definitions, and answers as the test says.
//!
//! It lives on a thread of its own, so that a test may block.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    HistogramDataPoint, Metric, NumberDataPoint, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::eventually::eventually;
use super::metrics::SeriesValues;
use super::ports::listen_blocking;

/// The collector; it stops when dropped.
pub struct Collector {
    address: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A call that it answered.
#[derive(Clone, Debug)]
pub struct Call {
    pub head: http::request::Parts,
    pub resource: Vec<KeyValue>,
    pub spans: Vec<Told>,
    pub lines: Vec<ReceivedLine>,
    pub metrics: Vec<Metric>,
    pub status: u16,
}

/// A span as it came.
#[derive(Clone, Debug)]
pub struct Told(pub Span);

/// A line of the access log as it came.
#[derive(Clone, Debug)]
pub struct ReceivedLine(pub LogRecord);

/// What it answers to the call of this number, from 0; the status of the call is 0 then.
type Script = dyn Fn(usize, &Call) -> u16 + Send + Sync;

impl Collector {
    /// Takes everything.
    pub fn start() -> Self {
        Self::answering(|_, _| 200)
    }

    /// Answers with the statuses that `script` says, and asks to wait for a second where that is 429.
    pub fn answering(script: impl Fn(usize, &Call) -> u16 + Send + Sync + 'static) -> Self {
        let listener = listen_blocking();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let calls = Arc::default();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn({
            let calls = Arc::clone(&calls);
            move || serve(listener, Arc::new(script), calls, stopped)
        });
        Self {
            address,
            calls,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// What to write as the endpoint.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every call so far.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// Every call so far that it took.
    fn taken(&self) -> impl Iterator<Item = Call> {
        self.calls().into_iter().filter(|call| call.status < 300)
    }

    /// Every span that it took so far.
    pub fn spans(&self) -> Vec<Told> {
        self.taken().flat_map(|call| call.spans).collect()
    }

    /// Every line of the access log that it took so far.
    pub fn lines(&self) -> Vec<ReceivedLine> {
        self.taken().flat_map(|call| call.lines).collect()
    }

    /// The line of the request with this id.
    pub async fn line_of(&self, request_id: &str) -> ReceivedLine {
        eventually("the line of a request", async || {
            let mut lines = self.lines().into_iter();
            lines.find(|line| line.attribute("sluicegate.request_id") == request_id)
        })
        .await
    }

    /// The series of its latest sample of the metrics, as the text format has them.
    pub fn latest_sample(&self) -> SeriesValues {
        let metrics: Vec<Metric> = self.taken().flat_map(|call| call.metrics).collect();
        let latest = metrics.iter().filter_map(sampled_at).max();
        let of_latest = metrics.iter().filter(|metric| sampled_at(metric) == latest);
        let mut values = SeriesValues::new();
        for metric in of_latest {
            add_series(metric, &mut values);
        }
        values
    }

    /// The spans of the request with this id, once there are `count`: the gateway's first.
    pub async fn spans_of(&self, request_id: &str, count: usize) -> Vec<Told> {
        eventually("the spans of a request", async || {
            let all = self.spans();
            let ours = |span: &&Told| span.said("sluicegate.request_id") == request_id;
            let own = all.iter().find(ours)?;
            let trace = |span: &&Told| span.0.trace_id == own.0.trace_id;
            let mut spans: Vec<Told> = all.iter().filter(trace).cloned().collect();
            spans.sort_by_key(|span| span.0.kind);
            (spans.len() >= count).then_some(spans)
        })
        .await
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Told {
    /// An attribute as text; empty where it is not said.
    pub fn said(&self, name: &str) -> String {
        said(&self.0.attributes, name)
    }
}

impl ReceivedLine {
    /// The line, as the access log has it.
    pub fn body(&self) -> serde_json::Value {
        let serde_json::Value::String(line) = json_of(self.0.body.clone()) else {
            panic!("no text: {self:?}");
        };
        serde_json::from_str(&line).unwrap()
    }

    /// An attribute; null without one.
    pub fn attribute(&self, name: &str) -> serde_json::Value {
        let found = self.0.attributes.iter().find(|pair| pair.key == name);
        found.map_or(serde_json::Value::Null, |pair| json_of(pair.value.clone()))
    }
}

/// A value as JSON.
fn json_of(value: Option<AnyValue>) -> serde_json::Value {
    match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text.into(),
        Some(Value::IntValue(number)) => number.into(),
        Some(Value::DoubleValue(number)) => number.into(),
        Some(Value::ArrayValue(array)) => {
            let values = array.values.into_iter();
            values.map(|value| json_of(Some(value))).collect()
        }
        Some(Value::KvlistValue(members)) => {
            let members = members.values.into_iter();
            members
                .map(|member| (member.key, json_of(member.value)))
                .collect()
        }
        other => panic!("{other:?}"),
    }
}

/// When a metric was sampled.
fn sampled_at(metric: &Metric) -> Option<u64> {
    match metric.data.as_ref()? {
        Data::Sum(sum) => Some(sum.data_points.first()?.time_unix_nano),
        Data::Gauge(gauge) => Some(gauge.data_points.first()?.time_unix_nano),
        Data::Histogram(histogram) => Some(histogram.data_points.first()?.time_unix_nano),
        other => panic!("{other:?}"),
    }
}

/// Adds the series of a metric as the text format has them.
fn add_series(metric: &Metric, values: &mut SeriesValues) {
    match metric.data.as_ref().unwrap() {
        Data::Sum(sum) => {
            assert!(
                sum.is_monotonic && sum.aggregation_temporality == 2,
                "{metric:?}"
            );
            let started = |point: &NumberDataPoint| point.start_time_unix_nano;
            assert!(
                sum.data_points.iter().all(|point| started(point) > 0),
                "{metric:?}"
            );
            add_numbers(metric, &sum.data_points, values);
        }
        Data::Gauge(gauge) => add_numbers(metric, &gauge.data_points, values),
        Data::Histogram(histogram) => {
            assert_eq!(histogram.aggregation_temporality, 2, "{metric:?}");
            for point in &histogram.data_points {
                add_histogram(&metric.name, point, values);
            }
        }
        other => panic!("{other:?}"),
    }
}

fn add_numbers(metric: &Metric, points: &[NumberDataPoint], values: &mut SeriesValues) {
    for point in points {
        let Some(number_data_point::Value::AsDouble(value)) = point.value else {
            panic!("{metric:?}");
        };
        add_value(&metric.name, &point.attributes, None, value, values);
    }
}

fn add_histogram(name: &str, point: &HistogramDataPoint, values: &mut SeriesValues) {
    let bounds = point.explicit_bounds.iter().map(f64::to_string);
    let mut cumulative = 0;
    for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(&point.bucket_counts) {
        cumulative += count;
        let name = format!("{name}_bucket");
        add_value(
            &name,
            &point.attributes,
            Some(bound),
            cumulative as f64,
            values,
        );
    }
    assert_eq!(cumulative, point.count);
    let sum = point.sum.unwrap();
    add_value(&format!("{name}_sum"), &point.attributes, None, sum, values);
    let count = point.count as f64;
    add_value(
        &format!("{name}_count"),
        &point.attributes,
        None,
        count,
        values,
    );
}

fn add_value(
    name: &str,
    attributes: &[KeyValue],
    bound: Option<String>,
    value: f64,
    values: &mut SeriesValues,
) {
    let labels = attributes.iter().map(|pair| {
        let text = json_of(pair.value.clone());
        (pair.key.clone(), text.as_str().unwrap().to_owned())
    });
    let labels = labels
        .chain(bound.map(|bound| ("le".to_owned(), bound)))
        .collect();
    let before = values.insert((name.to_owned(), labels), value);
    assert!(before.is_none(), "{name} twice");
}

impl Call {
    /// What is said of the gateway.
    pub fn resource(&self, name: &str) -> String {
        said(&self.resource, name)
    }
}

fn said(attributes: &[KeyValue], name: &str) -> String {
    let found = attributes.iter().find(|pair| pair.key == name);
    let value = found.and_then(|pair| pair.value.clone()?.value);
    match value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(other) => panic!("{name}: {other:?}"),
        None => String::new(),
    }
}

fn serve(
    listener: std::net::TcpListener,
    script: Arc<Script>,
    calls: Arc<Mutex<Vec<Call>>>,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener).unwrap();
        let accept = async {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (script, calls) = (Arc::clone(&script), Arc::clone(&calls));
                tokio::spawn(async move {
                    let answer = service_fn(|request| answer(request, &*script, &calls));
                    let _ = http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), answer)
                        .await;
                });
            }
        };
        tokio::select! {
            () = accept => {}
            _ = stopped => {}
        }
    });
}

async fn answer(
    request: Request<Incoming>,
    script: &Script,
    calls: &Mutex<Vec<Call>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else {
        return Ok(Response::new(Full::default()));
    };
    let mut call = read(head, body.to_bytes());
    let mut calls = calls.lock().unwrap();
    call.status = script(calls.len(), &call);
    let status = call.status;
    calls.push(call);
    let mut response = Response::builder().status(status);
    if status == 429 {
        response = response.header("retry-after", "1");
    }
    Ok(response.body(Full::default()).unwrap())
}

/// Reads a call by the definition of its signal.
fn read(head: http::request::Parts, body: Bytes) -> Call {
    let mut call = Call {
        head,
        resource: Vec::new(),
        spans: Vec::new(),
        lines: Vec::new(),
        metrics: Vec::new(),
        status: 0,
    };
    let resource: Option<Resource>;
    match call.head.uri.path() {
        "/v1/traces" => {
            let export = ExportTraceServiceRequest::decode(body).unwrap();
            let [one] = <[_; 1]>::try_from(export.resource_spans).unwrap();
            let scopes = one.scope_spans.into_iter();
            call.spans = scopes.flat_map(|scope| scope.spans).map(Told).collect();
            resource = one.resource;
        }
        "/v1/logs" => {
            let export = ExportLogsServiceRequest::decode(body).unwrap();
            let [one] = <[_; 1]>::try_from(export.resource_logs).unwrap();
            let scopes = one.scope_logs.into_iter();
            let records = scopes.flat_map(|scope| scope.log_records);
            call.lines = records.map(ReceivedLine).collect();
            resource = one.resource;
        }
        "/v1/metrics" => {
            let export = ExportMetricsServiceRequest::decode(body).unwrap();
            let [one] = <[_; 1]>::try_from(export.resource_metrics).unwrap();
            let scopes = one.scope_metrics.into_iter();
            call.metrics = scopes.flat_map(|scope| scope.metrics).collect();
            resource = one.resource;
        }
        other => panic!("no signal: {other}"),
    }
    call.resource = resource.unwrap_or_default().attributes;
    call
}
