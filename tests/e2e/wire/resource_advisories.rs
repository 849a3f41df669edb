//! Defects of other proxies that cost memory, CPU time or connections, sent to the gateway byte by byte.
//!
//! `docs/security/advisories.md` lists them all; those about the meaning of bytes are in `advisories.rs`.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::harness::frames::{Frames, SETTINGS, WINDOW_UPDATE, frame, get as head_of_get};
use crate::harness::*;

const ROUTE: &str = "[[route]]\npath = \"/*\"\norigin = \"app\"\n";
/// The memory that a flood may take: far more than one connection holds, far less than what is sent.
const MOST: u64 = 16 * 1024 * 1024;
/// The bytes of a flood.
const FLOOD: usize = 64 * 1024 * 1024;
/// The time for which a flood is sent without the gateway taking more of it.
const STUCK: Duration = Duration::from_secs(2);

/// Sends `piece` again and again, without reading, and returns the bytes that were taken until no more were, at most [`FLOOD`].
async fn pour(raw: &mut RawConnection, piece: &str) -> usize {
    let mut taken = 0;
    while taken < FLOOD
        && let Ok(Ok(())) = timeout(STUCK, raw.try_write(piece)).await
    {
        taken += piece.len();
    }
    taken
}

/// An origin that sends `head` and then `piece` without an end, and reads nothing behind the first bytes of a request.
async fn pouring(head: &'static str, piece: &'static str) -> SocketAddr {
    let listener = listen();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut first = [0; 1];
                stream.read_exact(&mut first).await?;
                stream.write_all(head.as_bytes()).await?;
                let piece = piece.repeat(1_000);
                while !piece.is_empty() {
                    stream.write_all(piece.as_bytes()).await?;
                }
                // Nothing is sent: the connection stays open.
                std::future::pending::<std::io::Result<()>>().await
            });
        }
    });
    address
}

/// Goal: Envoy CVE-2020-8661: answers of the gateway to pipelined requests are not queued for a client that does not read. Method: 64 MiB
/// of requests on one connection, of which the gateway answers each itself; it stops reading, and memory stays.
#[tokio::test]
async fn answers_to_pipelined_requests_wait_at_the_client() {
    let gateway = Gateway::start("[[route]]\npath = \"/*\"\nrespond = { status = 200 }\n").await;
    assert_eq!(gateway.get("/").await.status, 200);
    let before = gateway.resident_bytes();
    let mut raw = RawConnection::connect_unread(gateway.address()).await;
    let taken = pour(&mut raw, &"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1_000)).await;
    assert_eq!(gateway.get("/").await.status, 200);
    assert!(taken < FLOOD, "all requests were taken");
    let grown = gateway.resident_bytes().saturating_sub(before);
    assert!(grown < MOST, "{grown} bytes more");
}

/// Goal: Envoy CVE-2020-8659: a chunk of one byte takes no more memory than its bytes. Method: bodies of such chunks, from a client to an
/// origin that does not read, and from an origin to a client that does not read; the gateway stops reading, and memory stays.
#[tokio::test]
async fn chunks_of_one_byte_wait_at_their_sender() {
    const CHUNKS: &str = "1\r\nx\r\n";
    let silent = pouring("", "").await;
    let endless = pouring(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        CHUNKS,
    )
    .await;
    let rules = "[[route]]\npath = \"/own\"\nrespond = { status = 200 }\n\
                 [[route]]\npath = \"/upload\"\norigin = \"silent\"\n\
                 [[route]]\npath = \"/endless\"\norigin = \"endless\"\n";
    let gateway = Setup::new()
        .servers("silent", &[silent])
        .servers("endless", &[endless])
        .rules(rules)
        .start()
        .await;
    assert_eq!(gateway.get("/own").await.status, 200);
    let before = gateway.resident_bytes();
    let mut up = gateway.raw().await;
    up.write("POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    let taken = pour(&mut up, &CHUNKS.repeat(1_000)).await;
    assert!(taken < FLOOD, "all chunks were taken");
    let mut down = Vec::new();
    for _ in 0..20 {
        let mut raw = RawConnection::connect_unread(gateway.address()).await;
        raw.write("GET /endless HTTP/1.1\r\nHost: a\r\n\r\n").await;
        down.push(raw);
    }
    settled(async || gateway.unsent_bytes()).await;
    assert_eq!(gateway.get("/own").await.status, 200);
    let grown = gateway.resident_bytes().saturating_sub(before);
    assert!(grown < MOST, "{grown} bytes more");
}

/// Goal: Apache Traffic Server CVE-2024-56202: a client that expects 100 and sends no body holds its request no longer than others. Method:
/// 50 of them; each is told to go on, and is answered 408 after `client_read_timeout`.
#[tokio::test]
async fn an_expectation_without_a_body_holds_nothing() {
    let origin = Origin::named("fine");
    let rules = format!("[server]\nclient_read_timeout = \"500ms\"\n{ROUTE}");
    let gateway = Gateway::before(&origin, &rules).await;
    let mut waiting = Vec::new();
    for _ in 0..50 {
        let mut raw = gateway.raw().await;
        raw.write(
            "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
        )
        .await;
        assert_eq!(raw.read_response().await.status, 100);
        waiting.push(raw);
    }
    for mut raw in waiting {
        assert_eq!(raw.read_response().await.status, 408);
        assert!(raw.read_to_end().await.is_empty());
    }
    eventually("no request is left", async || {
        let metrics = gateway.metrics().await;
        (metrics.sum("sluicegate_requests_in_flight", &[]) == 0.0).then_some(())
    })
    .await;
    assert_eq!(gateway.get("/").await.status, 200);
}

/// Goal: HAProxy CVE-2024-45506, Apache CVE-2023-43622: answers that a client of HTTP/2 does not take cost no CPU time, and end. Method:
/// windows of nothing, which the client never opens, and wide ones, whose bytes it does not read; the streams end after
/// `client_write_timeout`, and the gateway has slept meanwhile.
#[tokio::test]
async fn answers_that_are_not_taken_cost_no_cpu_time() {
    const STREAMS: u32 = 16;
    let endless = pouring(
        "HTTP/1.1 200 OK\r\nContent-Length: 9000000000\r\n\r\n",
        "abcdefgh",
    )
    .await;
    let rules = format!("[server]\nclient_write_timeout = \"3s\"\n{ROUTE}");
    let setup = Setup::new().servers("app", &[endless]).rules(&rules);
    let gateway = setup.start().await;
    let before = gateway.cpu_time();
    let mut clients = Vec::new();
    for window in [0, 0x7fff_0000_u32] {
        let mut frames = Frames::connect_unread(gateway.address()).await;
        let initial = [&[0, 4][..], &window.to_be_bytes()].concat();
        frames.write(&frame(SETTINGS, 0, 0, &initial)).await;
        let whole = 0x7fff_0000_u32.to_be_bytes();
        frames.write(&frame(WINDOW_UPDATE, 0, 0, &whole)).await;
        for stream in 0..STREAMS {
            frames
                .request(stream * 2 + 1, &head_of_get(b"/", &[]))
                .await;
        }
        clients.push(frames);
    }
    let in_flight = async || {
        let metrics = gateway.metrics().await;
        metrics.sum("sluicegate_requests_in_flight", &[])
    };
    eventually("all are in flight", async || {
        (in_flight().await == f64::from(2 * STREAMS)).then_some(())
    })
    .await;
    within(Duration::from_secs(30), "all streams end", async || {
        (in_flight().await == 0.0).then_some(())
    })
    .await;
    let used = gateway.cpu_time() - before;
    assert!(used < Duration::from_secs(1), "{used:?}");
}

/// Goal: HAProxy CVE-2022-0711: `Set-Cookie2` in a response is a field like others. Method: several of them, among `Set-Cookie`, before a
/// route that caches; each client gets an answer of its own.
#[tokio::test]
async fn a_set_cookie2_field_is_a_field_like_others() {
    let origin = Origin::answering(|request| {
        let answer = Answer::new(200).header("Set-Cookie2", "a=b; Version=1");
        let answer = answer.header("Set-Cookie", "c=d").header("Set-Cookie2", "");
        answer.body(request.target.clone()).into()
    });
    let gateway = Gateway::before(&origin, &format!("{ROUTE}[route.cache]\n")).await;
    for turn in 1..=3 {
        let answer = gateway.get("/page").await;
        assert_eq!((answer.status, answer.text()), (200, "/page"));
        assert_eq!(answer.header("set-cookie2"), Some("a=b; Version=1"));
        assert_eq!(origin.count(), turn);
    }
}
