//! Requests and their answers, the end of connections, and what the server says first.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod client;

use bytes::BytesMut;
use client::{DescribedServer, GET, POST, client_stream, control, data, frame, headers, request};
use sluicegate_http3::frame::FrameKind;
use sluicegate_http3::{
    ErrorCode, FieldWriter, StreamAction, StreamEnd, StreamGone, StreamId, StreamPriority, qpack,
    varint,
};

/// Returns the frames in these bytes, by their types and payloads.
fn frames(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (kind, rest) = varint::read(bytes).unwrap();
        let (length, rest) = varint::read(rest).unwrap();
        let (payload, rest) = rest.split_at(length as usize);
        found.push((kind, payload.to_vec()));
        bytes = rest;
    }
    found
}

/// Returns the lines of a field section.
fn lines(section: &[u8]) -> String {
    let mut bytes = BytesMut::new();
    qpack::decode(section, usize::MAX, &mut bytes, |_, _| {}).unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Goal: RFC 9114 §6.2.1, §7.2.4: the server says first that it has no dynamic table, how long lists of fields may be, and that WebSocket
/// is allowed. Method: the bytes of its control stream.
#[test]
fn the_server_begins_with_its_settings() {
    let mut server = DescribedServer::new();
    let output = server.connection.control_output();
    assert_eq!(output, [0, 4, 9, 0x01, 0, 0x07, 0, 0x06, 0x42, 0, 0x08, 1]);
    server.connection.advance_control_output(12);
    assert_eq!(server.connection.control_output(), []);
}

/// Goal: a request with body and trailers is read, and unknown frames change nothing, RFC 9114 §9. Method: one with unknown frames around
/// each of its own.
#[test]
fn requests_are_read() {
    let unknown = frame(FrameKind(0x21), b"grease");
    let parts = [
        unknown.clone(),
        headers(&[POST, &[("x-a", "b")]].concat()),
        unknown.clone(),
        data(b"ab"),
        data(b"c"),
        headers(&[("x-t", "1")]),
        unknown,
    ];
    let mut server = DescribedServer::new();
    server.send(request(0), &parts.concat(), StreamEnd::Here);
    let expected = [
        r#"0 POST ["x-a: b"]"#,
        "0 97",
        "0 98",
        "0 99",
        "0 1 trailers",
    ];
    assert_eq!(server.events, expected);
    assert_eq!(server.actions(), []);
}

/// Goal: an answer is HEADERS, DATA and trailers, and its stream ends when QUIC has all of it. Method: an answer of each part, behind an
/// interim one, of which QUIC takes the body in two parts.
#[test]
fn answers_are_written() {
    let mut server = DescribedServer::new();
    let stream = request(0);
    server.send(stream, &headers(GET), StreamEnd::Here);
    let link = (&b"link"[..], &b"</a>"[..]);
    server.connection.send_head(stream, 103, [link]).unwrap();
    let long = [b'x'; 20_000];
    let fields = [(&b"server"[..], &b"test"[..]), (b"x-long", &long)];
    server.connection.send_head(stream, 200, fields).unwrap();
    assert_eq!(
        server.connection.send_head(stream, 200, []),
        Err(StreamGone)
    );
    let mut written = server.take_output(stream);
    assert_eq!(server.connection.begin_data(stream, 5), Ok(5));
    written.extend(server.take_output(stream));
    written.extend(b"he");
    server.connection.advance_data(stream, 2);
    // The frame is not whole.
    assert_eq!(server.connection.end_answer(stream), Err(StreamGone));
    assert_eq!(server.connection.begin_data(stream, 100), Ok(3));
    written.extend(b"llo");
    server.connection.advance_data(stream, 3);
    let trailer = (&b"x-t"[..], &b"1"[..]);
    server.connection.send_trailers(stream, [trailer]).unwrap();
    assert!(!server.connection.take_finish(stream));
    written.extend(server.take_output(stream));
    assert!(server.connection.take_finish(stream));
    assert!(!server.connection.take_finish(stream));
    assert_eq!(server.connection.open_requests(), 0);

    let found = frames(&written);
    let kinds: Vec<u64> = found.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [1, 1, 0, 1]);
    assert_eq!(lines(&found[0].1), ":status: 103\r\nlink: </a>\r\n");
    assert!(lines(&found[1].1).starts_with(":status: 200\r\nserver: test\r\nx-long: xxx"));
    assert_eq!(found[2].1, b"hello");
    assert_eq!(lines(&found[3].1), "x-t: 1\r\n");
}

/// Goal: fields that the caller writes one by one are a head. Method: an answer with one field.
#[test]
fn fields_are_written_one_by_one() {
    let mut server = DescribedServer::new();
    let stream = request(0);
    server.send(stream, &headers(GET), StreamEnd::Here);
    let write = |into: &mut FieldWriter<'_>| into.write(b"retry-after", b"7");
    let sent = server.connection.send_written_head(stream, 429, write);
    sent.unwrap();
    let found = frames(&server.take_output(stream));
    assert_eq!(lines(&found[0].1), ":status: 429\r\nretry-after: 7\r\n");
}

/// Goal: RFC 9114 §4.1: where the answer is whole and the request is not, the client is asked to stop without an error; where neither is,
/// both ends are reset. Method: one abandoned stream of each kind.
#[test]
fn abandoned_streams_end_with_the_right_code() {
    let mut server = DescribedServer::new();
    for number in [0, 1] {
        server.send(request(number), &headers(POST), StreamEnd::NotYet);
    }
    let stream = request(0);
    server.connection.send_head(stream, 200, []).unwrap();
    server.connection.end_answer(stream).unwrap();
    server.take_output(stream);
    assert!(server.connection.take_finish(stream));
    let code = ErrorCode::INTERNAL_ERROR;
    server.connection.abandon(stream, code);
    let stop = StreamAction::Stop {
        stream,
        code: ErrorCode::NO_ERROR,
    };
    assert_eq!(server.actions(), [stop]);
    assert_eq!(server.connection.open_requests(), 1);
    let stream = request(1);
    server.connection.abandon(stream, code);
    assert_eq!(
        server.actions(),
        [
            StreamAction::Stop { stream, code },
            StreamAction::Reset { stream, code }
        ]
    );
}

/// Goal: an answer that is whole goes on although its request is of no use any more. Method: one that QUIC has not taken, abandoned.
#[test]
fn a_whole_answer_goes_on() {
    let mut server = DescribedServer::new();
    let stream = request(0);
    server.send(stream, &headers(POST), StreamEnd::NotYet);
    server.connection.send_head(stream, 200, []).unwrap();
    server.connection.end_answer(stream).unwrap();
    server.connection.abandon(stream, ErrorCode::INTERNAL_ERROR);
    let code = ErrorCode::NO_ERROR;
    assert_eq!(server.actions(), [StreamAction::Stop { stream, code }]);
    assert!(!server.take_output(stream).is_empty());
    assert!(server.connection.take_finish(stream));
    assert_eq!(server.connection.open_requests(), 0);
}

/// Goal: a client may give up a request by either of QUIC's frames, and a reset behind a whole request changes nothing. Method: one of
/// each.
#[test]
fn clients_give_requests_up() {
    let mut server = DescribedServer::new();
    for (number, end) in [
        (0, StreamEnd::NotYet),
        (1, StreamEnd::Here),
        (2, StreamEnd::Here),
    ] {
        server.send(request(number), &headers(POST), end);
    }
    server.events.clear();
    server.reset(request(0));
    server.stop(request(1));
    server.reset(request(2));
    let words = "reset: H3_REQUEST_CANCELLED None";
    assert_eq!(server.events, [format!("0 {words}"), format!("4 {words}")]);
    assert_eq!(server.connection.open_requests(), 1);
}

/// Goal: RFC 9114 §5.2: a drain takes two steps, requests behind the second are rejected, those before it are served. Method: a request
/// before, between and behind the steps.
#[test]
fn a_drain_takes_two_steps() {
    let mut server = DescribedServer::new();
    server.connection.advance_control_output(usize::MAX);
    server.send(request(0), &headers(GET), StreamEnd::Here);
    server.connection.drain();
    server.send(request(1), &headers(GET), StreamEnd::Here);
    server.connection.finish_drain();
    server.send(request(2), &headers(GET), StreamEnd::Here);
    assert_eq!(server.events.len(), 4);
    let stream = request(2);
    let code = ErrorCode::REQUEST_REJECTED;
    assert_eq!(
        server.actions(),
        [
            StreamAction::Stop { stream, code },
            StreamAction::Reset { stream, code }
        ]
    );
    let numbers: Vec<u64> = frames(server.connection.control_output())
        .iter()
        .map(|(kind, payload)| {
            assert_eq!(*kind, FrameKind::GOAWAY.0);
            varint::read(payload).unwrap().0
        })
        .collect();
    assert_eq!(numbers, [StreamId::LAST_REQUEST.number(), 8]);
    assert!(!server.connection.is_drained());
    for number in [0, 1] {
        let abandoned = request(number);
        server.connection.abandon(abandoned, ErrorCode::NO_ERROR);
    }
    assert!(server.connection.is_drained() && !server.connection.is_closed());
    server.connection.close();
    assert!(server.connection.is_closed());
}

/// Goal: RFC 9218 §5, §7.2: the field and the frame say when an answer goes out, and the frame goes before the field. Method: each alone,
/// the frame before and behind its request, and an origin's word.
#[test]
fn priorities_are_followed() {
    let mut server = DescribedServer::new();
    let early = frame(FrameKind::PRIORITY_UPDATE, b"\x04u=1");
    server.send(client_stream(0), &control(&early), StreamEnd::NotYet);
    let signaled = [GET, &[("priority", "u=5, i")]].concat();
    for number in [0, 1] {
        server.send(request(number), &headers(&signaled), StreamEnd::Here);
    }
    server.send(request(2), &headers(GET), StreamEnd::Here);
    let late = frame(FrameKind::PRIORITY_UPDATE, b"\0i");
    server.pass(client_stream(0), &late, StreamEnd::NotYet);
    let found = [0, 1, 2].map(|number| {
        let priority = server.connection.priority(request(number)).unwrap();
        (priority.urgency, priority.incremental)
    });
    assert_eq!(found, [(3, true), (1, false), (3, true)]);
    let urgencies: Vec<u8> = server
        .actions()
        .iter()
        .map(|action| match action {
            StreamAction::Prioritize { priority, .. } => priority.urgency,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(urgencies, [5, 1, 3]);
    let of_origin = StreamPriority::SIGNALED.updated(b"u=0");
    server.connection.set_priority(request(2), of_origin);
    assert_eq!(server.actions().len(), 1);
}

/// Goal: WebSocket is opened by extended CONNECT, RFC 9220, and its bytes are DATA. Method: a tunnel of a few bytes.
#[test]
fn tunnels_are_opened() {
    let connect = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":authority", "a.test"),
        (":path", "/"),
    ];
    let mut server = DescribedServer::new();
    let bytes = [headers(&connect), data(b"a")].concat();
    server.send(request(0), &bytes, StreamEnd::NotYet);
    server.pass(request(0), &[], StreamEnd::Here);
    assert_eq!(server.events, ["0 CONNECT []", "0 97", "0 end"]);
}

/// Goal: what a connection keeps is bounded. Method: heads that are not whole.
#[test]
fn heads_that_are_not_whole_are_counted() {
    let mut server = DescribedServer::new();
    let head = headers(GET);
    for number in [0, 1] {
        server.send(request(number), &head[..head.len() - 1], StreamEnd::NotYet);
    }
    assert_eq!(server.connection.held_back(), 2 * (head.len() - 3));
    server.pass(request(0), &head[head.len() - 1..], StreamEnd::NotYet);
    server.reset(request(1));
    assert_eq!(server.connection.held_back(), 0);
}

/// Goal: a stream whose beginning does not come is given up, whatever it is. Method: a head and a type that are not whole, beside ones that
/// are.
#[test]
fn streams_that_do_not_begin_are_ended() {
    let mut server = DescribedServer::new();
    let head = headers(GET);
    server.send(request(0), &head[..1], StreamEnd::NotYet);
    server.send(request(1), &head, StreamEnd::NotYet);
    server.send(client_stream(0), &control(&[]), StreamEnd::NotYet);
    server.send(client_stream(1), &[0x40], StreamEnd::NotYet);
    let streams = [request(0), request(1), client_stream(0), client_stream(1)];
    let awaited = streams.map(|stream| server.connection.awaits_beginning(stream));
    assert_eq!(awaited, [true, false, false, true]);
    assert_eq!(server.connection.awaited_heads(), 1);
    server.actions();
    for stream in streams {
        server.connection.end_late(stream);
    }
    let actions = server.actions();
    let incomplete = ErrorCode::REQUEST_INCOMPLETE;
    let expected = [
        StreamAction::Stop {
            stream: request(0),
            code: incomplete,
        },
        StreamAction::Reset {
            stream: request(0),
            code: incomplete,
        },
        StreamAction::Stop {
            stream: client_stream(1),
            code: ErrorCode::STREAM_CREATION_ERROR,
        },
    ];
    assert_eq!(actions, expected);
    assert_eq!(server.connection.awaited_heads(), 0);
    assert_eq!(server.closed, None);
}
