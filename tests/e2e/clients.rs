//! Clients that are slow, terse or idle.

use std::time::{Duration, Instant};

use crate::harness::*;

const RESPOND: &str = "[[route]]\npath = \"/*\"\nrespond = { status = 200, body = \"ok\" }\n";

#[tokio::test]
async fn a_request_in_single_bytes_is_served() {
    // Goal: no assumption about how bytes arrive, the recognition of HTTP/2 included. Method: one byte a write.
    let gateway = Gateway::start(RESPOND).await;
    let mut raw = gateway.raw().await;
    for byte in b"GET /slow HTTP/1.1\r\nHost: a.test\r\n\r\n" {
        raw.write([*byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(raw.read_response().await.text(), "ok");
}

#[tokio::test]
async fn a_request_shorter_than_the_preface_of_http2_is_served() {
    // Goal: telling HTTP/2 from HTTP/1 must not wait for bytes that never come. Method: 18 bytes of HTTP/1.0.
    let gateway = Gateway::start(RESPOND).await;
    let mut raw = gateway.raw().await;
    raw.write("GET / HTTP/1.0\r\n\r\n").await;
    let answer = raw.read_response().await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_time() {
    // Goal: `keepalive_timeout`. Method: one request, then silence; the gateway must close, neither at once nor never.
    let gateway = Gateway::start(&format!("[server]\nkeepalive_timeout = \"1s\"\n{RESPOND}")).await;
    let mut raw = gateway.raw().await;
    let started = Instant::now();
    raw.write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await;
    raw.read_response().await;
    assert_eq!(raw.read_to_end().await, b"");
    assert!(
        started.elapsed() > Duration::from_millis(800),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn a_connection_that_was_idle_serves_its_next_request() {
    // Goal: a connection that has given its memory back serves further requests, and ends only after `keepalive_timeout`. Method: requests
    // a second and a half apart, the second one in pieces; then silence.
    const APART: Duration = Duration::from_millis(1500);
    let gateway = Gateway::start(&format!("[server]\nkeepalive_timeout = \"3s\"\n{RESPOND}")).await;
    let mut raw = gateway.raw().await;
    let whole = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let mut last = Instant::now();
    for pieces in [
        &[whole][..],
        &["\r\n", "GET / HT", "TP/1.1\r\nHost: a.test\r\n\r\n"],
    ] {
        for piece in pieces {
            raw.write(piece).await;
        }
        assert_eq!(raw.read_response().await.text(), "ok");
        last = Instant::now();
        let pause = Duration::from_millis(100);
        at_a_pace(pause, async || (last.elapsed() > APART).then_some(())).await;
    }
    assert_eq!(raw.read_to_end().await, b"");
    let idle = last.elapsed();
    assert!(idle > Duration::from_millis(2800), "{idle:?}");
}

#[tokio::test]
async fn a_silent_connection_is_closed_at_its_timeout() {
    // Goal: idle connections are closed. Method: connect and send nothing; send half a preface of HTTP/2.
    let settings = "[server]\nclient_header_timeout = \"1s\"\n";
    let gateway = Gateway::start(&format!("{settings}{RESPOND}")).await;
    let mut silent = gateway.raw().await;
    let mut half = gateway.raw().await;
    half.write("PRI * HTTP").await;
    silent.read_to_end().await;
    half.read_to_end().await;
}

#[tokio::test]
async fn a_head_that_begins_like_http2_has_the_time_of_a_head() {
    // Goal: `client_header_timeout` holds for each first byte. Method: beginnings of HTTP/2's preface and of other methods, then nothing;
    // each is answered with 408 long before the timeout for bodies.
    let gateway = Gateway::start(&format!(
        "[server]\nclient_header_timeout = \"1s\"\nclient_read_timeout = \"1m\"\n{RESPOND}"
    ))
    .await;
    let started = Instant::now();
    let mut connections = Vec::new();
    for begin in ["G", "P", "PO", "PRI * HT"] {
        let mut raw = gateway.raw().await;
        raw.write(begin).await;
        connections.push((begin, raw));
    }
    for (begin, raw) in &mut connections {
        assert_eq!(raw.read_response().await.status, 408, "{begin:?}");
    }
    let took = started.elapsed();
    assert!(took < Duration::from_secs(30), "{took:?}");
    let lines = gateway.access_lines(connections.len()).await;
    assert!(lines.iter().all(|line| line["status"] == 408), "{lines:?}");
    // The rest of a head is read behind the beginning that was looked at.
    let mut raw = gateway.raw().await;
    for piece in ["P", "R", "IMES / HTTP/1.1\r\nHost: a\r\n\r\n"] {
        raw.write(piece).await;
    }
    assert_eq!(raw.read_response().await.status, 200);
}

#[tokio::test]
async fn a_head_that_drips_is_cut_off() {
    // Goal: slowloris. Method: a field every 100 ms must not hold the connection forever.
    let gateway = Gateway::start(&format!(
        "[server]\nclient_header_timeout = \"1s\"\n{RESPOND}"
    ))
    .await;
    let mut raw = gateway.raw().await;
    raw.write("GET / HTTP/1.1\r\nHost: a.test\r\n").await;
    let started = Instant::now();
    at_a_pace(Duration::from_millis(100), async || {
        let is_open = raw.try_write("X-Drip: x\r\n").await.is_ok();
        (!is_open || started.elapsed() >= Duration::from_secs(12)).then_some(())
    })
    .await;
    assert!(
        started.elapsed() < Duration::from_secs(12),
        "the head was awaited for {:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn a_body_that_stalls_is_cut_off() {
    // Goal: `client_read_timeout` within a body. Method: half of the announced body, then silence; the connection must end.
    let origin = Origin::echo();
    let rules =
        "[server]\nclient_read_timeout = \"1s\"\n[[route]]\npath = \"/*\"\norigin = \"app\"\n";
    let gateway = Gateway::before(&origin, rules).await;
    let mut raw = gateway.raw().await;
    raw.write("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nhalf")
        .await;
    raw.read_to_end().await;
    assert!(origin.requests().iter().all(|request| !request.whole));
}

#[tokio::test]
async fn a_listener_may_refuse_http2() {
    // Goal: `http2 = false`. Method: the preface is then just a malformed HTTP/1 request.
    let gateway = Setup::new()
        .listener_line("http2 = false")
        .rules(RESPOND)
        .start()
        .await;
    let mut raw = gateway.raw().await;
    raw.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    let answer = raw.try_read_response().await;
    assert!(answer.is_err() || answer.is_ok_and(|answer| answer.status >= 400));
    assert_eq!(gateway.get("/").await.status, 200);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    // Goal: requests that arrive in one piece each get their answer. Method: ten in one write, bodies of known length included.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let mut raw = gateway.raw().await;
    let requests: String = (0..10)
        .map(|n| match n % 2 {
            0 => format!("GET /{n} HTTP/1.1\r\nHost: a\r\n\r\n"),
            _ => format!("POST /{n} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"),
        })
        .collect();
    raw.write(requests).await;
    for n in 0..10 {
        assert_eq!(raw.read_response().await.echo().target, format!("/{n}"));
    }
}

#[tokio::test]
async fn a_request_behind_a_chunked_body_is_answered_or_the_connection_closed() {
    // Goal: where the gateway cannot separate requests it must answer so, not hang or mix them up. Method: chunks and a second
    // request in one write.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let mut raw = gateway.raw().await;
    raw.write(
        "POST /one HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
         GET /two HTTP/1.1\r\nHost: a\r\n\r\n",
    )
    .await;
    let first = raw.read_response().await.echo();
    assert_eq!((first.target.as_str(), first.text()), ("/one", "abc"));
    match raw.try_read_response().await {
        Ok(second) => assert_eq!(second.echo().target, "/two"),
        Err(error) => assert!(error.starts_with("closed before"), "{error}"),
    }
}

#[tokio::test]
async fn targets_that_are_no_path_are_refused() {
    // Goal: the gateway is no forward proxy and no tunnel. Method: every other form of target; each is answered, none is 2xx.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    for line in [
        "CONNECT a.test:443",
        "CONNECT /",
        "OPTIONS *",
        "GET *",
        "GET a.test",
        "GET ftp://a.test/",
    ] {
        let mut raw = gateway.raw().await;
        raw.write(format!("{line} HTTP/1.1\r\nHost: a.test\r\n\r\n"))
            .await;
        let answer = raw.read_response().await;
        assert!((400..500).contains(&answer.status), "{line}: {answer:?}");
    }
    assert_eq!(origin.count(), 0);
}
