//! Routes with a cache: the order of answers on a connection, dates, and what a client leaves behind.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::echo::EchoOrigin;
use crate::harness::*;

const CACHED: &str = "[[route]]\npath = \"/*\"\norigin = \"app\"\n[route.cache]\n";
const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// An origin whose answers name their requests, come late, and are fresh for a minute.
fn slow_echo() -> Origin {
    Origin::answering(|request| {
        let answer = Answer::new(200)
            .header("Cache-Control", "max-age=60")
            .header("ETag", "\"d\"")
            .body(format!("{} {}", request.method, request.target));
        Reply::After(Duration::from_millis(20), Box::new(answer.into()))
    })
}

/// Returns whether an answer was served from the cache without the origin.
fn is_hit(answer: &Response) -> bool {
    let status = answer.header("cache-status").unwrap_or_default();
    status.starts_with("sluicegate; hit;")
}

#[tokio::test]
async fn pipelined_requests_to_a_cached_route_are_answered_in_order() {
    // Goal: RFC 9112 §9.3.2 for misses, hits, confirmed conditions, heads and ranges. Method: all of them in one write; then each while the
    // answer to the one before is awaited.
    let origin = slow_echo();
    let gateway = Gateway::before(&origin, CACHED).await;
    let mut raw = gateway.raw().await;
    let expected = |n: usize| match n % 5 {
        1 => (304, String::new()),
        2 => (200, String::new()),
        3 => (206, "GET".to_owned()),
        _ => (200, format!("GET /{}", n / 5)),
    };
    let text = |n: usize| {
        let (method, field) = match n % 5 {
            1 => ("GET", "If-None-Match: \"d\"\r\n"),
            2 => ("HEAD", ""),
            3 => ("GET", "Range: bytes=0-2\r\n"),
            _ => ("GET", ""),
        };
        format!("{method} /{} HTTP/1.1\r\nHost: a\r\n{field}\r\n", n / 5)
    };
    raw.write((0..20).map(text).collect::<String>()).await;
    for n in 0..20 {
        let answer = if matches!(n % 5, 1 | 2) {
            raw.read_response_to_head().await
        } else {
            raw.read_response().await
        };
        assert_eq!(
            (answer.status, answer.text().to_owned()),
            expected(n),
            "{n}"
        );
        assert_eq!(is_hit(&answer), n % 5 != 0, "{n}: {answer:?}");
    }
    for n in 4..8 {
        raw.write(text(5 * n)).await;
        // Its answer is awaited when the next one arrives.
        origin.is_asked(n + 1).await;
    }
    for n in 4..8 {
        assert_eq!(raw.read_response().await.text(), format!("GET /{n}"));
    }
    assert_eq!(origin.count(), 8);
}

#[tokio::test]
async fn the_date_of_a_stored_answer_is_kept() {
    // Goal: RFC 9110 §6.6.1: `Date` is the origin's, stored or not; where it sends none, the stored answer has the time at which it came.
    // Method: both, fetched and from the cache.
    let origin = Origin::answering(|request| {
        let date = match request.target.as_str() {
            "/old" => format!("Date: {DATE}\r\n"),
            _ => String::new(),
        };
        let head = format!("HTTP/1.1 200 OK\r\n{date}Cache-Control: max-age=60\r\n");
        Reply::Raw(format!("{head}Content-Length: 0\r\n\r\n").into_bytes())
    });
    let gateway = Gateway::before(&origin, CACHED).await;
    for hit in [false, true] {
        let old = gateway.get("/old").await;
        assert_eq!((old.all("date"), is_hit(&old)), (vec![DATE], hit));
        let none = gateway.get("/none").await;
        assert_eq!((none.all("date").len(), is_hit(&none)), (1, hit));
    }
}

#[tokio::test]
async fn a_client_that_leaves_with_its_part_leaves_the_whole_in_the_cache() {
    // Goal: a browser that has its head or its range, and closes, costs no second fetch. Method: each such request to an origin that takes
    // its time between head and body; the client leaves as soon as it has its answer, and another one asks for the whole.
    for request in [
        "HEAD / HTTP/1.1\r\nHost: gateway.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: gateway.test\r\nIf-None-Match: \"d\"\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: gateway.test\r\nRange: bytes=0-1\r\n\r\n",
    ] {
        let origin = Origin::answering(|_| {
            let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"d\"\r\nContent-Length: 10\r\n\r\n";
            let pieces = vec![head.into(), b"01234".to_vec(), b"56789".to_vec()];
            Reply::Pieces(pieces, Duration::from_millis(100))
        });
        let gateway = Gateway::before(&origin, CACHED).await;
        let mut raw = gateway.raw().await;
        raw.write(request).await;
        if request.contains("Range") {
            assert_eq!(raw.read_response().await.text(), "01");
        } else {
            raw.read_response_to_head().await;
        }
        drop(raw);
        // It waits for the fetch, or comes after it.
        assert_eq!(gateway.get("/").await.text(), "0123456789", "{request}");
        assert_eq!(origin.count(), 1, "{request}");
    }
}

/// An answer that is stale from the start.
fn stale(words: &str) -> Answer {
    Answer::new(200)
        .header("Cache-Control", &format!("max-age=60, {words}"))
        .header("Age", "100")
}

#[tokio::test]
async fn a_refresh_asks_for_the_path_that_the_route_makes() {
    // Goal: the gateway's own request gets what a client's request would get. Method: a route that strips a prefix, and an answer that is
    // stale and may be served meanwhile.
    let count = AtomicUsize::new(0);
    let origin = Origin::answering(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 => stale("stale-while-revalidate=3600").body("old").into(),
        _ => Answer::new(200)
            .header("Cache-Control", "max-age=60")
            .body("new")
            .into(),
    });
    let rules = CACHED.replace(
        "path = \"/*\"",
        "path = \"/api/*\"\nstrip_prefix = \"/api\"",
    );
    let gateway = Gateway::before(&origin, &rules).await;
    for _ in 0..2 {
        assert_eq!(gateway.get("/api/page").await.text(), "old");
    }
    eventually("the new answer is served", async || {
        (gateway.get("/api/page").await.text() == "new").then_some(())
    })
    .await;
    let targets: Vec<_> = (origin.requests().into_iter())
        .map(|request| request.target)
        .collect();
    assert_eq!(targets, ["/page", "/page"]);
}

#[tokio::test]
async fn a_stale_answer_keeps_the_connection_of_the_client() {
    // Goal: an origin that breaks off costs no connection of a client that gets a stale answer instead. Method: three requests on one
    // connection, pipelined; the origin answers the first one alone.
    let count = AtomicUsize::new(0);
    let origin = Origin::answering(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 => stale("stale-if-error=3600").body("stored").into(),
        _ => Reply::Close,
    });
    let gateway = Gateway::before(&origin, CACHED).await;
    let mut raw = gateway.raw().await;
    raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3))
        .await;
    for _ in 0..3 {
        let answer = raw.read_response().await;
        assert_eq!((answer.status, answer.text()), (200, "stored"));
        assert_eq!(answer.header("connection"), Some("keep-alive"));
    }
}

#[tokio::test]
async fn answers_of_an_origin_of_http2_are_stored() {
    // Goal: the end of a stream is the end of a whole body, though no length was announced. Method: HEAD and GET to such an origin, then
    // the same from the cache, whole and in part.
    let origin = EchoOrigin::start().await;
    let gateway = Setup::new()
        .servers("app", &[origin.address])
        .origin_line("protocol = \"h2c\"")
        .rules(&format!("{CACHED}default_ttl = \"1h\"\n"))
        .start()
        .await;
    assert_eq!(gateway.send(request("HEAD", "/a")).await.status, 200);
    // The body, of which the client of HEAD gets nothing, is stored when the request is recorded.
    gateway.access_lines(1).await;
    assert!(is_hit(&gateway.get("/a").await));
    let fetched = gateway.get("/b").await;
    let stored = gateway.get("/b").await;
    assert!(!is_hit(&fetched) && is_hit(&stored), "{stored:?}");
    assert!(!stored.text().is_empty());
    assert_eq!(fetched.text(), stored.text());
    let part = gateway.send(get("/b").header("Range", "bytes=1-3")).await;
    assert_eq!((part.status, part.text()), (206, &stored.text()[1..4]));
    assert_eq!(origin.requests(), 2);
}

#[tokio::test]
async fn a_request_that_waits_for_another_ends_with_its_client() {
    // Goal: a client that leaves while its request waits for a fetch is recorded at once, and the fetch goes on. Method: a fetch that
    // hangs, a second client that waits and leaves, and its line in the access log.
    let origin = Origin::answering(|_| Reply::Hang);
    let gateway = Gateway::before(&origin, CACHED).await;
    let mut first = gateway.raw().await;
    first
        .write("GET /a HTTP/1.1\r\nHost: gateway.test\r\n\r\n")
        .await;
    origin.is_asked(1).await;
    let mut second = gateway.raw().await;
    second
        .write("GET /a HTTP/1.1\r\nHost: gateway.test\r\n\r\n")
        .await;
    eventually("both have begun", async || {
        let metrics = gateway.metrics().await;
        (metrics.sum("sluicegate_requests_in_flight", &[]) == 2.0).then_some(())
    })
    .await;
    drop(second);
    let lines = gateway.access_lines(1).await;
    assert_eq!(lines[0]["outcome"], "client-gone");
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn a_connection_that_ends_with_its_answer_ends_before_the_fetch() {
    // Goal: RFC 9112 §9.6, a client that waits for the end of its connection has it with its answer, though the gateway still fetches the
    // body for the cache. Method: an origin that stops in its body; HEAD with `Connection: close`, and HEAD of HTTP/1.0.
    let origin = Origin::answering(|_| {
        let half =
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\n01234";
        Reply::Pieces(vec![half.into(), b"56789".into()], Duration::from_secs(600))
    });
    let gateway = Gateway::before(&origin, CACHED).await;
    for request in [
        "HEAD /close HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "HEAD /old HTTP/1.0\r\nHost: a\r\n\r\n",
    ] {
        let mut raw = gateway.raw().await;
        raw.write(request).await;
        // A fetch without a client ends after 10 s.
        let answer = tokio::time::timeout(Duration::from_secs(5), raw.read_to_end()).await;
        let answer = String::from_utf8(answer.expect(request)).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
}
