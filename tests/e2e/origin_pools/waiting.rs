//! How requests wait for a place or a connection at a server: in the order in which they came, and as long as they may.

use std::time::Duration;

use tokio::task::JoinHandle;

use super::on_demand::OnDemand;
use super::*;

/// A gateway before the origin, in whose queue there is room for all.
async fn behind(origin: &OnDemand, bound: &str) -> Gateway {
    let circuit = format!("{bound}, max_pending = 100, pending_timeout = \"1m\"");
    Setup::new()
        .servers("app", &[origin.address])
        .origin_line(&format!(
            "protocol = \"h2c\"\ncircuit_breaker = {{ {circuit} }}"
        ))
        .rules(PASS)
        .start()
        .await
}

/// Waits until so many requests wait.
async fn pending(gateway: &Gateway, requests: usize) {
    eventually("they wait", async || {
        let status = gateway.status().await;
        (status["origins"][0]["pending"] == requests).then_some(())
    })
    .await;
}

#[tokio::test]
async fn requests_are_served_in_the_order_in_which_they_came() {
    // Goal: what is freed goes to the request that has waited longest. Method: one request at a time; nine that came one after the other.
    let origin = OnDemand::start().await;
    let gateway = behind(&origin, "max_requests = 1").await;
    // With an answer the gateway has heard how many streams there may be.
    origin.answer(1);
    assert_eq!(gateway.get("/0").await.status, 200);
    let address = gateway.address();
    let ask = |turn: usize| {
        tokio::spawn(async move {
            let mut client = Client::connect(address).await;
            client.get(&format!("/{turn}")).await.status
        })
    };
    let mut all = vec![ask(1)];
    origin.has(2).await;
    for turn in 2..10 {
        all.push(ask(turn));
        pending(&gateway, turn - 1).await;
    }
    for (answered, one) in all.into_iter().enumerate() {
        origin.answer(1);
        assert_eq!(one.await.unwrap(), 200, "{answered}");
    }
    let order: Vec<String> = (0..10).map(|turn| format!("/{turn}")).collect();
    assert_eq!(origin.asked(), order);
}

#[tokio::test]
async fn requests_are_served_in_the_order_that_is_configured() {
    // Goal: a queue serves the newest first, or clients in turn, and while it is full the request gives way that the order names. Method:
    // a queue for four behind a request that the origin holds; four requests of one client, then one of each of two others; the paths in
    // the order in which the origin was asked, the statuses of those that gave way, and the metric.
    for (order, served, displaced) in [
        ("fifo", ["/a1", "/a2", "/a3", "/a4"], ["/b5", "/c6"]),
        ("lifo", ["/c6", "/b5", "/a4", "/a3"], ["/a1", "/a2"]),
        ("fair", ["/a1", "/b5", "/c6", "/a2"], ["/a4", "/a3"]),
    ] {
        let origin = OnDemand::start().await;
        let circuit = format!(
            "max_requests = 1, max_pending = 4, pending_timeout = \"1m\", queue_order = \"{order}\""
        );
        let gateway = Setup::new()
            .servers("app", &[origin.address])
            .origin_line(&format!(
                "protocol = \"h2c\"\ncircuit_breaker = {{ {circuit} }}"
            ))
            .rules(PASS)
            .start()
            .await;
        // With an answer the gateway has heard how many streams there may be.
        origin.answer(1);
        assert_eq!(gateway.get("/0").await.status, 200);
        let address = gateway.address();
        let ask = |client: &'static str, path: &'static str| {
            tokio::spawn(async move {
                let mut client = Client::connect_from(client, address).await;
                client.get(path).await.status
            })
        };
        let held = ask("127.0.0.1", "/held");
        origin.has(2).await;
        let mut waiting = Vec::new();
        for (turn, (client, path)) in [
            ("127.0.0.2", "/a1"),
            ("127.0.0.2", "/a2"),
            ("127.0.0.2", "/a3"),
            ("127.0.0.2", "/a4"),
            ("127.0.0.3", "/b5"),
            ("127.0.0.4", "/c6"),
        ]
        .into_iter()
        .enumerate()
        {
            waiting.push((path, ask(client, path)));
            let refused = turn.saturating_sub(3);
            eventually("it waits, or one is refused", async || {
                let status = gateway.status().await;
                let origin = &status["origins"][0];
                (origin["pending"] == (turn + 1).min(4) && origin["refused"] == refused)
                    .then_some(())
            })
            .await;
        }
        origin.answer(5);
        assert_eq!(held.await.unwrap(), 200);
        for (path, one) in waiting {
            let expected = if displaced.contains(&path) { 503 } else { 200 };
            assert_eq!(one.await.unwrap(), expected, "{order} {path}");
        }
        assert_eq!(origin.asked()[2..], served, "{order}");
        let gave_way = if order == "fifo" { 0.0 } else { 2.0 };
        let metrics = gateway.metrics().await;
        let metric = "sluicegate_origin_pending_displaced_total";
        assert_eq!(metrics.sum(metric, &[]), gave_way, "{order}");
    }
}

/// A request that the origin holds, which takes its only stream, and what sends another.
async fn held(
    origin: &OnDemand,
    gateway: &Gateway,
) -> (impl Fn() -> JoinHandle<u16>, JoinHandle<u16>) {
    let client = gateway.h2c().await;
    let ask = move || {
        let client = client.clone();
        tokio::spawn(async move { client.send(get("/")).await.status })
    };
    // With an answer the gateway has heard how many streams there may be.
    origin.answer(1);
    assert_eq!(ask().await.unwrap(), 200);
    let first = ask();
    origin.has(2).await;
    (ask, first)
}

#[tokio::test]
async fn a_request_waits_for_a_connection_as_long_as_it_may() {
    // Goal: a connection that comes late, but before `pending_timeout`, is early enough. Method: the only stream is taken for six
    // seconds.
    let origin = OnDemand::start().await;
    let gateway = behind(&origin, "max_connections = 1").await;
    let (ask, first) = held(&origin, &gateway).await;
    let mut second = ask();
    pending(&gateway, 1).await;
    let early = tokio::time::timeout(Duration::from_secs(6), &mut second).await;
    assert!(early.is_err(), "it was answered early: {early:?}");
    origin.answer(2);
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (200, 200));
}

#[tokio::test]
async fn a_request_that_waits_for_a_connection_has_no_permit_and_no_attempt() {
    // Goal: a request that is refused a connection leaves its place while it waits for one, and it is one try in the end. Method: one
    // connection with one stream, taken by a request that the origin holds; another waits until the first is answered.
    let origin = OnDemand::start().await;
    let gateway = behind(&origin, "max_connections = 1").await;
    let (ask, first) = held(&origin, &gateway).await;
    let second = ask();
    eventually("it waits, and not at the server", async || {
        let status = gateway.status().await;
        let origin = &status["origins"][0];
        (origin["pending"] == 1 && origin["servers"][0]["in_flight"] == 1).then_some(())
    })
    .await;
    origin.answer(2);
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (200, 200));
    let attempts = "sluicegate_origin_attempts_total";
    let metrics = eventually("all have ended", async || {
        let metrics = gateway.metrics().await;
        (metrics.sum(attempts, &[("outcome", "2xx")]) == 3.0).then_some(metrics)
    })
    .await;
    assert_eq!(metrics.sum(attempts, &[]), 3.0);
}

#[tokio::test]
async fn no_more_wait_than_may_though_their_server_has_no_connection() {
    // Goal: `max_pending` holds for requests that found a place at the server and no connection. Method: one stream, taken by a request
    // that the origin holds; twenty more at once, of which two may wait.
    let origin = OnDemand::start().await;
    let circuit = "max_connections = 1, max_pending = 2, pending_timeout = \"1m\"";
    let gateway = Setup::new()
        .servers("app", &[origin.address])
        .origin_line(&format!(
            "protocol = \"h2c\"\ncircuit_breaker = {{ {circuit} }}"
        ))
        .rules(PASS)
        .start()
        .await;
    let (ask, first) = held(&origin, &gateway).await;
    let mut others: Vec<_> = (0..20).map(|_| ask()).collect();
    eventually("all but two are refused", async || {
        let status = gateway.status().await;
        let (pending, refused) = (
            &status["origins"][0]["pending"],
            &status["origins"][0]["refused"],
        );
        assert!(refused.as_u64() <= Some(18), "{status}");
        (*pending == 2 && *refused == 18).then_some(())
    })
    .await;
    origin.answer(3);
    assert_eq!(first.await.unwrap(), 200);
    let mut statuses = Vec::new();
    for other in &mut others {
        statuses.push(other.await.unwrap());
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [[200; 2].as_slice(), &[503; 18]].concat());
}
