//! Requests of HTTP/2 that two servers could read in two ways, or that would be another request by HTTP/1.1: each is refused before an
//! origin hears of it (RFC 9113 §8.2, §8.3, §10.3).

use crate::harness::frames::{
    DATA, END_HEADERS, END_STREAM, Fate, Frames, HEADERS, PADDED, PING, PROTOCOL_ERROR, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, fields, frame, get, head, soon,
};
use crate::harness::{Gateway, Origin, Received, Setup};

type Fields = &'static [(&'static [u8], &'static [u8])];

/// Fields behind the pseudo-headers of a GET that make it no request.
const IMPOSSIBLE: &[(&str, Fields)] = &[
    ("a name in upper case", &[(b"X-Upper", b"1")]),
    ("a name with a space", &[(b"x y", b"1")]),
    ("a name with a colon", &[(b"x:y", b"1")]),
    ("a name with a line end", &[(b"x\r\ny", b"1")]),
    ("a name with NUL", &[(b"x\0y", b"1")]),
    ("a name without a letter", &[(b"", b"1")]),
    ("a value with CR LF", &[(b"x", b"1\r\ny: 2")]),
    ("a value with LF", &[(b"x", b"1\ny: 2")]),
    ("a value with CR", &[(b"x", b"1\ry")]),
    ("a value with NUL", &[(b"x", b"1\0y")]),
    ("connection", &[(b"connection", b"close")]),
    ("keep-alive", &[(b"keep-alive", b"timeout=1")]),
    ("proxy-connection", &[(b"proxy-connection", b"close")]),
    ("transfer-encoding", &[(b"transfer-encoding", b"chunked")]),
    ("upgrade", &[(b"upgrade", b"h2c")]),
    ("te other than trailers", &[(b"te", b"gzip")]),
    ("an unknown pseudo-header", &[(b":unknown", b"1")]),
    ("a pseudo-header of answers", &[(b":status", b"200")]),
    ("a second path", &[(b":path", b"/other")]),
    ("a second method", &[(b":method", b"POST")]),
    ("a second scheme", &[(b":scheme", b"https")]),
    ("a second authority", &[(b":authority", b"other.test")]),
    (
        "a pseudo-header behind a field",
        &[(b"x", b"1"), (b":path", b"/")],
    ),
    ("another host", &[(b"host", b"other.test")]),
    (
        "two hosts",
        &[(b"host", b"gateway.test"), (b"host", b"other.test")],
    ),
    ("a length without a body", &[(b"content-length", b"5")]),
    ("a length with a sign", &[(b"content-length", b"+0")]),
    ("a length that is none", &[(b"content-length", b"x")]),
    (
        "two lengths",
        &[(b"content-length", b"0"), (b"content-length", b"5")],
    ),
];

/// Methods and targets that are another request once they stand in a request line.
const TARGETS: &[(&[u8], &[u8])] = &[
    (b"GET", b""),
    (b"GET", b"a"),
    (b"GET", b"*"),
    (b"GET", b"http://other.test/"),
    (b"GET", b"//other.test@gateway.test:80:80/\r\n"),
    (b"GET", b"/ HTTP/1.1\r\nx: y"),
    (b"GET", b"/a b"),
    (b"GET", b"/a\tb"),
    (b"GET", b"/a\0b"),
    (b"GET", b"/a\nb"),
    (b"GET / HTTP/1.1\r\nx:", b"/"),
    (b"GET ", b"/"),
    (b"G\0T", b"/"),
    (b"", b"/"),
];

fn is_refused(fate: &Fate) -> bool {
    matches!(
        fate,
        Fate::Answered(400..=499) | Fate::Reset(_) | Fate::Closed
    )
}

#[tokio::test]
async fn what_is_no_request_reaches_no_origin() {
    // Goal: nothing passes that HTTP/2 forbids. Method: fields, methods and targets byte for byte, each on a connection of its own; an
    // origin by HTTP/1.1 that remembers what it got.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let mut blocks: Vec<(String, Vec<u8>)> = Vec::new();
    for (what, more) in IMPOSSIBLE {
        blocks.push(((*what).to_owned(), get(b"/", more)));
    }
    for (method, path) in TARGETS {
        let what = format!("{} {}", method.escape_ascii(), path.escape_ascii());
        blocks.push((what, head(method, path, &[])));
    }
    let whole: [(&[u8], &[u8]); 4] = [
        (b":method", b"GET"),
        (b":scheme", b"http"),
        (b":path", b"/"),
        (b":authority", b"gateway.test"),
    ];
    for missing in 0..3 {
        let mut some = whole.to_vec();
        let (name, _) = some.remove(missing);
        blocks.push((format!("no {}", name.escape_ascii()), fields(&some)));
    }
    blocks.push(("no host at all".to_owned(), fields(&whole[..3])));
    for authority in [&b"user@gateway.test"[..], b"a b", b"a/b", b"a\r\nb"] {
        let mut other = whole;
        other[3].1 = authority;
        let what = format!("authority {}", authority.escape_ascii());
        blocks.push((what, fields(&other)));
    }
    for (what, block) in &blocks {
        let mut frames = Frames::connect(gateway.address()).await;
        frames.request(1, block).await;
        let fate = frames.fate(1).await;
        assert!(
            is_refused(&fate),
            "{what}: {fate:?}, {:?}",
            origin.requests()
        );
    }
    assert_eq!(origin.count(), 0, "{:?}", origin.requests());
}

#[tokio::test]
async fn a_body_of_another_length_is_never_two_requests() {
    // Goal: RFC 9113 §8.1.1: `content-length` and DATA agree, or the request is refused and no origin gets it whole. Method: more and less
    // than announced, also with the announced part in a frame of its own that is forwarded first, to an origin that would take the rest for
    // another request.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let smuggled = &b"GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n"[..];
    for (announced, first, rest) in [
        (&b"3"[..], &b"abc"[..], smuggled),
        (b"3", b"ab", &[b"c", smuggled].concat()),
        (b"3", b"", &[b"abc", smuggled].concat()),
        (b"1", b"a", smuggled),
        (b"3", b"", b""),
        (b"30", b"abc", b""),
        (b"30", b"", b"abc"),
        (b"0", b"", smuggled),
    ] {
        let mut frames = announce(&gateway, announced, first).await;
        // The gateway may have refused by now.
        let _ = frames.try_write(&frame(DATA, END_STREAM, 1, rest)).await;
        let fate = frames.fate(1).await;
        assert!(is_refused(&fate), "{announced:?}, {first:?}: {fate:?}");
    }
    assert_none_is_whole(&origin);
}

#[tokio::test]
async fn a_body_that_does_not_end_as_its_stream_must_is_no_whole_request() {
    // Goal: the last announced byte reaches an origin with the end of the stream only. Method: a body of the announced length, then
    // malformed trailers, trailers without an end, a reset, or nothing up to `client_read_timeout`; then the connection's close.
    let origin = Origin::echo();
    let gateway = Setup::new()
        .origin("app", &origin)
        .rules(
            "[server]\nclient_read_timeout = \"500ms\"\n[[route]]\npath = \"/*\"\norigin = \"app\"\n",
        )
        .start()
        .await;
    let both = END_HEADERS | END_STREAM;
    for (what, then) in [
        (
            "a name in upper case",
            frame(HEADERS, both, 1, &fields(&[(b"X-Upper", b"1")])),
        ),
        (
            "a field of a connection",
            frame(HEADERS, both, 1, &fields(&[(b"connection", b"close")])),
        ),
        (
            "no end",
            frame(HEADERS, END_HEADERS, 1, &fields(&[(b"x", b"1")])),
        ),
        ("nothing", Vec::new()),
    ] {
        let mut frames = announce(&gateway, b"3", b"abc").await;
        frames.write(&then).await;
        let fate = frames.fate(1).await;
        assert!(is_refused(&fate), "{what}: {fate:?}");
    }
    let mut frames = announce(&gateway, b"3", b"abc").await;
    frames.write(&frame(RST_STREAM, 0, 1, &[0; 4])).await;
    frames.pong().await;
    drop(announce(&gateway, b"3", b"abc").await);
    soon("the last ones are cut", async || {
        (origin.count() == 12).then_some(())
    })
    .await;
    assert_none_is_whole(&origin);
}

#[tokio::test]
async fn the_end_of_a_stream_may_follow_its_last_byte() {
    // Goal: a body of the announced length arrives whole, whatever ends its stream. Method: the end with the last byte, in a frame without
    // data, in a padded one, and with trailers.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let trailers = fields(&[(b"x-checksum", b"1")]);
    for (first, end) in [
        (&b"ab"[..], frame(DATA, END_STREAM, 1, b"c")),
        (b"", frame(DATA, END_STREAM, 1, b"abc")),
        (b"abc", frame(DATA, END_STREAM, 1, b"")),
        (b"abc", frame(DATA, END_STREAM | PADDED, 1, &[2, 0, 0])),
        (
            b"abc",
            frame(HEADERS, END_HEADERS | END_STREAM, 1, &trailers),
        ),
    ] {
        let mut frames = announce(&gateway, b"3", first).await;
        frames.write(&end).await;
        assert_eq!(frames.fate(1).await, Fate::Answered(200), "{first:?}");
    }
    let requests = origin.requests();
    let is_right = |request: &&Received| request.whole && request.text() == "abc";
    let arrived = requests.iter().filter(|request| request.target == "/");
    assert_eq!(arrived.filter(is_right).count(), 5, "{requests:?}");
}

/// Begins a request with a body of an announced length, sends its first bytes, and lets another request pass behind them.
async fn announce(gateway: &Gateway, length: &[u8], first: &[u8]) -> Frames {
    let mut frames = Frames::connect(gateway.address()).await;
    let open = head(b"POST", b"/", &[(b"content-length", length)]);
    frames.write(&frame(HEADERS, END_HEADERS, 1, &open)).await;
    if !first.is_empty() {
        frames.write(&frame(DATA, 0, 1, first)).await;
    }
    frames.request(3, &get(b"/other", &[])).await;
    assert_eq!(frames.fate(3).await, Fate::Answered(200));
    frames
}

/// Checks that the origin got no request of [`announce`] whole, and none that was a part of its body.
fn assert_none_is_whole(origin: &Origin) {
    let requests = origin.requests();
    let mut others = requests.iter().filter(|request| request.target != "/other");
    assert!(
        others.all(|request| request.target == "/" && !request.whole),
        "{requests:?}"
    );
}

#[tokio::test]
async fn a_length_loses_its_zeros_on_the_way_to_http1() {
    // Goal: an origin that reads numbers as C does takes `010` for ten. Method: a POST with that length, and what the origin is sent.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let mut frames = Frames::connect(gateway.address()).await;
    let open = head(b"POST", b"/", &[(b"content-length", b"010")]);
    frames.write(&frame(HEADERS, END_HEADERS, 1, &open)).await;
    frames
        .write(&frame(DATA, END_STREAM, 1, b"0123456789"))
        .await;
    assert_eq!(frames.fate(1).await, Fate::Answered(200));
    let received = origin.only_request();
    assert_eq!(received.header("content-length"), Some("10"));
    assert_eq!(received.text(), "0123456789");
}

#[tokio::test]
async fn frames_that_break_the_protocol_end_the_connection() {
    // Goal: connection errors are that, and what is only unknown is not. Method: one broken frame a connection, then a request; an
    // unknown
    // kind of frame and a padded head before a request that passes.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let block = get(b"/", &[]);
    let mut too_padded = vec![255];
    too_padded.extend(&block);
    for (what, bytes) in [
        ("data on a stream that is idle", frame(DATA, 0, 5, b"x")),
        ("data on no stream", frame(DATA, 0, 0, b"x")),
        ("a head on a stream of ours", frame(HEADERS, 5, 2, &block)),
        ("a head on no stream", frame(HEADERS, 5, 0, &block)),
        (
            "more padding than frame",
            frame(HEADERS, 5 | PADDED, 1, &too_padded),
        ),
        (
            "a window opened by nothing",
            frame(WINDOW_UPDATE, 0, 0, &[0; 4]),
        ),
        (
            "a window too wide",
            frame(WINDOW_UPDATE, 0, 0, &0x7fff_ffff_u32.to_be_bytes()),
        ),
        (
            "settings of a broken length",
            frame(SETTINGS, 0, 0, &[0; 5]),
        ),
        ("settings on a stream", frame(SETTINGS, 0, 1, &[])),
        (
            "an acknowledgement with settings",
            frame(SETTINGS, 1, 0, &[0, 4, 0, 0, 0, 9]),
        ),
        (
            "a first window too wide",
            frame(SETTINGS, 0, 0, &[0, 4, 255, 255, 255, 255]),
        ),
        ("a ping of a broken length", frame(PING, 0, 0, b"1234")),
        ("a frame too long", frame(DATA, 0, 1, &[0; 16_385])),
        (
            "a continuation of nothing",
            frame(9, END_HEADERS, 1, &block),
        ),
        (
            "a head that HPACK cannot read",
            frame(HEADERS, 5, 1, &[0xff; 20]),
        ),
        (
            "another frame within a head",
            [frame(HEADERS, 0, 1, &block), frame(PING, 0, 0, b"12345678")].concat(),
        ),
    ] {
        let mut frames = Frames::connect(gateway.address()).await;
        frames.write(&bytes).await;
        let next = frame(HEADERS, END_HEADERS | END_STREAM, 7, &block);
        // The gateway may have closed by now.
        let _ = frames.try_write(&next).await;
        assert_eq!(frames.fate(7).await, Fate::Closed, "{what}");
    }
    let mut frames = Frames::connect(gateway.address()).await;
    frames.write(&frame(0x42, 0xff, 0, b"whatever")).await;
    let mut padded = vec![4];
    padded.extend(&block);
    padded.extend([0; 4]);
    frames.write(&frame(HEADERS, 5 | PADDED, 1, &padded)).await;
    assert_eq!(frames.fate(1).await, Fate::Answered(200));
}

#[tokio::test]
async fn the_rule_that_ended_a_connection_is_logged() {
    // Goal: an operator learns which rule a client broke. Method: DATA on a stream that has not begun, and the process log.
    let gateway = Gateway::passing(&Origin::echo()).await;
    let mut frames = Frames::connect(gateway.address()).await;
    frames.write(&frame(DATA, 0, 5, b"x")).await;
    assert_eq!(frames.goaway().await, Some(PROTOCOL_ERROR));
    let told = "client 127.0.0.1: its HTTP/2 connection is ended: it broke the protocol: \
                frame for a stream that has not begun (RFC 9113 §5.1)";
    soon("the log names the rule", async || {
        gateway.stderr().contains(told).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_request_arrives_by_http1_as_it_was_meant() {
    // Goal: the downgrade: one Host, one Cookie (RFC 9113 §8.2.3), no fields of HTTP/2's own. Method: a GET with the cookie in crumbs,
    // and
    // what an origin by HTTP/1.1 received.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let mut frames = Frames::connect(gateway.address()).await;
    let more: [(&[u8], &[u8]); 5] = [
        (b"cookie", b"a=b"),
        (b"cookie", b"c=d"),
        (b"te", b"trailers"),
        (b"host", b"gateway.test"),
        (b"x-of-client", b"1"),
    ];
    frames.request(1, &get(b"/a?b=c", &more)).await;
    assert_eq!(frames.fate(1).await, Fate::Answered(200));
    let received = origin.only_request();
    assert_eq!((&*received.method, &*received.target), ("GET", "/a?b=c"));
    assert_eq!(received.header("host"), Some("gateway.test"));
    assert_eq!(received.header("cookie"), Some("a=b; c=d"));
    assert_eq!(received.header("x-of-client"), Some("1"));
    assert_eq!(received.header("te"), None);
    assert!(
        received
            .headers
            .iter()
            .all(|(name, _)| !name.starts_with(':'))
    );
}
