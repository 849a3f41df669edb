//! Breaks each rule of a connection by hand, and checks the error code and its scope.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod client;

use std::time::Duration;

use client::{
    END_HEADERS, END_STREAM, GET, LIMITS, PADDED, POST, PRIORITY, WHOLE, block, cancel, connection,
    data, frame, get, headers, post, receive, settings, take_frames, window,
};
use sluicegate_http2::frame::{FrameKind, PREFACE};
use sluicegate_http2::{ErrorCode, ServerConnection, StreamEnd, StreamId};

/// Goal: each violation that ends the connection has the code of RFC 9113. Method: frames on the wrong side of each rule; the last event,
/// and GOAWAY.
#[test]
fn a_connection_ends_with_the_code_of_its_rule() {
    let long = "x".repeat(5000);
    let huge = headers(1, WHOLE, &format!("{GET}\nx-a:{}", long.repeat(4)));
    let in_two = [
        frame(FrameKind::HEADERS, 0, 1, &block(GET)),
        frame(FrameKind::CONTINUATION, 0, 1, &[0; 9000]),
    ];
    for (bytes, violation, code) in [
        (
            frame(FrameKind::DATA, 0, 1, &[0; 16_385]),
            "FrameSize",
            "FRAME_SIZE_ERROR",
        ),
        (
            frame(FrameKind::from_number(0x77), 0, 1, &[0; 16_385]),
            "FrameSize",
            "FRAME_SIZE_ERROR",
        ),
        (data(0, 0, b"a"), "StreamOfFrame", "PROTOCOL_ERROR"),
        (data(1, 0, b"a"), "IdleStream", "PROTOCOL_ERROR"),
        (
            [get(3), data(2, 0, b"a")].concat(),
            "IdleStream",
            "PROTOCOL_ERROR",
        ),
        (
            [get(3), window(2, 1)].concat(),
            "IdleStream",
            "PROTOCOL_ERROR",
        ),
        ([get(3), cancel(2)].concat(), "IdleStream", "PROTOCOL_ERROR"),
        (
            [post(1), data(1, PADDED, &[])].concat(),
            "PayloadSize",
            "FRAME_SIZE_ERROR",
        ),
        (
            [post(1), data(1, PADDED, &[1])].concat(),
            "Padding",
            "PROTOCOL_ERROR",
        ),
        (
            [post(1), data(1, PADDED, &[3, 0, 0])].concat(),
            "Padding",
            "PROTOCOL_ERROR",
        ),
        (headers(0, WHOLE, GET), "StreamOfFrame", "PROTOCOL_ERROR"),
        (headers(2, WHOLE, GET), "StreamNumber", "PROTOCOL_ERROR"),
        ([get(5), get(3)].concat(), "StreamNumber", "PROTOCOL_ERROR"),
        (
            frame(FrameKind::HEADERS, WHOLE | PADDED, 1, &[9, 0]),
            "Padding",
            "PROTOCOL_ERROR",
        ),
        (
            frame(FrameKind::HEADERS, WHOLE | PRIORITY, 1, &[0; 4]),
            "PayloadSize",
            "FRAME_SIZE_ERROR",
        ),
        (
            frame(FrameKind::HEADERS, WHOLE, 1, &[0x80]),
            "Compression",
            "COMPRESSION_ERROR",
        ),
        (
            frame(FrameKind::HEADERS, WHOLE, 1, &[0x3f, 0xe2, 0x1f]),
            "Compression",
            "COMPRESSION_ERROR",
        ),
        (
            [post(1), frame(FrameKind::HEADERS, WHOLE, 1, &[0xbf])].concat(),
            "Compression",
            "COMPRESSION_ERROR",
        ),
        (huge, "FrameSize", "FRAME_SIZE_ERROR"),
        (in_two.concat(), "FieldBlockSize", "ENHANCE_YOUR_CALM"),
        (
            frame(FrameKind::CONTINUATION, END_HEADERS, 1, &[]),
            "Continuation",
            "PROTOCOL_ERROR",
        ),
        (
            [headers(1, 0, GET), get(3)].concat(),
            "Continuation",
            "PROTOCOL_ERROR",
        ),
        (
            [
                headers(1, 0, GET),
                frame(FrameKind::CONTINUATION, 4, 3, &[]),
            ]
            .concat(),
            "Continuation",
            "PROTOCOL_ERROR",
        ),
        (
            [
                headers(1, 0, GET),
                frame(FrameKind::from_number(0x77), 0, 1, &[]),
            ]
            .concat(),
            "Continuation",
            "PROTOCOL_ERROR",
        ),
        (
            frame(FrameKind::PRIORITY, 0, 0, &[0; 5]),
            "StreamOfFrame",
            "PROTOCOL_ERROR",
        ),
        (
            frame(FrameKind::PRIORITY, 0, 1, &[0; 4]),
            "PayloadSize",
            "FRAME_SIZE_ERROR",
        ),
        (
            frame(FrameKind::PRIORITY, 0, 1, &[0, 0, 0, 1, 0]),
            "SelfDependency",
            "PROTOCOL_ERROR",
        ),
        (
            [get(1), cancel(1), frame(FrameKind::PRIORITY, 0, 1, &[0; 4])].concat(),
            "PayloadSize",
            "FRAME_SIZE_ERROR",
        ),
        (cancel(0), "StreamOfFrame", "PROTOCOL_ERROR"),
        (cancel(1), "IdleStream", "PROTOCOL_ERROR"),
        (
            frame(FrameKind::RST_STREAM, 0, 1, &[0; 3]),
            "PayloadSize",
            "FRAME_SIZE_ERROR",
        ),
        (
            frame(FrameKind::SETTINGS, 0, 1, &[]),
            "StreamOfFrame",
            "PROTOCOL_ERROR",
        ),
        (
            frame(FrameKind::SETTINGS, 1, 0, &[0; 6]),
            "PayloadSize",
            "FRAME_SIZE_ERROR",
        ),
        (
            frame(FrameKind::SETTINGS, 0, 0, &[0; 5]),
            "PayloadSize",
            "FRAME_SIZE_ERROR",
        ),
        (settings(&[(2, 2)]), "SettingValue", "PROTOCOL_ERROR"),
        (
            settings(&[(4, 1 << 31)]),
            "WindowSetting",
            "FLOW_CONTROL_ERROR",
        ),
        (settings(&[(5, 16_383)]), "SettingValue", "PROTOCOL_ERROR"),
        (settings(&[(5, 1 << 24)]), "SettingValue", "PROTOCOL_ERROR"),
        (settings(&[(8, 2)]), "SettingValue", "PROTOCOL_ERROR"),
        (settings(&[(9, 1)]), "SettingValue", "PROTOCOL_ERROR"),
        (
            [get(1), window(1, 0x7fff_0000), settings(&[(4, 65_536)])].concat(),
            "WindowOverflow",
            "FLOW_CONTROL_ERROR",
        ),
        (
            frame(FrameKind::PUSH_PROMISE, 4, 1, &[0; 4]),
            "PushPromise",
            "PROTOCOL_ERROR",
        ),
        (
            frame(FrameKind::PING, 0, 1, &[0; 8]),
            "StreamOfFrame",
            "PROTOCOL_ERROR",
        ),
        (
            frame(FrameKind::PING, 0, 0, &[0; 9]),
            "PayloadSize",
            "FRAME_SIZE_ERROR",
        ),
        (
            frame(FrameKind::GOAWAY, 0, 1, &[0; 8]),
            "StreamOfFrame",
            "PROTOCOL_ERROR",
        ),
        (window(0, 0), "WindowIncrement", "PROTOCOL_ERROR"),
        (
            window(0, 0x7fff_ffff),
            "WindowOverflow",
            "FLOW_CONTROL_ERROR",
        ),
        (window(1, 1), "IdleStream", "PROTOCOL_ERROR"),
        (
            frame(FrameKind::WINDOW_UPDATE, 0, 0, &[0; 5]),
            "PayloadSize",
            "FRAME_SIZE_ERROR",
        ),
        (
            frame(FrameKind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 0]),
            "PriorityUpdate",
            "PROTOCOL_ERROR",
        ),
        (
            [get(1), cancel(1), data(1, 0, b"a")].concat(),
            "ClosedStream",
            "STREAM_CLOSED",
        ),
        (
            [get(1), cancel(1), get(1)].concat(),
            "ClosedStream",
            "STREAM_CLOSED",
        ),
    ] {
        let mut connection = connection(LIMITS);
        let events = receive(&mut connection, &bytes);
        let last = events.lines().last().unwrap_or_default();
        let shown = &bytes[..bytes.len().min(40)];
        assert_eq!(last, format!("closed {violation}"), "{shown:?}");
        let frames = take_frames(&mut connection);
        let last = frames.lines().last().unwrap_or_default();
        assert!(
            last.starts_with("goaway ") && last.ends_with(code),
            "{frames} {shown:?}"
        );
        assert!(connection.is_closed() && !connection.wants_input());
        assert_eq!(receive(&mut connection, &get(99)), "");
    }
}

/// Goal: a stream ends alone where RFC 9113 says so. Method: frames on the wrong side of each rule, behind an answer that has begun; the
/// event, the frame, and a request that is served afterwards.
#[test]
fn a_stream_ends_with_the_code_of_its_rule() {
    for (bytes, violation, code) in [
        (window(1, 0), "WindowIncrement", "PROTOCOL_ERROR"),
        (
            window(1, 0x7fff_ffff),
            "WindowOverflow",
            "FLOW_CONTROL_ERROR",
        ),
        (
            frame(FrameKind::PRIORITY, 0, 1, &[0; 6]),
            "PayloadSize",
            "FRAME_SIZE_ERROR",
        ),
        (
            frame(FrameKind::PRIORITY, 0, 1, &[0, 0, 0, 1, 0]),
            "SelfDependency",
            "PROTOCOL_ERROR",
        ),
        (
            headers(1, END_HEADERS, "x-a:b"),
            "Trailers",
            "PROTOCOL_ERROR",
        ),
        (
            headers(1, WHOLE, ":path:/"),
            "PseudoField",
            "PROTOCOL_ERROR",
        ),
        (headers(1, WHOLE, "X:a"), "FieldName", "PROTOCOL_ERROR"),
        (headers(1, WHOLE, "x-a:b"), "BodyLength", "PROTOCOL_ERROR"),
        (data(1, END_STREAM, b"abcd"), "BodyLength", "PROTOCOL_ERROR"),
        (data(1, 0, b"abcdef"), "BodyLength", "PROTOCOL_ERROR"),
        (
            [data(1, END_STREAM, b"abcde"), data(1, 0, b"a")].concat(),
            "ClosedStream",
            "STREAM_CLOSED",
        ),
        (
            [data(1, END_STREAM, b"abcde"), headers(1, WHOLE, "x-a:b")].concat(),
            "ClosedStream",
            "STREAM_CLOSED",
        ),
    ] {
        let mut connection = connection(LIMITS);
        let head = headers(1, END_HEADERS, &format!("{POST}\ncontent-length:5"));
        receive(&mut connection, &head);
        let stream = StreamId::new(1);
        connection
            .send_head(stream, 200, [], StreamEnd::NotYet)
            .unwrap();
        take_frames(&mut connection);
        let events = receive(&mut connection, &bytes);
        let last = events.lines().last().unwrap_or_default();
        assert_eq!(
            last,
            format!("reset 1 {code} Some({violation})"),
            "{bytes:?}"
        );
        assert_eq!(take_frames(&mut connection), format!("reset 1 {code}"));
        // What is still under way is ignored.
        let late = [
            data(1, 0, b"late"),
            window(1, 1),
            cancel(1),
            headers(1, WHOLE, "x-a:b"),
        ];
        assert_eq!(receive(&mut connection, &late.concat()), "");
        assert!(receive(&mut connection, &get(3)).starts_with("request 3 GET"));
    }
}

/// Goal: a window that is exceeded ends its stream, or the connection. Method: bodies of more than each window allows.
#[test]
fn data_beyond_a_window_is_rejected() {
    let mut limits = LIMITS;
    limits.stream_window = 70_000;
    limits.connection_window = 100_000;
    let mut connection = connection(limits);
    receive(&mut connection, &post(1));
    receive(&mut connection, &frame(FrameKind::SETTINGS, 1, 0, &[]));
    for _ in 0..4 {
        receive(&mut connection, &data(1, 0, &[0; 16_384]));
    }
    let events = receive(&mut connection, &data(1, 0, &[0; 5000]));
    assert_eq!(events, "reset 1 FLOW_CONTROL_ERROR Some(WindowExceeded)");
    // The windows of the connection and of a new stream are open again.
    assert_eq!(
        take_frames(&mut connection),
        "window 0 70536\nreset 1 FLOW_CONTROL_ERROR"
    );
    receive(&mut connection, &[post(3), post(5)].concat());
    for stream in [3, 3, 3, 3, 5] {
        receive(&mut connection, &data(stream, 0, &[0; 16_384]));
    }
    let events = receive(
        &mut connection,
        &[data(5, 0, &[0; 16_384]), data(5, 0, &[0; 2000])].concat(),
    );
    assert!(events.ends_with("closed WindowExceeded"), "{events}");
}

/// Goal: a malformed request can be answered, and its stream is reset behind the answer. Method: one of each kind; 400 and 431.
#[test]
fn malformed_requests_are_answered_before_they_are_reset() {
    let long = format!("{GET}\nx-a:{}", "x".repeat(5000));
    for (bytes, violation, expected) in [
        (
            headers(1, WHOLE, "x-a:b"),
            "Method",
            "reset 1 PROTOCOL_ERROR",
        ),
        (
            headers(1, WHOLE, &format!("{GET}\nX:b")),
            "FieldName",
            "reset 1 PROTOCOL_ERROR",
        ),
        (
            headers(1, WHOLE, &format!("{GET}\ncontent-length:1")),
            "BodyLength",
            "reset 1 PROTOCOL_ERROR",
        ),
        (headers(1, WHOLE, &long), "FieldListSize", ""),
        (
            headers(1, END_HEADERS, &long),
            "FieldListSize",
            "reset 1 NO_ERROR",
        ),
        (
            frame(
                FrameKind::HEADERS,
                WHOLE | PRIORITY,
                1,
                &[&[0, 0, 0, 1, 0], &block(GET)[..]].concat(),
            ),
            "SelfDependency",
            "reset 1 PROTOCOL_ERROR",
        ),
    ] {
        let mut connection = connection(LIMITS);
        assert_eq!(
            receive(&mut connection, &bytes),
            format!("malformed 1 {violation}")
        );
        assert_eq!(take_frames(&mut connection), "");
        let stream = StreamId::new(1);
        connection
            .send_head(stream, 400, [], StreamEnd::Here)
            .unwrap();
        let frames = take_frames(&mut connection);
        assert_eq!(
            frames,
            format!("headers 1 :status: 400 5\n{expected}").trim_end()
        );
        assert_eq!(connection.open_streams(), 0);
        assert!(
            connection
                .send_head(stream, 400, [], StreamEnd::Here)
                .is_err()
        );
    }
}

/// Goal: a malformed field is malformed each time, though it is checked once. Method: one that gets an entry of the table, and references.
#[test]
fn references_to_malformed_fields_are_malformed() {
    let mut connection = connection(LIMITS);
    let entry = [&block(GET)[..], &[0x40, 1, b'X', 1, b'b']].concat();
    let events = receive(
        &mut connection,
        &frame(FrameKind::HEADERS, WHOLE, 1, &entry),
    );
    assert_eq!(events, "malformed 1 FieldName");
    for stream in [3, 5] {
        let again = [&block(GET)[..], &[0xbe]].concat();
        let events = receive(
            &mut connection,
            &frame(FrameKind::HEADERS, WHOLE, stream, &again),
        );
        assert_eq!(events, format!("malformed {stream} FieldName"));
    }
    receive(&mut connection, &post(7));
    let trailers = frame(FrameKind::HEADERS, WHOLE, 7, &[0xbe]);
    assert_eq!(receive(&mut connection, &trailers), "malformed 7 FieldName");
}

/// Goal: a connection begins with preface and SETTINGS. Method: other beginnings.
#[test]
fn a_connection_begins_with_its_preface() {
    for (bytes, violation) in [
        (b"GET / HTTP/1.1\r\n".to_vec(), "Preface"),
        (b"PRI * HTTP/2.0\r\n\r\nSX".to_vec(), "Preface"),
        ([&PREFACE[..], &get(1)].concat(), "FirstFrame"),
        ([&PREFACE[..], b"HTTP/1.1 400"].concat(), "FirstFrame"),
        (
            [&PREFACE[..], &frame(FrameKind::SETTINGS, 1, 0, &[])].concat(),
            "FirstFrame",
        ),
    ] {
        let mut connection = ServerConnection::new(LIMITS, Duration::ZERO);
        let events = receive(&mut connection, &bytes);
        assert_eq!(events, format!("closed {violation}"));
        let frames = take_frames(&mut connection);
        assert!(frames.ends_with(&format!("goaway 0 {}", ErrorCode::PROTOCOL_ERROR)));
    }
}
