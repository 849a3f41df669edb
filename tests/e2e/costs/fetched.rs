//! Costs in bodies that the gateway reads and the client does not get: of those that are fetched for the cache, or that a page replaces.

use std::time::Duration;

use super::*;
use crate::caching::by_each_version;

/// The time between two pieces of a body: the rest of a body that nobody needs is not waited for so long.
const PAUSE: Duration = Duration::from_millis(60);

/// What HEAD, a condition that holds and a range that is not there get of a response with the tag `"t"`.
fn asking_for_less(target: &str) -> Vec<(Request, u16)> {
    vec![
        (head(target), 200),
        (get(target).header("If-None-Match", "\"t\""), 304),
        (get(target).header("Range", "bytes=900-"), 416),
    ]
}

/// The rules of a budget of 1,000 of which each request reserves 10.
fn budget(route: &str) -> String {
    let lines = "rates = [\"1000 per day\"]\nalgorithm = \"fixed-window\"\ntimezone = \"UTC\"\n\
        cost = \"response.json./usage\"\nreserve = 10\n";
    limited(lines) + route
}

/// An answer with a usage of 100, in pieces that begin at these places of its body.
fn cut(status: u16, at: &[usize]) -> Reply {
    let body = format!("{{\"text\":\"{}\",\"usage\":100}}", "x".repeat(200));
    let head = format!(
        "HTTP/1.1 {status} Scripted\r\nContent-Type: application/json\r\nCache-Control: max-age=60\r\nETag: \"t\"\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    let mut rest = format!("{head}{body}").into_bytes();
    let cuts = at.iter().rev();
    let mut pieces: Vec<_> = cuts.map(|at| rest.split_off(head.len() + at)).collect();
    pieces.push(rest);
    pieces.reverse();
    Reply::Pieces(pieces, PAUSE)
}

/// The cost of the limit in the line of an answer.
async fn cost_of(gateway: &Gateway, answer: &Response) -> serde_json::Value {
    let lines = gateway.lines_of(std::slice::from_ref(answer)).await;
    lines[0]["cost"]["a"].clone()
}

async fn a_cost_is_charged_though_the_client_gets_less(by: Version) {
    // Goal: no request for less than the whole has the whole fetched for its reserve, so that a hit gives it away. Method: each of them, to
    // an origin whose answer comes in one piece, in two and in three; then the hit.
    let origin = Origin::answering(|received| match &received.target[..2] {
        "/1" => cut(200, &[]),
        "/2" => cut(200, &[0]),
        _ => cut(200, &[0, 100]),
    });
    let gateway = Gateway::before_by(by, &origin, &budget("[route.cache]\n")).await;
    for pieces in 1..=3 {
        for number in 0..asking_for_less("").len() {
            let target = format!("/{pieces}/{number}");
            let (request, status) = asking_for_less(&target).swap_remove(number);
            let answer = gateway.send(request).await;
            assert_eq!((answer.status, answer.text()), (status, ""), "{target}");
            assert_eq!(cost_of(&gateway, &answer).await, 100, "{target}");
            let hit = gateway.get(&target).await;
            assert_eq!(hit.json()["usage"], 100);
            let line = gateway.lines_of(&[hit]).await.remove(0);
            assert_eq!(line["cost"]["a"], serde_json::Value::Null, "{line}");
        }
    }
    assert_eq!(origin.count(), 9);
}

async fn a_client_that_leaves_with_its_head_is_charged(by: Version) {
    // Goal: the cost does not depend on the client's patience. Method: a client that closes as soon as it has the head; then the hit.
    let origin = Origin::answering(|_| cut(200, &[0, 100]));
    let gateway = Gateway::before_by(by, &origin, &budget("[route.cache]\n")).await;
    let mut client = gateway.client().await;
    assert_eq!(client.send(head("/")).await.status, 200);
    drop(client);
    let line = gateway.access_line().await;
    assert_eq!(line["cost"]["a"], 100, "{line}");
    assert_eq!(gateway.get("/").await.json()["usage"], 100);
    assert_eq!(origin.count(), 1);
}

async fn a_fetch_that_breaks_off_costs_its_reserve_or_what_it_reported(by: Version) {
    // Goal: the larger of both is charged, and nothing is stored. Method: bodies that end before they are whole, behind a number above the
    // reserve, below it, and behind none.
    let origin = Origin::answering(|received| {
        let body = match &received.target[1..] {
            "none" => "{\"text\":\"".to_owned(),
            number => format!("{{\"usage\":{number},\"text\":\""),
        };
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: max-age=60\r\n\
                    Content-Length: 900\r\n\r\n";
        Reply::Raw(format!("{head}{body}").into_bytes())
    });
    let gateway = Gateway::before_by(by, &origin, &budget("[route.cache]\n")).await;
    for (target, reported) in [("/25", 25), ("/5", 0), ("/none", 0)] {
        let answer = gateway.send(head(target)).await;
        assert_eq!(answer.status, 200);
        let line = gateway.lines_of(&[answer]).await.remove(0);
        match reported {
            0 => assert_eq!(line["cost_missing"][0], "a", "{line}"),
            _ => assert_eq!(line["cost"]["a"], reported, "{line}"),
        }
    }
    gateway.send(head("/25")).await;
    assert_eq!(origin.count(), 4, "nothing is stored");
}

async fn the_cost_of_a_replaced_answer_is_charged(by: Version) {
    // Goal: an error whose body a page replaces costs what it reports, however it is cut, with a cache and without. Method: one in one
    // piece, in two and in three.
    let origin = Origin::answering(|received| match &received.target[..2] {
        "/1" => cut(500, &[]),
        "/2" => cut(500, &[0]),
        _ => cut(500, &[0, 100]),
    });
    for cache in ["", "[route.cache]\n"] {
        let page = "[route.error_pages.5xx]\ntext = \"sorry\"\nintercept = true\n";
        let gateway = Gateway::before_by(by, &origin, &budget(&format!("{page}{cache}"))).await;
        for target in ["/1", "/2", "/3"] {
            let request = get(target).header("Accept", "text/plain");
            let answer = gateway.send(request).await;
            assert_eq!((answer.status, answer.text()), (500, "sorry"));
            assert_eq!(cost_of(&gateway, &answer).await, 100, "{cache} {target}");
        }
    }
}

by_each_version! {
    a_cost_is_charged_though_the_client_gets_less,
    a_client_that_leaves_with_its_head_is_charged,
    a_fetch_that_breaks_off_costs_its_reserve_or_what_it_reported,
    the_cost_of_a_replaced_answer_is_charged,
}
