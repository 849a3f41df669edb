//! Serves the calls of a listener with `protocol = "rls"`: calls of gRPC with one message, each on a stream of HTTP/2.
//!
//! Source: "gRPC over HTTP2" of the gRPC project, and `grpc.health.v1` for proxies that check their servers.
//!
//! # Limits
//! [`HEALTH_WATCHES`](sluicegate_base::bounds::HEALTH_WATCHES) calls of `Watch` are open at a time; each ends with the process.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use pingora::server::ShutdownWatch;
use sluicegate_base::received::ReceivedHead;
use sluicegate_decide::response::{GrpcDialect, GrpcStatus};
use tokio::time::timeout;

use super::grpc_health::ServingStatus;
use super::http2::Http2Stream;
use crate::gateway::{ConnectionFacts, Gateway, RequestClient};
use sluicegate_origin::request_failure::ClientFailure;
use sluicegate_transport::body_end::BodyEnd;

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
const HEALTH_WATCH: &str = "/grpc.health.v1.Health/Watch";

/// Bytes of the message of a call. Its texts are fields of requests to Envoy, which takes 60 KiB of them where it is not told otherwise.
const MESSAGE_BYTES: usize = 1 << 20;

/// Bytes before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// The end of a call that has no message, or no other one.
pub(super) struct CallEnd {
    status: GrpcStatus,
    message: &'static str,
}

impl CallEnd {
    pub(super) const fn new(status: GrpcStatus, message: &'static str) -> Self {
        Self { status, message }
    }
}

/// Serves the call with this head.
pub(super) async fn serve(
    gateway: &Gateway,
    facts: &ConnectionFacts,
    shutdown: &ShutdownWatch,
    head: &ReceivedHead,
    stream: &mut Http2Stream,
) {
    let read_timeout = gateway
        .0
        .snapshot()
        .compiled
        .rules
        .server
        .client_read_timeout;
    let media_type = head.headers.get(CONTENT_TYPE);
    let dialect = media_type.and_then(|media_type| GrpcDialect::named(media_type.as_bytes()));
    // Nobody is left to be told of an answer that cannot be sent.
    let _ = if dialect != Some(GrpcDialect::Http2) {
        send_unsupported(stream)
    } else if head.uri.path() == HEALTH_WATCH {
        watch(gateway, shutdown, stream, read_timeout).await
    } else {
        let call = GrpcCall {
            gateway,
            facts,
            shutdown,
            method: head.uri.path(),
        };
        match call.answer(stream, read_timeout).await {
            Ok(message) => send(stream, &message).await,
            Err(end) => send_end(stream, &end),
        }
    };
}

/// A call with one message as its answer.
struct GrpcCall<'a> {
    gateway: &'a Gateway,
    facts: &'a ConnectionFacts,
    shutdown: &'a ShutdownWatch,
    method: &'a str,
}

impl GrpcCall<'_> {
    /// Returns the message of the answer.
    async fn answer(
        &self,
        stream: &mut Http2Stream,
        patience: Duration,
    ) -> Result<Vec<u8>, CallEnd> {
        match self.method {
            SHOULD_RATE_LIMIT => {
                let message = receive_within(stream, patience).await?;
                let answered = self.gateway.answer_call(&message, self.facts).await;
                answered.map_err(|fault| CallEnd::new(fault.status(), fault.message()))
            }
            HEALTH_CHECK => {
                let message = receive_within(stream, patience).await?;
                let mut status = ServingStatus::read(&message)?;
                if *self.shutdown.borrow() {
                    status = status.at_shutdown();
                }
                Ok(status.checked()?.to_vec())
            }
            _ => Err(CallEnd::new(
                GrpcStatus::UNIMPLEMENTED,
                "this listener has envoy.service.ratelimit.v3.RateLimitService and grpc.health.v1.Health",
            )),
        }
    }
}

/// Serves a call of `Watch`: sends the health of a service, and that it ends once the process shuts down.
async fn watch(
    gateway: &Gateway,
    shutdown: &ShutdownWatch,
    stream: &mut Http2Stream,
    patience: Duration,
) -> Result<(), ClientFailure> {
    let message = receive_within(stream, patience).await;
    let serving = match message.and_then(|message| ServingStatus::read(&message)) {
        Ok(status) => status,
        Err(end) => return send_end(stream, &end),
    };
    let Ok(_permit) = gateway.0.health_watches.try_acquire() else {
        let end = CallEnd::new(
            GrpcStatus::RESOURCE_EXHAUSTED,
            "as many calls of Watch as there may be are open",
        );
        return send_end(stream, &end);
    };
    let mut shutdown = shutdown.clone();
    let is_shutting_down = *shutdown.borrow_and_update();
    begin_messages(stream)?;
    if !is_shutting_down {
        send_message(stream, &serving.encoded()).await?;
        tokio::select! {
            _ = shutdown.changed() => {}
            () = stream.left() => return Ok(()),
        }
    }
    let at_shutdown = serving.at_shutdown();
    if is_shutting_down || at_shutdown != serving {
        send_message(stream, &at_shutdown.encoded()).await?;
    }
    let end = CallEnd::new(GrpcStatus::UNAVAILABLE, "the gateway shuts down");
    end_messages(stream, &end).await
}

/// Receives the one message of a call within this time.
async fn receive_within(stream: &mut Http2Stream, patience: Duration) -> Result<Bytes, CallEnd> {
    let received = timeout(patience, receive(stream)).await;
    received.unwrap_or(Err(CallEnd::new(
        GrpcStatus::DEADLINE_EXCEEDED,
        "the message did not come in time",
    )))
}

/// Receives the one message of a call.
async fn receive(stream: &mut Http2Stream) -> Result<Bytes, CallEnd> {
    let broken = || {
        CallEnd::new(
            GrpcStatus::INVALID_ARGUMENT,
            "the call has no whole message",
        )
    };
    loop {
        match stream.read_more(None).await {
            Ok(0) => break,
            Ok(_) if stream.received().len() <= MESSAGE_BYTES => {}
            Ok(_) => {
                return Err(CallEnd::new(
                    GrpcStatus::RESOURCE_EXHAUSTED,
                    "the message has more than 1 MiB",
                ));
            }
            Err(_) => return Err(broken()),
        }
    }
    let received = stream.received().split().freeze();
    let (prefix, message) = received
        .split_first_chunk::<PREFIX_BYTES>()
        .ok_or_else(broken)?;
    let [compressed, length @ ..] = *prefix;
    if compressed != 0 {
        return Err(CallEnd::new(
            GrpcStatus::UNIMPLEMENTED,
            "the message is compressed, and grpc-accept-encoding names identity alone",
        ));
    }
    if u32::from_be_bytes(length) as usize != message.len() {
        return Err(broken());
    }
    Ok(received.slice_ref(message))
}

/// Sends the one message of an answer.
async fn send(stream: &mut Http2Stream, message: &[u8]) -> Result<(), ClientFailure> {
    begin_messages(stream)?;
    send_message(stream, message).await?;
    end_messages(stream, &CallEnd::new(GrpcStatus::OK, "")).await
}

/// Begins an answer that has messages.
fn begin_messages(stream: &mut Http2Stream) -> Result<(), ClientFailure> {
    let [media_type, ..] = GrpcDialect::Http2.fields(GrpcStatus::OK, "");
    let fields = HeaderMap::from_iter([media_type]);
    Ok(stream.begin(StatusCode::OK, &fields, BodyEnd::NotYet)?)
}

async fn send_message(stream: &mut Http2Stream, message: &[u8]) -> Result<(), ClientFailure> {
    // A message has at most a few texts of the configuration.
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut framed = Vec::with_capacity(PREFIX_BYTES + message.len());
    framed.push(0);
    framed.extend_from_slice(&length.to_be_bytes());
    framed.extend_from_slice(message);
    stream.write([&framed, b""], BodyEnd::NotYet).await
}

/// Ends an answer that has messages.
async fn end_messages(stream: &mut Http2Stream, end: &CallEnd) -> Result<(), ClientFailure> {
    let [_, status, message] = GrpcDialect::Http2.fields(end.status, end.message);
    let message = Some(message).filter(|_| !end.message.is_empty());
    let trailers = HeaderMap::from_iter([status].into_iter().chain(message));
    stream.end_answer(Some(trailers)).await
}

/// Sends the end of a call that has no message.
fn send_end(stream: &mut Http2Stream, end: &CallEnd) -> Result<(), ClientFailure> {
    let fields = HeaderMap::from_iter(GrpcDialect::Http2.fields(end.status, end.message));
    Ok(stream.begin(StatusCode::OK, &fields, BodyEnd::Here)?)
}

/// Answers a request that is no call.
fn send_unsupported(stream: &mut Http2Stream) -> Result<(), ClientFailure> {
    let text = http::HeaderValue::from_static("text/plain");
    let fields = HeaderMap::from_iter([(CONTENT_TYPE, text)]);
    let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    Ok(stream.begin(status, &fields, BodyEnd::Here)?)
}
