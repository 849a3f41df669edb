//! Compares the connection with the server of the h2 crate: from the same bytes of a client both get the same requests.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod client;
mod wire;

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use client::frames::{frames, number_streams};
use client::{LIMITS, data, get, post, settings};
use h2::RecvStream;
use h2::server::Builder;
use proptest::prelude::*;
use sluicegate_http2::frame::PREFACE;
use sluicegate_http2::{ConnectionEvent, ConnectionLimits, RuleViolation, ServerConnection};
use wire::{ScriptedPeer, is_prefix};

/// The bounds of both: neither refuses a stream for the number of others, which they count at different times.
const MANY_STREAMS: ConnectionLimits = ConnectionLimits {
    max_streams: 100,
    ..LIMITS
};

/// A request: its stream, its method, path and fields, and the bytes of its body that came.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SeenRequest {
    stream: u32,
    head: String,
    body: Vec<u8>,
}

/// Returns the requests that the connection finds, none of which is answered, and the rule that ends it, if any.
fn ours(mut input: &[u8]) -> (Vec<SeenRequest>, Option<RuleViolation>) {
    let mut connection = ServerConnection::new(MANY_STREAMS, Duration::ZERO);
    let mut seen = Vec::<SeenRequest>::new();
    let mut end = None;
    while let Some(event) = connection.receive(&mut input, Duration::ZERO) {
        match event {
            ConnectionEvent::Request { stream, head, .. } => {
                let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
                let path = text(head.path().unwrap_or_default());
                let mut words = format!("{} {path}", text(head.method()));
                for (name, value) in head.fields().iter() {
                    words += &format!(" {}={}", text(name), text(value));
                }
                seen.push(SeenRequest {
                    stream: stream.number(),
                    head: words,
                    body: Vec::new(),
                });
            }
            ConnectionEvent::Data { stream, data, .. } => {
                let mut requests = seen.iter_mut();
                let request = requests.find(|seen| seen.stream == stream.number());
                request.unwrap().body.extend_from_slice(data);
            }
            // Its end is that of the whole answer, so it is as if it were not answered.
            ConnectionEvent::Malformed { stream, violation } => {
                connection.reset(stream, violation.code());
            }
            ConnectionEvent::Closed(violation) => end = Some(violation),
            _ => {}
        }
    }
    (seen, end)
}

/// Returns the requests that the h2 crate finds.
fn theirs(input: &[u8]) -> Vec<SeenRequest> {
    let mut context = Context::from_waker(Waker::noop());
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(MANY_STREAMS.max_streams)
        .max_header_list_size(MANY_STREAMS.max_field_list)
        .initial_window_size(MANY_STREAMS.stream_window)
        .initial_connection_window_size(MANY_STREAMS.connection_window);
    let mut handshake = pin!(builder.handshake::<_, Bytes>(ScriptedPeer::new(input)));
    let Poll::Ready(Ok(mut connection)) = handshake.as_mut().poll(&mut context) else {
        return Vec::new();
    };
    let mut seen = Vec::new();
    let mut streams = Vec::new();
    while let Poll::Ready(Some(Ok((request, respond)))) = connection.poll_accept(&mut context) {
        let (head, body) = request.into_parts();
        let mut words = format!("{} {}", head.method, head.uri.path());
        for (name, value) in &head.headers {
            words += &format!(" {name}={}", String::from_utf8_lossy(value.as_bytes()));
        }
        seen.push(SeenRequest {
            stream: respond.stream_id().as_u32(),
            head: words,
            body: Vec::new(),
        });
        streams.push((body, respond));
    }
    for (request, (body, _)) in seen.iter_mut().zip(&mut streams) {
        read_body(body, &mut request.body);
    }
    seen
}

/// Reads the bytes that came.
fn read_body(stream: &mut RecvStream, into: &mut Vec<u8>) {
    let mut context = Context::from_waker(Waker::noop());
    while let Poll::Ready(Some(Ok(bytes))) = stream.poll_data(&mut context) {
        into.extend_from_slice(&bytes);
    }
}

/// Goal: the comparison compares something. Method: requests that keep all rules, with a body.
#[test]
fn plain_requests_are_seen_by_both() {
    let parts = [
        &PREFACE[..],
        &settings(&[]),
        &get(1),
        &post(3),
        &data(3, 1, b"abc"),
        &get(5),
    ];
    let bytes = parts.concat();
    let seen = theirs(&bytes);
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[1].body, b"abc");
    assert_eq!(ours(&bytes), (seen, None));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Goal: both servers get the same requests. Method: the frames of a client, which neither answers; where one of them ends the
    /// connection or drops a body earlier, it has the beginning of what the other has.
    #[test]
    fn both_servers_get_the_same_requests(frames in prop::collection::vec(frames(), 0..24)) {
        let bytes = [&PREFACE[..], &settings(&[]), &number_streams(frames)].concat();
        let (ours, end) = ours(&bytes);
        let theirs = theirs(&bytes);
        for (one, other) in ours.iter().zip(&theirs) {
            prop_assert_eq!((one.stream, &one.head), (other.stream, &other.head));
            prop_assert!(is_prefix(&one.body, &other.body), "{:?} {:?}", one, other);
        }
        // Ours ends the connection where the h2 crate ends a stream (RFC 9113 §5.4.1 allows it), and knows PRIORITY_UPDATE.
        let is_stricter = matches!(end, Some(RuleViolation::ClosedStream | RuleViolation::StreamOfFrame));
        prop_assert!(ours.len() >= theirs.len() || is_stricter, "{:?}: {:?} {:?}", end, ours, theirs);
    }
}
