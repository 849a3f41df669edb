//! How much of a limit its keys use: the sample that a number is chosen by, over the admin listener.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::*;

/// Limits of one route: one that rejects, with rates in shadow, and one in shadow.
fn rules(count: u32) -> String {
    let enforced = format!("rates = [\"{count} per 1h\"]\nshadow_rates = [\"3 per 1h\"]");
    let tried = "rates = [\"4 per 1h\"]\nalgorithm = \"exact\"\naction = \"shadow\"";
    let limits = [
        limit("enforced", &["client.ip"], &enforced),
        limit("tried", &["client.ip"], tried),
        limit("unused", &["client.ip"], "rates = [\"4 per 1h\"]"),
    ];
    limits.concat() + &route("/", &["enforced", "tried"], ANSWERED)
}

/// The page of a limit.
async fn usage(gateway: &Gateway, limit: &str) -> Value {
    let answer = gateway.admin(get(&format!("/limits/{limit}/usage"))).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// The page of a limit, once its first rate has these peaks.
async fn usage_with(gateway: &Gateway, limit: &str, peaks: &Value) -> Value {
    eventually(&format!("{limit} has the peaks {peaks}"), async || {
        let page = usage(gateway, limit).await;
        (page["rates"][0]["peaks"] == *peaks).then_some(page)
    })
    .await
}

async fn ask(gateway: &Gateway, client: &str, requests: u32) {
    let mut client = gateway.client_from(client).await;
    for _ in 0..requests {
        client.get("/").await;
    }
}

#[tokio::test]
async fn the_largest_use_of_each_key_is_kept_through_reloads() {
    // Goal: an operator sees how near clients come to each limit, those in shadow included. Method: three clients with known requests; the
    // peaks of all tables; a reload that leaves one limit alone and edits the other, of which only the first keeps its sample.
    let mut gateway = Gateway::start(&rules(10)).await;
    for (client, requests) in [("127.0.0.5", 1), ("127.0.0.6", 7), ("127.0.0.7", 3)] {
        ask(&gateway, client, requests).await;
    }
    let peaks = |of: &[(u32, u32)]| -> Value {
        of.iter()
            .map(|(used, keys)| json!({ "used": used, "keys": keys }))
            .collect()
    };
    let page = usage_with(&gateway, "enforced", &peaks(&[(1, 1), (3, 1), (7, 1)])).await;
    let rate = &page["rates"][0];
    let shadow = &page["shadow_rates"][0];
    assert_eq!(
        (
            &rate["rate"],
            &rate["limit"],
            &rate["window_seconds"],
            &rate["keys"]
        ),
        (&json!("10 per 1h"), &json!(10), &json!(3_600), &json!(3))
    );
    assert_eq!(
        (&rate["sampled"], &rate["keys_at_limit"]),
        (&json!(false), &json!(0))
    );
    // Seven requests under three: what was wanted beyond them is not known.
    assert_eq!(shadow["peaks"], peaks(&[(1, 1), (3, 2)]));
    assert_eq!(shadow["keys_at_limit"], 2);
    let tried = usage_with(&gateway, "tried", &peaks(&[(1, 1), (3, 1), (4, 1)])).await;
    assert_eq!(
        (
            &tried["action"],
            &tried["algorithm"],
            &tried["rates"][0]["keys_at_limit"]
        ),
        (&json!("shadow"), &json!("exact"), &json!(1))
    );
    assert_eq!(usage(&gateway, "unused").await["rates"][0]["keys"], 0);
    assert_eq!(gateway.admin(get("/limits/absent/usage")).await.status, 404);
    assert_eq!(gateway.admin(post("/limits/tried/usage")).await.status, 405);

    gateway.reload(&rules(20)).await;
    let kept = usage(&gateway, "tried").await;
    assert_eq!(kept["since"], tried["since"]);
    assert_eq!(kept["rates"], tried["rates"]);
    // The counters of the edited limit go on, so its sample begins with them at the next request.
    assert_eq!(usage(&gateway, "enforced").await["rates"][0]["limit"], 20);
}

#[tokio::test]
async fn the_service_samples_while_nobody_looks() {
    // Goal: a burst is seen although no page is open while its window lasts. Method: under a window of a second, a burst and then a single
    // request in a later second, over and over; the page is asked after every eighth single request, when the counters show only that.
    let lines = "rates = [\"50 per 1s\"]\nalgorithm = \"fixed-window\"";
    let rules = limit("short", &["client.ip"], lines) + &route("/", &["short"], ANSWERED);
    let gateway = Gateway::start(&rules).await;
    let started = Instant::now();
    let mut turns = 0_u32;
    at_a_pace(Duration::from_millis(1_100), async || {
        assert!(started.elapsed() < PATIENCE, "no walk saw a burst");
        ask(&gateway, "127.0.0.5", 1).await;
        turns += 1;
        let mut peak = None;
        // A page that is asked often walks so often that the service has nothing to do.
        if turns.is_multiple_of(8) {
            let page = usage(&gateway, "short").await;
            peak = page["rates"][0]["peaks"][0]["used"].as_u64();
        }
        ask(&gateway, "127.0.0.5", 9).await;
        peak.filter(|used| *used > 1)
    })
    .await;
}

#[tokio::test]
async fn the_samples_of_many_limits_share_their_memory() {
    // Goal: a configuration of many limits does not take 0.4 MB for the samples of each. Method: so many limits that a sample may have
    // 3,583 keys rather than 4,096, beside 256 that are heaviest, and 4,000 clients of one of them; the memory plan.
    let lines = "rates = [\"4 per 1h\"]\ncapacity = 8192";
    let limits: String = (0..200)
        .map(|number| limit(&format!("limit{number}"), &["client.ip"], lines))
        .collect();
    let trust = "[client]\ntrusted_proxies = [\"127.0.0.0/8\"]\n";
    let rules = format!("{trust}{limits}{}", route("/", &["limit0"], ANSWERED));
    let gateway = Gateway::start(&rules).await;
    let mut client = gateway.client().await;
    for number in 0..4_000 {
        let from = format!("10.0.{}.{}", number / 200, number % 200);
        let answer = client.send(get("/").forwarded_for(&from)).await;
        assert_eq!(answer.status, 200);
    }
    let rate = eventually("the keys are seen", async || {
        let page = usage(&gateway, "limit0").await;
        let rate = page["rates"][0].clone();
        (rate["keys"].as_u64().unwrap() > 3_000).then_some(rate)
    })
    .await;
    assert_eq!(rate["sampled"], true, "{rate}");
    assert!(
        rate["sample_keys"].as_u64().unwrap() <= 3_583 + 256,
        "{rate}"
    );
    let memory = gateway.status().await["memory"]["usage"].as_u64().unwrap();
    assert!((32 << 20..=64 << 20).contains(&memory), "{memory}");
}
