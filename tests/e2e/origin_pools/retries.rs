//! Which failures lead to another try, how many, and at whose expense.

use std::time::{Duration, Instant};

use super::*;

#[tokio::test]
async fn an_answer_that_asks_for_it_is_tried_again_and_charged_once() {
    // Goal: a 503 becomes another try where the rules say so, for idempotent methods, and no limit is charged for it; one that counts by
    // the answer sees the last. Method: one of two servers answers 503; GETs and POSTs under a limit over all and one
    // that counts 503 alone.
    let (ill, well) = (answering(503), Origin::named("well"));
    let setup = Setup::new()
        .servers("app", &[ill.address(), well.address()])
        .origin_line("retry = { on = [503], min_per_second = 1000 }");
    let limit = "[limit.all]\nkey = \"global\"\nrates = [\"100 per 1h\"]\n\
                 [limit.failed]\nkey = \"host\"\nrates = [\"100 per 1h\"]\ncount_if = \"response.status == 503\"\n";
    let route = "[[route]]\npath = \"/*\"\norigin = \"app\"\nlimits = [\"all\", \"failed\"]\n";
    let gateway = setup.rules(&format!("{limit}{route}")).start().await;
    let mut client = gateway.client().await;
    for sent in 1..=10 {
        let answer = client.get("/").await;
        assert_eq!((answer.status, answer.text()), (200, "well"));
        assert_eq!(answer.remaining("all"), 100 - sent);
    }
    assert_eq!(well.count(), 10);
    let retried = ill.count();
    assert!(retried >= 4, "{retried}");
    let lines = gateway.access_lines(10).await;
    let tries: u64 = lines
        .iter()
        .map(|line| line["tries"].as_u64().unwrap())
        .sum();
    assert_eq!(tries, 10 + retried as u64);
    // What counts by the answer was given back: the final ones were 200.
    let mut statuses: Vec<u16> = Vec::new();
    for _ in 0..2 {
        statuses.push(client.post("/").await.status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 503], "a POST is not sent twice");
    let last = client.get("/").await;
    assert_eq!(last.remaining("all"), 87);
    assert!(last.remaining("failed") >= 98, "one POST of 503 counts");
    let retries = gateway
        .metrics()
        .await
        .sum("sluicegate_origin_retries_total", &[]);
    assert_eq!(retries, (ill.count() - 1) as f64);
}

#[tokio::test]
async fn a_body_is_sent_again_whole() {
    // Goal: what was read of a body is at hand for the next server. Method: PUTs of 1 and of 40,000 bytes; one server breaks
    // the connection.
    let (broken, well) = (Origin::answering(|_| Reply::Close), Origin::named("well"));
    let retry = "retry = { on = [\"reset\"], min_per_second = 1000 }";
    let gateway = before(&[&broken, &well], retry).await;
    for bytes in [1, 40_000] {
        for _ in 0..2 {
            let request = get("/").body(vec![b'x'; bytes]);
            assert_eq!(gateway.send(request).await.text(), "well");
        }
    }
    assert!(broken.count() >= 2);
    let whole = well
        .requests()
        .iter()
        .map(|request| request.body.len())
        .collect::<Vec<_>>();
    assert_eq!(whole, [1, 1, 40_000, 40_000]);
}

#[tokio::test]
async fn a_silent_server_costs_a_try_and_not_the_request() {
    // Goal: "timeout" in `on`; each try has timeouts of its own. Method: one of two servers never answers.
    let (silent, well) = (Origin::answering(|_| Reply::Hang), Origin::named("well"));
    let lines =
        "timeouts = { read = \"200ms\" }\nretry = { on = [\"timeout\"], min_per_second = 1000 }";
    let gateway = before(&[&silent, &well], lines).await;
    let mut client = gateway.client().await;
    for _ in 0..4 {
        assert_eq!(client.get("/").await.text(), "well");
    }
    assert!(silent.count() >= 1);
    assert_eq!(
        server(&gateway, silent.address()).await["last_failure"]["outcome"],
        "timeout"
    );
}

#[tokio::test]
async fn a_dead_origin_is_not_asked_for_more_than_the_budget() {
    // Goal: the budget bounds what retries add to an origin that fails. Method: all servers answer 503, five retries each are asked for;
    // the tries beyond the requests are at most five a second, whatever comes.
    let (one, other) = (answering(503), answering(503));
    let lines = "retries = 5\nretry = { on = [503], budget = \"0%\", min_per_second = 5 }";
    let gateway = before(&[&one, &other], lines).await;
    let started = Instant::now();
    let mut client = gateway.client().await;
    for _ in 0..200 {
        assert_eq!(client.get("/").await.status, 503);
    }
    let extra = one.count() + other.count() - 200;
    // The service that renews budgets may be late by a tick.
    let seconds = started.elapsed() + Duration::from_millis(100);
    let most = 5 * (seconds.as_secs() as usize + 2);
    assert!((5..=most).contains(&extra), "{extra} of {most}");
    let metrics = gateway.metrics().await;
    assert_eq!(
        metrics.sum("sluicegate_origin_retries_total", &[]),
        extra as f64
    );
    assert!(metrics.sum("sluicegate_origin_retry_budget_exhausted_total", &[]) > 0.0);
}
