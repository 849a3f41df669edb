//! How much a limit lets pass, counted at the client and at the origin.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::harness::*;

#[tokio::test]
async fn five_per_window_means_at_most_five_in_any_aligned_window() {
    // Goal: C1 of the sliding window: never more than the limit in a window aligned to the clock, and not much less than it
    // under pressure. Method: ask without pause for some windows, then sort the admitted by the time that the log gives.
    const WINDOW: u64 = 2_000;
    let gateway = Gateway::start(
        r#"
        [limit.otp]
        key = "client.ip"
        rates = ["5 per 2s"]
        [[route]]
        path = "/otp"
        limits = ["otp"]
        respond = { status = 200 }
        "#,
    )
    .await;
    let mut client = gateway.client().await;
    let started = Instant::now();
    let mut sent = 0;
    // Not for the outcome: the pace spares the log half a million lines.
    at_a_pace(Duration::from_millis(2), async || {
        client.get("/otp").await;
        sent += 1;
        (started.elapsed() >= Duration::from_millis(4 * WINDOW)).then_some(())
    })
    .await;
    let lines = gateway.access_lines(sent).await;
    let mut admitted: BTreeMap<u64, usize> = BTreeMap::new();
    for line in lines {
        *admitted
            .entry(milliseconds(line["time"].as_str().unwrap()) / WINDOW)
            .or_default() += usize::from(line["status"] == 200);
    }
    let counts: Vec<usize> = admitted.into_values().collect();
    assert!(counts.iter().all(|count| *count <= 5), "{counts:?}");
    // The first and the last window are not whole. In the last 400 ms of a window the one before weighs nothing: who asks
    // all the time gets all five then, unless the machine held him up.
    assert!(
        counts[1..counts.len() - 1].iter().all(|count| *count >= 4),
        "{counts:?}"
    );
}

/// Milliseconds of the day in a time such as `2026-11-21T07:07:00.123Z`.
fn milliseconds(time: &str) -> u64 {
    let clock = time.split_once('T').unwrap().1.trim_end_matches('Z');
    let mut parts = clock.split(':').map(|part| part.parse::<f64>().unwrap());
    let mut next = || parts.next().unwrap();
    (((next() * 60.0 + next()) * 60.0 + next()) * 1000.0).round() as u64
}

#[tokio::test]
async fn each_client_has_a_counter_of_its_own() {
    // Goal: one client's refusal is no other's. Method: two loopback addresses, three requests each against two an hour.
    let gateway = Gateway::start(TWO_AN_HOUR).await;
    for address in ["127.0.0.5", "127.0.0.6"] {
        let mut client = gateway.client_from(address).await;
        let statuses = [
            client.get("/").await,
            client.get("/").await,
            client.get("/").await,
        ]
        .map(|answer| answer.status);
        assert_eq!(statuses, [200, 200, 429], "{address}");
    }
}

#[tokio::test]
async fn a_refused_request_never_reaches_the_origin() {
    // Goal: the origin is protected. Method: twenty requests, two admitted; the origin counts.
    let origin = Origin::echo();
    let gateway = Gateway::before(
        &origin,
        &TWO_AN_HOUR.replace("respond = { status = 200 }", "origin = \"app\""),
    )
    .await;
    let mut client = gateway.client().await;
    for _ in 0..20 {
        client.get("/").await;
    }
    assert_eq!(origin.count(), 2);
}

#[tokio::test]
async fn every_rate_of_a_limit_must_hold() {
    // Goal: a short and a long rate on one limit. Method: the short one refuses first; when it frees, the long one has the
    // last word. Refused requests charge neither, so asking again and again changes nothing.
    let gateway = Gateway::start(
        r#"
        [limit.otp]
        key = "client.ip"
        rates = ["2 per 1s", "5 per 1h"]
        [[route]]
        path = "/"
        limits = ["otp"]
        respond = { status = 200 }
        "#,
    )
    .await;
    let mut client = gateway.client().await;
    let mut admitted = 0;
    let last = within(
        Duration::from_secs(30),
        "the long rate refuses",
        async || {
            let answer = client.get("/").await;
            admitted += usize::from(answer.status == 200);
            (answer.status == 429 && answer.remaining("otp-3600s") == 0).then_some(answer)
        },
    )
    .await;
    assert_eq!(admitted, 5);
    assert!(
        last.retry_after() >= last.seconds_to_more("otp-3600s"),
        "{last:?}"
    );
}

#[tokio::test]
async fn a_refusal_by_one_limit_charges_no_other() {
    // Goal: C2. Method: each client may ask 10 an hour, all together 3. After a thousand requests three have passed; once
    // the common limit is lifted, the client's own must have 10 − 3 − 1 left.
    let rules = |limits: &str| {
        format!(
            r#"
            [limit.own]
            key = "client.ip"
            rates = ["10 per 1h"]
            [limit.common]
            key = "global"
            rates = ["3 per 1h"]
            [[route]]
            path = "/"
            limits = [{limits}]
            respond = {{ status = 200 }}
            [[route]]
            path = "/other"
            limits = ["common"]
            respond = {{ status = 200 }}
            "#
        )
    };
    let mut gateway = Gateway::start(&rules("\"own\", \"common\"")).await;
    let report = Flood::gets(1000, "/").run(gateway.address()).await;
    assert_eq!((report.count(200), report.count(429)), (3, 997));
    gateway.reload(&rules("\"own\"")).await;
    let answer = gateway.get("/").await;
    assert_eq!(
        (answer.status, answer.remaining("own")),
        (200, 6),
        "{answer:?}"
    );
}

#[tokio::test]
async fn many_connections_at_once_admit_exactly_the_limit() {
    // Goal: no race over-admits, and none loses an admission. Method: 2,000 requests on 64 connections against 500 an hour.
    let gateway = Gateway::start(&TWO_AN_HOUR.replace("2 per 1h", "500 per 1h")).await;
    let report = Flood::gets(2000, "/").run(gateway.address()).await;
    assert_eq!((report.count(200), report.count(429)), (500, 1500));
}

#[tokio::test]
async fn a_limit_on_post_leaves_get_to_the_next_route() {
    // Goal: methods belong to the match. Method: exhaust the limit by POST, then GET the same path.
    let gateway = Gateway::start(
        r#"
        [limit.otp]
        key = "client.ip"
        rates = ["1 per 1h"]
        [[route]]
        path = "/auth/sendOTP"
        methods = ["POST"]
        limits = ["otp"]
        respond = { status = 200, body = "sent" }
        [[route]]
        path = "/*"
        respond = { status = 200, body = "everything else" }
        "#,
    )
    .await;
    let mut client = gateway.client().await;
    assert_eq!(client.post("/auth/sendOTP").await.text(), "sent");
    assert_eq!(client.post("/auth/sendOTP").await.status, 429);
    assert_eq!(client.get("/auth/sendOTP").await.text(), "everything else");
    assert_eq!(client.post("/auth/other").await.text(), "everything else");
}

#[tokio::test]
async fn routes_that_name_the_same_limit_share_its_counters() {
    // Goal: a limit is one thing, wherever it is named. Method: two routes, one count each, two an hour.
    let rules = TWO_AN_HOUR.to_owned()
        + "[[route]]\npath = \"/other\"\nlimits = [\"two\"]\nrespond = { status = 200 }\n";
    let gateway = Gateway::start(&rules).await;
    let mut client = gateway.client().await;
    let statuses = [
        client.get("/").await,
        client.get("/other").await,
        client.get("/").await,
    ]
    .map(|answer| answer.status);
    assert_eq!(statuses, [200, 200, 429]);
}

#[tokio::test]
async fn a_key_of_parts_counts_each_combination() {
    // Goal: `key` as a list. Method: one an hour per client and path; another path, host or client is another count.
    let gateway = Gateway::start(
        r#"
        [limit.each]
        key = ["client.ip", "host", "path"]
        rates = ["1 per 1h"]
        [[route]]
        path = "/*"
        limits = ["each"]
        respond = { status = 200 }
        "#,
    )
    .await;
    let mut client = gateway.client().await;
    let mut other = gateway.client_from("127.0.0.5").await;
    assert_eq!(client.get("/a").await.status, 200);
    assert_eq!(client.get("/a?again").await.status, 429);
    assert_eq!(client.get("/b").await.status, 200);
    assert_eq!(
        client
            .send(get("/a").header("Host", "other.test"))
            .await
            .status,
        200
    );
    assert_eq!(other.get("/a").await.status, 200);
}

#[tokio::test]
async fn no_spelling_of_a_limited_path_passes_uncounted() {
    // Goal: whatever the origin takes for /auth/sendOTP, the gateway has counted as that. Method: nginx is the judge: it
    // decodes, merges slashes and resolves dots; its own log says how often the path was served after all spellings, each
    // tried three times. The spellings that mean something else may pass; nginx then logs them as something else.
    let nginx = Nginx::start("location / { return 200 ok; }").await;
    let gateway = Setup::new()
        .servers("app", &[nginx.address()])
        .rules(
            r#"
            [limit.otp]
            key = "client.ip"
            rates = ["5 per 1h"]
            [[route]]
            path = "/auth/sendOTP"
            limits = ["otp"]
            origin = "app"
            [[route]]
            path = "/*"
            origin = "app"
            "#,
        )
        .start()
        .await;
    for _ in 0..3 {
        for target in SPELLINGS {
            let mut raw = gateway.raw().await;
            let request =
                format!("POST {target} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n");
            raw.write(request).await;
            // Refused, malformed, not found: anything but a hang.
            let answer = raw.try_read_response().await;
            assert!(answer.is_ok(), "{target}: {answer:?}");
        }
    }
    assert_eq!(nginx.count("/auth/sendOTP"), 5);
}

/// Forty ways to write one path.
const SPELLINGS: [&str; 40] = [
    "/auth/sendOTP",
    "/auth/sendOTP?",
    "/auth/sendOTP?x=1",
    "/auth/sendOTP?/../other",
    "/auth/sendOTP#fragment",
    "//auth/sendOTP",
    "/auth//sendOTP",
    "///auth///sendOTP",
    "/./auth/sendOTP",
    "/auth/./sendOTP",
    "/auth/././sendOTP",
    "/auth/../auth/sendOTP",
    "/other/../auth/sendOTP",
    "/a/b/../../auth/sendOTP",
    "/auth/x/../sendOTP",
    "/auth/x/./../sendOTP",
    "/auth/sendOTP/.",
    "/auth/sendOTP/x/..",
    "/auth/sendOTP/../sendOTP",
    "/../auth/sendOTP",
    "/../../auth/sendOTP",
    "/%61uth/sendOTP",
    "/%61%75%74%68/%73%65%6e%64%4f%54%50",
    "/%61%75%74%68/%73%65%6E%64%4F%54%50",
    "/auth/send%4fTP",
    "/auth/send%4FTP",
    "/auth%2FsendOTP",
    "/auth%2fsendOTP",
    "%2Fauth/sendOTP",
    "/%2Fauth/sendOTP",
    "/auth/%2e/sendOTP",
    "/auth/%2E/sendOTP",
    "/auth/%2e%2e/auth/sendOTP",
    "/x/.%2e/auth/sendOTP",
    "/x/%2E./auth/sendOTP",
    "/auth/x%2f..%2fsendOTP",
    "/auth/x%2f%2e%2e/sendOTP",
    "http://a.test/auth/sendOTP",
    "http://a.test//auth/./sendOTP",
    "http://a.test/%61uth/sendOTP?x",
];

const TWO_AN_HOUR: &str = r#"
[limit.two]
key = "client.ip"
rates = ["2 per 1h"]
[[route]]
path = "/"
limits = ["two"]
respond = { status = 200 }
"#;
