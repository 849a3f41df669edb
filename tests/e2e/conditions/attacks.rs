//! What clients try: to be measured as a slow origin, to stay unnoticed, and to get a second quota.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{activity, becomes, loaded, paced, together};
use crate::harness::*;

/// A limit of each client, which applies under a condition.
fn limit_when(name: &str, count: u32, condition: &str) -> String {
    let lines = format!("rates = [\"{count} per 1h\"]\nwhen = \"{condition}\"");
    limit(name, &["client.ip"], &lines)
}

/// Sends these bytes of a body of four, one every 100 ms; the status of the answer.
async fn upload(gateway: &Gateway, bytes: &[u8]) -> u16 {
    let mut raw = gateway.raw().await;
    raw.write("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\n")
        .await;
    let mut bytes = bytes.chunks(1);
    at_a_pace(Duration::from_millis(100), async || match bytes.next() {
        Some(byte) => {
            raw.write(byte).await;
            None
        }
        None => Some(()),
    })
    .await;
    raw.read_response().await.status
}

#[tokio::test]
async fn a_slow_upload_is_no_slow_origin() {
    // Goal: a client cannot make the gateway strict with others by sending its own body slowly, nor by reading slowly. Method: thirty
    // bodies whose last byte comes late; a second limit shows that all of them are measured, as fast ones.
    let origin = paced(Duration::ZERO);
    let rules = limit_when("strict", 1, "origin.app.p50 > 150ms")
        + &limit_when("measured", 1000, "origin.app.p99 < 150ms")
        + &route("/*", &["strict", "measured"], "origin = \"app\"");
    let gateway = Gateway::before(&origin, &rules).await;
    eventually("all are measured", async || {
        let uploads = (0..30).map(|_| upload(&gateway, b"body"));
        assert_eq!(futures_util::future::join_all(uploads).await, [200; 30]);
        (activity(&gateway, "measured").await == 1.0).then_some(())
    })
    .await;
    assert_eq!(activity(&gateway, "strict").await, 0.0);
}

/// An origin that answers a POST before it has the last byte of its body, and everything else at once.
async fn hasty() -> SocketAddr {
    let listener = listen();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut read = Vec::new();
                let is_answered = |read: &[u8]| {
                    let head = read.windows(4).position(|four| four == b"\r\n\r\n");
                    head.is_some_and(|at| !read.starts_with(b"POST") || read.len() >= at + 4 + 3)
                };
                while !is_answered(&read) {
                    if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
                // The other end may have left, which is no concern of the test.
                let _ = stream.write_all(answer).await;
                let _ = stream.read_to_end(&mut read).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn an_early_answer_to_a_slow_upload_is_not_measured() {
    // Goal: an origin that answers a body before its end is not slow because the client is. Method: thirty uploads whose bytes come late,
    // each answered before its last byte, then fast requests; a limit shows that only these are measured.
    let rules = limit_when("measured", 1000, "origin.app.p99 < 150ms")
        + &route("/*", &["measured"], "origin = \"app\"");
    let setup = Setup::new().servers("app", &[hasty().await]).rules(&rules);
    let gateway = setup.start().await;
    let uploads = (0..30).map(|_| upload(&gateway, b"bod"));
    assert_eq!(futures_util::future::join_all(uploads).await, [200; 30]);
    eventually("the fast ones are measured alone", async || {
        for _ in 0..30 {
            assert_eq!(gateway.get("/").await.status, 200);
        }
        (activity(&gateway, "measured").await == 1.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_few_slow_answers_say_nothing() {
    // Goal: one client with a handful of slow requests does not make the gateway strict. Method: nineteen slow answers, and a limit that
    // becomes active by a request after them, which shows that the gateway has looked since; then more.
    let origin = paced(Duration::from_millis(600));
    let rules = limit_when("strict", 1000, "origin.app.p50 > 300ms")
        + &limit("seen", &["global"], "rates = [\"1 per 1h\"]")
        + &limit_when("witness", 1000, "limit.seen.used > 50%")
        + &route("/*", &["strict"], "origin = \"app\"")
        + &route("/seen", &["seen", "witness"], ANSWERED);
    let gateway = Gateway::before(&origin, &rules).await;
    together(&gateway, 19, "/slow").await;
    assert_eq!(gateway.get("/seen").await.status, 200);
    becomes(&gateway, "witness", true).await;
    assert_eq!(activity(&gateway, "strict").await, 0.0);
    loaded(&gateway, "strict", 30, "/slow").await;
}

#[tokio::test]
async fn nobody_gets_a_second_quota_when_a_limit_becomes_active() {
    // Goal: what a client used in peace counts from the first request under load, and what it is refused is charged to no limit. Method: a
    // limit of the site whose use makes that of clients apply; a client that used its own up before.
    let rules = limit("site", &["global"], "rates = [\"100 per 1h\"]")
        + &limit_when("ip", 10, "limit.site.used > 50%")
        + &route("/*", &["site", "ip"], ANSWERED);
    let gateway = Gateway::start(&rules).await;
    let mut client = gateway.client().await;
    let mut left = 100;
    for _ in 0..51 {
        let answer = client.get("/").await;
        assert_eq!(answer.status, 200);
        left = answer.remaining("site");
    }
    becomes(&gateway, "ip", true).await;
    for _ in 0..20 {
        assert_eq!(client.get("/").await.status, 429);
    }
    let other = gateway.client_from("127.0.0.7").await.get("/").await;
    assert_eq!((other.status, other.remaining("site")), (200, left - 1));
    assert_eq!(other.remaining("ip"), 9);
}
