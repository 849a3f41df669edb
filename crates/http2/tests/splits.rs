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

use client::{
    END_HEADERS, GET, LIMITS, PADDED, POST, PRIORITY, WHOLE, block, cancel, data, describe, frame,
    headers, settings, window,
};
use proptest::prelude::*;
use sluicegate_http2::frame::{FrameHead, FrameKind, PREFACE};
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
                    self.add_data(&format!("data {stream} "), data, end);
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

    /// Adds DATA to that which came before it.
    fn add_data(&mut self, prefix: &str, data: &[u8], end: StreamEnd) {
        let text = data.escape_ascii().to_string();
        let is_same = |last: &&mut String| last.starts_with(prefix) && !last.ends_with("Here");
        match self.events.last_mut().filter(is_same) {
            Some(last) => *last += &text,
            None => self.events.push(format!("{prefix}{text}")),
        }
        if end.is_here()
            && let Some(last) = self.events.last_mut()
        {
            *last += " Here";
        }
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
    let mut rest = bytes;
    for size in sizes.iter().cycle() {
        let (piece, behind) = rest.split_at((*size).min(rest.len()));
        server.receive(piece);
        rest = behind;
        if rest.is_empty() {
            break;
        }
    }
    let mut output = server.output;
    output.extend_from_slice(server.connection.output());
    (server.events, output)
}

/// The stream of some frames.
#[derive(Clone, Copy, Debug)]
enum StreamChoice {
    Next,
    /// So many before the next.
    Earlier(u32),
    AsItIs,
}

/// Returns frames of a client, most of which are right, and their stream.
fn frames() -> impl Strategy<Value = (Vec<u8>, StreamChoice)> {
    use StreamChoice::{AsItIs, Earlier, Next};
    let lines = || {
        prop_oneof![
            4 => Just(GET.to_owned()),
            2 => Just(format!("{POST}\ncontent-length:7")),
            1 => Just(format!("{GET}\npriority:u=1, i\ncookie:a=b")),
            1 => Just(format!("{GET}\nX:a")),
            1 => Just(format!("{GET}\nx-a:{}", "v".repeat(5000))),
        ]
    };
    let flags = || prop_oneof![2 => Just(WHOLE), 3 => Just(END_HEADERS)];
    let earlier = || (1_u32..4).prop_map(Earlier);
    let opaque = || prop::collection::vec(any::<u8>(), 0..8);
    prop_oneof![
        8 => (flags(), lines()).prop_map(|(flags, lines)| (headers(1, flags, &lines), Next)),
        4 => (flags(), lines(), 1_usize..30).prop_map(|(flags, lines, at)| {
            let block = block(&lines);
            let (first, second) = block.split_at(at.min(block.len()));
            let begun = frame(FrameKind::HEADERS, flags & !END_HEADERS, 1, first);
            let rest = frame(FrameKind::CONTINUATION, END_HEADERS, 1, second);
            ([begun, rest].concat(), Next)
        }),
        2 => flags().prop_map(|flags| {
            let payload = [&[1, 0, 0, 0, 0, 9][..], &block(GET), &[0]].concat();
            (frame(FrameKind::HEADERS, flags | PADDED | PRIORITY, 1, &payload), Next)
        }),
        2 => (flags(), earlier()).prop_map(|(flags, earlier)| (headers(1, flags, "x-trailer:a"), earlier)),
        6 => (0_u8..2, prop_oneof![Just(vec![b'7'; 7]), opaque()], earlier())
            .prop_map(|(flags, bytes, earlier)| (data(1, flags, &bytes), earlier)),
        4 => (0_u8..2, 0_u8..9, 0_usize..300, earlier()).prop_map(|(flags, padding, bytes, earlier)| {
            let payload = [&[padding][..], &vec![b'd'; bytes + 9]].concat();
            (data(1, flags | PADDED, &payload), earlier)
        }),
        2 => earlier().prop_map(|earlier| (cancel(1), earlier)),
        2 => (1_u32..30, earlier()).prop_map(|(more, earlier)| (window(1, more), earlier)),
        1 => (0_u32..3, earlier()).prop_map(|(more, earlier)| (window(1, more), earlier)),
        2 => (1_u32..1 << 20).prop_map(|more| (window(0, more), AsItIs)),
        2 => (0_u32..100).prop_map(|value| (settings(&[(4, value), (1, value)]), AsItIs)),
        2 => Just((frame(FrameKind::PING, 0, 0, b"opaque!!"), AsItIs)),
        1 => (10_u8..20, any::<u8>(), opaque())
            .prop_map(|(kind, flags, bytes)| (frame(FrameKind::from_number(kind), flags, 1, &bytes), AsItIs)),
    ]
}

/// Returns any frame, which is mostly wrong.
fn wrong_frame() -> impl Strategy<Value = Vec<u8>> {
    let opaque = prop::collection::vec(any::<u8>(), 0..12);
    (0_u8..20, any::<u8>(), 0_u32..12, opaque).prop_map(|(kind, flags, stream, bytes)| {
        frame(FrameKind::from_number(kind), flags, stream, &bytes)
    })
}

/// Returns the frames with the numbers of their streams.
fn number_streams(frames: Vec<(Vec<u8>, StreamChoice)>) -> Vec<u8> {
    let mut next = 1_u32;
    let mut bytes = Vec::new();
    for (frames, choice) in frames {
        let stream = match choice {
            StreamChoice::Next => {
                next += 2;
                next - 2
            }
            StreamChoice::Earlier(back) => next.saturating_sub(2 * back).max(1),
            StreamChoice::AsItIs => 0,
        };
        let mut rest = &frames[..];
        while let Some((head, behind)) = rest.split_first_chunk() {
            let mut head = FrameHead::parse(*head);
            let (payload, behind) = behind.split_at(head.length as usize);
            if stream > 0 {
                head.stream = StreamId::new(stream);
            }
            bytes.extend_from_slice(&head.to_bytes());
            bytes.extend_from_slice(payload);
            rest = behind;
        }
    }
    bytes
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
