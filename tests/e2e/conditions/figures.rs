//! Each figure, with traffic that moves it up and down.

use std::time::Duration;

use serde_json::json;
use sluicegate_limiter::Timestamp;

use super::{activity, becomes, changes, loaded, paced, together};
use crate::harness::*;

/// A limit that is strict while the origin is slow, on all paths but `/free`.
const STRICT: &str = r#"
[client]
trusted_proxies = ["127.0.0.0/8"]
[limit.strict]
key = "client.ip"
rates = ["3 per 1h"]
when = "origin.app.p99 > 500ms"
keep_active_for = "3s"
[[route]]
path = "/*"
limits = ["strict"]
origin = "app"
[[route]]
path = "/slow"
origin = "app"
[[route]]
path = "/free"
origin = "app"
"#;

#[tokio::test]
async fn a_limit_applies_while_the_origin_is_slow() {
    // Goal: in peace the limit rejects nobody and clients see nothing of it, and yet it counts; from the moment the origin's p99 rises it
    // rejects a client that has used it up, and no other; when p99 has fallen it stops. Method: answers after 800 ms, then many at once.
    // Log, metrics, `/status` and process log say so.
    let origin = paced(Duration::from_millis(800));
    let mut gateway = Gateway::before(&origin, STRICT).await;
    let from = |client: &str| get("/").forwarded_for(client);
    for _ in 0..5 {
        let answer = gateway.send(from("192.0.2.1")).await;
        assert_eq!((answer.status, answer.header("ratelimit")), (200, None));
    }
    assert_eq!(activity(&gateway, "strict").await, 0.0);
    let shadow = gateway.metrics().await;
    let refused = shadow.sum(
        "sluicegate_limit_shadow_refused_total",
        &[("limit", "strict")],
    );
    assert_eq!(refused, 2.0, "what it would reject is known before");

    loaded(&gateway, "strict", 30, "/slow").await;
    let heavy = gateway.send(from("192.0.2.1")).await;
    heavy.assert_problem(429);
    assert_eq!(heavy.violated(), ["strict"]);
    let light = gateway.send(from("192.0.2.2")).await;
    assert_eq!((light.status, light.remaining("strict")), (200, 2));
    let lines = gateway.lines_of(&[heavy, light]).await;
    assert_eq!(lines[0]["active"], json!(["strict"]));
    assert_eq!(lines[0]["limit"], json!("strict"));
    assert_eq!(lines[1]["active"], json!(["strict"]));
    let status = gateway.status().await;
    let condition = &status["limits"][0]["conditions"][0];
    assert_eq!(condition["active"], json!(true));
    assert_eq!(condition["when"], json!("origin.app.p99 > 500ms"));
    assert_eq!(
        (&condition["tier"], &condition["activated"]),
        (&json!(null), &json!(1))
    );
    assert!(condition["since"].is_string(), "{condition}");

    // A reload keeps what is active, also where the condition is another one.
    gateway
        .reload(&STRICT.replace("3 per 1h", "4 per 1h"))
        .await;
    assert_eq!(activity(&gateway, "strict").await, 1.0);
    gateway.reload(&STRICT.replace("> 500ms", "> 450ms")).await;
    assert_eq!(activity(&gateway, "strict").await, 1.0);
    assert_eq!(
        gateway.send(from("192.0.2.1")).await.status,
        429,
        "and what was counted"
    );
    assert_eq!(changes(&gateway, "strict").await, [1.0, 0.0]);

    let fast = Flood::gets(4_000, "/free").connections(8);
    let fast = fast.run(gateway.address()).await;
    assert_eq!(fast.count(200), 4_000);
    becomes(&gateway, "strict", false).await;
    let answer = gateway.send(from("192.0.2.1")).await;
    assert_eq!((answer.status, answer.header("ratelimit")), (200, None));
    let line = gateway.lines_of(&[answer]).await;
    assert_eq!(line[0].get("active"), None);
    assert_eq!(changes(&gateway, "strict").await, [1.0, 1.0]);
    let log = gateway.stderr();
    assert!(
        log.contains("limit strict: active, since origin.app.p99 is 8"),
        "{log}"
    );
    assert!(
        log.contains("limit strict: no longer active, origin.app.p99 is "),
        "{log}"
    );
}

#[tokio::test]
async fn nginx_that_queues_is_slow() {
    // Goal: the time of a real server under load is measured. Method: nginx that lets twenty requests a second pass and delays the others;
    // thirty at once.
    let nginx = Nginx::start_with(
        "limit_req_zone $binary_remote_addr zone=all:1m rate=20r/s;",
        "location / { limit_req zone=all burst=100; empty_gif; }",
    )
    .await;
    let rules = r#"
        [limit.strict]
        key = "client.ip"
        rates = ["1 per 1h"]
        when = "origin.app.p50 > 400ms"
        [[route]]
        path = "/*"
        limits = ["strict"]
        origin = "app"
        [[route]]
        path = "/free"
        origin = "app"
    "#;
    let setup = Setup::new().servers("app", &[nginx.address()]).rules(rules);
    let gateway = setup.start().await;
    loaded(&gateway, "strict", 30, "/free").await;
    let passed = gateway.get("/").await.status;
    assert_eq!((passed, gateway.get("/").await.status), (200, 429));
}

#[tokio::test]
async fn a_limit_applies_while_requests_wait_for_a_server() {
    // Goal: `pending` and `in_flight` are those of the moment. Method: one place at the server, five requests that take a while.
    let origin = paced(Duration::from_secs(1));
    let rules = r#"
        [limit.waiting]
        key = "client.ip"
        rates = ["1 per 1h"]
        when = "origin.app.pending > 2"
        keep_active_for = "1s"
        [limit.busy]
        key = "client.ip"
        rates = ["1 per 1h"]
        when = "origin.app.in_flight >= 1 and origin.app.pending > 2"
        keep_active_for = "1s"
        [[route]]
        path = "/*"
        limits = ["waiting", "busy"]
        origin = "app"
        [[route]]
        path = "/slow"
        origin = "app"
    "#;
    let setup = Setup::new().origin("app", &origin);
    let setup = setup.origin_line(
        "circuit_breaker = { max_requests = 1, max_pending = 10, pending_timeout = \"30s\" }",
    );
    let gateway = setup.rules(rules).start().await;
    let slow = together(&gateway, 5, "/slow");
    let watched = async {
        becomes(&gateway, "waiting", true).await;
        becomes(&gateway, "busy", true).await;
    };
    let (statuses, ()) = tokio::join!(slow, watched);
    assert_eq!(statuses, [200; 5]);
    becomes(&gateway, "waiting", false).await;
    becomes(&gateway, "busy", false).await;
}

#[tokio::test]
async fn a_limit_applies_while_attempts_fail() {
    // Goal: `errors` is the share of attempts that fail. Method: twenty requests of which none fails, then as many that do.
    let origin = paced(Duration::ZERO);
    let rules = r#"
        [limit.failing]
        key = "client.ip"
        rates = ["1 per 1h"]
        when = "origin.app.errors > 30%"
        [[route]]
        path = "/*"
        limits = ["failing"]
        origin = "app"
        [[route]]
        path = "/fail"
        origin = "app"
    "#;
    let gateway = Gateway::before(&origin, rules).await;
    assert_eq!(together(&gateway, 20, "/").await, [200; 20]);
    loaded(&gateway, "failing", 20, "/fail").await;
    assert_eq!(gateway.get("/").await.status, 429);
}

#[tokio::test]
async fn a_limit_applies_while_another_is_nearly_used_up() {
    // Goal: `used` is the share of the only key, and falls with it; `rejected` is what another limit rejects per second. Method: requests
    // up to the threshold and beyond, by a clock that the test sets.
    let rules = r#"
        [client]
        trusted_proxies = ["127.0.0.0/8"]
        [limit.site]
        key = "global"
        rates = ["10 per 1h"]
        algorithm = "exact"
        [limit.ip]
        key = "client.ip"
        rates = ["2 per 1h"]
        when = "limit.site.used >= 80%"
        [limit.net]
        key = "client.ip/16,/48"
        rates = ["100 per 1h"]
        when = "limit.ip.rejected >= 1"
        [[route]]
        path = "/*"
        limits = ["site", "ip", "net"]
        respond = { status = 200 }
    "#;
    let gateway = Setup::new().rules(rules).with_driven_clock().start().await;
    let mut clock = gateway.clock();
    let start = Timestamp::from_secs(1_900_000_000);
    clock.set(start);
    let from = |client: &str| get("/").forwarded_for(client);
    for _ in 0..7 {
        assert_eq!(gateway.send(from("192.0.2.1")).await.status, 200);
    }
    assert_eq!(activity(&gateway, "ip").await, 0.0);
    assert_eq!(gateway.send(from("192.0.2.2")).await.status, 200);
    becomes(&gateway, "ip", true).await;
    let refused = gateway.send(from("192.0.2.1")).await;
    assert_eq!(
        (refused.status, refused.violated()),
        (429, vec!["ip".to_owned()])
    );
    assert_eq!(gateway.send(from("192.0.2.2")).await.status, 200);

    // Twenty rejections, over ten seconds.
    for _ in 0..20 {
        assert_eq!(gateway.send(from("192.0.2.1")).await.status, 429);
    }
    let mut now = start.saturating_add(Duration::from_millis(10_500));
    clock.set(now);
    becomes(&gateway, "net", true).await;

    // An hour later nothing is used any more, and the end has to hold for ten seconds.
    now = now.saturating_add(Duration::from_secs(7_200));
    eventually("the limit is not active", async || {
        now = now.saturating_add(Duration::from_secs(3));
        clock.set(now);
        (activity(&gateway, "ip").await == 0.0).then_some(())
    })
    .await;
    assert_eq!(changes(&gateway, "ip").await, [1.0, 1.0]);
    for _ in 0..5 {
        assert_eq!(gateway.send(from("192.0.2.1")).await.status, 200);
    }
}
