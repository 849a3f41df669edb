//! Interim heads without end, and heads that come byte by byte.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;

use super::*;
use crate::harness::frames::{
    END_HEADERS, END_STREAM, HEADERS, RST_STREAM, fields, frame, get as get_head,
};
use crate::harness::{RawConnection, eventually, settled};

/// The interim heads that pass before the final one.
const MOST: usize = 32;

/// A 103 of an origin of HTTP/1.1 with a field of so many bytes.
fn hint(bytes: usize) -> Vec<u8> {
    format!(
        "HTTP/1.1 103 Early Hints\r\nLink: {}\r\n\r\n",
        "a".repeat(bytes)
    )
    .into_bytes()
}

/// The same of a stream.
fn stream_hint(stream: u32, bytes: usize) -> Vec<u8> {
    let block = fields(&[
        (b":status", b"103"),
        (b"link", "a".repeat(bytes).as_bytes()),
    ]);
    frame(HEADERS, END_HEADERS, stream, &block)
}

/// An origin that sends interim heads with so many bytes until its connection breaks, or a hundred thousand of them.
async fn flooding(spoken: Spoken, bytes: usize) -> SocketAddr {
    const LAST: usize = 100_000;
    listening(move |mut stream, _| async move {
        let hint = if spoken == Spoken::Http1 {
            read_head(&mut stream).await;
            hint(bytes)
        } else {
            let mut frames = Frames::accept(stream).await;
            let Some(head) = next_head(&mut frames).await else {
                return;
            };
            stream = frames.into_stream();
            stream_hint(head, bytes)
        };
        for _ in 0..LAST {
            if stream.write_all(&hint).await.is_err() {
                return;
            }
        }
        std::future::pending().await
    })
    .await
}

#[tokio::test]
async fn interim_heads_without_end_are_a_failure_of_their_origin() {
    // Goal: neither the number nor the bytes of interim heads are without a bound, whichever versions the two sides speak, and whether the
    // client reads or not. Method: an origin that sends 103 until it is stopped, empty ones and ones of 8 KB; the line of the log, and what
    // a client that reads has got.
    for (origin, client) in BOTH
        .into_iter()
        .flat_map(|one| BOTH.map(|other| (one, other)))
    {
        for bytes in [1, 8000] {
            let address = flooding(origin, bytes).await;
            let gateway = before(&[address], origin.line()).await;
            let passed = match client {
                Spoken::Http1 => {
                    let mut raw = gateway.raw().await;
                    raw.write("GET /read HTTP/1.1\r\nHost: a\r\n\r\n").await;
                    let mut passed = 0;
                    let status = loop {
                        match raw.read_response().await.status {
                            103 => passed += 1,
                            status => break status,
                        }
                    };
                    assert_eq!(status, 502);
                    passed
                }
                Spoken::Http2 => {
                    let mut frames = Frames::connect(gateway.address()).await;
                    frames.request(1, &get_head(b"/read", &[])).await;
                    let mut heads = 0;
                    loop {
                        let got = frames.next().await.expect("an answer");
                        heads += usize::from(got.kind == HEADERS);
                        if got.stream == 1 && got.flags & END_STREAM != 0 {
                            break heads - 1;
                        }
                    }
                }
            };
            let expected = if bytes == 1 { MOST } else { 8 };
            // Those of a stream are counted as they come, and pass one by one.
            let is_right = match origin {
                Spoken::Http1 => passed == expected,
                Spoken::Http2 => passed <= expected,
            };
            assert!(is_right, "{passed}: {origin:?} {client:?} {bytes}");
            // A client that reads nothing, of a server that has seen none.
            let address = flooding(origin, bytes).await;
            let other = before(&[address], origin.line()).await;
            let _unread: Box<dyn std::any::Any> = match client {
                Spoken::Http1 => {
                    let mut raw = RawConnection::connect_unread(other.address()).await;
                    raw.write("GET /unread HTTP/1.1\r\nHost: a\r\n\r\n").await;
                    Box::new(raw)
                }
                Spoken::Http2 => {
                    let mut frames = Frames::connect_unread(other.address()).await;
                    frames.request(1, &get_head(b"/unread", &[])).await;
                    Box::new(frames)
                }
            };
            for line in [gateway.access_line().await, other.access_line().await] {
                assert_eq!(line["failure"], "too-many-interim-heads", "{line}");
                assert_eq!(line["status"], 502, "{line}");
                let reason = line["reason"].as_str().unwrap_or_default();
                assert_eq!(reason, "more than 32 interim heads, or 65536 bytes of them");
            }
        }
    }
}

#[tokio::test]
async fn a_response_head_has_one_deadline() {
    // Goal: `timeouts.read` is the time for a whole head from the end of the request: neither interim heads nor single bytes prolong it.
    // Method: origins that send one or the other every 100 ms; the time until the 504.
    for (way, origin) in [
        ("hints", Spoken::Http1),
        ("hints", Spoken::Http2),
        ("bytes", Spoken::Http1),
    ] {
        let address = listening(move |mut stream, _| async move {
            let pieces = if origin == Spoken::Http1 {
                read_head(&mut stream).await;
                match way {
                    "hints" => vec![hint(1); 30],
                    _ => b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
                        .map(|byte| vec![byte])
                        .to_vec(),
                }
            } else {
                let mut frames = Frames::accept(stream).await;
                let Some(head) = next_head(&mut frames).await else {
                    return;
                };
                stream = frames.into_stream();
                vec![stream_hint(head, 1); 30]
            };
            let mut pace = tokio::time::interval(Duration::from_millis(100));
            for piece in pieces {
                pace.tick().await;
                if stream.write_all(&piece).await.is_err() {
                    return;
                }
            }
        })
        .await;
        let lines = format!("{}\ntimeouts = {{ read = \"500ms\" }}", origin.line());
        let gateway = before(&[address], &lines).await;
        let began = Instant::now();
        let mut raw = gateway.raw().await;
        raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        while raw.read_response().await.status == 103 {}
        let line = gateway.access_line().await;
        assert_eq!(line["failure"], "ttfb-timeout", "{way}: {line}");
        assert_eq!(line["reason"], "no response head within 500ms", "{way}");
        // The pieces alone take three seconds.
        assert!(
            began.elapsed() < Duration::from_millis(2500),
            "{way}: {line}"
        );
    }
}

#[tokio::test]
async fn a_client_whose_socket_is_full_lets_no_interim_heads_pile_up() {
    // Goal: while an interim head waits for a client of HTTP/1 that does not read, those that an origin of HTTP/2 sends are counted as they
    // come, and its stream is reset at the bound. Method: answers of the gateway that fill the socket of the client but for some bytes,
    // then heads of more bytes than that; once one of them waits, as many as are too many. The client reads last, and gets whole heads.
    const FILL: usize = 16_000;
    const FULL: u64 = 128 * 1024;
    const HINT: usize = 1900;
    let (goes_on, is_reset) = (Arc::<Notify>::default(), Arc::<Notify>::default());
    let (waits, tells) = (Arc::clone(&goes_on), Arc::clone(&is_reset));
    let origin = listening(move |stream, _| {
        let (waits, tells) = (Arc::clone(&waits), Arc::clone(&tells));
        async move {
            let mut frames = Frames::accept(stream).await;
            let Some(stream) = next_head(&mut frames).await else {
                return;
            };
            let hint = stream_hint(stream, HINT);
            frames.write(&hint.repeat(MOST / 2)).await;
            waits.notified().await;
            frames.write(&hint.repeat(MOST)).await;
            while let Some(frame) = frames.next().await {
                if frame.kind == RST_STREAM {
                    tells.notify_one();
                }
            }
        }
    })
    .await;
    let fill = "f".repeat(FILL);
    let gateway = Setup::new()
        .servers("app", &[origin])
        .origin_line(Spoken::Http2.line())
        .rules(&format!(
            "[[route]]\npath = \"/fill\"\nrespond = {{ status = 200, body = \"{fill}\" }}\n\
             [[route]]\npath = \"/*\"\norigin = \"app\""
        ))
        .start()
        .await;
    let mut raw = RawConnection::connect_unread(gateway.address()).await;
    raw.write("GET /fill HTTP/1.1\r\nHost: a\r\n\r\n".repeat(7))
        .await;
    let unsent = settled(async || gateway.unsent_bytes()).await;
    let hints = (MOST / 2 * HINT) as u64;
    assert!(unsent < FULL && FULL < unsent + hints, "{unsent}");
    raw.write("GET /hints HTTP/1.1\r\nHost: a\r\n\r\n").await;
    eventually("a head waits", async || {
        (gateway.unsent_bytes() >= FULL).then_some(())
    })
    .await;
    goes_on.notify_one();
    let reset = tokio::time::timeout(Duration::from_secs(20), is_reset.notified()).await;
    assert!(reset.is_ok(), "the heads pile up");
    loop {
        match raw.read_response().await.status {
            200 | 103 => {}
            status => break assert_eq!(status, 502),
        }
    }
    let lines = gateway.access_lines(8).await;
    let line = lines.iter().find(|line| line["target"] == "/hints");
    assert_eq!(line.unwrap()["failure"], "too-many-interim-heads");
}
