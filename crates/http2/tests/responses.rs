//! Breaks each rule of a server by hand, and checks the error code and its scope.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod client;
mod origin;

use client::{
    END_HEADERS, END_STREAM, PADDED, PRIORITY, WHOLE, block, cancel, data, frame, headers,
    settings, window,
};
use origin::{CLIENT_LIMITS, Origin};
use sluicegate_http2::frame::{FrameKind, PREFACE};
use sluicegate_http2::{ClientLimits, ErrorCode, StreamEnd, StreamId};

const OK: &str = ":status:200";

/// Goal: each violation that ends the connection has the code of RFC 9113. Method: frames on the wrong side of each rule, beside one
/// request; the last event, and GOAWAY.
#[test]
fn a_connection_ends_with_the_code_of_its_rule() {
    let goaway = |last: u8| frame(FrameKind::GOAWAY, 0, 0, &[0, 0, 0, last, 0, 0, 0, 0]);
    for (bytes, violation, code) in [
        (
            frame(FrameKind::PUSH_PROMISE, 4, 1, &[0, 0, 0, 2]),
            "PushPromise",
            "PROTOCOL_ERROR",
        ),
        (settings(&[(2, 1)]), "SettingValue", "PROTOCOL_ERROR"),
        (
            frame(FrameKind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 1]),
            "PriorityUpdate",
            "PROTOCOL_ERROR",
        ),
        (
            [goaway(1), goaway(3)].concat(),
            "GoAwayStream",
            "PROTOCOL_ERROR",
        ),
        (headers(3, WHOLE, OK), "IdleStream", "PROTOCOL_ERROR"),
        (headers(2, WHOLE, OK), "IdleStream", "PROTOCOL_ERROR"),
        (data(2, 0, b"a"), "IdleStream", "PROTOCOL_ERROR"),
        (cancel(3), "IdleStream", "PROTOCOL_ERROR"),
        (window(3, 1), "IdleStream", "PROTOCOL_ERROR"),
        (
            [headers(1, WHOLE, OK), headers(1, WHOLE, OK)].concat(),
            "ClosedStream",
            "STREAM_CLOSED",
        ),
        (
            [headers(1, WHOLE, OK), data(1, 0, b"a")].concat(),
            "ClosedStream",
            "STREAM_CLOSED",
        ),
        (
            [cancel(1), headers(1, WHOLE, OK)].concat(),
            "ClosedStream",
            "STREAM_CLOSED",
        ),
        (
            frame(FrameKind::HEADERS, WHOLE, 1, &[0x80]),
            "Compression",
            "COMPRESSION_ERROR",
        ),
        (
            [headers(1, 0, OK), data(1, 0, b"a")].concat(),
            "Continuation",
            "PROTOCOL_ERROR",
        ),
        (
            [
                headers(1, 0, OK),
                frame(FrameKind::CONTINUATION, 0, 1, &[0; 9000]),
            ]
            .concat(),
            "FieldBlockSize",
            "ENHANCE_YOUR_CALM",
        ),
        (
            frame(FrameKind::DATA, 0, 1, &[0; 16_385]),
            "FrameSize",
            "FRAME_SIZE_ERROR",
        ),
        (
            [headers(1, END_HEADERS, OK), data(1, PADDED, &[2, 0])].concat(),
            "Padding",
            "PROTOCOL_ERROR",
        ),
        (
            window(0, 0x7fff_ffff),
            "WindowOverflow",
            "FLOW_CONTROL_ERROR",
        ),
    ] {
        let mut origin = Origin::with_settings(&[]);
        origin.send("GET", StreamEnd::Here);
        let events = origin.receive(&bytes);
        let last = events.lines().last().unwrap_or_default();
        let shown = &bytes[..bytes.len().min(40)];
        assert_eq!(last, format!("closed {violation}"), "{shown:?}");
        let frames = origin.take_frames();
        assert!(
            frames.ends_with(&format!("goaway 0 {code}")),
            "{frames} {shown:?}"
        );
        assert!(origin.connection.is_closed() && origin.connection.is_going_away());
        assert_eq!(origin.receive(&headers(1, WHOLE, OK)), "");
    }
}

/// Goal: a server that speaks another protocol is found out by its first bytes. Method: an answer of HTTP/1, a preface, other frames.
#[test]
fn a_server_begins_with_its_settings() {
    for bytes in [
        &b"HTTP/1.1 400 Bad Request\r\n"[..],
        PREFACE,
        &headers(1, WHOLE, OK),
        &frame(FrameKind::SETTINGS, 1, 0, &[]),
    ] {
        let mut origin = Origin::new(CLIENT_LIMITS);
        assert_eq!(origin.receive(bytes), "closed FirstFrame");
        assert!(origin.take_frames().ends_with("goaway 0 PROTOCOL_ERROR"));
    }
}

/// Goal: a malformed response ends its stream alone. Method: heads, bodies and trailers on the wrong side of each rule of RFC 9113 §8; the
/// last event, RST_STREAM, and a response on another stream.
#[test]
fn a_stream_ends_with_the_code_of_its_rule() {
    let begun = headers(1, END_HEADERS, &format!("{OK}\ncontent-length:3"));
    let depends = [&[0, 0, 0, 1, 9][..], &block(OK)].concat();
    let long = format!("{OK}\nx-a:{}", "v".repeat(5000));
    for (bytes, violation, code) in [
        (headers(1, WHOLE, "server:a"), "Status", "PROTOCOL_ERROR"),
        (
            headers(1, END_HEADERS, ":status:101"),
            "Status",
            "PROTOCOL_ERROR",
        ),
        (
            headers(1, WHOLE, ":status:100"),
            "InterimEnd",
            "PROTOCOL_ERROR",
        ),
        (
            headers(1, WHOLE, &format!("{OK}\n:path:/")),
            "PseudoField",
            "PROTOCOL_ERROR",
        ),
        (
            headers(1, WHOLE, &format!("{OK}\nupgrade:h2c")),
            "ConnectionField",
            "PROTOCOL_ERROR",
        ),
        (
            headers(1, WHOLE, &format!("{OK}\ncontent-length:3")),
            "BodyLength",
            "PROTOCOL_ERROR",
        ),
        (headers(1, WHOLE, &long), "FieldListSize", "CANCEL"),
        (data(1, 0, b"abc"), "DataBeforeHead", "PROTOCOL_ERROR"),
        (
            [headers(1, END_HEADERS, ":status:103"), data(1, 0, b"abc")].concat(),
            "DataBeforeHead",
            "PROTOCOL_ERROR",
        ),
        (
            [&begun[..], &data(1, 0, b"abcd")].concat(),
            "BodyLength",
            "PROTOCOL_ERROR",
        ),
        (
            [&begun[..], &data(1, END_STREAM, b"ab")].concat(),
            "BodyLength",
            "PROTOCOL_ERROR",
        ),
        (
            [&begun[..], &data(1, 0, b"ab"), &headers(1, WHOLE, "x-t:1")].concat(),
            "BodyLength",
            "PROTOCOL_ERROR",
        ),
        (
            [&begun[..], &headers(1, END_HEADERS, "x-t:1")].concat(),
            "Trailers",
            "PROTOCOL_ERROR",
        ),
        (
            [&begun[..], &data(1, 0, b"abc"), &headers(1, WHOLE, OK)].concat(),
            "PseudoField",
            "PROTOCOL_ERROR",
        ),
        (
            [headers(1, WHOLE, OK), headers(1, WHOLE, "x-t:1")].concat(),
            "ClosedStream",
            "STREAM_CLOSED",
        ),
        (
            [headers(1, WHOLE, OK), data(1, 0, b"abc")].concat(),
            "ClosedStream",
            "STREAM_CLOSED",
        ),
        (
            frame(FrameKind::HEADERS, END_HEADERS | PRIORITY, 1, &depends),
            "SelfDependency",
            "PROTOCOL_ERROR",
        ),
        (window(1, 0), "WindowIncrement", "PROTOCOL_ERROR"),
        (
            window(1, 0x7fff_ffff),
            "WindowOverflow",
            "FLOW_CONTROL_ERROR",
        ),
    ] {
        let mut origin = Origin::with_settings(&[]);
        origin.send("POST", StreamEnd::NotYet);
        origin.send("GET", StreamEnd::Here);
        let shown = &bytes[..bytes.len().min(40)];
        let events = origin.receive(&bytes);
        let last = events.lines().last().unwrap_or_default();
        assert_eq!(
            last,
            format!("reset 1 {code} Some({violation})"),
            "{shown:?}"
        );
        assert_eq!(origin.take_frames(), format!("reset 1 {code}"));
        // What is under way for it is ignored.
        assert_eq!(origin.receive(&data(1, END_STREAM, b"late")), "");
        assert_eq!(
            origin.receive(&headers(3, WHOLE, OK)),
            "response 3 200 Here"
        );
    }
    // HEAD has no content, whatever comes.
    let mut origin = Origin::with_settings(&[]);
    origin.send("HEAD", StreamEnd::Here);
    origin.receive(&headers(1, END_HEADERS, &format!("{OK}\ncontent-length:3")));
    let events = origin.receive(&data(1, 0, b"abc"));
    assert_eq!(events, "reset 1 PROTOCOL_ERROR Some(BodyLength)");
}

/// Goal: DATA fits into the windows. Method: a body of more than a stream's window, and one of more than the connection's.
#[test]
fn data_beyond_a_window_is_rejected() {
    for (stream_window, end) in [
        (70_000, "reset 1 FLOW_CONTROL_ERROR Some(WindowExceeded)"),
        (300_000, "closed WindowExceeded"),
    ] {
        let limits = ClientLimits {
            stream_window,
            ..CLIENT_LIMITS
        };
        let mut origin = Origin::new(limits);
        let acknowledged = [settings(&[]), frame(FrameKind::SETTINGS, 1, 0, &[])];
        origin.receive(&acknowledged.concat());
        origin.send("GET", StreamEnd::Here);
        origin.receive(&headers(1, END_HEADERS, OK));
        let frames = std::iter::repeat_with(|| origin.receive(&data(1, 0, &[b'd'; 16_000])));
        let last = frames.take(20).find(|events| !events.starts_with("data"));
        assert_eq!(last.as_deref(), Some(end));
    }
}

/// Goal: an origin makes no work without end. Method: floods of frames that carry neither a head nor data, of interim heads, of empty DATA
/// on a stream that was reset, of rules that are broken.
#[test]
fn floods_end_the_connection() {
    for (bytes, most) in [
        (frame(FrameKind::PING, 0, 0, &[0; 8]), 1000),
        (settings(&[(4, 70_000)]), 1000),
        (window(0, 1), 1000),
        (window(1, 1), 1000),
        (headers(1, END_HEADERS, ":status:103"), 1000),
        (data(3, END_STREAM, b""), 1000),
        (frame(FrameKind::from_number(0x77), 0, 0, &[]), 1000),
    ] {
        let mut origin = Origin::with_settings(&[]);
        origin.send("GET", StreamEnd::Here);
        origin.send("GET", StreamEnd::Here);
        origin.connection.reset(StreamId::new(3), ErrorCode::CANCEL);
        let sent = (0..2 * most).find(|_| {
            let ended = origin.receive(&bytes) == "closed ControlFlood";
            if !ended {
                origin.take_frames();
            }
            ended
        });
        assert_eq!(sent, Some(most), "{bytes:?}");
        assert!(origin.take_frames().ends_with("goaway 0 ENHANCE_YOUR_CALM"));
    }
    // A body that goes on behind a reset is none: the windows bound it.
    let mut origin = Origin::with_settings(&[]);
    origin.send("GET", StreamEnd::Here);
    origin.connection.reset(StreamId::new(1), ErrorCode::CANCEL);
    for _ in 0..2000 {
        assert_eq!(origin.receive(&data(1, 0, b"late")), "");
    }
    let mut origin = Origin::with_settings(&[]);
    let broken = (0..20).find(|_| {
        let stream = origin.send("GET", StreamEnd::Here).number();
        origin.receive(&headers(stream, WHOLE, "server:a")) == "closed ResetFlood"
    });
    assert_eq!(broken, Some(10));
}
