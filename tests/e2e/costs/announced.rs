//! Reserves that requests announce: what no limit could ever admit is rejected, and nothing is reserved in its place.

use serde_json::json;

use super::*;

/// The limit `a` with these lines, whose reserve is announced by requests.
fn announced(lines: &str) -> String {
    limited(&format!(
        "{lines}\ncost = \"response.header.x-cost\"\nreserve = \"body.json./cost\""
    ))
}

fn costing(cost: &str) -> Request {
    post("/")
        .header("content-type", "application/json")
        .body(format!("{{\"cost\": {cost}}}"))
}

fn assert_never_admitted(answer: &Response, limit: &str) {
    answer.assert_problem(429);
    assert_eq!(answer.violated(), [limit], "{answer:?}");
    assert_eq!(answer.header("retry-after"), None, "no waiting helps");
    let detail = answer.json()["detail"].to_string();
    assert!(
        detail.contains("more than the limit ever admits"),
        "{detail}"
    );
}

async fn more_than_a_limit_ever_admits_is_rejected(by: Version) {
    // Goal: an announcement above the count reserves no smaller amount, under each algorithm, and takes nothing. Method: amounts one above
    // the count, far above it and beyond all numbers, as number and as text; then the whole count.
    for algorithm in [
        "sliding-window",
        "exact",
        "fixed-window",
        "token-bucket",
        "gcra",
    ] {
        let origin = Origin::echo();
        let lines = format!("rates = [\"10 per 60s\"]\nalgorithm = \"{algorithm}\"");
        let gateway = Gateway::before_by(by, &origin, &announced(&lines)).await;
        for cost in [
            "11",
            "1000",
            "4294967296",
            "1e30",
            "99999999999999999999999",
            "\"1000\"",
        ] {
            let answer = gateway.send(costing(cost)).await;
            assert_never_admitted(&answer, "a");
        }
        assert_eq!(origin.count(), 0, "{algorithm}");
        let line = gateway.access_lines(6).await.remove(0);
        assert_eq!(
            (&line["limit"], &line["retry_after"]),
            (&json!("a"), &json!(null))
        );
        let whole = gateway.send(costing("10")).await;
        assert_eq!(
            (whole.status, whole.remaining("a")),
            (200, 0),
            "{algorithm}"
        );
        let next = gateway.send(costing("1")).await;
        assert_eq!(next.status, 429);
        assert!((1..=60).contains(&next.retry_after()), "{next:?}");
    }
}

#[tokio::test]
async fn more_than_a_limit_ever_admits_is_rejected_over_http_1() {
    more_than_a_limit_ever_admits_is_rejected(Version::Http1).await;
}

#[tokio::test]
async fn more_than_a_limit_ever_admits_is_rejected_over_http_2() {
    more_than_a_limit_ever_admits_is_rejected(Version::Http2).await;
}

#[tokio::test]
async fn more_than_a_limit_ever_admits_is_rejected_over_http_3() {
    more_than_a_limit_ever_admits_is_rejected(Version::Http3).await;
}

#[tokio::test]
async fn a_burst_above_the_count_admits_larger_costs() {
    // Goal: with a burst a cost is bounded by that and not by the count, when it is announced and when it is settled. Method: an announced
    // cost of 2 and 9 of twenty at one an hour, one of which the origin says that it was 5; then more than is left, and more than ever.
    let origin = Origin::answering(|received| {
        let answer = Answer::new(200);
        let is_dear = received.text().contains('9');
        (if is_dear {
            answer.header("X-Cost", "5")
        } else {
            answer
        })
        .into()
    });
    for algorithm in ["token-bucket", "gcra"] {
        let lines = format!("rates = [\"1 per 1h\"]\nalgorithm = \"{algorithm}\"\nburst = 20");
        let gateway = Gateway::before(&origin, &announced(&lines)).await;
        for (cost, left) in [("2", 18), ("9", 9), ("3", 10)] {
            let answer = gateway.send(costing(cost)).await;
            assert_eq!(
                (answer.status, answer.remaining("a")),
                (200, left),
                "{algorithm} {cost}"
            );
        }
        let more = gateway.send(costing("11")).await;
        assert_eq!(more.status, 429);
        assert!((1..=3_600).contains(&more.retry_after()), "{more:?}");
        assert_never_admitted(&gateway.send(costing("21")).await, "a");
    }
}

#[tokio::test]
async fn what_costs_at_most_so_much_reserves_no_more() {
    // Goal: `max_cost` bounds what is reserved of an announcement that the limit could admit, and does not admit another. Method: amounts
    // between it and the count, and above the count; one that is no number reserves it too.
    let origin = Origin::echo();
    let gateway = Gateway::before(
        &origin,
        &announced("rates = [\"100 per 1h\"]\nmax_cost = 40"),
    )
    .await;
    assert_never_admitted(&gateway.send(costing("101")).await, "a");
    let answer = gateway.send(costing("100")).await;
    assert_eq!((answer.status, answer.remaining("a")), (200, 60));
    let answer = gateway.send(costing("\"many\"")).await;
    assert_eq!((answer.status, answer.remaining("a")), (200, 20));
}
