//! Sends what makes work and asks for nothing, and checks that the connection ends with `ENHANCE_YOUR_CALM` where a bound is.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod client;

use std::time::Duration;

use client::{
    END_HEADERS, GET, LIMITS, WHOLE, cancel, connection, data, frame, get, headers, post, receive,
    receive_at, settings, take_frames, window,
};
use sluicegate_http2::frame::FrameKind;
use sluicegate_http2::hpack::write_field;
use sluicegate_http2::{ServerConnection, StreamEnd, StreamId};

/// Repeats bytes until the connection ends. Returns how often they were sent before that, and why it ended.
fn flood(connection: &mut ServerConnection, bytes: &[u8]) -> (usize, String) {
    for sent in 0..20_000 {
        let events = receive(connection, bytes);
        if let Some(violation) = events
            .lines()
            .last()
            .and_then(|line| line.strip_prefix("closed "))
        {
            let frames = take_frames(connection);
            assert!(frames.ends_with("ENHANCE_YOUR_CALM"), "{frames}");
            return (sent, violation.to_owned());
        }
        let waiting = connection.output().len();
        connection.advance_output(waiting);
    }
    panic!("no end");
}

/// Goal: each kind of frame that asks for nothing has a bound. Method: floods of each, behind one request.
#[test]
fn frames_that_ask_for_nothing_end_the_connection() {
    for bytes in [
        frame(FrameKind::PING, 0, 0, &[0; 8]),
        frame(FrameKind::PING, 1, 0, &[0; 8]),
        settings(&[(4, 70_000)]),
        frame(FrameKind::SETTINGS, 1, 0, &[]),
        frame(FrameKind::PRIORITY, 0, 1, &[0; 5]),
        frame(FrameKind::PRIORITY, 0, 99, &[0; 5]),
        window(1, 1),
        window(0, 1),
        data(1, 0, &[]),
        data(1, 0x08, &[2, 0, 0]),
        frame(FrameKind::GOAWAY, 0, 0, &[0; 8]),
        frame(FrameKind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 9]),
        frame(FrameKind::from_number(0x77), 0, 0, &[]),
    ] {
        let mut connection = connection(LIMITS);
        receive(&mut connection, &post(1));
        let ended = flood(&mut connection, &bytes);
        // The preface took one, the request took one and refilled the bucket.
        assert_eq!(ended, (1000, "ControlFlood".to_owned()), "{bytes:?}");
    }
    // Within a block of fields nothing else may come.
    let mut connection = connection(LIMITS);
    receive(&mut connection, &headers(1, 0, GET));
    let ended = flood(&mut connection, &frame(FrameKind::CONTINUATION, 0, 1, &[]));
    assert_eq!(ended, (998, "ControlFlood".to_owned()));
}

/// Goal: streams beyond the bound are refused, and a client that goes on is cut off. Method: requests that are not answered, before and
/// after the client has acknowledged the bound.
#[test]
fn streams_beyond_the_bound_are_refused() {
    for acknowledged in [false, true] {
        let mut connection = connection(LIMITS);
        if acknowledged {
            receive(&mut connection, &frame(FrameKind::SETTINGS, 1, 0, &[]));
        }
        for stream in 0..8 {
            receive(&mut connection, &get(2 * stream + 1));
        }
        assert_eq!(receive(&mut connection, &get(17)), "");
        assert_eq!(take_frames(&mut connection), "reset 17 REFUSED_STREAM");
        let mut refused = 1;
        let ended = loop {
            let events = receive(&mut connection, &get(17 + 2 * refused));
            take_frames(&mut connection);
            if !events.is_empty() {
                break events;
            }
            refused += 1;
        };
        let (most, violation) = match acknowledged {
            true => (10, "closed ResetFlood"),
            false => (1000, "closed ControlFlood"),
        };
        assert_eq!((refused, ended.as_str()), (most, violation));
    }
}

/// Goal: a client that cancels most of its requests before they are answered is cut off, and one that cancels some is not. Method: requests
/// and resets, with answers to each other one in one of two runs.
#[test]
fn a_rapid_reset_ends_the_connection() {
    let mut connection = connection(LIMITS);
    let mut stream = 1;
    for round in 0..200 {
        receive(&mut connection, &get(stream));
        let id = StreamId::new(stream);
        if round % 2 == 0 {
            connection
                .send_head(id, 200, [], StreamEnd::NotYet)
                .unwrap();
        }
        let events = receive(&mut connection, &cancel(stream));
        assert_eq!(events, format!("reset {stream} CANCEL None"));
        take_frames(&mut connection);
        stream += 2;
    }
    let mut connection = client::connection(LIMITS);
    for round in 1..20 {
        let events = receive(
            &mut connection,
            &[get(2 * round - 1), cancel(2 * round - 1)].concat(),
        );
        assert!(events.ends_with("CANCEL None"), "{events}");
    }
    let events = receive(&mut connection, &[get(39), cancel(39)].concat());
    assert!(events.ends_with("closed CancelFlood"), "{events}");
    assert_eq!(take_frames(&mut connection), "goaway 39 ENHANCE_YOUR_CALM");
}

/// Goal: a client that makes the server reset its streams is cut off, CVE-2025-8671. Method: the five forms, each on stream after stream.
#[test]
fn streams_that_have_to_be_reset_end_the_connection() {
    type Form = fn(u32) -> Vec<u8>;
    let forms: [Form; 7] = [
        |stream| [get(stream), window(stream, 0)].concat(),
        |stream| [get(stream), window(stream, 0x7fff_ffff)].concat(),
        |stream| [get(stream), data(stream, 0, b"a")].concat(),
        |stream| [get(stream), headers(stream, WHOLE, "x-a:b")].concat(),
        |stream| [get(stream), frame(FrameKind::PRIORITY, 0, stream, &[0; 3])].concat(),
        |stream| {
            let head = headers(stream, END_HEADERS, &format!("{GET}\ncontent-length:1"));
            [head, data(stream, 0, b"ab")].concat()
        },
        |stream| headers(stream, WHOLE, &format!("{GET}\nX:a")),
    ];
    for (index, form) in forms.iter().enumerate() {
        let mut connection = connection(LIMITS);
        for round in 0..10 {
            let events = receive(&mut connection, &form(2 * round + 1));
            assert!(!events.contains("closed"), "form {index}: {events}");
            let malformed = events
                .lines()
                .last()
                .and_then(|line| line.strip_prefix("malformed "));
            if malformed.is_some() {
                let stream = StreamId::new(2 * round + 1);
                connection
                    .send_head(stream, 400, [], StreamEnd::Here)
                    .unwrap();
            }
        }
        let events = receive(&mut connection, &form(21));
        assert!(
            events.ends_with("closed ResetFlood"),
            "form {index}: {events}"
        );
    }
}

/// Goal: a client that takes answers byte by byte is cut off, and one that takes them in pieces of some size is not. Method: windows that
/// open by so many bytes, each followed by DATA.
#[test]
fn windows_that_open_by_bytes_end_the_connection() {
    for (step, most) in [(1, 1100), (300, 5000)] {
        let mut connection = connection(LIMITS);
        receive(&mut connection, &settings(&[(4, 0)]));
        receive(&mut connection, &[window(0, 2_000_000), get(1)].concat());
        let stream = StreamId::new(1);
        connection
            .send_head(stream, 200, [], StreamEnd::NotYet)
            .unwrap();
        let body = vec![0; 2_000_000];
        let mut sent = connection
            .send_data(stream, &body, StreamEnd::Here)
            .unwrap();
        assert_eq!(sent, 0);
        for round in 0..5000 {
            let events = receive(&mut connection, &window(1, step));
            if !events.is_empty() {
                assert_eq!(events, "closed ControlFlood");
                assert!(round < most && step == 1, "{round}");
                break;
            }
            assert!(round < most);
            assert_eq!(connection.next_ready(), Some(stream));
            let taken = connection.send_data(stream, &body[sent..], StreamEnd::Here);
            assert_eq!(taken, Ok(step as usize));
            sent += step as usize;
            take_frames(&mut connection);
        }
    }
}

/// Goal: time refills what was used, by the rate and no further. Method: PINGs at two times.
#[test]
fn time_refills_the_bucket() {
    let ping = frame(FrameKind::PING, 0, 0, &[0; 8]);
    let mut connection = connection(LIMITS);
    assert_eq!(receive(&mut connection, &ping.repeat(999)), "");
    let now = Duration::from_millis(500);
    assert_eq!(receive_at(&mut connection, &ping.repeat(50), now), "");
    // A time that goes back refills nothing.
    let events = receive_at(&mut connection, &ping, Duration::ZERO);
    assert_eq!(events, "closed ControlFlood");
}

/// Goal: a short block that stands for a long list ends the connection, before it has taken much memory. Method: a long entry, and many
/// references to it.
#[test]
fn a_bomb_of_references_ends_the_connection() {
    let mut connection = connection(LIMITS);
    let mut block = client::block(GET);
    block.push(0x40);
    block.extend([3, b'x', b'-', b'a', 0x7f, 0x81, 0x0b]);
    block.extend([b'v'; 1536]);
    let mut bytes = frame(FrameKind::HEADERS, WHOLE, 1, &block);
    assert!(receive(&mut connection, &bytes).starts_with("request 1 GET"));
    bytes = frame(FrameKind::HEADERS, WHOLE, 3, &[0xbe; 5]);
    assert_eq!(
        receive(&mut connection, &bytes),
        "malformed 3 FieldListSize"
    );
    let mut block = Vec::new();
    write_field(b"x-b", b"c", &mut block);
    block.extend([0xbe; 12]);
    bytes = frame(FrameKind::HEADERS, WHOLE, 5, &block);
    assert_eq!(receive(&mut connection, &bytes), "closed FieldBlockSize");
}
