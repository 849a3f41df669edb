//! Costs that the gateway measures: bytes and time.

use std::time::Duration;

use super::*;

/// A budget of bytes for a day in UTC.
const DAILY: &str = "rates = [\"100 per day\"]\nalgorithm = \"fixed-window\"\ntimezone = \"UTC\"\n\
    cost = \"response.bytes\"\ncost_unit = \"1KiB\"\nreserve = 8";

async fn a_budget_of_bytes_is_settled_at_the_end(by: Version) {
    // Goal: `response.bytes`: the reserve is held until the answer has ended, then its length counts, in whole units; the fields show
    // bytes. Method: answers of nginx of known lengths, and what the next one finds left.
    let locations = [("/none", 0), ("/small", 1), ("/three", 3_000)].map(|(path, bytes)| {
        let body = "x".repeat(bytes);
        format!("location = {path} {{ return 200 \"{body}\"; }}")
    });
    let nginx = Nginx::start(&locations.join("\n")).await;
    let setup = Setup::new().servers("app", &[nginx.address()]);
    let gateway = setup.rules(&limited(DAILY)).spoken_to_by(by).start().await;
    let mut left = 100;
    for (served, (path, cost)) in [("/three", 3), ("/none", 0), ("/small", 1), ("/three", 3)]
        .into_iter()
        .enumerate()
    {
        let answer = gateway.get(path).await;
        assert_eq!(
            (answer.status, answer.remaining("a")),
            (200, 1024 * (left - 8)),
            "{path}"
        );
        assert_eq!(
            answer.header("ratelimit-policy"),
            Some("\"a\";q=102400;qu=\"content-bytes\";w=86400")
        );
        left -= cost;
        let lines = gateway.access_lines(served + 1).await;
        assert_eq!(lines[served]["cost"]["a"], cost);
    }
    let file = gateway.config_path();
    let mut explained = Process::run(&["explain", file.to_str().unwrap()]);
    assert_eq!(explained.exit_code().await, 0, "{}", explained.stderr());
    let text = "A request costs 8 when it arrives, and at its end 1 for every 1,024 bytes of the response body, at most 100.";
    assert!(explained.stdout().contains(text), "{}", explained.stdout());
}

#[tokio::test]
async fn a_budget_of_bytes_is_settled_at_the_end_over_http_1() {
    a_budget_of_bytes_is_settled_at_the_end(Version::Http1).await;
}

#[tokio::test]
async fn a_budget_of_bytes_is_settled_at_the_end_over_http_2() {
    a_budget_of_bytes_is_settled_at_the_end(Version::Http2).await;
}

#[tokio::test]
async fn a_budget_of_bytes_is_settled_at_the_end_over_http_3() {
    a_budget_of_bytes_is_settled_at_the_end(Version::Http3).await;
}

#[tokio::test]
async fn a_thousand_parallel_downloads_never_exceed_a_budget() {
    // Goal: what is reserved is gone for others until the end. Method: 1,000 connections ask nginx at once for 1,000 bytes each, of a
    // budget of 100,000.
    let body = "x".repeat(1_000);
    let nginx = Nginx::start(&format!("location / {{ return 200 \"{body}\"; }}")).await;
    let lines = "rates = [\"100000 per 1h\"]\ncost = \"response.bytes\"\nreserve = 1000";
    let setup = Setup::new().servers("app", &[nginx.address()]);
    let gateway = setup.rules(&limited(lines)).start().await;
    let mut clients = Vec::new();
    for _ in 0..1_000 {
        clients.push(gateway.client().await);
    }
    let downloads = clients
        .iter_mut()
        .map(|client| async { client.get("/").await.status });
    let statuses = futures_util::future::join_all(downloads).await;
    let count = |status| statuses.iter().filter(|found| **found == status).count();
    assert_eq!((count(200), count(429)), (100, 900));
    assert_eq!(nginx.count("/"), 100);
    let metrics = gateway.metrics().await;
    let spent = metrics.sum("sluicegate_limit_response_cost_total", &[("limit", "a")]);
    assert_eq!(spent, 100_000.0);
}

#[tokio::test]
async fn a_cost_beyond_the_reserve_is_charged_and_told() {
    // Goal: what is spent is spent: later requests wait for it, and log and metric say so. Method: an answer of 2,500 bytes of which 1,000
    // were reserved.
    let origin = Origin::answering(|_| Answer::new(200).body("x".repeat(2_500)).into());
    let lines = "rates = [\"3000 per 1h\"]\ncost = \"response.bytes\"\nreserve = 1000";
    let gateway = Gateway::before(&origin, &limited(lines)).await;
    let mut client = gateway.client().await;
    assert_eq!(client.get("/").await.remaining("a"), 2_000);
    let refused = client.get("/").await;
    assert_eq!((refused.status, refused.remaining("a")), (429, 500));
    let lines = gateway.access_lines(2).await;
    assert_eq!(lines[0]["cost"]["a"], 2_500);
    assert_eq!(lines[0]["over_reserve"]["a"], 1_500);
    let metrics = gateway.metrics().await;
    let beyond = metrics.sum("sluicegate_limit_over_reserve_total", &[("limit", "a")]);
    assert_eq!(beyond, 1_500.0);
}

#[tokio::test]
async fn a_client_that_leaves_pays_for_what_was_sent() {
    // Goal: neither a broken upload nor a broken download is free, and none costs more than its bytes. Method: a client that leaves after
    // 300 of 1,000 bytes, and one that leaves an answer that goes on.
    let origin = Origin::answering(|received| match received.target.as_str() {
        "/drip" => Reply::Drip {
            piece: "0123456789",
            every: Duration::from_millis(20),
            pieces: 1_000,
        },
        _ => Reply::Hang,
    });
    let lines = "rates = [\"100000 per 1h\"]\ncost = \"request.bytes\"\nreserve = 1000\n\
        [limit.b]\nkey = \"client.ip\"\nrates = [\"100000 per 1h\"]\ncost = \"response.bytes\"\nreserve = 1000\n";
    let rules = limited(lines).replace("[\"a\"]", "[\"a\", \"b\"]");
    let gateway = Gateway::before(&origin, &rules).await;
    let mut raw = gateway.raw().await;
    raw.write("POST /up HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\n")
        .await;
    raw.write("x".repeat(300)).await;
    drop(raw);
    let line = gateway.access_line().await;
    assert_eq!(
        (&line["cost"]["a"], &line["cost"]["b"]),
        (&300.into(), &0.into()),
        "{line}"
    );

    let mut raw = gateway.raw().await;
    raw.write("GET /drip HTTP/1.1\r\nHost: a.test\r\n\r\n")
        .await;
    raw.read_response_to_head().await;
    raw.read_chunk().await;
    drop(raw);
    let lines = gateway.access_lines(2).await;
    let cost = lines[1]["cost"]["b"].as_u64().unwrap();
    assert!((10..10_000).contains(&cost), "{cost}");
    assert_eq!(lines[1]["cost"]["b"], lines[1]["bytes_out"]);
}

#[tokio::test]
async fn the_time_of_an_answer_is_a_cost() {
    // Goal: `response.duration`, in its unit, rounded up. Method: an answer that takes a time, whose line in the log has both.
    let reply = Reply::After(
        Duration::from_millis(250),
        Box::new(Answer::new(200).into()),
    );
    let origin = Origin::answering(move |_| reply.clone());
    let lines = "rates = [\"1000 per 1h\"]\ncost = \"response.duration\"\ncost_unit = \"10ms\"\nreserve = 500";
    let gateway = Gateway::before(&origin, &limited(lines)).await;
    assert_eq!(gateway.get("/").await.remaining("a"), 500);
    let line = gateway.access_line().await;
    let cost = line["cost"]["a"].as_u64().unwrap();
    let took = line["duration_ms"].as_f64().unwrap();
    assert!(cost >= 25 && (cost as f64) <= took / 10.0 + 1.0, "{line}");
}

#[tokio::test]
async fn a_refused_request_and_one_of_another_limit_reserve_nothing() {
    // Goal: a reserve is charged with the other limits or not at all. Method: a second limit that is used up; the budget stays whole.
    let origin = Origin::answering(|_| Answer::new(200).body("x").into());
    let lines = "rates = [\"1000 per 1h\"]\ncost = \"response.bytes\"\nreserve = 400\n\
        [limit.b]\nkey = \"client.ip\"\nrates = [\"2 per 1h\"]\n";
    let rules = limited(lines).replace("[\"a\"]", "[\"a\", \"b\"]");
    let gateway = Gateway::before(&origin, &rules).await;
    let mut client = gateway.client().await;
    for left in [600, 599] {
        assert_eq!(client.get("/").await.remaining("a"), left);
    }
    for _ in 0..5 {
        let refused = client.get("/").await;
        assert_eq!(
            (refused.violated(), refused.remaining("a")),
            (vec!["b".to_owned()], 998)
        );
    }
}
