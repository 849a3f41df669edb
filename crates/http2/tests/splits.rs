//! Passes the bytes of a client in pieces of any size: the events and the output are the same.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod client;

use std::collections::BTreeMap;
use std::mem;
use std::time::Duration;

use client::frames::{frames, number_streams, wrong_frame};
use client::pieces::{add_data, pieces};
use client::{LIMITS, describe, settings};
use proptest::prelude::*;
use sluicegate_http2::frame::PREFACE;
use sluicegate_http2::{ConnectionEvent, ServerConnection, StreamEnd, StreamId};

/// A server that answers each request in the same way, whatever the pieces.
struct ScriptedServer {
    connection: ServerConnection,
    /// The events in words, DATA of one stream in one.
    events: Vec<String>,
    output: Vec<u8>,
    /// By stream: how much a window grows depends on how much is released at once.
    unreleased: BTreeMap<StreamId, usize>,
}

impl ScriptedServer {
    fn new() -> Self {
        Self {
            connection: ServerConnection::new(LIMITS, Duration::ZERO),
            events: Vec::new(),
            output: Vec::new(),
            unreleased: BTreeMap::new(),
        }
    }

    fn receive(&mut self, mut input: &[u8]) {
        while let Some(event) = self.connection.receive(&mut input, Duration::ZERO) {
            let words = describe(&event);
            match event {
                ConnectionEvent::Data { stream, data, end } => {
                    *self.unreleased.entry(stream).or_default() += data.len();
                    add_data(&mut self.events, stream, data, end);
                    continue;
                }
                ConnectionEvent::Request { stream, end, .. } => self.answer(stream, end),
                ConnectionEvent::Trailers { stream, .. } => self.end(stream),
                ConnectionEvent::Malformed { stream, .. } => {
                    let sent = self.connection.send_head(stream, 400, [], StreamEnd::Here);
                    sent.unwrap();
                }
                _ => {}
            }
            self.events.push(words);
        }
        assert!(input.is_empty());
    }

    /// Answers at once, and takes the bodies that came before.
    fn answer(&mut self, stream: StreamId, end: StreamEnd) {
        for (stream, bytes) in mem::take(&mut self.unreleased) {
            self.connection.release(stream, bytes);
        }
        let fields = [(&b"server"[..], &b"scripted"[..]), (b"x-a", b"b")];
        self.connection
            .send_head(stream, 200, fields, StreamEnd::NotYet)
            .unwrap();
        if end.is_here() {
            self.end(stream);
        }
    }

    fn end(&mut self, stream: StreamId) {
        // A part of it waits for windows.
        let _ = self
            .connection
            .send_data(stream, &[b'x'; 30], StreamEnd::Here);
        while let Some(stream) = self.connection.next_ready() {
            let _ = self.connection.send_data(stream, b"yz", StreamEnd::Here);
        }
        let waiting = self.connection.output().len();
        self.output.extend_from_slice(self.connection.output());
        self.connection.advance_output(waiting);
    }
}

/// Returns the events and the output, where the bytes come in pieces of these sizes, again and again.
fn run(bytes: &[u8], sizes: &[usize]) -> (Vec<String>, Vec<u8>) {
    let mut server = ScriptedServer::new();
    for piece in pieces(bytes, sizes) {
        server.receive(piece);
    }
    let mut output = server.output;
    output.extend_from_slice(server.connection.output());
    (server.events, output)
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
        let bytes = [&PREFACE[..], &settings(&[]), &number_streams(frames), &wrong.concat()].concat();
        let whole = run(&bytes, &[usize::MAX]);
        prop_assert_eq!(&run(&bytes, &sizes), &whole);
        prop_assert_eq!(&run(&bytes, &[1]), &whole);
    }

    /// Goal: no bytes make the connection panic. Method: any bytes behind a preface, or in its place.
    #[test]
    fn any_bytes_are_taken(bytes: Vec<u8>, has_preface: bool, sizes in prop::collection::vec(1_usize..9, 1..4)) {
        let begin = match has_preface {
            true => [&PREFACE[..], &settings(&[])].concat(),
            false => Vec::new(),
        };
        let bytes = [begin, bytes].concat();
        prop_assert_eq!(run(&bytes, &sizes), run(&bytes, &[usize::MAX]));
    }
}
