//! What a request may not be: too large, or anything that two parsers could read in two ways.

use crate::harness::*;

#[tokio::test]
async fn a_body_announced_too_large_is_413_and_never_starts() {
    // Goal: the cap by Content-Length. Method: announce one byte more than allowed; the origin must get nothing.
    let origin = Origin::echo();
    let gateway = Setup::new()
        .origin("app", &origin)
        .rules("[server]\nmax_body_bytes = 1000\n[[route]]\npath = \"/*\"\norigin = \"app\"")
        .start()
        .await;
    gateway
        .send(post("/").body(vec![b'x'; 1001]))
        .await
        .assert_problem(413);
    assert_eq!(origin.count(), 0);
    assert_eq!(
        gateway.send(post("/").body(vec![b'x'; 1000])).await.status,
        200
    );
}

#[tokio::test]
async fn a_chunked_body_that_grows_too_large_is_413_and_never_arrives_whole() {
    // Goal: the cap without an announcement. Method: chunks beyond it; the origin must not take it for a whole request.
    let origin = Origin::echo();
    let gateway = Gateway::before(
        &origin,
        "[[route]]\npath = \"/*\"\norigin = \"app\"\nmax_body_bytes = 1000",
    )
    .await;
    let mut raw = gateway.raw().await;
    raw.write("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    let chunk = format!("1f4\r\n{}\r\n", "x".repeat(500));
    for _ in 0..3 {
        raw.write(&chunk).await;
    }
    raw.read_response().await.assert_problem(413);
    assert!(
        origin.requests().iter().all(|request| !request.whole),
        "{:?}",
        origin.requests()
    );
}

#[tokio::test]
async fn the_caps_hold_over_http2() {
    // Goal: neither body nor head is larger there. Method: both just above the cap, then a request below it on the same
    // connection or a new one.
    let origin = Origin::echo();
    let gateway = Gateway::before(
        &origin,
        "[server]\nmax_header_bytes = 4096\nmax_body_bytes = 1000\n[[route]]\npath = \"/*\"\norigin = \"app\"",
    )
    .await;
    let body = gateway
        .h2c()
        .await
        .send(post("/").body(vec![b'x'; 1001]))
        .await;
    assert_eq!(body.status, 413);
    let head = gateway
        .h2c()
        .await
        .send(get("/").header("X-Large", &"x".repeat(5000)))
        .await;
    assert_eq!(head.status, 431);
    assert!(origin.requests().iter().all(|request| !request.whole));
    assert_eq!(
        gateway
            .h2c()
            .await
            .send(post("/").body(vec![b'x'; 1000]))
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn a_head_too_large_is_431() {
    // Goal: the caps on a head's bytes and fields. Method: one large field, many small ones, and more than the proxy's parser would take;
    // each has its line in the log.
    let origin = Origin::echo();
    let gateway = Setup::new()
        .origin("app", &origin)
        .rules("[server]\nmax_header_bytes = 4096\nmax_headers = 20\n[[route]]\npath = \"/*\"\norigin = \"app\"")
        .start()
        .await;
    gateway
        .send(get("/").header("X-Large", &"x".repeat(5000)))
        .await
        .assert_problem(431);
    let with = |fields: usize| {
        (0..fields).fold(get("/"), |request, n| {
            request.header(&format!("X-{n}"), "v")
        })
    };
    gateway.send(with(25)).await.assert_problem(431);
    gateway.send(with(300)).await.assert_problem(431);
    assert_eq!(gateway.send(with(10)).await.status, 200);
    assert_eq!(origin.count(), 1);
    let told = gateway.access_lines(4).await;
    let mut statuses: Vec<_> = told.iter().map(|line| line["status"].as_u64()).collect();
    // A line is written after its answer, so that of the next connection may come before it.
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 431, 431, 431].map(Some));
}

#[tokio::test]
async fn a_head_that_never_ends_is_cut_off() {
    // Goal: no client makes the gateway buffer without bound. Method: field after field until the gateway has had enough.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let mut raw = gateway.raw().await;
    raw.write("GET / HTTP/1.1\r\nHost: a.test\r\n").await;
    let line = format!("X-More: {}\r\n", "x".repeat(1000));
    let mut sent = 0;
    while sent < 10_000_000 && raw.try_write(&line).await.is_ok() {
        sent += line.len();
    }
    assert!(sent < 10_000_000, "the gateway took {sent} bytes of a head");
    assert_eq!(origin.count(), 0);
}

#[tokio::test]
async fn requests_that_two_parsers_could_read_in_two_ways_are_400() {
    // Goal: no request smuggling. Method: the classic ambiguities; each must be answered 400 and closed, and the origin,
    // where the second reading would become a request, must hear nothing.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let cases = [
        (
            "both framings",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "two lengths",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
        ),
        (
            "a signed length",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +4\r\n\r\nabcd",
        ),
        (
            "a list of lengths",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4, 5\r\n\r\nabcde",
        ),
        (
            "an unknown coding",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "chunked not last",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        ),
        (
            "chunked twice",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "space before the colon",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length : 0\r\n\r\n",
        ),
        (
            "a folded field",
            "GET / HTTP/1.1\r\nHost: a\r\nX-Folded: one\r\n two\r\n\r\n",
        ),
        ("bare line feeds", "GET / HTTP/1.1\nHost: a\n\n"),
        (
            "a bare carriage return",
            "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\rX-C: d\r\n\r\n",
        ),
        ("a NUL", "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\0c\r\n\r\n"),
        (
            "a name that is none",
            "GET / HTTP/1.1\r\nHost: a\r\nX(A): b\r\n\r\n",
        ),
        (
            "a space in the target",
            "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        ("two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        ("no host", "GET / HTTP/1.1\r\n\r\n"),
        (
            "another host in the target",
            "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        ("no request at all", "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"),
    ];
    let mut wrong = Vec::new();
    for (what, bytes) in cases {
        let mut raw = gateway.raw().await;
        raw.write(bytes).await;
        match raw.try_read_response().await {
            Ok(answer) if answer.status == 400 => {}
            Ok(answer) => wrong.push(format!("{what}: {}", answer.status)),
            Err(error) => wrong.push(format!("{what}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(origin.count(), 0);
    let told = gateway.access_lines(cases.len()).await;
    assert!(told.iter().all(|line| line["status"] == 400), "{told:?}");
}
