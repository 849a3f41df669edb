//! The places that requests take at a server with `adaptive_concurrency`: over HTTP/2, at several servers, in retries, across a drain, and
//! across reloads that change the limit.
//!
//! The limit is fixed by `min` and `max`, so every number is exact: the tests hold requests at the origin and count places.

use nix::sys::signal::Signal;
use tokio::task::JoinHandle;

use super::on_demand::OnDemand;
use super::*;

/// A limit of so many places.
fn places(count: u32) -> String {
    format!("adaptive_concurrency = {{ min = {count}, max = {count} }}")
}

/// A gateway before origins of HTTP/2, with further lines of `[origin.app]`.
fn over_http2(origins: &[&OnDemand], lines: &str) -> Setup {
    let addresses: Vec<SocketAddr> = origins.iter().map(|origin| origin.address).collect();
    Setup::new()
        .servers("app", &addresses)
        .origin_line(&format!("protocol = \"h2c\"\n{lines}"))
        .rules(PASS)
}

/// Sends a request on a connection of its own, and returns its status.
fn ask(gateway: &Gateway, path: &'static str) -> JoinHandle<u16> {
    let to = gateway.address();
    tokio::spawn(async move { Client::connect(to).await.get(path).await.status })
}

/// Waits until so many requests wait for a response of the server.
async fn waiting(gateway: &Gateway, address: SocketAddr, requests: u32) {
    eventually(&format!("{requests} wait at {address}"), async || {
        let limit = server(gateway, address).await["limit"].clone();
        (limit["waiting"] == requests).then_some(())
    })
    .await;
}

/// Sends a request that no server has a place for.
async fn is_rejected(gateway: &Gateway) {
    let answer = gateway.get("/").await;
    assert_eq!(answer.status, 503);
    assert!(answer.header("retry-after").is_some());
    let line = gateway.lines_of(&[answer]).await.remove(0);
    assert_eq!(line["failure"], "adaptive-limit");
    assert_eq!(line.get("attempts"), None, "no server was asked: {line}");
}

#[tokio::test]
async fn a_stream_takes_a_place_like_a_connection() {
    // Goal: over HTTP/2 the limit counts requests, whatever number of connections carries them, and every end of a stream frees its place:
    // an answer, and a client that leaves. Method: two streams of one connection that the origin holds; a third; one answered, one given
    // up.
    let origin = OnDemand::taking(100).await;
    let gateway = over_http2(&[&origin], &places(2)).start().await;
    let client = gateway.h2c().await;
    let hold = || {
        let client = client.clone();
        tokio::spawn(async move { client.send(get("/")).await.status })
    };
    let (first, second) = (hold(), hold());
    origin.has(2).await;
    waiting(&gateway, origin.address, 2).await;
    is_rejected(&gateway).await;
    origin.answer(1);
    waiting(&gateway, origin.address, 1).await;
    let third = ask(&gateway, "/");
    origin.has(3).await;
    waiting(&gateway, origin.address, 2).await;
    // It closes its connection, and the gateway resets the stream at the origin.
    third.abort();
    waiting(&gateway, origin.address, 1).await;
    // One permit is for the stream that was given up, if the origin has not noticed.
    origin.answer(2);
    for held in [first, second] {
        assert_eq!(held.await.unwrap(), 200);
    }
    waiting(&gateway, origin.address, 0).await;
}

#[tokio::test]
async fn a_full_server_leaves_its_requests_to_the_others() {
    // Goal: each server has places of its own; requests are rejected only when none is left anywhere, and a place that is freed is taken.
    // Method: two servers with two places each; four requests that both hold, a fifth; then one answer, and requests while one server is
    // full.
    let servers = [OnDemand::taking(100).await, OnDemand::taking(100).await];
    let [one, other] = &servers;
    let gateway = over_http2(&[one, other], &places(2)).start().await;
    let held: Vec<_> = (0..4).map(|_| ask(&gateway, "/")).collect();
    for server in &servers {
        server.has(2).await;
        waiting(&gateway, server.address, 2).await;
    }
    is_rejected(&gateway).await;
    other.answer(22);
    waiting(&gateway, other.address, 0).await;
    for _ in 0..20 {
        assert_eq!(gateway.get("/").await.status, 200);
    }
    assert_eq!((one.asked().len(), other.asked().len()), (2, 22));
    waiting(&gateway, one.address, 2).await;
    one.answer(2);
    for request in held {
        assert_eq!(request.await.unwrap(), 200);
    }
    waiting(&gateway, one.address, 0).await;
}

#[tokio::test]
async fn an_attempt_that_is_retried_has_left_its_place() {
    // Goal: each attempt of a request takes one place, at its own server, until its own end, and a retry takes one like a first attempt.
    // Method: a server that answers 503 and one that answers, or holds a request, with one place each.
    let ill = answering(503);
    let well = Origin::answering(|received| match received.target.as_str() {
        "/hold" => Reply::Hang,
        _ => Answer::new(200).into(),
    });
    let retry = "retry = { on = [503], min_per_second = 1000 }";
    let gateway = before(&[&ill, &well], &format!("{}\n{retry}", places(1))).await;
    for _ in 0..20 {
        assert_eq!(gateway.get("/").await.status, 200);
    }
    // A place that were not left would keep all further requests from that server.
    assert!(ill.count() >= 5, "{}", ill.count());
    assert_eq!(well.count(), 20);
    let lines = gateway.access_lines(20).await;
    let attempts = lines.iter().map(|line| line["attempts"].as_u64().unwrap());
    assert_eq!(attempts.sum::<u64>(), 20 + ill.count() as u64);

    let held = ask(&gateway, "/hold");
    waiting(&gateway, well.address(), 1).await;
    waiting(&gateway, ill.address(), 0).await;
    // The only place that is left is the one that the first attempt took, and has left by the time of the second.
    for _ in 0..5 {
        let asked = ill.count();
        let answer = gateway.get("/").await;
        assert_eq!(answer.status, 503);
        let line = gateway.lines_of(&[answer]).await.remove(0);
        assert_eq!(line["attempts"], 2, "{line}");
        assert_eq!(ill.count(), asked + 2);
    }
    assert_eq!(well.count(), 21);
    held.abort();
    waiting(&gateway, well.address(), 0).await;
    assert_eq!(gateway.get("/").await.status, 200);
}

#[tokio::test]
async fn a_drain_loses_no_request_that_has_a_place_or_waits_for_one() {
    // Goal: SIGTERM lets end what a server has, and serves what waits for a place. Method: two requests at the origin and one in the queue,
    // all of which are answered after the listener has closed.
    let origin = OnDemand::taking(100).await;
    let queue = "circuit_breaker = { max_requests = 100, max_pending = 10, pending_timeout = \"1m\", queue_order = \"fair\" }";
    let lines = format!("{}\n{queue}", places(2));
    let mut gateway = over_http2(&[&origin], &lines).start().await;
    let all: Vec<_> = (0..3).map(|_| ask(&gateway, "/")).collect();
    origin.has(2).await;
    eventually("the third waits", async || {
        (gateway.status().await["origins"][0]["pending"] == 1).then_some(())
    })
    .await;
    gateway.signal(Signal::SIGTERM);
    gateway.is_closed().await;
    assert_eq!(origin.asked().len(), 2);
    origin.answer(1);
    origin.has(3).await;
    origin.answer(2);
    for request in all {
        assert_eq!(request.await.unwrap(), 200);
    }
    assert_eq!(gateway.exit_code().await, 0);
}

#[tokio::test]
async fn a_reload_may_change_the_limit_or_remove_it() {
    // Goal: requests that have places keep them across reloads, a new limit holds at once for new ones, and no place is lost or counted
    // twice, whatever the reloads do meanwhile. Method: two places in use; then four, then one, then no limit at all, then two again.
    let origin = OnDemand::taking(100).await;
    let with = |lines: &str| over_http2(&[&origin], lines);
    let mut gateway = with(&places(2)).start().await;
    let mut held: Vec<_> = (0..2).map(|_| ask(&gateway, "/")).collect();
    origin.has(2).await;
    is_rejected(&gateway).await;

    // Of four places one client gets three.
    reload(&mut gateway, with(&places(4))).await;
    held.push(ask(&gateway, "/"));
    origin.has(3).await;
    waiting(&gateway, origin.address, 3).await;

    reload(&mut gateway, with(&places(1))).await;
    is_rejected(&gateway).await;
    origin.answer(2);
    waiting(&gateway, origin.address, 1).await;
    is_rejected(&gateway).await;

    // One request has a place of the limit that is removed, and two begin without one.
    reload(&mut gateway, with("")).await;
    assert_eq!(server(&gateway, origin.address).await["limit"], Value::Null);
    held.extend((0..2).map(|_| ask(&gateway, "/")));
    origin.has(5).await;

    reload(&mut gateway, with(&places(2))).await;
    origin.answer(3);
    for request in held {
        assert_eq!(request.await.unwrap(), 200);
    }
    waiting(&gateway, origin.address, 0).await;
    let held: Vec<_> = (0..2).map(|_| ask(&gateway, "/")).collect();
    origin.has(7).await;
    is_rejected(&gateway).await;
    origin.answer(2);
    for request in held {
        assert_eq!(request.await.unwrap(), 200);
    }
}

/// Replaces the configuration and waits until it serves.
async fn reload(gateway: &mut Gateway, setup: Setup) {
    let before = gateway.generation().await;
    gateway.write_setup(setup, Writing::Rename);
    gateway.serves_after(before).await;
}
