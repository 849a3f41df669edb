//! How much a server gets at once, and how much waits for that.

use std::time::{Duration, Instant};

use super::*;

#[tokio::test]
async fn what_a_server_cannot_take_is_refused() {
    // Goal: a full server gets no more; the client learns when to come back. Method: one place, taken by a request that hangs.
    let origin = Origin::answering(|_| Reply::Hang);
    let gateway = before(&[&origin], "circuit_breaker = { max_requests = 1 }").await;
    let mut stuck = gateway.client().await;
    let stuck = tokio::spawn(async move { stuck.try_send(get("/")).await });
    origin.is_asked(1).await;
    for _ in 0..5 {
        let answer = gateway.get("/").await;
        answer.assert_problem(503);
        assert_eq!(answer.retry_after(), 1);
    }
    assert_eq!(origin.count(), 1);
    let refused = "sluicegate_origin_circuit_refused_total";
    assert_eq!(gateway.admin(get("/metrics")).await.status, 200);
    assert_eq!(gateway.metrics().await.sum(refused, &[]), 5.0);
    stuck.abort();
}

#[tokio::test]
async fn requests_wait_for_a_place() {
    // Goal: a queue bounded in count: all that fit are served, one at a time. Method: an origin that takes 100 ms a request; four clients
    // together take four times that.
    let origin = Origin::answering(|_| {
        Reply::After(
            Duration::from_millis(100),
            Box::new(Answer::new(200).into()),
        )
    });
    let circuit =
        "circuit_breaker = { max_requests = 1, max_pending = 3, pending_timeout = \"1m\" }";
    let gateway = before(&[&origin], circuit).await;
    let started = Instant::now();
    let gets = (0..4).map(|_| gateway.get("/"));
    for answer in futures_util::future::join_all(gets).await {
        assert_eq!(answer.status, 200);
    }
    assert!(
        started.elapsed() >= Duration::from_millis(400),
        "{:?}",
        started.elapsed()
    );
    let status = gateway.status().await;
    assert_eq!(status["origins"][0]["pending"], 0, "{status}");
}

#[tokio::test]
async fn a_wait_ends() {
    // Goal: a queue bounded in time. Method: a place that is never left; the wait is neither cut nor stretched.
    let origin = Origin::answering(|_| Reply::Hang);
    let circuit =
        "circuit_breaker = { max_requests = 1, max_pending = 9, pending_timeout = \"300ms\" }";
    let gateway = before(&[&origin], circuit).await;
    let mut stuck = gateway.client().await;
    let stuck = tokio::spawn(async move { stuck.try_send(get("/")).await });
    origin.is_asked(1).await;
    let started = Instant::now();
    gateway.get("/").await.assert_problem(503);
    let waited = started.elapsed();
    assert!(waited >= Duration::from_millis(300), "{waited:?}");
    assert!(waited < Duration::from_secs(10), "{waited:?}");
    stuck.abort();
}
