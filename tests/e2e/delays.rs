//! Requests that leaky buckets hold back: the queue is as long as those who wait, and nobody takes all of the room for that.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::task::JoinHandle;

use crate::harness::*;

/// A limit `name` by which requests wait.
fn queue(name: &str, key: &str, rates: &str, queue: usize) -> String {
    format!(
        "[limit.{name}]\nkey = \"{key}\"\nrates = [\"{rates}\"]\naction = \"delay\"\nqueue = {queue}\nmax_wait = \"10m\"\n"
    )
}

/// Waits until so many requests are in flight.
async fn in_flight(gateway: &Gateway, count: usize) {
    eventually("so many requests are in flight", async || {
        let metrics = gateway.metrics().await;
        let now = metrics.sum("sluicegate_requests_in_flight", &[]);
        (now == count as f64).then_some(())
    })
    .await;
}

/// Requests that came one after the other, and wait.
async fn waiting(gateway: &Gateway, count: usize) -> Vec<JoinHandle<u16>> {
    let client = gateway.h2c().await;
    let mut all = Vec::new();
    for before in 0..count {
        let client = client.clone();
        all.push(tokio::spawn(
            async move { client.send(get("/")).await.status },
        ));
        in_flight(gateway, before + 1).await;
    }
    all
}

#[tokio::test]
async fn a_queue_is_as_long_as_its_waiting_requests() {
    // Goal: a client that opens and cancels requests shuts out no other. Method: a full queue; one has its turn, the others leave,
    // which waited
    // for as long as a turn takes; as many fit again.
    let origin = Origin::echo();
    let rules = queue("turn", "global", "1 per 4s", 5);
    let route = "[[route]]\npath = \"/*\"\nlimits = [\"turn\"]\norigin = \"app\"\n";
    let gateway = Gateway::before(&origin, &(rules + route)).await;
    assert_eq!(gateway.get("/").await.status, 200);
    let all = waiting(&gateway, 5).await;
    origin.is_asked(2).await;
    all.iter().for_each(|one| one.abort());
    in_flight(&gateway, 0).await;
    // The rest of the turn that was taken, and four behind it.
    let again = waiting(&gateway, 4).await;
    assert!(again.iter().all(|one| !one.is_finished()));
    again.iter().for_each(|one| one.abort());
}

#[tokio::test]
async fn those_behind_move_up() {
    // Goal: the origin does not idle while requests wait for others that have left. Method: three wait; the first two leave, and the
    // third
    // is served when the first would have been.
    let origin = Origin::echo();
    let rules = queue("turn", "global", "1 per 6s", 5);
    let route = "[[route]]\npath = \"/*\"\nlimits = [\"turn\"]\norigin = \"app\"\n";
    let gateway = Gateway::before(&origin, &(rules + route)).await;
    let started = Instant::now();
    assert_eq!(gateway.get("/").await.status, 200);
    let mut all = waiting(&gateway, 3).await;
    let third = all.pop().unwrap();
    all.iter().for_each(|one| one.abort());
    assert_eq!(third.await.unwrap(), 200);
    let waited = started.elapsed();
    assert!(waited < Duration::from_secs(17), "{waited:?}");
    assert!(waited >= Duration::from_millis(5900), "{waited:?}");
    assert_eq!(origin.count(), 2);
    let lines = gateway.access_lines(4).await;
    let delays = lines.iter().filter(|line| line["status"] == 200);
    let longest = delays
        .filter_map(|line| line["delay_ms"].as_f64())
        .fold(0.0, f64::max);
    assert!(longest > 1.0 && longest < 17_000.0, "{longest}");
}

#[tokio::test]
async fn a_request_that_left_its_queue_is_logged_with_its_planned_delay() {
    // Goal: the log shows for how long a client would have waited. Method: clients of both versions leave at once, ten minutes before
    // their turn.
    let rules = queue("turn", "global", "6 per 1h", 5);
    let route = "[[route]]\npath = \"/*\"\nlimits = [\"turn\"]\nrespond = { status = 200 }\n";
    let gateway = Gateway::start(&(rules + route)).await;
    assert_eq!(gateway.get("/").await.status, 200);
    let mut raw = gateway.raw().await;
    raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    in_flight(&gateway, 1).await;
    drop(raw);
    in_flight(&gateway, 0).await;
    waiting(&gateway, 1)
        .await
        .iter()
        .for_each(|one| one.abort());
    in_flight(&gateway, 0).await;
    let lines = gateway.access_lines(3).await;
    for line in &lines[1..] {
        let delay = line["delay_ms"].as_f64().unwrap();
        assert!((300_000.0..=600_000.0).contains(&delay), "{line}");
        assert_eq!(line["outcome"], "client-gone", "{line}");
    }
}

#[tokio::test]
async fn only_so_many_requests_are_held_back() {
    // Goal: waiters are bounded in all and by limit, whatever their keys; a request without room is not charged and gets no limit fields
    // of limits, and rooms become free. Method: each of many clients has used its turn and waits ten minutes for the next, by two limits;
    // one more is answered at once, until one of them leaves.
    const WAITERS: usize = 4096;
    const OF_LIMIT: usize = WAITERS / 2;
    let rules =
        queue("one", "client.ip", "6 per 1h", 1) + &queue("two", "client.ip", "6 per 1h", 1);
    let route = |name: &str| {
        format!(
            "[[route]]\npath = \"/{name}\"\nlimits = [\"{name}\"]\nrespond = {{ status = 200 }}\n"
        )
    };
    let trusted = "[client]\ntrusted_proxies = [\"127.0.0.0/8\"]\n";
    let gateway =
        Gateway::start(&format!("{trusted}{rules}{}{}", route("one"), route("two"))).await;
    let address = |n: usize| format!("10.7.{}.{}", n / 250, n % 250);
    let mut client = gateway.client().await;
    let mut waiters = Vec::new();
    for (before, name) in [(0, "one"), (OF_LIMIT, "two")] {
        let target = format!("/{name}");
        for n in 0..=OF_LIMIT {
            let first = get(&target).forwarded_for(&address(n));
            assert_eq!(client.send(first).await.status, 200);
        }
        in_flight(&gateway, before).await;
        for n in 0..OF_LIMIT {
            let mut raw = gateway.raw().await;
            let from = address(n);
            raw.write(&format!(
                "GET {target} HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: {from}\r\n\r\n"
            ))
            .await;
            waiters.push(raw);
        }
        in_flight(&gateway, before + OF_LIMIT).await;
        for _ in 0..2 {
            let last = get(&target).forwarded_for(&address(OF_LIMIT));
            let crowded = client.send(last).await;
            crowded.assert_problem(503);
            assert_eq!(crowded.header("ratelimit"), None, "{crowded:?}");
        }
    }
    drop(waiters.pop());
    in_flight(&gateway, WAITERS - 1).await;
    let mut last = gateway.raw().await;
    let from = address(OF_LIMIT);
    last.write(&format!(
        "GET /two HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: {from}\r\n\r\n"
    ))
    .await;
    in_flight(&gateway, WAITERS).await;
    drop((waiters, last));
    in_flight(&gateway, 0).await;
}

#[tokio::test]
async fn one_client_takes_only_its_share_of_the_waits() {
    // Goal: a client that waits on all its streams leaves room for others. Method: 630 requests of one client, of which one a
    // second has its turn; the rest beyond its share is refused, and another client waits.
    const OF_CLIENT: usize = 512;
    let rules = queue("turn", "global", "1 per 1s", 5000);
    let route = "[[route]]\npath = \"/*\"\nlimits = [\"turn\"]\nrespond = { status = 200 }\n";
    let gateway = Gateway::start(&(rules + route)).await;
    let clients = join_all((0..7).map(|_| gateway.h2c())).await;
    let asks: Vec<_> = clients
        .iter()
        .flat_map(|client| (0..90).map(move |_| client.clone()))
        .map(|client| tokio::spawn(async move { client.send(get("/")).await.status }))
        .collect();
    let refused = async || {
        let metrics = gateway.metrics().await;
        metrics.sum("sluicegate_requests_total", &[("code", "5xx")])
    };
    eventually("its share is full", async || {
        (refused().await > 0.0).then_some(())
    })
    .await;
    let metrics = gateway.metrics().await;
    assert!(metrics.sum("sluicegate_requests_in_flight", &[]) <= OF_CLIENT as f64);
    let before = refused().await;
    let mut other = gateway.client_from("127.0.0.9").await;
    let other = tokio::time::timeout(Duration::from_millis(500), other.get("/")).await;
    assert!(other.is_err(), "it waits");
    assert_eq!(refused().await, before);
    asks.iter().for_each(|ask| ask.abort());
}
