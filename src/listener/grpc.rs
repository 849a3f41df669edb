//! Serves the calls of a listener with `protocol = "rls"`: unary calls of gRPC, each on a stream of HTTP/2.
//!
//! Source: "gRPC over HTTP2" of the gRPC project, and `grpc.health.v1` for proxies that check their servers.

use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, Response, StatusCode};
use tokio::time::timeout;

use super::http2_stream::Http2Stream;
use super::receive_window::BodyWindow;
use crate::body_end::BodyEnd;
use crate::failure::ClientFailure;
use crate::gateway::{ConnectionFacts, Gateway, RequestClient};
use crate::response::{GrpcDialect, GrpcStatus};

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";

/// `HealthCheckResponse { status: SERVING }`
const SERVING: &[u8] = &[0x08, 0x01];

/// Bytes of the message of a call. Its texts are fields of requests to Envoy, which takes 60 KiB of them where it is not told otherwise.
const MESSAGE_BYTES: usize = 1 << 20;

/// Bytes before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// The end of a call that has no message.
struct CallEnd {
    status: GrpcStatus,
    message: &'static str,
}

impl CallEnd {
    const fn new(status: GrpcStatus, message: &'static str) -> Self {
        Self { status, message }
    }
}

/// Serves one call.
pub(super) async fn serve(
    gateway: &Gateway,
    facts: &ConnectionFacts,
    (request, respond, window): (Request<RecvStream>, SendResponse<Bytes>, Option<BodyWindow>),
) {
    let (head, body) = request.into_parts();
    let (read_timeout, write_timeout) = {
        let rules = &gateway.0.snapshot().rules.server;
        (rules.client_read_timeout, rules.client_write_timeout)
    };
    let account = facts.account.clone();
    let mut stream = Http2Stream::new((body, respond, window), account, None, write_timeout);
    let media_type = head.headers.get(CONTENT_TYPE);
    let dialect = media_type.and_then(|media_type| GrpcDialect::named(media_type.as_bytes()));
    // Nobody is left to be told of an answer that cannot be sent.
    let _ = if dialect == Some(GrpcDialect::Http2) {
        match answer(gateway, facts, head.uri.path(), &mut stream, read_timeout).await {
            Ok(message) => send(&mut stream, &message).await,
            Err(end) => send_end(&mut stream, &end),
        }
    } else {
        send_unsupported(&mut stream)
    };
}

/// Returns the message of the answer.
async fn answer(
    gateway: &Gateway,
    facts: &ConnectionFacts,
    method: &str,
    stream: &mut Http2Stream,
    patience: Duration,
) -> Result<Vec<u8>, CallEnd> {
    match method {
        SHOULD_RATE_LIMIT => {
            let read = timeout(patience, receive(stream)).await;
            let message = read.unwrap_or(Err(CallEnd::new(
                GrpcStatus::DEADLINE_EXCEEDED,
                "the message did not come in time",
            )))?;
            let answered = gateway.answer_call(&message, facts).await;
            answered.map_err(|fault| CallEnd::new(fault.status(), fault.message()))
        }
        HEALTH_CHECK => Ok(SERVING.to_vec()),
        _ => Err(CallEnd::new(
            GrpcStatus::UNIMPLEMENTED,
            "this listener has envoy.service.ratelimit.v3.RateLimitService and grpc.health.v1.Health/Check",
        )),
    }
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
            Some(Ok(0)) => break,
            Some(Ok(_)) if stream.received().len() <= MESSAGE_BYTES => {}
            Some(Ok(_)) => {
                return Err(CallEnd::new(
                    GrpcStatus::RESOURCE_EXHAUSTED,
                    "the message has more than 1 MiB",
                ));
            }
            Some(Err(_)) | None => return Err(broken()),
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

async fn send(stream: &mut Http2Stream, message: &[u8]) -> Result<(), ClientFailure> {
    let mut head = Response::new(());
    let [(name, media_type), ..] = GrpcDialect::Http2.fields(GrpcStatus::OK, "");
    head.headers_mut().insert(name, media_type);
    stream.begin(head, BodyEnd::NotYet)?;
    // A message has at most a few texts of the configuration.
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut framed = Vec::with_capacity(PREFIX_BYTES + message.len());
    framed.push(0);
    framed.extend_from_slice(&length.to_be_bytes());
    framed.extend_from_slice(message);
    stream.write([&framed, b""], BodyEnd::NotYet).await?;
    let [_, (name, status), _] = GrpcDialect::Http2.fields(GrpcStatus::OK, "");
    let trailers = HeaderMap::from_iter([(name, status)]);
    stream.end_answer(Some(trailers)).await
}

fn send_end(stream: &mut Http2Stream, end: &CallEnd) -> Result<(), ClientFailure> {
    let mut head = Response::new(());
    (head.headers_mut()).extend(GrpcDialect::Http2.fields(end.status, end.message));
    Ok(stream.begin(head, BodyEnd::Here)?)
}

/// Answers a request that is no call.
fn send_unsupported(stream: &mut Http2Stream) -> Result<(), ClientFailure> {
    let mut head = Response::new(());
    *head.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    (head.headers_mut()).insert(CONTENT_TYPE, http::HeaderValue::from_static("text/plain"));
    Ok(stream.begin(head, BodyEnd::Here)?)
}
