//! What is stored and for how long it is fresh: RFC 9111 §3 and §4.2.

use super::*;

/// How many of three requests for the same reach an origin that answers so.
async fn fetched(by: Version, lines: &str, answer: Answer) -> usize {
    let origin = Origin::answering(move |_| answer.clone().into());
    let gateway = before(by, &origin, &storing(lines)).await;
    for _ in 0..3 {
        gateway.get("/a?b=1").await;
    }
    origin.count()
}

async fn what_is_fresh_is_served_without_the_origin(by: Version) {
    // Goal: a fresh answer is served as it came, with its age and without the origin. Method: the same request twice; the second is
    // asked for after the origin is gone.
    let origin = numbered(&[
        ("Cache-Control", "max-age=60"),
        ("Age", "10"),
        ("X-Of-Origin", "yes"),
    ]);
    let gateway = before(by, &origin, &storing("")).await;
    let first = gateway.get("/a").await;
    assert_eq!(
        (first.text(), told(&first)),
        ("answer 1", "fwd=uri-miss; stored")
    );
    origin.stop();
    let second = gateway.get("/a").await;
    assert_eq!((second.status, second.text()), (200, "answer 1"));
    assert!(is_hit(&second), "{second:?}");
    assert_eq!(second.header("x-of-origin"), Some("yes"));
    let age: u64 = second.header("age").unwrap().parse().unwrap();
    assert!((10..60).contains(&age), "{second:?}");
    assert_ne!(first.header("x-request-id"), second.header("x-request-id"));
    assert_eq!(gateway.get("/b").await.status, 502);
}

async fn only_answers_with_explicit_freshness_are_stored(by: Version) {
    // Goal: nothing is guessed, and everything that is said is heard. Method: answers with each way to say it, right and wrong.
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let later = "Sun, 06 Nov 1994 09:49:37 GMT";
    for (fields, count) in [
        (&[][..], 3),
        (&[("Last-Modified", date)][..], 3),
        (&[("Cache-Control", "max-age=60")][..], 1),
        (&[("Cache-Control", "s-maxage=60, max-age=0")][..], 1),
        (&[("Cache-Control", "max-age=60, s-maxage=0")][..], 3),
        (&[("Date", date), ("Expires", later)][..], 1),
        (&[("Date", later), ("Expires", date)][..], 3),
        (&[("Date", date), ("Expires", "0")][..], 3),
        (
            &[
                ("Date", date),
                ("Expires", later),
                ("Cache-Control", "max-age=0"),
            ][..],
            3,
        ),
        (&[("Cache-Control", "max-age=60, no-store")][..], 3),
        (&[("Cache-Control", "max-age=60, private")][..], 3),
        (&[("Cache-Control", "max-age=60, no-cache")][..], 3),
        (&[("Cache-Control", "max-age=a")][..], 3),
        (&[("Cache-Control", "max-age=-1")][..], 3),
        (&[("Cache-Control", "max-age=60"), ("Age", "61")][..], 3),
        (&[("Cache-Control", "max-age=60"), ("Vary", "*")][..], 3),
        (
            &[("Cache-Control", "max-age=60"), ("Set-Cookie", "a=b")][..],
            3,
        ),
    ] {
        assert_eq!(
            fetched(by, "", with(fields).body("x")).await,
            count,
            "{fields:?}"
        );
    }
}

async fn a_route_may_say_what_its_answers_do_not(by: Version) {
    // Goal: default_ttl holds for what says nothing, and for nothing else. Method: answers that are silent, forbid, and fail.
    let lines = "default_ttl = \"1h\"\nstatuses = [200, 404]";
    assert_eq!(fetched(by, lines, Answer::new(200).body("x")).await, 1);
    assert_eq!(fetched(by, lines, Answer::new(404).body("x")).await, 1);
    assert_eq!(fetched(by, lines, Answer::new(500).body("x")).await, 3);
    assert_eq!(
        fetched(by, lines, with(&[("Cache-Control", "no-store")])).await,
        3
    );
    let moved = Answer::new(301).header("Cache-Control", "max-age=60");
    assert_eq!(fetched(by, lines, moved.clone()).await, 3);
    assert_eq!(fetched(by, "", moved).await, 1);
}

async fn fields_that_are_not_to_be_stored_are_not(by: Version) {
    // Goal: fields for one client are not sent to another. Method: an answer with a cookie that it sets aside itself, and with the
    // origin's own RateLimit fields and request id.
    let origin = numbered(&[
        (
            "Cache-Control",
            "max-age=60, no-cache=\"set-cookie, x-once\"",
        ),
        ("Set-Cookie", "a=b"),
        ("X-Once", "1"),
        ("RateLimit", "\"theirs\";r=1;t=1"),
        ("X-Request-Id", "of-the-origin"),
    ]);
    let gateway = before(by, &origin, &storing("")).await;
    assert_eq!(gateway.get("/").await.header("set-cookie"), Some("a=b"));
    let hit = gateway.get("/").await;
    assert!(is_hit(&hit), "{hit:?}");
    for name in ["set-cookie", "x-once", "ratelimit"] {
        assert_eq!(hit.header(name), None, "{name}");
    }
    assert_ne!(hit.header("x-request-id"), Some("of-the-origin"));
}

async fn a_broken_or_endless_answer_is_not_stored(by: Version) {
    // Goal: half an answer is never taken for a whole one. Method: a body that is cut short, and one whose end is that of its connection;
    // then a whole one at the same URL.
    let count = AtomicUsize::new(0);
    let origin = Origin::answering(move |received| {
        match (received.target.as_str(), count.fetch_add(1, Ordering::Relaxed)) {
            ("/cut", 0) => Reply::Raw(
                b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 100\r\n\r\nhalf".to_vec(),
            ),
            ("/chunk", _) => Reply::Raw(
                b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n".to_vec(),
            ),
            ("/close", _) => Reply::Raw(
                b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nConnection: close\r\n\r\nhalf".to_vec(),
            ),
            _ => with(&[("Cache-Control", "max-age=60")]).body("whole").into(),
        }
    });
    let gateway = before(by, &origin, &storing("")).await;
    let mut client = gateway.client().await;
    assert!(client.try_send(get("/cut")).await.is_err());
    assert_eq!(gateway.get("/cut").await.text(), "whole");
    assert_eq!(gateway.get("/cut").await.text(), "whole");
    assert_eq!(origin.count(), 2);
    for _ in 0..2 {
        let mut client = gateway.client().await;
        assert!(client.try_send(get("/chunk")).await.is_err());
        assert_eq!(gateway.get("/close").await.text(), "half");
    }
    assert_eq!(origin.count(), 6);
}

async fn what_is_too_large_passes_and_is_not_stored(by: Version) {
    // Goal: max_object_bytes bounds what is stored, not what passes. Method: bodies around the bound, with a length and without.
    let origin = Origin::answering(|received| {
        let size = match received.target.as_str() {
            "/small" => 1_000,
            _ => 1_001,
        };
        let body = "x".repeat(size);
        if received.target.starts_with("/chunked") {
            let text = format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n{size:x}\r\n{body}\r\n0\r\n\r\n"
            );
            return Reply::Raw(text.into_bytes());
        }
        with(&[("Cache-Control", "max-age=60")]).body(body).into()
    });
    let gateway = before(by, &origin, &storing("max_object_bytes = 1000")).await;
    for (target, length, count) in [
        ("/small", 1_000, 1),
        ("/large", 1_001, 2),
        ("/chunked", 1_001, 2),
    ] {
        let before = origin.count();
        for _ in 0..2 {
            assert_eq!(gateway.get(target).await.body.len(), length, "{target}");
        }
        assert_eq!(origin.count() - before, count, "{target}");
    }
}

async fn clients_may_ask_for_what_is_newer_unless_they_may_not(by: Version) {
    // Goal: Cache-Control of requests is heard, or ignored where the route says so. Method: each directive against a fresh answer of
    // fifty seconds.
    for (ignore, directives, hits) in [
        ("false", "no-cache", false),
        ("false", "max-age=10", false),
        ("false", "max-age=1000", true),
        ("false", "min-fresh=1000", false),
        ("false", "no-store", false),
        ("true", "no-cache", true),
        ("true", "no-store", true),
    ] {
        let origin = numbered(&[("Cache-Control", "max-age=100"), ("Age", "50")]);
        let lines = format!("ignore_client_no_cache = {ignore}");
        let gateway = before(by, &origin, &storing(&lines)).await;
        gateway.get("/").await;
        let answer = gateway
            .send(get("/").header("Cache-Control", directives))
            .await;
        assert_eq!(is_hit(&answer), hits, "{directives}, ignored: {ignore}");
        assert_eq!(
            answer.text() == "answer 1",
            hits,
            "{directives}, ignored: {ignore}"
        );
    }
}

async fn only_if_cached_never_asks_the_origin(by: Version) {
    // Goal: RFC 9111 §5.2.1.7. Method: the directive before and after something is stored.
    let origin = numbered(&[("Cache-Control", "max-age=100")]);
    let gateway = before(by, &origin, &storing("")).await;
    let only_if_cached = || get("/").header("Cache-Control", "only-if-cached");
    gateway.send(only_if_cached()).await.assert_problem(504);
    assert_eq!(origin.count(), 0);
    gateway.get("/").await;
    assert_eq!(gateway.send(only_if_cached()).await.text(), "answer 1");
    assert_eq!(origin.count(), 1);
}

by_each_version! {
    what_is_fresh_is_served_without_the_origin,
    only_answers_with_explicit_freshness_are_stored,
    a_route_may_say_what_its_answers_do_not,
    fields_that_are_not_to_be_stored_are_not,
    a_broken_or_endless_answer_is_not_stored,
    what_is_too_large_passes_and_is_not_stored,
    clients_may_ask_for_what_is_newer_unless_they_may_not,
    only_if_cached_never_asks_the_origin,
}
