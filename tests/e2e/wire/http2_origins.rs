//! Requests to origins of HTTP/2, and origins of both versions that answer before they have read.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::early::EarlyOrigin;
use super::echo::EchoOrigin;
use crate::harness::frames::{
    DATA, END_HEADERS, END_STREAM, Fate, Frames, HEADERS, INTERNAL_ERROR, NO_ERROR,
    PRIORITY_UPDATE, REFUSED_STREAM, RST_STREAM, SETTINGS, WINDOW_UPDATE, answering, fields, frame,
    get as get_head, head as head_of,
};
use crate::harness::*;

/// SETTINGS_INITIAL_WINDOW_SIZE, RFC 9113 §6.5.2.
const INITIAL_WINDOW_SIZE: u16 = 4;

/// A gateway before an origin of HTTP/2.
async fn before_http2(origin: SocketAddr, lines: &str) -> Gateway {
    Setup::new()
        .servers("app", &[origin])
        .origin_line(&format!("protocol = \"h2c\"\n{lines}"))
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"")
        .start()
        .await
}

/// Reads frames up to the next head of a request, and returns its stream.
async fn next_head(frames: &mut Frames) -> Option<u32> {
    while let Some(frame) = frames.next().await {
        if frame.kind == HEADERS {
            return Some(frame.stream);
        }
    }
    None
}

#[tokio::test]
async fn an_answer_before_the_end_of_a_body_reaches_the_client() {
    // Goal: RFC 9112 §9.5, an origin that answers a large body early, and reads no more of it, is heard, whether it keeps the connection
    // open or closes it. Method: an origin that reads the head of a request; a client sends 8 MiB, more than sockets hold.
    const ANSWER: &[u8] =
        b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlarge";
    for is_open in [true, false] {
        let origin = listening(move |mut stream, _| async move {
            let mut piece = [0; 1024];
            let _ = stream.read(&mut piece).await;
            stream.write_all(ANSWER).await.unwrap();
            if is_open {
                std::future::pending::<()>().await;
            }
        })
        .await;
        let gateway = Setup::new()
            .servers("app", &[origin])
            .origin_line("timeouts = { write = \"5s\" }")
            .rules("[[route]]\npath = \"/*\"\norigin = \"app\"")
            .start()
            .await;
        let mut raw = gateway.raw().await;
        let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8388608\r\n\r\n";
        raw.write([head.as_bytes(), &[b'x'; 30_000]].concat()).await;
        // The rest of the body comes while the answer is on its way; nobody may read it.
        let _ = raw.try_write(vec![b'x'; 1024 * 1024]).await;
        let answer = raw.read_response().await;
        assert_eq!((answer.status, answer.text()), (413, "large"), "{is_open}");
    }
}

#[tokio::test]
async fn an_early_answer_says_whether_the_connection_goes_on() {
    // Goal: RFC 9112 §9.6, an answer that comes before the request has ended ends its connection, and says so; no client sends another
    // request into a connection that is about to close. Method: an origin that answers at the head; a body of which a part is sent, in each
    // framing, and bodies that are sent whole with their heads.
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let origin = EarlyOrigin::start(answer, Duration::ZERO).await;
    let gateway = Setup::new()
        .servers("app", &[origin.address])
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"")
        .start()
        .await;
    for (fields, part, rest) in [
        ("Content-Length: 60", "", None),
        ("Content-Length: 10", "hello", None),
        ("Transfer-Encoding: chunked", "5\r\nhello\r\n", None),
        ("Content-Length: 10", "hello", Some("world")),
        (
            "Transfer-Encoding: chunked",
            "5\r\nhello\r\n",
            Some("0\r\n\r\n"),
        ),
    ] {
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{part}");
        let mut raw = gateway.raw().await;
        raw.write([&head, rest.unwrap_or_default()].concat()).await;
        let answer = raw.read_response().await;
        let expected = if rest.is_some() {
            "keep-alive"
        } else {
            "close"
        };
        assert_eq!(answer.header("connection"), Some(expected), "{fields}");
        if rest.is_some() {
            raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
            assert_eq!(raw.read_response().await.text(), "ok", "{fields}");
        } else {
            assert_eq!(raw.read_to_end().await, b"", "{fields}");
        }
    }
}

#[tokio::test]
async fn trailers_behind_an_announced_length_of_nothing_reach_a_stream() {
    // Goal: RFC 9113 §8.1, a stream that announces no byte of data may end with trailers, which are for its client. Method: an origin that
    // ends such a stream with trailers; a client of HTTP/2, then one of HTTP/1.1, whose answer has the length.
    let origin = answering(|stream| {
        let head = fields(&[(b":status", b"200"), (b"content-length", b"0")]);
        let trailers = fields(&[(b"grpc-status", b"5")]);
        let answer = [
            frame(HEADERS, END_HEADERS, stream, &head),
            frame(HEADERS, END_HEADERS | END_STREAM, stream, &trailers),
        ];
        answer.concat()
    })
    .await;
    let gateway = before_http2(origin, "").await;
    let answer = gateway.h2c().await.send(get("/")).await;
    assert_eq!(answer.header("grpc-status"), Some("5"), "{answer:?}");
    let mut raw = gateway.raw().await;
    for _ in 0..2 {
        raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let answer = raw.read_response().await;
        assert_eq!(answer.header("content-length"), Some("0"), "{answer:?}");
    }
}

#[tokio::test]
async fn an_early_hint_of_a_stream_passes() {
    // Goal: RFC 9113 §8.1, interim answers of an origin of HTTP/2 reach a client of HTTP/1.1, and each answer has the reason phrase of its
    // status, which HTTP/2 does not send. Method: 103 in digits, then 200.
    let origin = listening(|stream, _| async move {
        let mut frames = Frames::accept(stream).await;
        while let Some(stream) = next_head(&mut frames).await {
            let hint = fields(&[(b":status", b"103"), (b"link", b"</a.css>; rel=preload")]);
            let head = fields(&[(b":status", b"200")]);
            let answer = [
                frame(HEADERS, END_HEADERS, stream, &hint),
                frame(HEADERS, END_HEADERS, stream, &head),
                frame(DATA, END_STREAM, stream, b"ok"),
            ];
            frames.write(&answer.concat()).await;
        }
    })
    .await;
    let gateway = before_http2(origin, "").await;
    let mut raw = gateway.raw().await;
    raw.write("GET /hint HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let hint = raw.read_response_to_head().await;
    assert_eq!(hint.status, 103);
    assert_eq!(hint.header("link"), Some("</a.css>; rel=preload"));
    assert_eq!(raw.read_response().await.text(), "ok");
    raw.write("GET /hint HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .await;
    let answers = String::from_utf8(raw.read_to_end().await).unwrap();
    let lines = answers.lines().filter(|line| line.starts_with("HTTP/"));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines, ["HTTP/1.1 103 Early Hints", "HTTP/1.1 200 OK"]);
}

#[tokio::test]
async fn a_stream_that_is_refused_while_its_body_is_written_is_sent_again() {
    // Goal: RFC 9113 §8.7, a refused request was not processed, so it is sent again, whole, also when the refusal comes while the gateway
    // waits for the window. Method: an origin whose windows take 1,000 bytes, which a request before has told the gateway; it refuses the
    // first stream with a body once these are there.
    let origin = listening(|stream, _| async move {
        let mut frames = Frames::accept(stream).await;
        let window = [
            &INITIAL_WINDOW_SIZE.to_be_bytes()[..],
            &1000_u32.to_be_bytes(),
        ]
        .concat();
        frames.write(&frame(SETTINGS, 0, 0, &window)).await;
        let (mut refused, mut bytes) = (None, 0);
        while let Some(got) = frames.next().await {
            if got.kind == HEADERS && got.flags & END_STREAM != 0 {
                let head = frame(HEADERS, END_HEADERS | END_STREAM, got.stream, &[0x88]);
                frames.write(&head).await;
            }
            if got.kind != DATA || refused == Some(got.stream) {
                continue;
            }
            bytes += got.payload.len();
            if refused.is_none() && bytes == 1000 {
                refused = Some(got.stream);
                let reason = REFUSED_STREAM.to_be_bytes();
                frames
                    .write(&frame(RST_STREAM, 0, got.stream, &reason))
                    .await;
                bytes = 0;
            } else if got.flags & END_STREAM != 0 {
                let head = frame(HEADERS, END_HEADERS, got.stream, &[0x88]);
                let body = frame(DATA, END_STREAM, got.stream, bytes.to_string().as_bytes());
                frames.write(&[head, body].concat()).await;
            } else if refused.is_some() {
                let more = u32::try_from(got.payload.len()).unwrap().to_be_bytes();
                frames
                    .write(&frame(WINDOW_UPDATE, 0, got.stream, &more))
                    .await;
            }
        }
    })
    .await;
    let gateway = before_http2(origin, "").await;
    assert_eq!(gateway.get("/").await.status, 200);
    let answer = gateway.send(post("/").body(vec![b'x'; 20_000])).await;
    assert_eq!((answer.status, answer.text()), (200, "20000"));
    let line = gateway.access_lines(2).await.remove(1);
    assert_eq!(line["attempts"], 2, "{line}");
}

#[tokio::test]
async fn a_reset_without_an_error_ends_no_answer() {
    // Goal: RFC 9113 §8.1, NO_ERROR before the end of an answer is no end of it: the client gets 502, or a part that ends by a reset, and
    // the log has the reason; the connection goes on. Method: a reset behind nothing, a head, a part of a body, and a part of one whose
    // length is announced; then a whole answer.
    let origin = answering(|stream| {
        let length: (&[u8], &[u8]) = (b"content-length", b"9");
        let begin = |more: &[(&[u8], &[u8])]| {
            let block = [&[0x88][..], &fields(more)].concat();
            frame(HEADERS, END_HEADERS, stream, &block)
        };
        let part = frame(DATA, 0, stream, b"part");
        let reset = frame(RST_STREAM, 0, stream, &NO_ERROR.to_be_bytes());
        match stream {
            1 => reset,
            3 => [begin(&[]), reset].concat(),
            5 => [begin(&[]), part, reset].concat(),
            7 => [begin(&[length]), part, reset].concat(),
            _ => {
                let whole = frame(DATA, END_STREAM, stream, b"the whole");
                [begin(&[length]), whole].concat()
            }
        }
    })
    .await;
    let gateway = before_http2(origin, "").await;
    let mut client = Frames::connect(gateway.address()).await;
    client.request(1, &get_head(b"/", &[])).await;
    assert_eq!(client.fate(1).await, Fate::Answered(502));
    for (stream, body, end) in [
        (3, "", Err(INTERNAL_ERROR)),
        (5, "part", Err(INTERNAL_ERROR)),
        (7, "part", Err(INTERNAL_ERROR)),
        (9, "the whole", Ok(())),
    ] {
        client.request(stream, &get_head(b"/", &[])).await;
        assert_eq!(client.fate(stream).await, Fate::Answered(200));
        assert_eq!(client.body(stream).await, (body.into(), end), "{stream}");
    }
    let lines = gateway.access_lines(5).await;
    for (failure, count) in [(Some("reset"), 1), (Some("truncated"), 3), (None, 1)] {
        let found = lines
            .iter()
            .filter(|line| line["failure"].as_str() == failure);
        assert_eq!(found.count(), count, "{lines:?}");
    }
    for line in lines.iter().filter(|line| line["failure"].is_string()) {
        let reason = line["reason"].as_str().unwrap();
        assert!(reason.contains("NO_ERROR"), "{line}");
    }
}

#[tokio::test]
async fn a_first_answer_above_the_window_is_whole() {
    // Goal: an answer that is larger than the window of a near server comes to its end, although its request is sent before the server has
    // the settings. Method: nginx on this machine, and a file of 40,000 bytes as the first answer on its connection, then once more.
    const LENGTH: usize = 40_000;
    let files = TempDir::new().unwrap();
    fs::write(files.path().join("page"), vec![b'p'; LENGTH]).unwrap();
    let address = free_address();
    let root = files.path().display();
    let server = format!("server {{ listen {address} http2; root {root}; }}");
    let _nginx = Nginx::start_with(&server, "").await;
    let gateway = before_http2(address, "").await;
    for _ in 0..2 {
        let answer = gateway.get("/page").await;
        assert_eq!((answer.status, answer.body.len()), (200, LENGTH));
    }
}

#[tokio::test]
async fn a_priority_of_an_origin_ends_its_connection() {
    // Goal: RFC 9218 §7.1, a server sends no PRIORITY_UPDATE: it breaks the connection, and both logs name the rule. Method: one in front
    // of an answer.
    let origin = answering(|stream| {
        let update = frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1");
        let answer = frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0x88]);
        [update, answer].concat()
    })
    .await;
    let gateway = before_http2(origin, "").await;
    gateway.get("/").await.assert_problem(502);
    let line = gateway.access_line().await;
    assert_eq!(line["failure"], "protocol", "{line}");
    let rule = "the server broke a rule of HTTP/2: PRIORITY_UPDATE";
    let reason = line["reason"].as_str().unwrap();
    assert!(reason.contains(rule), "{reason}");
    assert!(gateway.stderr().contains(rule));
}

#[tokio::test]
async fn requests_that_come_together_share_a_connection() {
    // Goal: the first requests to a server of HTTP/2 open one connection, not one each. Method: 60 at once, which the origin answers when
    // all have come.
    let origin = EchoOrigin::start().await;
    let gateway = before_http2(origin.address, "").await;
    let asked = (0..60).map(|_| gateway.get("/together/60"));
    for answer in futures_util::future::join_all(asked).await {
        assert_eq!(answer.status, 200);
    }
    assert_eq!(origin.connections(), 1);
}

#[tokio::test]
async fn an_idle_connection_of_http2_ends() {
    // Goal: `timeouts.idle` holds for connections of HTTP/2, and no request is lost by it. Method: the origin waits for the end of the
    // connection after a request; the next request opens another.
    let (ended, mut ends) = tokio::sync::mpsc::unbounded_channel();
    let origin = listening(move |stream, number| {
        let ended = ended.clone();
        async move {
            let mut frames = Frames::accept(stream).await;
            while let Some(stream) = next_head(&mut frames).await {
                let head = frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0x88]);
                frames.write(&head).await;
            }
            let _ = ended.send(number);
        }
    })
    .await;
    let gateway = before_http2(origin, "timeouts = { idle = \"1s\" }").await;
    for number in 0..2 {
        assert_eq!(gateway.get("/").await.status, 200);
        let end = within(Duration::from_secs(10), "the end", async || {
            ends.recv().await
        })
        .await;
        assert_eq!(end, number);
    }
}

#[tokio::test]
async fn interim_answers_reach_a_stream() {
    // Goal: RFC 9110 §10.1.1 and §15.2 over HTTP/2: a client that expects `100 Continue` gets it before its body is read, and a 103 of the
    // origin comes before the final answer. Method: frames of a client; the origin sends a hint first.
    let origin = Origin::answering(|_| {
        Reply::Pieces(
            vec![
                b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n".to_vec(),
                b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec(),
            ],
            Duration::from_millis(20),
        )
    });
    let gateway = Gateway::passing(&origin).await;
    let mut frames = Frames::connect(gateway.address()).await;
    let open = head_of(b"POST", b"/", &[(b"expect", b"100-continue")]);
    frames.write(&frame(HEADERS, END_HEADERS, 1, &open)).await;
    assert_eq!(frames.fate(1).await, Fate::Answered(100));
    frames.write(&frame(DATA, END_STREAM, 1, b"body")).await;
    assert_eq!(frames.fate(1).await, Fate::Answered(103));
    assert_eq!(frames.fate(1).await, Fate::Answered(200));
    assert_eq!(origin.only_request().text(), "body");
}

#[tokio::test]
async fn the_date_of_an_origin_reaches_a_stream() {
    // Goal: RFC 9110 §6.6.1 over HTTP/2, `Date` is the origin's; where it sends none, the gateway adds it. Method: both, and an
    // answer of the gateway.
    const OLD: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    let origin = Origin::answering(|request| match request.target.as_str() {
        "/old" => Reply::Raw(
            format!("HTTP/1.1 200 OK\r\nDate: {OLD}\r\nContent-Length: 0\r\n\r\n").into_bytes(),
        ),
        "/none" => Reply::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()),
        _ => Reply::Close,
    });
    let gateway = Gateway::passing(&origin).await;
    let client = gateway.h2c().await;
    assert_eq!(client.send(get("/old")).await.all("date"), [OLD]);
    for target in ["/none", "/failed"] {
        let answer = client.send(get(target)).await;
        assert_eq!(answer.all("date").len(), 1, "{target}");
        assert_ne!(answer.header("date"), Some(OLD), "{target}");
    }
}

#[tokio::test]
async fn a_stream_that_is_not_forwarded_is_recorded() {
    // Goal: a request of HTTP/2 that breaks a rule beyond the frames, and CONNECT, get a status and a line in the access log, and reach no
    // origin. Method: no host, two that differ, userinfo, a target that is no path, CONNECT, schemes that are none, and a value behind a
    // space, which a route's condition would not see as the origin does.
    let origin = Origin::named("fine");
    let gateway = Gateway::passing(&origin).await;
    let of_scheme = |scheme: &'static [u8],
                     authority: &'static [u8],
                     path: &'static [u8],
                     host: &'static [u8]| {
        let pseudo: [(&[u8], &[u8]); 3] =
            [(b":method", b"GET"), (b":scheme", scheme), (b":path", path)];
        let more: [(&[u8], &[u8]); 2] = [(b":authority", authority), (b"host", host)];
        let more = more.into_iter().filter(|(_, value)| !value.is_empty());
        fields(&pseudo.into_iter().chain(more).collect::<Vec<_>>())
    };
    let head = |authority, path, host| of_scheme(b"http", authority, path, host);
    let connect = fields(&[(b":method", b"CONNECT"), (b":authority", b"a.test:443")]);
    let spaced = fields(&[
        (b":method", b"GET"),
        (b":scheme", b"http"),
        (b":path", b"/"),
        (b":authority", b"a.test"),
        (b"x-plan", b" free"),
    ]);
    let cases = [
        (head(b"", b"/", b""), 400),
        (head(b"a.test", b"/", b"b.test"), 400),
        (head(b"u@a.test", b"/", b""), 400),
        (head(b"a.test", b"*", b""), 400),
        (connect, 405),
        (of_scheme(b"", b"a.test", b"/", b""), 400),
        (of_scheme(b"1", b"a.test", b"/", b"a.test"), 400),
        (spaced, 400),
    ];
    for (number, (head, status)) in cases.iter().enumerate() {
        let mut frames = Frames::connect(gateway.address()).await;
        frames.request(1, head).await;
        assert_eq!(frames.fate(1).await, Fate::Answered(*status), "{number}");
        let line = gateway.access_lines(number + 1).await.remove(number);
        assert_eq!(line["status"], *status, "{line}");
    }
    assert_eq!(origin.count(), 0);
}

#[tokio::test]
async fn an_operator_sets_the_window_of_a_stream() {
    // Goal: `stream_window` is what a server may send ahead, a reload changes it at once, and what an unread answer can hold by it is
    // reserved. Method: the settings of the gateway's connections before and after a reload; an answer of 50 MB that nobody reads.
    let listener = listen();
    let origin = listener.local_addr().unwrap();
    let (tell, mut windows) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let tell = tell.clone();
            tokio::spawn(async move {
                let mut frames = Frames::accept(stream).await;
                while let Some(next) = frames.next().await {
                    if next.kind == SETTINGS
                        && let Some(window) = next
                            .payload
                            .chunks(6)
                            .find(|one| one[1] == INITIAL_WINDOW_SIZE as u8)
                    {
                        tell.send(u32::from_be_bytes(window[2..].try_into().unwrap()))
                            .unwrap();
                    }
                    if next.kind == HEADERS {
                        let head =
                            [&[0x88][..], &fields(&[(b"content-length", b"50000000")])].concat();
                        frames
                            .write(&frame(HEADERS, END_HEADERS, next.stream, &head))
                            .await;
                        frames
                            .write(&frame(DATA, 0, next.stream, &[b'x'; 16_384]))
                            .await;
                    }
                }
            });
        }
    });
    let setup = |window: &str| {
        let lines = format!("protocol = \"h2c\"\nstream_window = \"{window}\"");
        let setup = Setup::new().servers("app", &[origin]).origin_line(&lines);
        setup.rules("[[route]]\npath = \"/*\"\norigin = \"app\"")
    };
    let mut gateway = setup("1MiB").start().await;
    let mut first = RawConnection::connect_unread(gateway.address()).await;
    first.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(windows.recv().await, Some(1024 * 1024));
    let reserved = async |gateway: &Gateway, least: f64| {
        eventually("the answer has its reserve", async || {
            let reserved = gateway.metrics().await.sum("sluicegate_unread_bytes", &[]);
            (reserved > least).then_some(reserved)
        })
        .await
    };
    let of_first = reserved(&gateway, 2e6).await;
    assert!(of_first < 2.5e6, "{of_first}");
    let before = gateway.generation().await;
    gateway.write_setup(setup("64KiB"), Writing::Rename);
    gateway.serves_after(before).await;
    let mut second = RawConnection::connect_unread(gateway.address()).await;
    second.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(windows.recv().await, Some(64 * 1024));
    let both = reserved(&gateway, of_first + 1e5).await;
    assert!(both < of_first + 3e5, "{both}");
}
