//! Answers requests: heads, bodies in the windows of the client, trailers, priorities, and the end of the connection.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod client;

use std::iter;
use std::time::Duration;

use client::{
    END_HEADERS, END_STREAM, GET, LIMITS, PADDED, WHOLE, cancel, connection, data, frame, get,
    headers, post, preface, receive, settings, take_frames, window,
};
use sluicegate_http2::frame::FrameKind;
use sluicegate_http2::{
    ConnectionLimits, ErrorCode, ExtendedConnect, FieldWriter, ServerConnection, StreamEnd,
    StreamGone, StreamId,
};

const ONE: StreamId = StreamId::new(1);
const THREE: StreamId = StreamId::new(3);
const FIVE: StreamId = StreamId::new(5);

/// Begins an answer with a body.
fn begin(connection: &mut ServerConnection, stream: StreamId) {
    connection
        .send_head(stream, 200, [], StreamEnd::NotYet)
        .unwrap();
    take_frames(connection);
}

/// Goal: a connection begins with the settings of its bounds. Method: the first frames, with WebSocket and without.
#[test]
fn the_first_frames_are_the_settings() {
    let mut limits = LIMITS;
    let first =
        |limits: ConnectionLimits| take_frames(&mut ServerConnection::new(limits, Duration::ZERO));
    let common = "(3, 8), (4, 100000), (6, 4096), (9, 1)";
    assert_eq!(
        first(limits),
        format!("settings [{common}]\nwindow 0 134465")
    );
    limits.extended_connect = ExtendedConnect::Allowed;
    limits.connection_window = 10;
    assert_eq!(first(limits), format!("settings [{common}, (8, 1)]"));
}

/// Goal: an answer has the frames that were sent, and the stream ends with both sides. Method: interim and final heads, DATA, trailers.
#[test]
fn an_answer_is_heads_data_and_trailers() {
    let mut connection = connection(LIMITS);
    receive(&mut connection, &post(1));
    connection.send_head(ONE, 100, [], StreamEnd::Here).unwrap();
    let fields = [(&b"server"[..], &b"s"[..])];
    connection
        .send_head(ONE, 200, fields, StreamEnd::NotYet)
        .unwrap();
    assert_eq!(
        connection.send_head(ONE, 200, fields, StreamEnd::Here),
        Err(StreamGone)
    );
    assert_eq!(connection.send_data(ONE, b"abc", StreamEnd::NotYet), Ok(3));
    let trailers = [(&b"grpc-status"[..], &b"0"[..])];
    connection.send_trailers(ONE, trailers).unwrap();
    assert_eq!(
        connection.send_data(ONE, b"abc", StreamEnd::NotYet),
        Err(StreamGone)
    );
    let frames = "headers 1 :status: 100 4\nheaders 1 :status: 200; server: s 4\ndata 1 abc 0\nheaders 1 grpc-status: 0 5";
    assert_eq!(take_frames(&mut connection), frames);
    assert_eq!(connection.open_streams(), 1);
    assert_eq!(
        receive(&mut connection, &data(1, END_STREAM, b"x")),
        "data 1 x Here"
    );
    assert_eq!(connection.open_streams(), 0);

    receive(&mut connection, &post(3));
    connection
        .send_head(THREE, 204, [], StreamEnd::Here)
        .unwrap();
    connection.abandon(THREE, ErrorCode::CANCEL);
    assert_eq!(
        take_frames(&mut connection),
        "headers 3 :status: 204 5\nreset 3 NO_ERROR"
    );
    receive(&mut connection, &post(5));
    connection.abandon(FIVE, ErrorCode::INTERNAL_ERROR);
    assert_eq!(take_frames(&mut connection), "reset 5 INTERNAL_ERROR");
}

/// Goal: fields that the caller writes one by one are a head, also behind a change of the table. Method: an answer behind settings.
#[test]
fn fields_are_written_one_by_one() {
    let mut connection = connection(LIMITS);
    receive(&mut connection, &[settings(&[(1, 100)]), get(1)].concat());
    let write = |into: &mut FieldWriter<'_>| {
        into.write(b"content-type", b"text/plain");
        into.write(b"retry-after", b"7");
    };
    connection
        .send_written_head(ONE, 429, write, StreamEnd::Here)
        .unwrap();
    let frames = "settings ack\nheaders 1 :status: 429; content-type: text/plain; retry-after: 7 5";
    assert_eq!(take_frames(&mut connection), frames);
}

/// Goal: a head that is longer than a frame continues. Method: fields of 40,000 bytes.
#[test]
fn a_long_head_continues_in_further_frames() {
    let mut connection = connection(LIMITS);
    receive(&mut connection, &get(1));
    let value = vec![0xff; 40_000];
    let fields = [(&b"x-a"[..], &value[..])];
    connection
        .send_head(ONE, 200, fields, StreamEnd::Here)
        .unwrap();
    let output = connection.output();
    assert_eq!(output[..5], [0, 0x40, 0, 1, END_STREAM]);
    let second = 9 + 16_384;
    assert_eq!(output[second..second + 5], [0, 0x40, 0, 9, 0]);
    let third = 2 * second;
    assert_eq!(output[third + 3..third + 5], [9, END_HEADERS]);
    assert_eq!(output[third + 8], 1);
}

/// Goal: DATA stays within the windows, and goes on when they open. Method: windows that are small, grow, and become negative by a setting.
#[test]
fn data_stays_within_the_windows() {
    let mut connection = connection(LIMITS);
    receive(
        &mut connection,
        &[settings(&[(4, 10)]), get(1), get(3)].concat(),
    );
    begin(&mut connection, ONE);
    begin(&mut connection, THREE);
    let body = [b'a'; 30];
    assert_eq!(connection.send_data(ONE, &body, StreamEnd::Here), Ok(10));
    assert_eq!(take_frames(&mut connection), "data 1 aaaaaaaaaa 0");
    assert_eq!(connection.next_ready(), None);
    receive(&mut connection, &settings(&[(4, 4)]));
    receive(&mut connection, &window(1, 6));
    assert_eq!(connection.next_ready(), None);
    receive(&mut connection, &window(1, 5));
    assert_eq!(connection.next_ready(), Some(ONE));
    assert_eq!(connection.next_ready(), None);
    assert_eq!(
        connection.send_data(ONE, &body[10..], StreamEnd::Here),
        Ok(5)
    );
    receive(&mut connection, &settings(&[(4, 100)]));
    assert_eq!(connection.next_ready(), Some(ONE));
    assert_eq!(
        connection.send_data(ONE, &body[15..], StreamEnd::Here),
        Ok(15)
    );
    assert_eq!(
        take_frames(&mut connection),
        "settings ack\ndata 1 aaaaa 0\nsettings ack\ndata 1 aaaaaaaaaaaaaaa 1"
    );
    // The window of the connection.
    receive(&mut connection, &settings(&[(4, 1_000_000)]));
    let body = vec![0; 100_000];
    let mut sent = 0;
    for expected in [65_505, 0] {
        assert_eq!(
            connection.send_data(THREE, &body[sent..], StreamEnd::Here),
            Ok(expected)
        );
        let waiting = connection.output().len();
        connection.advance_output(waiting);
        sent += expected;
        assert_eq!(connection.next_ready(), None);
    }
    receive(&mut connection, &window(0, 34_495));
    assert_eq!(connection.next_ready(), Some(THREE));
    assert_eq!(
        connection.send_data(THREE, &body[sent..], StreamEnd::Here),
        Ok(34_495)
    );
    assert_eq!(connection.open_streams(), 0);
}

/// Goal: urgent streams go first, incremental ones share, others go one after the other. Method: four streams that wait for room, with
/// signals in a field and in PRIORITY_UPDATE.
#[test]
fn urgent_streams_go_first() {
    let mut limits = LIMITS;
    limits.output_bytes = 16_384;
    let mut connection = connection(limits);
    receive(&mut connection, &settings(&[(4, 1_000_000)]));
    receive(&mut connection, &window(0, 10_000_000));
    let early = [&[0, 0, 0, 7][..], b"u=0"].concat();
    let requests = [
        headers(1, WHOLE, &format!("{GET}\npriority:u=5, i")),
        headers(3, WHOLE, &format!("{GET}\npriority:u=5, i")),
        headers(5, WHOLE, &format!("{GET}\npriority:u=5")),
        frame(FrameKind::PRIORITY_UPDATE, 0, 0, &early),
        get(7),
    ];
    receive(&mut connection, &requests.concat());
    let seven = StreamId::new(7);
    let body = vec![0; 3 * 16_384];
    let mut sent = [0; 4];
    let mut order = String::new();
    for stream in [ONE, THREE, FIVE, seven] {
        begin(&mut connection, stream);
    }
    for (index, stream) in [ONE, THREE, FIVE, seven].into_iter().enumerate() {
        sent[index] += connection
            .send_data(stream, &body, StreamEnd::Here)
            .unwrap();
    }
    // The first had all the room.
    assert_eq!(sent, [16_384, 0, 0, 0]);
    while connection.open_streams() > 0 {
        let waiting = connection.output().len();
        connection.advance_output(waiting);
        let stream = connection.next_ready().unwrap();
        order += &stream.to_string();
        let index = (stream.number() / 2) as usize;
        sent[index] += connection
            .send_data(stream, &body[sent[index]..], StreamEnd::Here)
            .unwrap();
    }
    assert_eq!(order, "77713555133");
}

/// Goal: room for several turns is shared by incremental streams of one urgency alone. Method: two streams that wait for room of two turns,
/// by their signals, and the streams that get some of it.
#[test]
fn only_incremental_streams_of_one_urgency_share_the_room() {
    for (first, second, ready) in [
        ("u=5", "u=1", vec![THREE]),
        ("u=5, i", "u=1, i", vec![THREE]),
        ("u=2, i", "u=3, i", vec![ONE]),
        ("u=3", "u=3", vec![ONE]),
        ("u=3, i", "u=3, i", vec![ONE, THREE]),
    ] {
        let room = 2 * 16_384;
        let mut limits = LIMITS;
        limits.output_bytes = room;
        let mut connection = connection(limits);
        receive(&mut connection, &settings(&[(4, 1_000_000)]));
        let requests = [
            headers(1, WHOLE, &format!("{GET}\npriority:{first}")),
            headers(3, WHOLE, &format!("{GET}\npriority:{second}")),
        ];
        receive(&mut connection, &requests.concat());
        receive(&mut connection, &window(0, 1_000_000));
        begin(&mut connection, ONE);
        begin(&mut connection, THREE);
        let body = vec![0; 100_000];
        for (stream, taken) in [(ONE, room), (THREE, 0)] {
            let sent = connection.send_data(stream, &body, StreamEnd::Here);
            assert_eq!(sent, Ok(taken));
        }
        take_frames(&mut connection);
        let streams: Vec<StreamId> = iter::from_fn(|| connection.next_ready()).collect();
        assert_eq!(streams, ready, "{first} beside {second}");
        let share = room / streams.len();
        for stream in streams {
            let sent = connection.send_data(stream, &body[share..], StreamEnd::Here);
            assert_eq!(sent, Ok(share), "{first} beside {second}");
        }
    }
}

/// Goal: a stream that sends for the first time does not overtake those that wait. Method: a second stream while the first waits for room.
#[test]
fn nobody_overtakes_those_that_wait() {
    let mut connection = connection(LIMITS);
    receive(&mut connection, &settings(&[(4, 1_000_000)]));
    receive(
        &mut connection,
        &[window(0, 1_000_000), get(1), get(3)].concat(),
    );
    begin(&mut connection, ONE);
    begin(&mut connection, THREE);
    let body = vec![0; 100_000];
    let sent = connection.send_data(ONE, &body, StreamEnd::Here).unwrap();
    assert_eq!(sent, 64 * 1024);
    connection.advance_output(40_000);
    assert_eq!(connection.send_data(THREE, b"a", StreamEnd::Here), Ok(0));
    assert_eq!(connection.next_ready(), Some(ONE));
    assert_eq!(
        connection.send_data(ONE, &body[sent..], StreamEnd::Here),
        Ok(16_384)
    );
    assert_eq!(connection.next_ready(), Some(THREE));
    assert_eq!(connection.send_data(THREE, b"a", StreamEnd::Here), Ok(1));
    // A stream that goes away leaves its room.
    assert_eq!(connection.next_ready(), Some(ONE));
    assert_eq!(connection.next_ready(), None);
    receive(&mut connection, &cancel(1));
    receive(&mut connection, &get(5));
    connection
        .send_head(FIVE, 200, [], StreamEnd::NotYet)
        .unwrap();
    assert_eq!(connection.send_data(FIVE, b"abc", StreamEnd::Here), Ok(3));
}

/// Goal: windows of bodies grow as the caller takes them, and by what nobody has to take. Method: DATA that is released late, padding, and
/// a stream that is reset with a body in memory.
#[test]
fn windows_grow_as_the_caller_takes_the_body() {
    let mut connection = connection(LIMITS);
    receive(&mut connection, &post(1));
    for _ in 0..5 {
        receive(&mut connection, &data(1, 0, &[0; 16_000]));
    }
    assert_eq!(take_frames(&mut connection), "");
    connection.release(ONE, 40_000);
    assert_eq!(take_frames(&mut connection), "");
    connection.release(ONE, 10_000);
    assert_eq!(take_frames(&mut connection), "window 1 50000");
    connection.release(ONE, usize::MAX);
    assert_eq!(take_frames(&mut connection), "window 0 80000");
    receive(&mut connection, &post(3));
    let padded = [&[255][..], &[0; 16_000]].concat();
    receive(&mut connection, &data(3, PADDED, &padded));
    receive(&mut connection, &data(3, 0, &[0; 10_000]));
    connection.reset(THREE, ErrorCode::CANCEL);
    assert_eq!(take_frames(&mut connection), "reset 3 CANCEL");
    // What is announced fits into the window.
    let small = headers(5, END_HEADERS, &format!("{GET}\ncontent-length:60000"));
    receive(&mut connection, &small);
    receive(
        &mut connection,
        &[data(5, 0, &[0; 10_000]).repeat(5)].concat(),
    );
    connection.release(FIVE, 50_000);
    assert_eq!(take_frames(&mut connection), "window 0 76001");
}

/// Goal: what has left the process is known. Method: two answers, of which one has gone to the socket in part.
#[test]
fn bytes_that_have_left_are_counted() {
    let mut connection = connection(LIMITS);
    let before = connection.sent_bytes();
    assert_eq!(connection.queued_bytes(), before);
    receive(&mut connection, &[get(1), get(3)].concat());
    connection.send_head(ONE, 204, [], StreamEnd::Here).unwrap();
    let first = connection.queued_bytes();
    connection
        .send_head(THREE, 204, [], StreamEnd::Here)
        .unwrap();
    connection.advance_output(12);
    assert!(connection.sent_bytes() >= first);
    assert!(connection.sent_bytes() < connection.queued_bytes());
    connection.shrink();
    assert_eq!(connection.output().len(), 8);
    connection.advance_output(100);
    connection.shrink();
    assert_eq!(connection.sent_bytes(), connection.queued_bytes());
}

/// Goal: a drain loses no request. Method: requests before the client knows, between the two steps, and behind the second.
#[test]
fn a_drain_takes_two_steps() {
    let mut connection = connection(LIMITS);
    receive(&mut connection, &get(1));
    connection.drain();
    connection.drain();
    assert_eq!(
        take_frames(&mut connection),
        "goaway 2147483647 NO_ERROR\nping"
    );
    assert!(receive(&mut connection, &get(3)).starts_with("request 3"));
    receive(&mut connection, &frame(FrameKind::PING, 1, 0, b"draining"));
    assert_eq!(take_frames(&mut connection), "goaway 3 NO_ERROR");
    let late = [post(5), data(5, END_STREAM, b"abc")].concat();
    assert_eq!(receive(&mut connection, &late), "");
    assert!(!connection.is_drained());
    for stream in [ONE, THREE] {
        connection
            .send_head(stream, 204, [], StreamEnd::Here)
            .unwrap();
    }
    assert!(connection.is_drained() && !connection.is_closed());
    take_frames(&mut connection);
    connection.close(ErrorCode::NO_ERROR);
    assert_eq!(take_frames(&mut connection), "goaway 3 NO_ERROR");
}

/// Goal: WebSocket over HTTP/2 is a request like others where it is allowed. Method: RFC 8441 §5.1, and the same where it is not.
#[test]
fn extended_connect_has_a_protocol() {
    let lines =
        ":method:CONNECT\n:protocol:websocket\n:scheme:https\n:path:/chat\n:authority:a.test";
    for (extended_connect, event) in [
        (
            ExtendedConnect::Allowed,
            "request 1 CONNECT https a.test /chat websocket NotYet",
        ),
        (ExtendedConnect::Refused, "malformed 1 Protocol"),
    ] {
        let mut limits = LIMITS;
        limits.extended_connect = extended_connect;
        let mut connection = connection(limits);
        assert_eq!(
            receive(&mut connection, &headers(1, END_HEADERS, lines)),
            event
        );
    }
}

/// Goal: an idle connection holds no bytes, and one that waits for the rest of a frame says how many. Method: parts of frames.
#[test]
fn bytes_that_are_held_back_are_known() {
    let mut connection = connection(LIMITS);
    let request = get(1);
    receive(&mut connection, &request[..20]);
    assert_eq!(connection.held_back(), 11);
    receive(&mut connection, &request[20..]);
    assert_eq!(connection.held_back(), 0);
    receive(&mut connection, &headers(3, 0, GET));
    assert_eq!(connection.held_back(), client::block(GET).len());
    let rest = frame(
        FrameKind::CONTINUATION,
        END_HEADERS,
        3,
        &client::block("x-a:b"),
    );
    let events = receive(&mut connection, &rest);
    assert_eq!(events, "request 3 GET http a.test / - x-a=b NotYet");
    assert_eq!(connection.held_back(), 0);
    receive(&mut connection, &data(3, 0, &[0; 1000])[..500]);
    assert_eq!(connection.held_back(), 0);
    assert!(preface().len() > 24);
}
