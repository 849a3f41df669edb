//! Passes the bytes of a client's streams in pieces of any size: the events are the same.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod client;

use client::{DescribedServer, GET, POST, client_stream, control, data, frame, headers, request};
use proptest::prelude::*;
use sluicegate_http3::frame::FrameKind;
use sluicegate_http3::{StreamEnd, StreamId};

/// The end of a stream as QUIC reports it.
#[derive(Clone, Copy, Debug)]
enum ReportedEnd {
    /// It does not end.
    Never,
    /// With the last byte, so that a head is known to have no body.
    WithLast,
    /// Behind it.
    Behind,
}

/// Returns the events that these bytes of a stream cause in pieces of these sizes.
fn events(stream: StreamId, bytes: &[u8], sizes: &[usize], end: ReportedEnd) -> Vec<String> {
    let mut server = DescribedServer::new();
    server.open(stream);
    let mut rest = bytes;
    let mut sizes = sizes.iter().cycle();
    while let Some(size) = sizes.next().filter(|_| !rest.is_empty()) {
        let piece = rest.split_off(..(*size).min(rest.len())).unwrap();
        let last = match end {
            ReportedEnd::WithLast if rest.is_empty() => StreamEnd::Here,
            _ => StreamEnd::NotYet,
        };
        server.pass(stream, piece, last);
    }
    if let ReportedEnd::Behind = end {
        server.pass(stream, &[], StreamEnd::Here);
    }
    let actions = server.actions();
    let actions = actions.iter().map(|action| format!("{action:?}"));
    server.events.extend(actions);
    server.events
}

/// Returns frames, most of them right.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop::collection::vec(any::<u8>(), 0..80);
    let one = prop_oneof![
        4 => Just(headers(GET)),
        4 => Just(headers(POST)),
        2 => Just(headers(&[POST, &[("content-length", "3")]].concat())),
        2 => Just(headers(&[("x-t", "1")])),
        6 => payload.clone().prop_map(|bytes| data(&bytes)),
        2 => Just(data(b"abc")),
        2 => payload.clone().prop_map(|bytes| frame(FrameKind(0x21), &bytes)),
        1 => Just(frame(FrameKind(0x40), &[0; 5000])),
        1 => (0_u64..16, payload.clone()).prop_map(|(kind, bytes)| frame(FrameKind(kind), &bytes)),
        1 => payload.prop_map(|bytes| frame(FrameKind::HEADERS, &bytes)),
    ];
    prop::collection::vec(one, 0..8).prop_map(|frames| frames.concat())
}

proptest! {
    /// Goal: no split of a request changes what it is. Method: frames in and out of order, whole or cut, as a whole and in pieces.
    #[test]
    fn requests_are_the_same_in_every_split(
        bytes in frames(),
        cut in 0_usize..400,
        sizes in prop::collection::vec(1_usize..30, 1..6),
        end in prop_oneof![Just(ReportedEnd::Never), Just(ReportedEnd::WithLast), Just(ReportedEnd::Behind)],
    ) {
        let bytes = &bytes[..bytes.len() - cut.saturating_sub(200).min(bytes.len())];
        let whole = events(request(0), bytes, &[bytes.len().max(1)], end);
        prop_assert_eq!(&events(request(0), bytes, &sizes, end), &whole);
        prop_assert_eq!(&events(request(0), bytes, &[1], end), &whole);
    }

    /// Goal: no split of a stream of the client changes what it is. Method: control streams with any frames, and streams of any bytes.
    #[test]
    fn streams_of_the_client_are_the_same_in_every_split(
        bytes in prop_oneof![
            frames().prop_map(|frames| control(&frames)),
            prop::collection::vec((prop_oneof![Just(7_u64), Just(13), Just(0xf_0700), Just(33)], 0_u64..99), 0..9)
                .prop_map(|frames| {
                    let frames = frames.iter().map(|(kind, number)| client::number_frame(FrameKind(*kind), *number));
                    control(&frames.collect::<Vec<_>>().concat())
                }),
            prop::collection::vec(any::<u8>(), 0..80),
            prop::collection::vec(0x20_u8..0x80, 0..80).prop_map(|bytes| [vec![3], bytes].concat()),
        ],
        sizes in prop::collection::vec(1_usize..30, 1..6),
    ) {
        let stream = client_stream(0);
        let end = ReportedEnd::Never;
        let whole = events(stream, &bytes, &[bytes.len().max(1)], end);
        prop_assert_eq!(&events(stream, &bytes, &sizes, end), &whole);
        prop_assert_eq!(&events(stream, &bytes, &[1], end), &whole);
    }
}
