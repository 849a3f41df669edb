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
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::eventually::eventually;
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
    pub status: u16,
}

/// A span as it came.
#[derive(Clone, Debug)]
pub struct Told(pub Span);

/// What it answers to the call of this number, from 0, with these spans.
type Script = dyn Fn(usize, &[Told]) -> u16 + Send + Sync;

impl Collector {
    /// Takes everything.
    pub fn start() -> Self {
        Self::answering(|_, _| 200)
    }

    /// Answers with the statuses that `script` says, and asks to wait for a second where that is 429.
    pub fn answering(script: impl Fn(usize, &[Told]) -> u16 + Send + Sync + 'static) -> Self {
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

    /// Every span that it took so far.
    pub fn spans(&self) -> Vec<Told> {
        let calls = self.calls();
        let taken = calls.into_iter().filter(|call| call.status < 300);
        taken.flat_map(|call| call.spans).collect()
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
    let export = ExportTraceServiceRequest::decode(body.to_bytes()).unwrap();
    let [resource] = <[_; 1]>::try_from(export.resource_spans).unwrap();
    let scopes = resource.scope_spans.into_iter();
    let spans: Vec<Told> = scopes.flat_map(|scope| scope.spans).map(Told).collect();
    let mut calls = calls.lock().unwrap();
    let status = script(calls.len(), &spans);
    calls.push(Call {
        head,
        resource: resource.resource.unwrap_or_default().attributes,
        spans,
        status,
    });
    let mut response = Response::builder().status(status);
    if status == 429 {
        response = response.header("retry-after", "1");
    }
    Ok(response.body(Full::default()).unwrap())
}
