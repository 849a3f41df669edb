//! Errors of origins that are stored: what is stored is the origin's answer, what clients get is the page.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::intercepting::{assert_page, browse, route};
use crate::harness::*;

const STORING: &str = "[route.cache]\nstale_if_error = \"1h\"";

fn told(answer: &Response) -> &str {
    let told = answer.header("cache-status").unwrap();
    told.strip_prefix("sluicegate; ").unwrap()
}

/// An origin whose answers are these, the last again and again.
fn in_turn(answers: Vec<Answer>) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::answering(move |_| {
        let turn = count.fetch_add(1, Ordering::Relaxed);
        answers[turn.min(answers.len() - 1)].clone().into()
    })
}

fn missing(control: &str) -> Answer {
    let answer = Answer::new(404).header("Cache-Control", control);
    answer.header("ETag", "\"1\"").body("the origin's own")
}

#[tokio::test]
async fn stored_errors_are_replaced_for_each_client_anew() {
    // Goal: negative caching works, and another `Accept` gets another page from the same stored answer. Method: one answer with a
    // body and one without, fetched once each; then browsers, programs and HEAD by HTTP/1.1 and HTTP/2.
    for body in ["the origin's own", ""] {
        let origin = in_turn(vec![missing("max-age=60").body(body)]);
        let gateway = Gateway::before(&origin, &route(STORING)).await;
        let (mut old, new) = (gateway.client().await, gateway.h2c().await);
        assert_page(&old.send(browse("/x")).await, "Not Found");
        for _ in 0..2 {
            for answer in [old.send(browse("/x")).await, new.send(browse("/x")).await] {
                assert!(told(&answer).starts_with("hit;"), "{answer:?}");
                assert_page(&answer, "Not Found");
            }
            old.get("/x").await.assert_problem(404);
            new.send(get("/x")).await.assert_problem(404);
            let ask = || head("/x").header("Accept", "text/html");
            for answer in [old.send(ask()).await, new.send(ask()).await] {
                assert_eq!((answer.status, answer.body.len()), (404, 0));
                assert_eq!(answer.header("etag"), None);
            }
        }
        // A validator of the origin's body is no excuse for a 304.
        let ask = browse("/x")
            .header("If-None-Match", "\"1\"")
            .header("Range", "bytes=0-1");
        assert_page(&old.send(ask).await, "Not Found");
        // Fetched by a client of HTTP/2, and by one of HTTP/1.1 that asks for the head alone.
        assert_page(&new.send(browse("/y")).await, "Not Found");
        assert_page(&new.send(browse("/y")).await, "Not Found");
        assert_eq!(origin.count(), 2);
        let told = gateway.stderr();
        assert!(
            !told.contains("already sent") && !told.contains("after end"),
            "{told}"
        );
    }
}

#[tokio::test]
async fn what_is_stored_is_the_answer_of_the_origin() {
    // Goal: a reload that removes the pages shows the stored answer. Method: an error that is stored, replaced, and then not.
    let origin = in_turn(vec![missing("max-age=60")]);
    let mut gateway = Gateway::before(&origin, &route(STORING)).await;
    assert_page(&gateway.send(browse("/x")).await, "Not Found");
    gateway
        .reload(&route(STORING).replace("intercept = true", ""))
        .await;
    let answer = gateway.send(browse("/x")).await;
    assert_eq!((answer.status, answer.text()), (404, "the origin's own"));
    assert_eq!(answer.header("etag"), Some("\"1\""));
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn what_is_stale_goes_before_a_page() {
    // Goal: stale-if-error keeps its meaning; with nothing stored there is the page. Method: 200 that is stale at once, then 500.
    let good = Answer::new(200).header("Cache-Control", "max-age=60");
    let good = good
        .header("Age", "100")
        .header("ETag", "\"1\"")
        .body("good");
    let origin = in_turn(vec![good, Answer::new(500).body("own")]);
    let gateway = Gateway::before(&origin, &route(STORING)).await;
    for path in ["/x", "/x", "/x"] {
        assert_eq!(gateway.send(browse(path)).await.text(), "good");
    }
    let other = gateway.send(browse("/other")).await;
    assert_eq!((other.status, other.text()), (500, "<h1>500</h1>"));
    let old = gateway.h2c().await.send(browse("/x")).await;
    assert_eq!(old.text(), "good");
}

#[tokio::test]
async fn a_stored_error_is_confirmed_and_fetched_anew() {
    // Goal: 304 from the origin confirms a stored error, whose page is sent; a stale one is sent during the refresh. Method:
    // stale answers, a 304, then a refresh in the background by each version of HTTP.
    for over_http2 in [false, true] {
        let stale = |words: &str| missing(&format!("max-age=60{words}")).header("Age", "100");
        let confirmed = Answer::new(304).header("ETag", "\"1\"");
        let confirmed =
            confirmed.header("Cache-Control", "max-age=60, stale-while-revalidate=3600");
        let confirmed = confirmed.header("Age", "100");
        let origin = in_turn(vec![stale(""), confirmed, missing("max-age=60")]);
        let gateway = Gateway::before(&origin, &route(STORING)).await;
        let (mut old, new) = (gateway.client().await, gateway.h2c().await);
        let mut ask = async || match over_http2 {
            true => new.send(browse("/x")).await,
            false => old.send(browse("/x")).await,
        };
        for _ in 0..3 {
            assert_page(&ask().await, "Not Found");
        }
        eventually("it is fetched anew", async || {
            let metrics = gateway.metrics().await;
            (metrics.sum("sluicegate_cache_refreshes_total", &[]) == 1.0).then_some(())
        })
        .await;
        let new = ask().await;
        assert_page(&new, "Not Found");
        assert!(
            told(&new).starts_with("hit; ttl=5") || told(&new).starts_with("hit; ttl=60"),
            "{new:?}"
        );
        assert_eq!(origin.count(), 3);
    }
}
