//! Passes the bytes of a server to a client in pieces of any size, those of the server's side of the crate among them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod client;
mod exchange;
mod origin;

use std::collections::BTreeMap;
use std::mem;
use std::time::Duration;

use client::frames::wrong_frame;
use client::pieces::{add_data, pieces};
use client::{LIMITS, settings};
use exchange::{Message, lines, message, read_fields};
use origin::frames::frames;
use origin::{CLIENT_LIMITS, MANY_STREAMS, describe_event};
use proptest::prelude::*;
use sluicegate_http2::{
    ClientConnection, ClientEvent, ConnectionEvent, RequestPseudoFields, ServerConnection,
    StreamEnd, StreamId,
};

/// Returns the pseudo-fields of a request.
fn pseudo_fields<'a>(method: &'a str, path: &'a str) -> RequestPseudoFields<'a> {
    RequestPseudoFields {
        method: method.as_bytes(),
        scheme: Some(b"http"),
        authority: Some(b"a.test"),
        path: Some(path.as_bytes()),
    }
}

/// A client that acts in the same way, whatever the pieces.
struct ScriptedClient {
    connection: ClientConnection,
    /// The events in words, DATA of one stream in one.
    events: Vec<String>,
    output: Vec<u8>,
    /// By stream: how much a window grows depends on how much is released at once.
    unreleased: BTreeMap<StreamId, usize>,
}

impl ScriptedClient {
    fn new() -> Self {
        let mut client = Self {
            connection: ClientConnection::new(MANY_STREAMS, Duration::ZERO),
            events: Vec::new(),
            output: Vec::new(),
            unreleased: BTreeMap::new(),
        };
        for _ in 0..3 {
            client.send("GET", StreamEnd::Here);
            client.send("POST", StreamEnd::NotYet);
        }
        client
    }

    fn send(&mut self, method: &str, end: StreamEnd) {
        let sent = (self.connection).send_request(pseudo_fields(method, "/"), [], end);
        if let Ok(stream) = sent
            && end == StreamEnd::NotYet
        {
            // A part of it waits for windows.
            let _ = (self.connection).send_data(stream, &[b'x'; 30], StreamEnd::Here);
        }
        while let Some(stream) = self.connection.next_ready() {
            let _ = self.connection.send_data(stream, b"yz", StreamEnd::Here);
        }
        let waiting = self.connection.output().len();
        self.output.extend_from_slice(self.connection.output());
        self.connection.advance_output(waiting);
    }

    fn receive(&mut self, mut input: &[u8]) {
        while let Some(event) = self.connection.receive(&mut input, Duration::ZERO) {
            let words = describe_event(&event);
            match event {
                ClientEvent::Data { stream, data, end } => {
                    *self.unreleased.entry(stream).or_default() += data.len();
                    add_data(&mut self.events, stream, data, end);
                    continue;
                }
                ClientEvent::Response { .. } => {
                    for (stream, bytes) in mem::take(&mut self.unreleased) {
                        self.connection.release(stream, bytes);
                    }
                    self.send("HEAD", StreamEnd::Here);
                }
                ClientEvent::Reset { .. } => self.send("POST", StreamEnd::NotYet),
                _ => {}
            }
            self.events.push(words);
        }
        assert!(input.is_empty());
    }
}

/// Returns the events and the output, where the bytes come in pieces of these sizes, again and again.
fn run(bytes: &[u8], sizes: &[usize]) -> (Vec<String>, Vec<u8>) {
    let mut client = ScriptedClient::new();
    for piece in pieces(bytes, sizes) {
        client.receive(piece);
    }
    let mut output = client.output;
    output.extend_from_slice(client.connection.output());
    (client.events, output)
}

/// An exchange between both sides of the crate over a wire in memory, of which each takes pieces.
struct WiredExchange {
    client: ClientConnection,
    server: ServerConnection,
    request: Message,
    response: Message,
    /// Bytes of each body that were sent.
    request_sent: usize,
    response_sent: usize,
    seen_request: Message,
    seen_response: Message,
    /// True if the server has the whole request, and the client the whole response.
    is_over: [bool; 2],
}

impl WiredExchange {
    /// Passes pieces of these sizes until both messages have come.
    fn make(&mut self, sizes: &[usize]) {
        let (method, path) = self.request.first.split_once(' ').unwrap();
        let fields = lines(&self.request.fields);
        let pseudo = pseudo_fields(method, path);
        let sent = self.client.send_request(pseudo, fields, StreamEnd::NotYet);
        let stream = sent.unwrap();
        self.send_request_body(stream);
        for size in sizes.iter().cycle().take(1_000_000) {
            let bytes = self.client.output();
            let piece = bytes[..bytes.len().min(*size)].to_vec();
            self.client.advance_output(piece.len());
            self.serve(&piece);
            let bytes = self.server.output();
            let piece = bytes[..bytes.len().min(*size)].to_vec();
            self.server.advance_output(piece.len());
            self.read(&piece);
            if self.is_over == [true; 2] {
                return;
            }
        }
        panic!("they wait for each other");
    }

    fn send_request_body(&mut self, stream: StreamId) {
        let rest = &self.request.body[self.request_sent..];
        let sent = self.client.send_data(stream, rest, StreamEnd::NotYet);
        self.request_sent += sent.unwrap();
        if self.request_sent == self.request.body.len() {
            let trailers = self.request.trailers.iter().flat_map(lines);
            self.client.send_trailers(stream, trailers).unwrap();
        }
    }

    fn send_response_body(&mut self, stream: StreamId) {
        let rest = &self.response.body[self.response_sent..];
        let sent = self.server.send_data(stream, rest, StreamEnd::NotYet);
        self.response_sent += sent.unwrap();
        if self.response_sent == self.response.body.len() {
            let trailers = self.response.trailers.iter().flat_map(lines);
            self.server.send_trailers(stream, trailers).unwrap();
        }
    }

    fn serve(&mut self, mut input: &[u8]) {
        while let Some(event) = self.server.receive(&mut input, Duration::ZERO) {
            match event {
                ConnectionEvent::Request { stream, head, .. } => {
                    let text = |part: &[u8]| String::from_utf8(part.to_vec()).unwrap();
                    let path = text(head.path().unwrap());
                    self.seen_request.first = format!("{} {path}", text(head.method()));
                    self.seen_request.fields = read_fields(head.fields()).0;
                    let interim = (self.server).send_head(stream, 103, [], StreamEnd::NotYet);
                    interim.unwrap();
                    let status = self.response.first.parse().unwrap();
                    let fields = lines(&self.response.fields);
                    let sent = (self.server).send_head(stream, status, fields, StreamEnd::NotYet);
                    sent.unwrap();
                    self.send_response_body(stream);
                }
                ConnectionEvent::Data { stream, data, .. } => {
                    self.seen_request.body.extend_from_slice(data);
                    self.server.release(stream, data.len());
                }
                ConnectionEvent::Trailers { fields, .. } => {
                    self.seen_request.trailers = Some(read_fields(&fields).0);
                    self.is_over[0] = true;
                }
                other => panic!("{other:?}"),
            }
        }
        while let Some(stream) = self.server.next_ready() {
            self.send_response_body(stream);
        }
    }

    fn read(&mut self, mut input: &[u8]) {
        while let Some(event) = self.client.receive(&mut input, Duration::ZERO) {
            match event {
                ClientEvent::Response { head, .. } if head.is_interim() => {}
                ClientEvent::Response { head, .. } => {
                    self.seen_response.first = head.status().to_string();
                    self.seen_response.fields = read_fields(head.fields()).0;
                }
                ClientEvent::Data { stream, data, .. } => {
                    self.seen_response.body.extend_from_slice(data);
                    self.client.release(stream, data.len());
                }
                ClientEvent::Trailers { fields, .. } => {
                    self.seen_response.trailers = Some(read_fields(&fields).0);
                    self.is_over[1] = true;
                }
                other => panic!("{other:?}"),
            }
        }
        while let Some(stream) = self.client.next_ready() {
            self.send_request_body(stream);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Goal: every split of the input gives the same events and the same output. Method: sequences of frames, whole and in pieces of any
    /// sizes, one byte among them.
    #[test]
    fn every_split_gives_the_same(
        frames in prop::collection::vec(frames(), 0..24),
        wrong in prop::collection::vec(wrong_frame(), 0..3),
        sizes in prop::collection::vec(1_usize..40, 1..6),
    ) {
        let bytes = [settings(&[]), frames.concat(), wrong.concat()].concat();
        let whole = run(&bytes, &[usize::MAX]);
        prop_assert_eq!(&run(&bytes, &sizes), &whole);
        prop_assert_eq!(&run(&bytes, &[1]), &whole);
    }

    /// Goal: no bytes make the connection panic. Method: any bytes behind SETTINGS, or in their place.
    #[test]
    fn any_bytes_are_taken(bytes: Vec<u8>, has_settings: bool, sizes in prop::collection::vec(1_usize..9, 1..4)) {
        let begin = match has_settings {
            true => settings(&[]),
            false => Vec::new(),
        };
        let bytes = [begin, bytes].concat();
        prop_assert_eq!(run(&bytes, &sizes), run(&bytes, &[usize::MAX]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Goal: both sides of the crate understand each other in every split of what they send. Method: a message in each direction, in pieces
    /// of any sizes, one byte among them.
    #[test]
    fn both_sides_of_the_crate_agree(
        request in message("(GET|POST) /[a-z]{0,8}"),
        response in message("[2-5][1-9][0-9]"),
        sizes in prop::collection::vec(prop_oneof![Just(1_usize), 1_usize..40, 1_usize..20_000], 1..6),
    ) {
        let mut wired = WiredExchange {
            client: ClientConnection::new(CLIENT_LIMITS, Duration::ZERO),
            server: ServerConnection::new(LIMITS, Duration::ZERO),
            request: request.clone(),
            response: response.clone(),
            request_sent: 0,
            response_sent: 0,
            seen_request: Message::default(),
            seen_response: Message::default(),
            is_over: [false; 2],
        };
        wired.make(&sizes);
        let with_trailers = |message: &Message| {
            let mut message = message.sorted();
            message.trailers.get_or_insert_default();
            message
        };
        prop_assert_eq!(wired.seen_request, with_trailers(&request));
        prop_assert_eq!(wired.seen_response, with_trailers(&response));
    }
}
