//! Many at once: one fetch for all, and memory that is bounded whatever is asked for.

use std::time::Duration;

use super::*;

/// As many connections as that, all asking for the same at once.
async fn crowd(gateway: &Gateway, size: usize) -> Vec<Response> {
    let mut clients = Vec::new();
    for _ in 0..size {
        clients.push(gateway.client().await);
    }
    let asked = clients.iter_mut().map(|client| client.get("/"));
    futures_util::future::join_all(asked).await
}

async fn a_thousand_misses_at_once_are_one_request_to_the_origin(by: Version) {
    // Goal: requests for the same are collapsed. Method: 1,000 connections ask at once, and the origin takes its time.
    let origin = Origin::answering(|_| {
        let answer = with(&[("Cache-Control", "max-age=60")]).body("x".repeat(10_000));
        Reply::After(Duration::from_secs(3), Box::new(answer.into()))
    });
    let gateway = before(by, &origin, &storing("")).await;
    let answers = crowd(&gateway, 1_000).await;
    assert!(answers.iter().all(|answer| answer.body.len() == 10_000));
    assert_eq!(origin.count(), 1);
    let told: Vec<&str> = answers.iter().map(told).collect();
    let count = |text: &str| told.iter().filter(|told| **told == text).count();
    assert_eq!(count("fwd=uri-miss; stored"), 1);
    assert!(count("fwd=uri-miss; collapsed") > 500, "{:?}", told[1]);
    let metrics = gateway.metrics().await;
    assert!(metrics.sum("sluicegate_cache_coalesced_total", &[]) > 500.0);
}

async fn no_request_waits_for_an_unshareable_answer(by: Version) {
    // Goal: those that wait are let go when the answer turns out to be for one alone, and later ones do not wait. Method: a crowd
    // before an
    // origin that takes a moment and forbids to store; were they served one by one, this would take 25 seconds.
    let origin = Origin::answering(|_| {
        let answer = with(&[("Cache-Control", "no-store")]).body("x");
        Reply::After(Duration::from_millis(500), Box::new(answer.into()))
    });
    let gateway = before(by, &origin, &storing("")).await;
    let answers = tokio::time::timeout(Duration::from_secs(10), crowd(&gateway, 50))
        .await
        .unwrap();
    assert!(answers.iter().all(|answer| answer.status == 200));
    assert_eq!(origin.count(), 50);
    assert_eq!(told(&gateway.get("/").await), "fwd=bypass");
}

async fn those_that_wait_do_not_fail_with_the_one_that_fetches(by: Version) {
    // Goal: a fetch whose client leaves is taken over by one that waits. Method: the first answer never comes, and its client goes away
    // while another waits.
    let count = AtomicUsize::new(0);
    let origin = Origin::answering(move |received| {
        match (
            received.target.as_str(),
            count.fetch_add(1, Ordering::Relaxed),
        ) {
            ("/hang", 0) => Reply::Hang,
            _ => with(&[("Cache-Control", "max-age=60")])
                .body("whole")
                .into(),
        }
    });
    let gateway = before(by, &origin, &storing("")).await;
    let mut first = gateway.raw().await;
    first
        .write("GET /hang HTTP/1.1\r\nHost: gateway.test\r\n\r\n")
        .await;
    origin.is_asked(1).await;
    let mut second = gateway.client().await;
    let waiting = tokio::spawn(async move { second.get("/hang").await });
    drop(first);
    assert_eq!(waiting.await.unwrap().text(), "whole");
    assert_eq!(origin.count(), 2);
}

async fn a_fetch_that_is_given_up_is_taken_over_by_one(by: Version) {
    // Goal: of those that wait for a request whose client leaves, one fetches, however fast its answer comes. Method: 100 times, one
    // request whose answer does not come and 40 that wait for it; its client leaves, and the next answer comes at once.
    let hangs = std::sync::Mutex::new(std::collections::HashSet::new());
    let origin = Origin::answering(move |received| {
        if hangs.lock().unwrap().insert(received.target.clone()) {
            return Reply::Hang;
        }
        with(&[("Cache-Control", "max-age=60")])
            .body("whole")
            .into()
    });
    let gateway = before(by, &origin, &storing("")).await;
    let mut clients = Vec::new();
    for _ in 0..40 {
        clients.push(gateway.client().await);
    }
    for round in 1..=100 {
        let target = format!("/{round}");
        let mut first = gateway.raw().await;
        let head = format!("GET {target} HTTP/1.1\r\nHost: gateway.test\r\n\r\n");
        first.write(head).await;
        origin.is_asked(2 * round - 1).await;
        let waiting = clients.iter_mut().map(|client| client.get(&target));
        let waiting = futures_util::future::join_all(waiting);
        let leaves = async {
            eventually("all wait", async || {
                let metrics = gateway.metrics().await;
                let in_flight = metrics.sum("sluicegate_requests_in_flight", &[]);
                (in_flight == 41.0).then_some(())
            })
            .await;
            drop(first);
        };
        let (answers, ()) = tokio::join!(waiting, leaves);
        assert!(answers.iter().all(|answer| answer.text() == "whole"));
        assert_eq!(origin.count(), 2 * round);
    }
}

#[tokio::test]
async fn memory_is_bounded_for_any_requests() {
    // Goal: the memory of the cache is what was configured. Method: ten times as much as fits, then what the gateway itself counts; the
    // last is there, the first is not, and one that is asked for all the time stays.
    let origin = Origin::answering(|_| {
        with(&[("Cache-Control", "max-age=600")])
            .body("x".repeat(20_000))
            .into()
    });
    let rules = format!("[cache]\nmax_bytes = \"2MiB\"\n{}", storing(""));
    let gateway = Gateway::before(&origin, &rules).await;
    let mut client = gateway.client().await;
    for number in 0..1_000 {
        assert_eq!(client.get(&format!("/{number}")).await.status, 200);
        if number % 5 == 0 {
            client.get("/hot").await;
        }
    }
    let metrics = gateway.metrics().await;
    let bytes = metrics.sum("sluicegate_cache_bytes", &[]);
    let objects = metrics.sum("sluicegate_cache_objects", &[]);
    assert!((1.5e6..=2.2e6).contains(&bytes), "{bytes}");
    assert!((50.0..105.0).contains(&objects), "{objects}");
    let evicted = metrics.sum("sluicegate_cache_evicted_total", &[]);
    assert!(evicted > 850.0, "{evicted}");
    assert!(is_hit(&client.get("/999").await));
    assert!(is_hit(&client.get("/hot").await));
    assert!(!is_hit(&client.get("/0").await));
}

#[tokio::test]
async fn variants_of_a_url_are_bounded() {
    // Goal: a client that varies a field fills no more than its URL may. Method: 200 languages.
    let origin = numbered(&[("Cache-Control", "max-age=60"), ("Vary", "Accept-Language")]);
    let gateway = Gateway::before(&origin, &storing("")).await;
    let mut client = gateway.client().await;
    for number in 0..200 {
        let request = get("/").header("Accept-Language", &number.to_string());
        assert_eq!(client.send(request).await.status, 200);
    }
    let objects = gateway.metrics().await.sum("sluicegate_cache_objects", &[]);
    assert!((1.0..=64.0).contains(&objects), "{objects}");
}

by_each_version! {
    a_thousand_misses_at_once_are_one_request_to_the_origin,
    no_request_waits_for_an_unshareable_answer;
    over TCP:
    those_that_wait_do_not_fail_with_the_one_that_fetches,
    a_fetch_that_is_given_up_is_taken_over_by_one,
}
