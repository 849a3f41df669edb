//! `expensive-search.toml`: requests that are not all alike.

use super::{assert_refused_by, kit, passes_before};
use crate::harness::*;

#[tokio::test]
async fn a_dear_query_takes_more_than_a_cheap_one() {
    // Goal: the service says what a query came to. Method: dear ones until the next is refused; the field stays inside.
    let origin = Origin::answering(|_| Answer::new(200).header("X-Cost", "250").into());
    let gateway = kit("expensive-search", &origin).start().await;
    let passed = passes_before(&gateway, "query-units", 3, |_| {
        get("/search").forwarded_for("192.0.2.1")
    })
    .await;
    assert_eq!(passed, 3, "600 units hold two, and a part of the third");
    let answer = gateway
        .send(get("/search").forwarded_for("192.0.2.2"))
        .await;
    assert_eq!((answer.status, answer.header("x-cost")), (200, None));
}

#[tokio::test]
async fn four_queries_of_a_client_may_run() {
    // Goal: slow queries without an answer are bounded in number. Method: four that the service never answers, and a fifth; another
    // client; then one
    // of the four is given up.
    let origin = Origin::answering(|received| match received.target.as_str() {
        "/search?slow" => Reply::Hang,
        _ => Answer::new(200).into(),
    });
    let gateway = kit("expensive-search", &origin).start().await;
    let mut running = Vec::new();
    for _ in 0..4 {
        let mut raw = gateway.raw().await;
        raw.write(
            "GET /search?slow HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n",
        )
        .await;
        running.push(raw);
    }
    origin.is_asked(4).await;
    let fifth = || get("/search").forwarded_for("192.0.2.1");
    let refused = gateway.send(fifth()).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.violated(), ["query-units-concurrency"]);
    let other = get("/search").forwarded_for("192.0.2.2");
    assert_eq!(gateway.send(other).await.status, 200);
    drop(running.pop());
    eventually("there is room for one", async || {
        (gateway.send(fifth()).await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn suggestions_are_degraded_before_they_are_refused() {
    // Goal: two buckets. Method: so many suggestions at once that some are marked whether or not a window ends, and the second limit
    // refuses the rest.
    let origin = Origin::named("search");
    let gateway = kit("expensive-search", &origin).start().await;
    let flood = Flood::of(500, |_, buffer| {
        buffer.extend_from_slice(
            b"GET /suggest HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n",
        );
    });
    let flood = flood.run(gateway.address()).await;
    let requests = origin.requests();
    let marked = requests
        .iter()
        .filter(|request| request.header("x-sluicegate-limit").is_some());
    let marked = marked.count();
    assert!((300..=301).contains(&marked), "{marked}");
    let whole = requests.len() - marked;
    assert!(whole >= 10, "{whole}");
    assert!(flood.count(429) > 100, "{}", flood.count(429));
    passes_before(&gateway, "suggest-degraded", 30, |_| {
        get("/suggest").forwarded_for("192.0.2.1")
    })
    .await;
}

#[tokio::test]
async fn exports_leave_one_after_the_other() {
    // Goal: the queue is short, and its turns are two seconds apart. Method: four exports at once beside a client of another address;
    // when
    // the gateway says that it held each back.
    let origin = Origin::named("search");
    let gateway = kit("expensive-search", &origin).start().await;
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(gateway.client().await);
    }
    let exports = clients
        .iter_mut()
        .map(|client| client.send(get("/export").forwarded_for("192.0.2.1")));
    let answers = futures_util::future::join_all(exports).await;
    let (passed, refused): (Vec<Response>, Vec<Response>) =
        answers.into_iter().partition(|answer| answer.status == 200);
    assert_eq!((passed.len(), refused.len()), (3, 5));
    refused
        .iter()
        .for_each(|answer| assert_refused_by("export", answer));
    let lines = gateway.lines_of(&passed).await;
    let mut held: Vec<f64> = lines
        .iter()
        .map(|line| line["delay_ms"].as_f64().unwrap_or(0.0))
        .collect();
    held.sort_by(f64::total_cmp);
    assert!(
        held[0] < 1.0 && held[1] >= 1_900.0 && held[2] >= 3_900.0,
        "{held:?}"
    );
    let other = gateway
        .send(get("/export").forwarded_for("192.0.2.2"))
        .await;
    assert_eq!(other.status, 200);
}
