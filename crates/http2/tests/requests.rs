//! Sends requests: streams, heads, bodies in the windows of the server, and the ends of streams and of the connection.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod client;
mod origin;

use client::{END_HEADERS, END_STREAM, WHOLE, data, frame, headers, settings, window};
use origin::{CLIENT_LIMITS, Origin};
use sluicegate_http2::frame::FrameKind;
use sluicegate_http2::{
    ClientLimits, ErrorCode, RequestPseudoFields, RequestRefused, StreamEnd, StreamGone, StreamId,
};

const ONE: StreamId = StreamId::new(1);
const OK: &str = ":status:200";

/// Returns RST_STREAM.
fn reset(stream: u32, code: ErrorCode) -> Vec<u8> {
    frame(
        FrameKind::RST_STREAM,
        0,
        stream,
        &code.number().to_be_bytes(),
    )
}

/// Returns GOAWAY.
fn goaway(last: u32, code: ErrorCode) -> Vec<u8> {
    let payload = [last.to_be_bytes(), code.number().to_be_bytes()].concat();
    frame(FrameKind::GOAWAY, 0, 0, &payload)
}

/// Goal: a connection begins with preface and settings, and acknowledges those of the server. Method: the first frames.
#[test]
fn the_first_frames_are_the_settings() {
    let mut origin = Origin::new(CLIENT_LIMITS);
    let first = "settings [(2, 0), (4, 100000), (6, 4096), (9, 1)]\nwindow 0 134465";
    assert_eq!(origin.take_frames(), first);
    assert_eq!(origin.receive(&settings(&[(8, 1)])), "");
    assert_eq!(origin.take_frames(), "settings ack");
}

/// Goal: a request has the frames that were sent, its response is read, and the stream ends with both sides. Method: interim and final
/// heads, DATA, trailers, in both directions.
#[test]
fn a_request_is_heads_data_and_trailers() {
    let mut origin = Origin::with_settings(&[]);
    let pseudo = RequestPseudoFields {
        method: b"POST",
        scheme: Some(b"http"),
        authority: Some(b"a.test"),
        path: Some(b"/x"),
    };
    let fields = [(&b"accept"[..], &b"*/*"[..])];
    let sent = origin
        .connection
        .send_request(pseudo, fields, StreamEnd::NotYet);
    assert_eq!(sent, Ok(ONE));
    let sent = origin.connection.send_data(ONE, b"abc", StreamEnd::NotYet);
    assert_eq!(sent, Ok(3));
    let head =
        "headers 1 :method: POST; :scheme: http; :authority: a.test; :path: /x; accept: */* 4";
    assert_eq!(origin.take_frames(), format!("{head}\ndata 1 abc 0"));
    let answer = [
        headers(1, END_HEADERS, ":status:103\nlink:</a>"),
        headers(1, END_HEADERS, &format!("{OK}\ncontent-length:3")),
        data(1, 0, b"xyz"),
        headers(1, WHOLE, "x-t:1"),
    ];
    let events = "response 1 103 link=</a> NotYet\nresponse 1 200 content-length=3 NotYet\ndata 1 xyz NotYet\n\
                  trailers 1 x-t=1";
    assert_eq!(origin.receive(&answer.concat()), events);
    assert_eq!(origin.connection.open_streams(), 1);
    let trailers = [(&b"x-u"[..], &b"2"[..])];
    origin.connection.send_trailers(ONE, trailers).unwrap();
    assert_eq!(origin.take_frames(), "headers 1 x-u: 2 5");
    assert_eq!(origin.connection.open_streams(), 0);
    let sent = origin.connection.send_data(ONE, b"", StreamEnd::Here);
    assert_eq!(sent, Err(StreamGone));
}

/// Goal: a request takes a stream where the server has a free one. Method: bounds before and in the settings, that rise and fall.
#[test]
fn requests_wait_for_free_streams() {
    let mut origin = Origin::new(CLIENT_LIMITS);
    assert_eq!(origin.connection.max_streams(), None);
    assert_eq!(origin.connection.free_streams(), 2);
    origin.send("GET", StreamEnd::Here);
    origin.receive(&settings(&[(3, 2)]));
    assert_eq!(origin.connection.free_streams(), 1);
    origin.send("GET", StreamEnd::Here);
    let refused =
        origin
            .connection
            .send_request(RequestPseudoFields::default(), [], StreamEnd::Here);
    assert_eq!(refused, Err(RequestRefused));
    origin.receive(&settings(&[(3, 100)]));
    assert_eq!(origin.connection.free_streams(), 6);
    origin.receive(&settings(&[(3, 1)]));
    assert_eq!(origin.connection.free_streams(), 0);
    origin.receive(&[headers(1, WHOLE, OK), headers(3, WHOLE, OK)].concat());
    assert_eq!(origin.connection.free_streams(), 1);
    // Without a word about them there is no limit but the own one.
    let origin = Origin::with_settings(&[]);
    assert_eq!(origin.connection.max_streams(), Some(u32::MAX));
    assert_eq!(origin.connection.free_streams(), 8);
}

/// Goal: a tunnel has no length. Method: CONNECT, RFC 9113 §8.5, and an answer with a length and other bytes.
#[test]
fn a_tunnel_has_no_length() {
    let mut origin = Origin::with_settings(&[]);
    let pseudo = RequestPseudoFields {
        method: b"CONNECT",
        authority: Some(b"a.test:443"),
        ..RequestPseudoFields::default()
    };
    let sent = origin
        .connection
        .send_request(pseudo, [], StreamEnd::NotYet);
    assert_eq!(sent, Ok(ONE));
    let head = "headers 1 :method: CONNECT; :authority: a.test:443 4";
    assert_eq!(origin.take_frames(), head);
    let answer = [
        headers(1, END_HEADERS, &format!("{OK}\ncontent-length:1")),
        data(1, 0, b"abc"),
    ];
    let events = "response 1 200 content-length=1 NotYet\ndata 1 abc NotYet";
    assert_eq!(origin.receive(&answer.concat()), events);
}

/// Goal: DATA stays within the windows of the server, and its frames and tables within its settings. Method: windows that are small, grow,
/// and become negative; frames of a larger size; a table that shrinks.
#[test]
fn what_is_sent_stays_within_the_settings() {
    let mut origin = Origin::with_settings(&[(4, 5)]);
    origin.send("POST", StreamEnd::NotYet);
    let send = |origin: &mut Origin, bytes: &[u8]| {
        origin.connection.send_data(ONE, bytes, StreamEnd::NotYet)
    };
    assert_eq!(send(&mut origin, b"abcdefgh"), Ok(5));
    assert_eq!(origin.take_frames(), "data 1 abcde 0");
    assert_eq!(origin.connection.next_ready(), None);
    origin.receive(&settings(&[(4, 2), (1, 0)]));
    origin.receive(&window(1, 4));
    assert_eq!(origin.connection.next_ready(), Some(ONE));
    assert_eq!(send(&mut origin, b"fgh"), Ok(1));
    assert_eq!(origin.take_frames(), "settings ack\ndata 1 f 0");
    origin.receive(&settings(&[(4, 100_000), (5, 20_000)]));
    origin.take_frames();
    // The window of the connection is what is left of the default.
    assert_eq!(send(&mut origin, &[b'x'; 70_000]), Ok(65_529));
    origin.take_frames();
    // A head that is longer than a frame fills one of the greatest size, and begins with the size of the table.
    let long = [b'~'; 30_000];
    let pseudo = RequestPseudoFields {
        method: b"GET",
        ..RequestPseudoFields::default()
    };
    let fields = [(&b"x-a"[..], &long[..])];
    origin
        .connection
        .send_request(pseudo, fields, StreamEnd::Here)
        .unwrap();
    let output = origin.connection.output();
    assert_eq!(output[..9], [0, 0x4e, 0x20, 1, END_STREAM, 0, 0, 0, 3]);
    assert_eq!(output[9], 0x20);
}

/// Goal: a body is lent, and the window grows as the caller takes it. Method: more than half of a window, released late; a body that is
/// refused on its stream, whose bytes nobody takes.
#[test]
fn windows_grow_as_the_caller_takes_the_body() {
    let mut origin = Origin::with_settings(&[]);
    origin.send("GET", StreamEnd::Here);
    origin.receive(&headers(1, END_HEADERS, OK));
    for _ in 0..4 {
        origin.receive(&data(1, 0, &[b'd'; 15_000]));
    }
    assert_eq!(origin.take_frames(), "");
    origin.connection.release(ONE, 60_000);
    assert_eq!(origin.take_frames(), "window 1 60000");
    origin.connection.reset(ONE, ErrorCode::CANCEL);
    assert_eq!(origin.take_frames(), "reset 1 CANCEL");
    for _ in 0..3 {
        assert_eq!(origin.receive(&data(1, 0, &[b'd'; 15_000])), "");
    }
    assert_eq!(origin.take_frames(), "window 0 75000");
}

/// Goal: a body that is larger than a small window comes to its end, although its request went before the server had the settings: RFC 9113
/// §6.9.2, with its acknowledgment the server takes the difference from its windows. Method: the acknowledgment in front of the body, and
/// behind as much of it as the window lets come.
#[test]
fn windows_shrink_with_the_acknowledgment() {
    let limits = ClientLimits {
        stream_window: 32_768,
        ..CLIENT_LIMITS
    };
    let acknowledgment = || frame(FrameKind::SETTINGS, 1, 0, &[]);
    let begin = [
        headers(1, END_HEADERS, ":status:200\ncontent-length:40000"),
        data(1, 0, &[b'd'; 16_384]),
        data(1, 0, &[b'd'; 16_384]),
    ];
    for is_late in [false, true] {
        let mut origin = Origin::new(limits);
        origin.receive(&settings(&[]));
        origin.send("GET", StreamEnd::Here);
        if !is_late {
            origin.receive(&acknowledgment());
        }
        origin.receive(&begin.concat());
        origin.connection.release(ONE, 32_768);
        if is_late {
            assert_eq!(origin.take_frames(), "");
            origin.receive(&acknowledgment());
        }
        assert_eq!(origin.take_frames(), "window 1 32768");
        let events = origin.receive(&data(1, END_STREAM, &[b'd'; 7_232]));
        assert!(events.starts_with("data 1"), "{events}");
    }
}

/// Goal: a request that the server has not acted on can be told from others. Method: RST_STREAM with each code, before a head and behind
/// it; behind a whole response.
#[test]
fn unprocessed_requests_are_known() {
    let refused = ErrorCode::REFUSED_STREAM;
    let mut origin = Origin::with_settings(&[]);
    for _ in 0..4 {
        origin.send("POST", StreamEnd::NotYet);
    }
    assert_eq!(origin.receive(&reset(1, refused)), "unprocessed 1");
    let begun = [headers(3, END_HEADERS, OK), reset(3, refused)].concat();
    assert_eq!(
        origin.receive(&begun),
        "response 3 200 NotYet\nreset 3 REFUSED_STREAM None"
    );
    let version = ErrorCode::HTTP_1_1_REQUIRED;
    assert_eq!(
        origin.receive(&reset(5, version)),
        "reset 5 HTTP_1_1_REQUIRED None"
    );
    // RFC 9113 §8.1: the server wants no more of the request.
    let whole = [headers(7, WHOLE, OK), reset(7, ErrorCode::NO_ERROR)].concat();
    assert_eq!(
        origin.receive(&whole),
        "response 7 200 Here\nreset 7 NO_ERROR None"
    );
    assert_eq!(origin.connection.open_streams(), 0);
    assert_eq!(origin.take_frames(), "");
}

/// Goal: GOAWAY ends what is behind its last stream, and nothing else. Method: in two steps, with streams on both sides, of which one was
/// answered.
#[test]
fn goaway_leaves_what_is_processed() {
    let mut origin = Origin::with_settings(&[]);
    for _ in 0..3 {
        origin.send("GET", StreamEnd::Here);
    }
    origin.receive(&headers(5, END_HEADERS, OK));
    let first = goaway(0x7fff_ffff, ErrorCode::NO_ERROR);
    assert_eq!(origin.receive(&first), "goaway 2147483647 NO_ERROR");
    assert!(origin.connection.is_going_away());
    assert_eq!(origin.connection.free_streams(), 0);
    let second = [goaway(1, ErrorCode::NO_ERROR), headers(1, WHOLE, OK)].concat();
    assert_eq!(
        origin.receive(&second),
        "goaway 1 NO_ERROR\nreset 5 REFUSED_STREAM None\nunprocessed 3\nresponse 1 200 Here"
    );
    assert_eq!(origin.connection.open_streams(), 0);
    assert!(!origin.connection.is_closed());
    // What comes for it nevertheless is ignored.
    assert_eq!(origin.receive(&headers(3, WHOLE, OK)), "");
    origin.connection.close(ErrorCode::NO_ERROR);
    assert_eq!(origin.take_frames(), "goaway 0 NO_ERROR");
}

/// Goal: a server learns that the connection lives. Method: a PING, and an answer to one that was not sent.
#[test]
fn pings_are_answered() {
    let mut origin = Origin::with_settings(&[]);
    assert_eq!(
        origin.receive(&frame(FrameKind::PING, 1, 0, b"who asks")),
        ""
    );
    assert_eq!(
        origin.receive(&frame(FrameKind::PING, 0, 0, b"opaque!!")),
        ""
    );
    assert_eq!(origin.take_frames(), "ping ack");
}

/// Goal: a response without content may announce one. Method: HEAD, 204 and 304, with a length.
#[test]
fn responses_without_content_may_have_a_length() {
    for (method, status) in [("HEAD", 200), ("GET", 204), ("GET", 304)] {
        let mut origin = Origin::with_settings(&[]);
        origin.send(method, StreamEnd::Here);
        let head = headers(1, WHOLE, &format!(":status:{status}\ncontent-length:7"));
        let events = format!("response 1 {status} content-length=7 Here");
        assert_eq!(origin.receive(&head), events);
        origin.send(method, StreamEnd::Here);
        let head = headers(
            3,
            END_HEADERS,
            &format!(":status:{status}\ncontent-length:7"),
        );
        let events = format!("response 3 {status} content-length=7 NotYet\ndata 3  Here");
        assert_eq!(origin.receive(&[head, data(3, 1, b"")].concat()), events);
    }
}

/// Goal: each request fits into the numbers of streams. Method: more than a connection may have at once, one after the other.
#[test]
fn streams_are_numbered_in_turn() {
    let mut origin = Origin::with_settings(&[]);
    for number in 0..100 {
        let stream = origin.send("GET", StreamEnd::Here);
        assert_eq!(stream.number(), 2 * number + 1);
        origin.receive(&headers(stream.number(), WHOLE, OK));
    }
    let limits = ClientLimits {
        first_streams: 0,
        ..CLIENT_LIMITS
    };
    assert_eq!(Origin::new(limits).connection.free_streams(), 0);
}
