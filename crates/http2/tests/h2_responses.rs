//! Compares the client's side with the client of the h2 crate: from the same bytes of a server both get the same responses.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod client;
mod origin;
mod wire;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use client::{END_HEADERS, WHOLE, data, headers, settings};
use h2::client::Builder;
use http::Request;
use origin::MANY_STREAMS;
use origin::frames::frames;
use proptest::prelude::*;
use sluicegate_http2::{ClientConnection, ClientEvent, RequestPseudoFields, StreamEnd};
use wire::{ScriptedPeer, is_prefix};

const METHODS: [&str; 6] = ["GET", "POST", "HEAD", "GET", "POST", "GET"];

/// A response: its status and fields, and the bytes of its body that came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SeenResponse {
    head: String,
    body: Vec<u8>,
    is_whole: bool,
}

/// By the number of the stream.
type SeenResponses = BTreeMap<u32, SeenResponse>;

/// Returns the responses that the connection finds, and the streams that end for another reason than that they are whole: 0 is the
/// connection.
fn ours(mut input: &[u8]) -> (SeenResponses, BTreeSet<u32>) {
    let mut connection = ClientConnection::new(MANY_STREAMS, Duration::ZERO);
    for method in METHODS {
        let pseudo = RequestPseudoFields {
            method: method.as_bytes(),
            scheme: Some(b"http"),
            authority: Some(b"a.test"),
            path: Some(b"/"),
        };
        connection
            .send_request(pseudo, [], StreamEnd::Here)
            .unwrap();
    }
    let mut seen = SeenResponses::new();
    let mut broken = BTreeSet::new();
    while let Some(event) = connection.receive(&mut input, Duration::ZERO) {
        match event {
            ClientEvent::Response { stream, head, end } if !head.is_interim() => {
                let mut words = head.status().to_string();
                for (name, value) in head.fields().iter() {
                    let text = String::from_utf8_lossy;
                    words += &format!(" {}={}", text(name), text(value));
                }
                let response = seen.entry(stream.number()).or_default();
                response.head = words;
                response.is_whole = end.is_here();
            }
            ClientEvent::Data { stream, data, end } => {
                let response = seen.get_mut(&stream.number()).unwrap();
                response.body.extend_from_slice(data);
                response.is_whole = end.is_here();
            }
            ClientEvent::Trailers { stream, .. } => {
                seen.get_mut(&stream.number()).unwrap().is_whole = true;
            }
            ClientEvent::Reset { stream, .. } | ClientEvent::Unprocessed { stream } => {
                broken.insert(stream.number());
            }
            ClientEvent::Closed(_) => {
                broken.insert(0);
            }
            _ => {}
        }
    }
    (seen, broken)
}

/// Returns the responses that the h2 crate finds.
fn theirs(input: &[u8]) -> SeenResponses {
    let mut context = Context::from_waker(Waker::noop());
    let mut builder = Builder::new();
    builder
        .enable_push(false)
        .max_header_list_size(MANY_STREAMS.max_field_list)
        .initial_window_size(MANY_STREAMS.stream_window)
        .initial_connection_window_size(MANY_STREAMS.connection_window);
    let may_send = Rc::new(Cell::new(false));
    let origin = ScriptedPeer::waiting(input, Rc::clone(&may_send));
    let mut handshake = pin!(builder.handshake::<_, Bytes>(origin));
    let Poll::Ready(Ok((mut sender, mut connection))) = handshake.as_mut().poll(&mut context)
    else {
        panic!("nothing is read");
    };
    let answers: Vec<_> = (METHODS.iter())
        .map(|method| {
            let request = Request::builder().method(*method).uri("http://a.test/");
            let sent = sender.send_request(request.body(()).unwrap(), true);
            sent.unwrap().0
        })
        .collect();
    assert!(Pin::new(&mut connection).poll(&mut context).is_pending());
    may_send.set(true);
    let _ = Pin::new(&mut connection).poll(&mut context);
    let mut seen = SeenResponses::new();
    for (number, mut answer) in answers.into_iter().enumerate() {
        let Poll::Ready(Ok(response)) = Pin::new(&mut answer).poll(&mut context) else {
            continue;
        };
        let (head, mut body) = response.into_parts();
        let mut found = SeenResponse {
            head: head.status.as_str().to_owned(),
            ..SeenResponse::default()
        };
        for (name, value) in &head.headers {
            found.head += &format!(" {name}={}", String::from_utf8_lossy(value.as_bytes()));
        }
        while let Poll::Ready(Some(Ok(bytes))) = body.poll_data(&mut context) {
            found.body.extend_from_slice(&bytes);
        }
        found.is_whole = matches!(body.poll_data(&mut context), Poll::Ready(None));
        seen.insert(2 * number as u32 + 1, found);
    }
    seen
}

/// Goal: the comparison compares something. Method: responses that keep all rules, with a body, an interim head and trailers.
#[test]
fn plain_responses_are_seen_by_both() {
    let parts = [
        settings(&[]),
        headers(1, WHOLE, ":status:204\nserver:a"),
        headers(3, END_HEADERS, ":status:103\nlink:</a>"),
        headers(3, END_HEADERS, ":status:200\ncontent-length:3"),
        data(3, 0, b"abc"),
        headers(3, WHOLE, "x-t:1"),
        headers(5, WHOLE, ":status:200\ncontent-length:3"),
    ];
    let bytes = parts.concat();
    let seen = theirs(&bytes);
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[&3].body, b"abc");
    assert!(seen.values().all(|response| response.is_whole));
    assert_eq!(ours(&bytes), (seen, BTreeSet::new()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Goal: both clients get the same responses. Method: the frames of a server for requests without a body; where one of them
    /// ends a stream or the connection earlier, it has the beginning of what the other has.
    #[test]
    fn both_clients_get_the_same_responses(frames in prop::collection::vec(frames(), 0..24)) {
        let bytes = [settings(&[]), frames.concat()].concat();
        let (ours, broken) = ours(&bytes);
        let theirs = theirs(&bytes);
        if broken.is_empty() {
            prop_assert_eq!(&ours, &theirs);
        }
        for (stream, other) in &theirs {
            let is_broken = broken.contains(stream) || broken.contains(&0);
            match ours.get(stream) {
                Some(one) => {
                    prop_assert_eq!(&one.head, &other.head);
                    prop_assert!(is_prefix(&one.body, &other.body), "{:?} {:?}", one, other);
                }
                None => prop_assert!(is_broken, "{}: {:?} {:?}", stream, other, broken),
            }
        }
    }
}
