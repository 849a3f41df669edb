//! Answers that are no longer fresh: when the origin fails, while they are fetched anew, and after somebody wrote to their URL.

use super::*;

/// An answer that is stale from the start, with these words in its `Cache-Control`.
fn old(words: &str) -> Answer {
    Answer::new(200)
        .header("Cache-Control", &format!("max-age=60, {words}"))
        .header("Age", "100")
        .header("ETag", "\"d\"")
}

async fn a_stale_answer_stands_in_for_an_origin_that_fails(by: Version) {
    // Goal: stale-if-error, RFC 5861 §4, as the route says and as the origin says. Method: an origin that answers once and then fails in
    // each way that there is; at last it is stopped.
    for (lines, words) in [
        ("stale_if_error = \"1h\"", "x=y"),
        ("", "stale-if-error=3600"),
    ] {
        for failure in [
            Answer::new(500).into(),
            Answer::new(503).into(),
            Reply::Close,
        ] {
            let count = AtomicUsize::new(0);
            let answer = old(words).body("stored");
            let origin = Origin::answering(move |_| match count.fetch_add(1, Ordering::Relaxed) {
                0 => answer.clone().into(),
                _ => failure.clone(),
            });
            let gateway = before(by, &origin, &storing(lines)).await;
            assert_eq!(gateway.get("/").await.text(), "stored");
            let stale = gateway.get("/").await;
            assert_eq!((stale.status, stale.text()), (200, "stored"), "{words}");
            assert!(told(&stale).starts_with("hit; ttl=-"), "{stale:?}");
            assert!(origin.count() >= 2);
            origin.stop();
            assert_eq!(gateway.get("/").await.text(), "stored");
            gateway.get("/other").await.assert_problem(502);
        }
    }
}

#[tokio::test]
async fn a_stale_answer_follows_no_part_of_another() {
    // Goal: a stored answer stands in for one that fails before its head passes, never behind a part of it. Method: an origin whose second
    // answer breaks off in its body.
    let count = AtomicUsize::new(0);
    let answer = old("x=y").body("stored");
    let origin = Origin::answering(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 => answer.clone().into(),
        _ => Reply::CutShort {
            promised: 100_000,
            sent: 50_000,
        },
    });
    let gateway = Gateway::before(&origin, &storing("stale_if_error = \"1h\"")).await;
    assert_eq!(gateway.get("/").await.text(), "stored");
    let mut raw = gateway.raw().await;
    raw.write("GET / HTTP/1.1\r\nHost: gateway.test\r\n\r\n")
        .await;
    let head = raw.read_response_to_head().await;
    assert_eq!(head.header("content-length"), Some("100000"));
    let rest = raw.read_to_end().await;
    assert!(rest.len() <= 50_000, "{} bytes", rest.len());
    assert!(!rest.windows(6).any(|bytes| bytes == b"stored"));
}

#[tokio::test]
async fn a_connection_outlives_a_stale_answer() {
    // Goal: a stale answer in place of a failed one keeps the client's connection. Method: requests on one connection, to an origin that
    // fails by an answer, and to one that breaks off.
    for failure in [Answer::new(503).into(), Reply::Close] {
        let count = AtomicUsize::new(0);
        let answer = old("x=y").body("stored");
        let origin = Origin::answering(move |_| match count.fetch_add(1, Ordering::Relaxed) {
            0 => answer.clone().into(),
            _ => failure.clone(),
        });
        let gateway = Gateway::before(&origin, &storing("stale_if_error = \"1h\"")).await;
        let mut client = RawConnection::connect(gateway.address()).await;
        let request = "GET / HTTP/1.1\r\nHost: gateway.test\r\n\r\n";
        client.write(request).await;
        assert_eq!(client.read_response().await.text(), "stored");
        client.write(request).await;
        let stale = client.read_response().await;
        assert!(told(&stale).starts_with("hit; ttl=-"), "{stale:?}");
        assert_eq!(stale.header("connection"), Some("keep-alive"));
        client.write(request).await;
        assert_eq!(client.read_response().await.text(), "stored");
    }
}

async fn what_must_be_confirmed_is_never_served_stale(by: Version) {
    // Goal: RFC 9111 §4.2.4. Method: the route allows everything, the answer forbids it in each way; the origin is stopped. Not Found is
    // no failure of the origin either.
    let lines = "stale_if_error = \"1h\"\nstale_while_revalidate = \"1h\"";
    for words in [
        "must-revalidate",
        "proxy-revalidate",
        "s-maxage=0",
        "no-cache",
    ] {
        let answer = old(words).body("stored");
        let origin = Origin::answering(move |_| answer.clone().into());
        let gateway = before(by, &origin, &storing(lines)).await;
        assert_eq!(gateway.get("/").await.text(), "stored");
        origin.stop();
        gateway.get("/").await.assert_problem(502);
    }
    let count = AtomicUsize::new(0);
    let origin = Origin::answering(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 => old("x=y").body("stored").into(),
        _ => Answer::new(404).into(),
    });
    let gateway = before(by, &origin, &storing("stale_if_error = \"1h\"")).await;
    gateway.get("/").await;
    assert_eq!(gateway.get("/").await.status, 404);
}

#[tokio::test]
async fn a_stale_answer_is_served_while_it_is_fetched_anew() {
    // Goal: stale-while-revalidate, RFC 5861 §3: no request waits for the origin, which gets one request, and the next gets the new
    // answer. The
    // gateway's own request asks no limit and makes no line. Method: a limit of three; HTTP/1 and HTTP/2.
    for over_http2 in [false, true] {
        let count = AtomicUsize::new(0);
        let origin = Origin::answering(move |_| match count.fetch_add(1, Ordering::Relaxed) {
            0 => old("stale-while-revalidate=3600").body("old").into(),
            _ => with(&[("Cache-Control", "max-age=60")]).body("new").into(),
        });
        let rules = format!(
            "[limit.few]\nkey = \"client.ip\"\nrates = [\"3 per 1h\"]\n{}",
            storing("").replace("path =", "limits = [\"few\"]\npath =")
        );
        let gateway = Gateway::before(&origin, &rules).await;
        let ask = async || {
            if over_http2 {
                gateway.h2c().await.send(get("/")).await
            } else {
                gateway.get("/").await
            }
        };
        assert_eq!(ask().await.text(), "old");
        let stale = ask().await;
        assert_eq!(stale.text(), "old");
        assert!(told(&stale).starts_with("hit; ttl=-"), "{stale:?}");
        origin.is_asked(2).await;
        eventually("it is stored", async || {
            let metrics = gateway.metrics().await;
            (metrics.sum("sluicegate_cache_refreshes_total", &[]) == 1.0).then_some(())
        })
        .await;
        let new = ask().await;
        assert_eq!((new.text(), new.remaining("few")), ("new", 0));
        assert_eq!(ask().await.status, 429);
        assert_eq!(gateway.access_lines(4).await.len(), 4);
        assert_eq!(origin.count(), 2);
    }
}

#[tokio::test]
async fn a_refresh_keeps_the_scheme() {
    // Goal: the scheme is in the key of the gateway's own request too, which has no connection to tell it by: else the new answer
    // would be
    // stored under another key, and the old one served until its end. Method: the same, under TLS, until the new answer is served.
    let authority = Authority::new();
    let pair = authority.server(&["gateway.test"]);
    let count = AtomicUsize::new(0);
    let origin = Origin::answering(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 => old("stale-while-revalidate=3600").body("old").into(),
        _ => with(&[("Cache-Control", "max-age=60")]).body("new").into(),
    });
    let gateway = Setup::new()
        .listener_line("[listener.tls]")
        .listener_line("certificates = [{ cert_file = \"../a.pem\", key_file = \"../a.key\" }]")
        .file("a.pem", &pair.certificate)
        .file("a.key", &pair.key)
        .origin("app", &origin)
        .rules(&storing(""))
        .start()
        .await;
    let clients = TlsClients::of(&authority);
    let mut client = clients.connect(gateway.address(), "gateway.test").await;
    for _ in 0..2 {
        assert_eq!(client.get("/").await.text(), "old");
    }
    eventually("the new answer is served", async || {
        (client.get("/").await.text() == "new").then_some(())
    })
    .await;
    assert_eq!(origin.count(), 2);
}

async fn writing_to_a_url_takes_away_what_is_stored_of_it(by: Version) {
    // Goal: RFC 9111 §4.4. Method: each unsafe method, through a route of its own without a cache; one that fails removes nothing,
    // and neither does one to another URL.
    let count = AtomicUsize::new(0);
    let origin = Origin::answering(move |received| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        match received.header("x-fail") {
            Some(_) => Answer::new(400).into(),
            None => with(&[("Cache-Control", "max-age=60")])
                .body(format!("{number}"))
                .into(),
        }
    });
    let rules = format!(
        "{}[[route]]\npath = \"/*\"\nmethods = [\"POST\", \"PUT\", \"PATCH\", \"DELETE\"]\norigin = \"app\"\n",
        storing("")
    );
    let gateway = before(by, &origin, &rules).await;
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        gateway.get("/a").await;
        assert!(is_hit(&gateway.get("/a").await));
        gateway.send(request(method, "/b")).await;
        gateway
            .send(request(method, "/a").header("X-Fail", "1"))
            .await;
        assert!(is_hit(&gateway.get("/a").await), "{method}");
        gateway.send(request(method, "/a")).await;
        assert!(!is_hit(&gateway.get("/a").await), "{method}");
    }
}

async fn clients_may_put_up_with_what_is_stale(by: Version) {
    // Goal: max-stale, RFC 9111 §5.2.1.2, where the answer allows it. Method: an answer that has been stale for forty seconds.
    for (words, directives, status) in [
        ("x=y", "max-stale", 200),
        ("x=y", "max-stale=1000", 200),
        ("x=y", "max-stale=10", 502),
        ("must-revalidate", "max-stale", 502),
    ] {
        let answer = old(words).body("stored");
        let origin = Origin::answering(move |_| answer.clone().into());
        let gateway = before(by, &origin, &storing("")).await;
        gateway.get("/").await;
        origin.stop();
        let answer = gateway
            .send(get("/").header("Cache-Control", directives))
            .await;
        assert_eq!(answer.status, status, "{words}, {directives}");
    }
}

by_each_version! {
    a_stale_answer_stands_in_for_an_origin_that_fails,
    what_must_be_confirmed_is_never_served_stale,
    writing_to_a_url_takes_away_what_is_stored_of_it,
    clients_may_put_up_with_what_is_stale,
}
